"""Adopted answers: which imported call a request is paired with, and what becomes of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.proposals import approve_change, make_call, propose
from support.replay_player import KEYS, play
from traceforge.config import MATCH_KEY_VARIABLE, Config, LoadedConfig
from traceforge.exchange import Exchange
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import find_disagreements
from traceforge.snapshots.record.answer_adoption import AnswerAdopter
from traceforge.snapshots.record.pending_changes import ChangeKind
from traceforge.snapshots.record.proposal import propose_changes
from traceforge.snapshots.tree.approved_calls import ApprovedCall, build_recordings
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots
from traceforge.snapshots.tree.run_scopes import RunScopes
from traceforge.snapshots.tree.tree_verification import TreeReport

TEST = "tests/t.py::test_a"
KEY = "a key of a test"
MAIL = "ann.lee@corp-example.org"


@pytest.fixture(autouse=True)
def _match_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MATCH_KEY_VARIABLE, KEY)


def imported(*calls: Exchange, live: bool = False) -> list[ApprovedCall]:
    """The approved snapshots of imported calls; with `live`, of recorded ones."""
    filtered = [replace(call, headers_filtered=not live) for call in calls]
    changes = propose(*filtered, match_key=KEY.encode()).changes
    return [approve_change(change, f"sha256:{number:064x}") for number, change in enumerate(changes)]


class AdoptingRun:
    """A run in which calls that no snapshot answers get adopted answers."""

    def __init__(self, approved: list[ApprovedCall], folder: Path) -> None:
        self.approved = approved
        self.player = Player(KEYS, Library(build_recordings(approved, KEYS)), match_key=KEY.encode())
        loaded = LoadedConfig(str(folder), Config(), {})
        snapshots = ProjectSnapshots(loaded, TreeReport(0, 0, ()), approved, KEYS, self.player)
        self.adopter = self.player.adopter = AnswerAdopter(snapshots)

    def ask(self, *calls: Exchange) -> list[str]:
        """What the answers say."""
        results = [play(self.player, call, call.caller) for call in calls]
        return [
            "" if result.unmatched else json.loads(result.response.body)["choices"][0]["message"]["content"]
            for result in results
        ]

    def propose(self) -> list[tuple[ChangeKind, str]]:
        """The kind and the id of each change that the run proposes; each record agrees with its raw response."""
        used = self.player.use_counts
        proposal = propose_changes(
            self.adopter.list_candidates(), self.approved, KEYS, used, RunScopes({TEST}, ["/nowhere"])
        )
        for change in proposal.changes:
            assert change.record is not None
            assert [] == find_disagreements(change.record, change.raw_response, ModelPolicy())
            assert change.is_adopted
        return [(change.kind, change.id) for change in proposal.changes]


def ids_by_answer(approved: Iterable[ApprovedCall]) -> dict[str, str]:
    """The ids of snapshots by their answers."""
    return {call.call.answer.choices[0].text: call.id for call in approved if call.call.answer is not None}


def test_a_request_gets_the_answer_of_the_nearest_imported_call_of_its_test(tmp_path: Path) -> None:
    """An edited prompt, in any order; the changes keep the ids of their snapshots."""
    approved = imported(
        make_call("Name a red fruit.", "cherry", 0, TEST), make_call("Name a blue bird.", "kingfisher", 1, TEST)
    )
    run = AdoptingRun(approved, tmp_path)

    answers = run.ask(make_call("Name a blue bird, please.", scope=TEST), make_call("Name a red fruit!", scope=TEST))

    assert ["kingfisher", "cherry"] == answers
    assert sorted((ChangeKind.REQUEST, name) for name in ids_by_answer(approved).values()) == sorted(run.propose())


def test_requests_that_are_like_no_imported_one_get_the_answers_in_their_order(tmp_path: Path) -> None:
    """As a recorder that compares addresses gives them; there are no more than were recorded."""
    approved = imported(make_call("aaaa bbbb", "one", 0, TEST), make_call("cccc dddd", "two", 1, TEST))
    run = AdoptingRun(approved, tmp_path)

    answers = run.ask(*(make_call(text, scope=TEST) for text in ("uuuu", "vvvv", "wwww")))

    assert ["one", "two", ""] == answers


def test_calls_of_other_tests_and_live_snapshots_are_not_adopted(tmp_path: Path) -> None:
    """A call of no known test is, if its prompt is like this one."""
    other = imported(make_call("Name a red fruit.", "cherry", 0, "tests/t.py::test_b"))
    live = imported(make_call("Name a red fruit.", "cherry", 0, TEST), live=True)
    unlinked = imported(make_call("Name a red fruit.", "cherry", 0, ""))
    drifted = make_call("Name a red fruit, please.", scope=TEST)

    assert [""] == AdoptingRun(other, tmp_path).ask(drifted)
    assert [""] == AdoptingRun(live, tmp_path).ask(drifted)
    assert ["cherry", ""] == AdoptingRun(unlinked, tmp_path).ask(drifted, make_call("uuuu", scope=TEST))


def test_a_test_that_is_run_again_adopts_again_and_is_filed_once(tmp_path: Path) -> None:
    """What its first attempt adopted does not count."""
    run = AdoptingRun(imported(make_call("Name a red fruit.", "cherry", 0, TEST)), tmp_path)
    drifted = make_call("Name a red fruit, please.", scope=TEST)

    first = run.ask(drifted, drifted)
    run.player.restart_scope(TEST)
    second = run.ask(drifted)

    assert (["cherry", ""], ["cherry"]) == (first, second)
    assert 1 == len(run.adopter.list_candidates())


def test_a_redacted_value_is_found_where_the_request_has_it_now(tmp_path: Path) -> None:
    """The answer repeats an address that a second message has now; it is stored nowhere."""
    run = AdoptingRun(imported(make_call(f"Write to {MAIL}.", f"Dear {MAIL}", 0, TEST)), tmp_path)
    moved = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"Write to {MAIL} now."}]

    answers = run.ask(make_call("", scope=TEST, messages=moved))

    assert [f"Dear {MAIL}"] == answers
    (candidate,) = run.adopter.list_candidates()
    assert MAIL not in repr(candidate)
    assert ["$.messages[1].content"] == [echo["path"] for echo in candidate.raw_response.redactions("echoes")]


def test_the_same_answer_given_live_takes_the_label_away(tmp_path: Path) -> None:
    """Prompt and answer are as approved, and yet it is a change."""
    run = AdoptingRun(imported(make_call("Name a red fruit.", "cherry", 0, TEST)), tmp_path)
    drifted = make_call("Name a red fruit, please.", "cherry", scope=TEST)
    run.ask(drifted)
    proposal = propose_changes(run.adopter.list_candidates(), run.approved, KEYS, {}, RunScopes({TEST}, ["/nowhere"]))
    adopted = [approve_change(change) for change in proposal.changes]

    (change,) = propose(drifted, approved=adopted, match_key=KEY.encode()).changes

    assert (ChangeKind.ANSWER, False) == (change.kind, change.is_adopted)
    assert "behaviour" == change.gate
    assert [True] == [call.is_adopted for call in adopted]
