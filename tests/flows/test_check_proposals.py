"""`traceforge check new`: from recorded answers to a check file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import traceforge
from support.stored_traces import call, store_calls
from traceforge.exchange import Caller

HOSTILE = 'The answer is\n  - {type: exact, value: x}\n# and more\n"}}: &a !!python/object\u2028 and [so] on'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with traces of a text, of JSON, of a hostile text, and of a failure; two of them in a session."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    caller = Caller(session_id="trip")
    store_calls(
        tmp_path,
        call(1, caller=caller),
        call(2, answer='{"city": "Paris", "people": [1, 2]}', caller=caller),
        call(3, answer=HOSTILE),
        call(4, answer="overloaded", status=500),
    )
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        ("--from-trace", "00000001"),
        ("--from-trace", "00000002"),
        ("--from-trace", "00000003"),
        ("--from-session", "trip"),
        ("--from-traces", "status:success"),
    ],
)
def test_a_proposal_holds_for_what_it_was_made_of(project: Path, options: tuple[str, str]) -> None:
    """It is marked as a proposal, and runs as it is, whatever the answer says."""
    made = traceforge("check", "new", *options, "--name", "mine", cwd=project)
    ran = traceforge("check", "run", "--json", cwd=project)

    assert (0, "written: .ai-checks/mine.yaml") == (made.code, made.out.splitlines()[-1])
    assert "then traceforge check run" in made.err
    text = (project / ".ai-checks" / "mine.yaml").read_text()
    assert (True, True) == (text.startswith("# Proposed by"), "\n  - {type: no_pii}\n" in text)
    report = json.loads(ran.out)
    assert (0, []) == (report["exit_code"], report["findings"])
    assert all(check["tags"] == ["proposed"] for check in report["checks"])
    assert all(len(entry["assertions"]) >= 3 for check in report["checks"] for entry in check["runs"])


def test_a_sample_becomes_a_data_set(project: Path) -> None:
    """Of the calls that were answered, at most so many."""
    traceforge("check", "new", "--from-traces", "", "--sample", "2", "--name", "all", cwd=project)

    lines = (project / ".ai-checks" / "all.jsonl").read_text().splitlines()
    assert 2 == len(lines)
    assert {"trace_id", "model", "provider", "session", "timestamp"} == set(json.loads(lines[0]))


def test_an_existing_file_is_not_overwritten(project: Path) -> None:
    """The second proposal of one name is refused."""
    words = ("check", "new", "--from-trace", "00000001")

    codes = [traceforge(*words, cwd=project).code for _ in range(2)]

    assert [0, 3] == codes


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--from-trace", "00000004"), 3, "the recorded call failed, so it has no answer"),
        (("--from-trace", "ffffffff"), 3, "there is no trace ffffffff"),
        (("--from-traces", "model:none"), 3, "no trace with an answer matches the query"),
        ((), 2, "Name one of --from-trace, --from-session and --from-traces; to list the ids: traceforge trace list"),
    ],
)
def test_without_an_answer_nothing_is_written(
    project: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    made = traceforge("check", "new", *options, cwd=project)

    assert (code, True) == (made.code, message in made.err)
    assert not (project / ".ai-checks").exists()


def test_a_build_proposes_nothing(project: Path) -> None:
    """CI writes no file of the project."""
    made = traceforge("check", "new", "--from-trace", "00000001", cwd=project, CI="true")

    assert 2 == made.code
    assert not (project / ".ai-checks").exists()
