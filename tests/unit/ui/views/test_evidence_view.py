"""Each rule of a recording or pack with its result: what was not checked is not shown as passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.format_examples import example_session
from support.pack_sources import make_key, write_sources
from traceforge.audit.evidence import check_evidence, check_evidence_data
from traceforge.packs.pack_writer import create_pack
from traceforge.ui.views.evidence_view import ANSWERS_MAX, VIOLATIONS_MAX, EvidenceView, view_evidence

MODEL_IO_RULES = ["SCHEMA", *(f"MI{number}" for number in range(1, 13))]


def view_session(session: Any) -> EvidenceView:
    return view_evidence(check_evidence_data("chat.json", json.dumps(session).encode()))


def states(view: EvidenceView) -> dict[str, str]:
    return {check.rule: check.state for check in view.checks}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    create_pack(str(tmp_path / "run-1"), write_sources(tmp_path / "sources"), "")
    return tmp_path / "run-1"


def view_pack(pack: Path) -> EvidenceView:
    return view_evidence(check_evidence(str(pack.parent), pack.name))


def test_a_valid_recording_passes_every_rule() -> None:
    view = view_session(example_session("Paris."))

    assert dict.fromkeys(MODEL_IO_RULES, "passed") == states(view)
    assert ("Recording", "good", "valid", 13) == (view.kind, view.verdict, view.word, view.passed)
    assert ("Interactions", "1") in view.facts


def test_a_tampered_answer_fails_its_rule_with_the_text_of_help() -> None:
    session = example_session("Paris.", "Lyon.")
    session["interactions"][1]["response_content"] = "Nice."
    view = view_session(session)
    (failed,) = [check for check in view.checks if check.state == "failed"]

    assert ("bad", "1 violation") == (view.verdict, view.word)
    assert ("MI7", "$.interactions[1].response_hash") == (failed.rule, failed.violations[0].path)
    assert failed.explanation is not None
    assert ["Why", "Broken by", "Do"] == [label for label, _ in failed.explanation.paragraphs]


def test_a_recording_shows_its_answers_and_which_a_violation_names() -> None:
    """Escaped, in their order; a session of another shape has none."""
    session = example_session("Paris.", "<b>Lyon</b>")
    session["interactions"][1]["response_content"] = "<b>Marseille</b>"
    first, second = view_session(session).answers

    assert (1, "Paris.", False) == (first.number, str(first.html), first.is_broken)
    assert ("&lt;b&gt;Marseille&lt;/b&gt;", True) == (str(second.html), second.is_broken)
    assert session["interactions"][0]["prompt_hash"] == first.prompt_hash
    assert () == view_session({**session, "interactions": {"0": 1}}).answers


def test_the_page_shows_a_bounded_number_of_answers() -> None:
    view = view_session(example_session(*(["Paris."] * (ANSWERS_MAX + 5))))

    assert (ANSWERS_MAX, 5) == (len(view.answers), view.omitted_answers)


def test_rules_after_a_missing_field_were_not_checked() -> None:
    """The verifier stops at SCHEMA; only MI1 was checked besides it."""
    session = example_session("Paris.")
    del session["mode"]

    assert {**dict.fromkeys(MODEL_IO_RULES, "not checked"), "SCHEMA": "failed", "MI1": "passed"} == states(
        view_session(session)
    )


def test_a_file_that_is_no_json_could_not_be_checked() -> None:
    view = view_evidence(check_evidence_data("chat.json", b"{"))

    assert ("warn", "could not be checked", {"PARSE": "not checked"}) == (view.verdict, view.word, states(view))


def test_the_page_shows_a_bounded_number_of_violations() -> None:
    session = example_session(*["Paris."] * (VIOLATIONS_MAX + 5))
    for item in session["interactions"]:
        item["response_content"] = "Nice."
    (failed,) = [check for check in view_session(session).checks if check.state == "failed"]

    assert (VIOLATIONS_MAX, 5) == (len(failed.violations), failed.omitted)


def test_a_valid_pack_passes_what_applies_to_it(pack: Path) -> None:
    """A folder without a signature has neither the rule of archives nor that of signatures."""
    view = view_pack(pack)

    assert {"PK13": "the pack is a folder", "PK14": "it is not signed"} == {
        check.rule: check.note for check in view.checks if check.state != "passed"
    }
    assert ["bundle.json", "model_io.json"] == [reference.target for reference in view.references]


def test_a_signed_pack_passes_its_signature_and_says_whose_key_was_not_compared(tmp_path: Path) -> None:
    create_pack(str(tmp_path / "run-1"), write_sources(tmp_path / "sources"), str(make_key(tmp_path)))
    view = view_pack(tmp_path / "run-1")

    assert "passed" == states(view)["PK14"]
    assert any(label == "Signer" and text.startswith("not compared with a key") for label, text in view.facts)


def test_a_pack_without_its_run_was_not_compared(pack: Path) -> None:
    """Digests that nobody stated are no digests that agree."""
    (pack / "run.json").unlink()
    found = states(view_pack(pack))

    assert ("failed", "not checked", "not checked", "not checked") == tuple(
        found[rule] for rule in ("PK1", "PK3", "PK5", "PK8")
    )


def test_a_damaged_archive_passes_nothing() -> None:
    view = view_evidence(check_evidence_data("run.tar.zst", b"\x28\xb5\x2f\xfd damaged"))

    assert {"failed", "not checked"} == set(states(view).values())
    assert "failed" == states(view)["PK13"]
