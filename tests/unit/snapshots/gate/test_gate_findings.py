"""The calls of a run, compared with the approved calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.exchanges import REDACTOR
from support.proposals import approve_change, make_call, propose
from support.replay_player import play
from traceforge.audit.tree_gate import PENDING_RULE, find_pending_changes
from traceforge.config import Config, ModelRule
from traceforge.exchange import Caller, Exchange
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.request_key import RequestKeyer
from traceforge.replay.volatile import VolatileRules
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.gate.gate_findings import (
    CHANGED_RULE,
    NEW_RULE,
    UNUSED_RULE,
    GateFinding,
    find_unapproved_requests,
    find_unused,
    list_failed_tests,
)
from traceforge.snapshots.tree.approved_calls import ApprovedCall, build_recordings
from traceforge.snapshots.tree.call_counts import CountedRun
from traceforge.snapshots.tree.run_scopes import RunScopes, command_scope
from traceforge.snapshots.tree.synthesised_answers import SynthesisedAnswers

KEYS = RequestKeyer(REDACTOR, VolatileRules())
NOWHERE = RunScopes((), ["/nowhere"])


def approved_calls(*calls: Exchange) -> list[ApprovedCall]:
    """What was approved after a run of these calls."""
    return [approve_change(change) for change in propose(*calls).changes]


def rerun_findings(approved: list[ApprovedCall], *calls: Exchange) -> tuple[Player, list[GateFinding]]:
    """Ask these, and say what is found."""
    player = Player(
        KEYS, Library(build_recordings(approved, KEYS)), fallback=SynthesisedAnswers(approved, ModelPolicy())
    )
    for exchange in calls:
        play(player, exchange, exchange.caller)
    return player, find_unapproved_requests(player.unmatched, approved, player.use_counts)


def test_approved_calls_are_replayed_without_findings() -> None:
    """Any number of times, in any test."""
    approved = approved_calls(make_call("a", "1", scope="x"), make_call("b", "2", 1, scope="x"))

    player, findings = rerun_findings(
        approved, make_call("a", scope="x"), make_call("a", scope="y"), make_call("b", scope="x")
    )

    assert ([], 3) == (findings, player.played_count)


def test_one_edit_in_many_calls_is_one_finding() -> None:
    """The system prompt of three calls; the finding names the calls, the tests and the edit."""
    texts = ["Be kind. Name a soup.", "Be kind. Name a law.", "Be kind. Count to three."]
    approved = approved_calls(*(make_call(text, number=n, scope=f"t{n}") for n, text in enumerate(texts)))

    _, findings = rerun_findings(
        approved, *(make_call(text.replace("kind", "brief"), scope=f"t{n}") for n, text in enumerate(texts))
    )

    (finding,) = findings
    assert (CHANGED_RULE, 3, ("t0", "t1", "t2")) == (finding.finding.rule, finding.calls, finding.scopes)
    assert finding.comparison is not None
    assert finding.comparison.request_changes
    assert ["t0", "t1", "t2"] == list_failed_tests(findings)


@pytest.mark.parametrize(
    ("needs_fresh", "advice", "can_record"), [(True, "with --fresh", True), (False, "does not help", False)]
)
def test_a_refused_call_is_advised_to_record_only_where_it_helps(
    needs_fresh: bool, advice: str, can_record: bool
) -> None:
    """An application that waits on for an approved call needs a fresh recording; a failed lookup needs none."""
    approved = approved_calls(make_call("Name a soup.", scope="t"))
    player = Player(KEYS, Library(build_recordings(approved, KEYS)))
    player.count_unmatched("it was refused", needs_fresh=needs_fresh)

    (finding,) = find_unapproved_requests(player.unmatched, approved, player.use_counts)

    assert "it was refused" == finding.finding.message
    assert advice in finding.finding.hint
    assert (needs_fresh, can_record) == (finding.needs_fresh, finding.can_record)


def test_a_call_that_is_tried_again_is_counted_once() -> None:
    """A framework tries again what no SDK would; another test that asks the same is another call."""
    approved = approved_calls(make_call("Name a soup.", scope="t"), make_call("Name a soup.", number=1, scope="u"))

    _, findings = rerun_findings(approved, *(make_call("Name a salad.", scope=scope) for scope in "tttuu"))

    assert [(2, ("t", "u"))] == [(finding.calls, finding.scopes) for finding in findings]
    assert "and the same edit in 1 more" in findings[0].finding.message


def talk(turns: int, first: str = "Hello.", missing: str = "") -> dict[str, Any]:
    """The messages of a conversation up to a turn; `missing` stands for the answers that did not come."""
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": first}]
    for turn in range(1, turns):
        messages.append({"role": "assistant", "content": missing or f"Answer {turn}."})
        messages.append({"role": "user", "content": f"Question {turn}?"})
    return {"messages": messages}


@pytest.mark.parametrize("missing", ["", "an error occurred"])
def test_later_turns_are_consequences_of_a_changed_one(missing: str) -> None:
    """Also where the application went on without the answer, so that each turn differs in more than the edit."""
    approved = approved_calls(*(make_call("", number=n, scope="t.py::a", **talk(n)) for n in range(1, 12)))

    _, findings = rerun_findings(
        approved, *(make_call("", scope="t.py::a", **talk(n, "Good day.", missing)) for n in range(1, 12))
    )

    (finding,) = findings
    assert (CHANGED_RULE, 1, 10) == (finding.finding.rule, finding.calls, finding.later_calls)
    assert finding.finding.message.endswith(" changed, and 10 later calls of this test repeat it")
    assert finding.comparison is not None
    assert "Good day" in str(finding.comparison.to_json())


def test_the_same_conversation_in_two_tests_is_one_finding() -> None:
    """With the later calls of both."""
    scopes = ("t.py::a", "t.py::b")
    approved = approved_calls(
        *(make_call("", number=n, scope=scope, **talk(n)) for n in range(1, 4) for scope in scopes)
    )

    _, findings = rerun_findings(
        approved, *(make_call("", scope=scope, **talk(n, "Hi.")) for scope in scopes for n in range(1, 4))
    )

    assert [(2, 4)] == [(finding.calls, finding.later_calls) for finding in findings]
    assert findings[0].finding.message.endswith("same edit in 1 more, and 4 later calls of these tests repeat it")


def test_a_change_of_a_later_turn_alone_is_no_consequence() -> None:
    """And neither is another conversation, or that of another test."""
    approved = approved_calls(*(make_call("", number=n, scope="t.py::a", **talk(n)) for n in range(1, 4)))
    calls = [
        make_call("", scope="t.py::a", **talk(1)),
        make_call("Sing a song about rain.", scope="t.py::a"),
        make_call("", scope="t.py::a", **talk(2, "Well.")),
        make_call("", scope="t.py::b", **talk(3, "Well.")),
    ]

    _, findings = rerun_findings(approved, *calls)

    assert [0, 0, 0] == [finding.later_calls for finding in findings]


def test_an_additional_request_is_new() -> None:
    """The finding names the nearest approved request, which was sent too."""
    approved = approved_calls(make_call("Name a soup.", scope="t"))

    _, findings = rerun_findings(
        approved, make_call("Name a soup.", scope="t"), make_call("Name a salad.", scope="t")
    )

    assert [NEW_RULE] == [finding.finding.rule for finding in findings]
    assert approved[0].id == findings[0].nearest


@pytest.mark.parametrize("others", [(), ("Name a soup.",)])
def test_whether_a_request_is_new_does_not_depend_on_the_calls_of_other_tests(others: tuple[str, ...]) -> None:
    """Two processes of a suite see different tests of it."""
    approved = approved_calls(make_call("Name a soup.", scope="a.py::test_soup"))

    _, findings = rerun_findings(
        approved,
        *(make_call(text, scope="a.py::test_soup") for text in others),
        make_call("Name a salad.", scope="a.py::test_salad"),
    )

    assert [(NEW_RULE, approved[0].id)] == [(finding.finding.rule, finding.nearest) for finding in findings]


@pytest.mark.parametrize(
    ("tests", "passed", "missed", "has_findings"),
    [
        ({"t": "passed"}, True, set(), True),
        ({"t": "failed"}, False, set(), False),
        ({"t": "skipped"}, True, set(), False),
        ({}, True, set(), False),
        ({"t": "passed"}, True, {"t"}, False),
        ({"t": "passed", "u": "failed"}, False, set(), True),
    ],
)
def test_unused_is_judged_for_tests_that_ran_and_passed(
    tests: Mapping[str, str], passed: bool, missed: set[str], has_findings: bool
) -> None:
    """And in which everything was answered: what comes after a miss was not reached."""
    approved = approved_calls(make_call("a", scope="t"))

    outcomes = {**tests, **({"$ pytest": "passed"} if passed else {})}
    findings = list(find_unused(approved, {}, CountedRun({}, outcomes, NOWHERE, Config(), missed)))

    assert ([UNUSED_RULE] if has_findings else []) == [finding.finding.rule for finding in findings]


def test_a_call_of_a_shared_fixture_counts_as_used_whichever_test_runs_first() -> None:
    """Two workers recorded it with two answers; one process makes the call once."""
    models = {"*": ModelRule(gate="request")}
    changes = propose(
        make_call("menu", "soup", scope="t.py::a"), make_call("menu", "fish", 1, scope="t.py::b"), models=models
    ).changes
    first, second = (approve_change(change) for change in changes)
    scope = {snapshot.id: snapshot.turns[0].scope for snapshot in (first, second)}
    passed = {"t.py::a": "passed", "t.py::b": "passed", "t.py::c": "passed"}

    def unused(*used: tuple[str, str]) -> list[str]:
        run = CountedRun({}, passed, NOWHERE, Config())
        findings = find_unused([first, second], dict.fromkeys(used, 1), run)
        return [finding.nearest for finding in findings]

    assert [] == unused((scope[first.id], first.id))
    assert [] == unused(("t.py::c", first.id))
    assert [second.id] == unused((scope[first.id], first.id), (scope[second.id], first.id))
    assert [first.id, second.id] == unused()


@pytest.mark.parametrize("passed", [True, False])
def test_snapshots_of_a_command_are_unused_only_if_the_command_passed(passed: bool) -> None:
    """A command is its own scope; another command does not affect it."""
    command = command_scope(["/usr/bin/python3.12", "app.py", "--all"])
    approved = approved_calls(make_call("a", scope=command))
    same_command, other_command = (
        CountedRun({}, {scope: "passed"} if passed else {}, RunScopes({scope}, []), Config())
        for scope in (command, command_scope(["python", "other.py"]))
    )

    assert "$ python app.py --all" == command
    assert passed == bool(list(find_unused(approved, {}, same_command)))
    assert [] == list(find_unused(approved, {(command, approved[0].id): 1}, same_command))
    assert [] == list(find_unused(approved, {}, other_command))
    assert [] == list(find_unused(approved, {}, same_command._replace(missed_scopes={command})))


def test_a_snapshot_without_a_raw_response_is_replayed_in_the_providers_format() -> None:
    """Plain and as a stream; it is counted, because no provider sent these bytes."""
    (approved,) = approved_calls(make_call("a", "by hand"))
    written = [approved._replace(raw_response=None)]

    player, findings = rerun_findings(written, make_call("a"), make_call("a", stream=True))

    assert ([], 2, 2) == (findings, player.played_count, player.synthesised_count)
    plain = play(player, make_call("a")).response
    stream = play(player, make_call("a", stream=True)).response
    assert (b"by hand" in plain.body, plain.streamed) == (True, False)
    assert (b"[DONE]" in stream.body, stream.streamed) == (True, True)
    assert play(player, make_call("another")).unmatched is not None


def test_pending_changes_are_findings() -> None:
    """New, changed or refused: it is not approved."""
    changes = propose(make_call("a"), make_call("b", number=1, temperature=1), is_strict=True).changes

    findings = list(find_pending_changes(changes))

    assert [PENDING_RULE] * 2 == [finding.finding.rule for finding in findings]
    assert any("temperature must be 0" in finding.finding.message for finding in findings)


def test_an_unmatched_call_outside_of_tests_names_no_test() -> None:
    _, findings = rerun_findings(approved_calls(make_call("a")), make_call("b"), make_call("c", scope="t"))

    assert [] == list_failed_tests(findings)


def test_an_unknown_caller_is_named_as_unknown() -> None:
    """A finding has a place in any case."""
    player = Player(KEYS, Library([]))
    play(player, make_call("a", source=""), Caller())

    (finding,) = find_unapproved_requests(player.unmatched, [], {})

    assert "(unknown)" == finding.finding.file


@pytest.mark.parametrize("approved_prompt", ["other", "my password: q7bz4kitten"])
def test_the_source_of_a_finding_is_redacted(approved_prompt: str) -> None:
    """The caller may name it in a header: with a key, or with a value that the request has beside its name."""
    key = "sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6" * 2
    source = f"{key}/app.py:12:q7bz4kitten"
    approved = approved_calls(make_call(approved_prompt, source=source))

    _, findings = rerun_findings(approved, make_call("password: q7bz4kitten", source=source))

    assert findings
    for finding in findings:
        assert "[REDACTED]/app.py:12:[REDACTED]" == finding.finding.file
        assert key not in str(finding.to_json())


def test_a_changed_request_is_compared_with_the_approved_request_of_its_test() -> None:
    """Even if another is more similar, unless the two have nothing in common."""
    approved = approved_calls(
        make_call("Name a soup.", scope="other"), make_call("Name a river.", number=1, scope="t")
    )
    mine = next(call for call in approved if call.turns[0].scope == "t")

    _, changed = rerun_findings(approved, make_call("Name a loup.", scope="t"))
    _, elsewhere = rerun_findings(approved, make_call("Name a loup.", scope="new"))

    assert (mine.id, True) == (changed[0].nearest, elsewhere[0].nearest != mine.id)
