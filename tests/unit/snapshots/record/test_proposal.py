"""From the calls of a run to pending changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.exchanges import chat_answer, chat_request, make_exchange
from support.proposals import REPEATABLE, approve_change, candidates_from, make_call, propose
from support.wire_transcripts import CHAT
from traceforge.config import ModelRule
from traceforge.exchange import Caller, CallOutcome, Exchange
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import find_disagreements, read_raw_response
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange, read_pending
from traceforge.snapshots.record.proposal import Proposal

REQUEST_GATE = {"gpt-*": ModelRule(gate="request", temperature=1, max_tokens=10)}


def kinds(proposal: Proposal) -> list[ChangeKind]:
    """What is proposed."""
    return [change.kind for change in proposal.changes]


def only(proposal: Proposal) -> PendingChange:
    """The one change there is."""
    (change,) = proposal.changes
    return change


def test_an_unapproved_call_is_new() -> None:
    """Its id names the function, its record says everything, and it survives its file."""
    change = only(propose(make_call("What?", "That.", scope="tests/t.py::test_a")))

    assert (ChangeKind.NEW, "openai", "behaviour", None) == (change.kind, change.provider, change.gate, change.before)
    assert change.id.startswith("ask-")
    assert change.record is not None
    scopes = [{"scope": "tests/t.py::test_a", "calls": 1}]
    assert {"file": "app.py", "line": 12, "function": "ask", "scopes": scopes} == change.record["source"]
    assert {"content": "That.", "tokens_used": 12, "latency_ms": 12, "finish_reason": "stop"} == (
        change.record["response"]
    )
    assert change == read_pending(change.to_bytes())


def test_the_same_call_has_the_same_id_everywhere() -> None:
    """On another machine, at another time, from another line."""
    ids = {
        only(propose(make_call("What?", "a", 1))).id,
        only(propose(make_call("What?", "b", 2, source="app.py:99:ask"))).id,
    }

    assert 1 == len(ids)


def test_the_same_call_of_several_tests_is_one_snapshot() -> None:
    """It names every test, with the number of its calls."""
    change = only(
        propose(make_call("a", scope="x"), make_call("a", scope="y", number=1), make_call("a", scope="y", number=2))
    )

    assert change.record is not None
    assert [{"scope": "x", "calls": 1}, {"scope": "y", "calls": 2}] == change.source["scopes"]


def test_two_answers_to_a_request_are_refused_under_the_behaviour_gate() -> None:
    """It is unknown which of them is right."""
    change = only(propose(make_call("a", "yes"), make_call("a", "no", 1), make_call("a", "yes", 2)))

    assert ChangeKind.REFUSED is change.kind
    assert "2 different answers to the same request in 3 calls" == change.reasons[0].message


def test_two_answers_to_a_request_are_two_snapshots_under_the_request_gate() -> None:
    """They are told apart by their turn."""
    proposal = propose(
        make_call("a", "1", 0, "x"), make_call("a", "2", 1, "x"), make_call("a", "1", 2, "y"), models=REQUEST_GATE
    )

    assert [ChangeKind.NEW, ChangeKind.NEW] == kinds(proposal)
    scopes = sorted(str(change.source["scopes"]) for change in proposal.changes)
    assert [
        "[{'scope': 'x', 'turn': 0, 'calls': 1}, {'scope': 'y', 'turn': 0, 'calls': 1}]",
        "[{'scope': 'x', 'turn': 1, 'calls': 1}]",
    ] == scopes


@pytest.mark.parametrize(
    ("text", "answer", "kind"),
    [
        ("b", "yes", ChangeKind.REQUEST),
        ("a", "no", ChangeKind.ANSWER),
        ("b", "no", ChangeKind.BOTH),
        ("a", "yes", None),
    ],
)
def test_a_change_of_request_or_answer_has_its_kind(text: str, answer: str, kind: ChangeKind | None) -> None:
    """The request, the answer, or both; the successor has the id and names what it was held against."""
    before = approve_change(only(propose(make_call("a", "yes"))))

    proposal = propose(make_call(text, answer, 5), approved=[before])

    assert ([kind] if kind else []) == kinds(proposal)
    if kind:
        assert (before.id, before.hash) == (only(proposal).id, only(proposal).before)
    else:
        assert (1, [before.id]) == (proposal.unchanged, proposal.settled_ids)


def test_a_moved_line_and_new_ids_are_no_change() -> None:
    """Nor another time, another latency or another token count."""
    before = approve_change(only(propose(make_call("a"))))

    proposal = propose(make_call("a", number=9, source="app.py:77:ask"), approved=[before])

    assert ([], 1) == (proposal.changes, proposal.unchanged)


def test_successors_are_matched_by_test_and_similarity() -> None:
    """Three calls of one test, the prompt of two edited, in another order: each keeps its id."""
    texts = ["You are a cook. Name a soup.", "You are a judge. Name a law.", "Count to three."]
    first = propose(*(make_call(text, number=n, scope="t") for n, text in enumerate(texts)))
    approved = {change.call.request["messages"][-1]["content"]: approve_change(change) for change in first.changes}  # type: ignore[index,call-overload]

    edited = [texts[1].replace("judge", "lawyer"), texts[0].replace("cook", "chef")]
    proposal = propose(
        *(make_call(text, number=10 + n, scope="t") for n, text in enumerate(edited)),
        approved=list(approved.values()),
        used={("t", approved[texts[2]].id): 1},
    )

    ids = {change.call.request["messages"][-1]["content"]: change.id for change in proposal.changes}  # type: ignore[index,call-overload]
    assert {edited[0]: approved[texts[1]].id, edited[1]: approved[texts[0]].id} == ids
    assert [ChangeKind.REQUEST, ChangeKind.REQUEST] == kinds(proposal)
    assert 1 == proposal.unchanged


def test_a_renamed_test_keeps_its_snapshots(tmp_path: Path) -> None:
    """By call site, if the calls are similar; a different call is new."""
    (tmp_path / "t.py").write_text("def test_new(): ...")
    before = approve_change(only(propose(make_call("Name a soup, please.", scope="t.py::test_old"))))

    def heir(text: str = "Name a soup.", **more: Any) -> PendingChange:
        exchange = make_call(text, number=3, scope="t.py::test_new", **more)
        return only(propose(exchange, approved=[before], folder=str(tmp_path)))

    assert (before.id, ChangeKind.REQUEST) == (heir().id, heir().kind)
    assert [{"scope": "t.py::test_new", "calls": 1}] == heir().source["scopes"]
    assert (before.id, ChangeKind.REQUEST) == ((added := heir(tools=[{"type": "function"}])).id, added.kind)
    assert ChangeKind.NEW is heir("Translate this letter into French.").kind


def test_a_test_that_did_not_run_keeps_its_snapshots(tmp_path: Path) -> None:
    """Another one at the same call site is new, however alike they are."""
    (tmp_path / "t.py").write_text("def test_old(): ...\ndef test_new(): ...")
    before = approve_change(only(propose(make_call("Name a soup, please.", scope="t.py::test_old"))))

    change = only(
        propose(make_call("Name a soup.", number=3, scope="t.py::test_new"), approved=[before], folder=str(tmp_path))
    )

    assert (ChangeKind.NEW, True) == (change.kind, change.id != before.id)


def test_scopes_of_tests_that_did_not_run_are_preserved() -> None:
    """A snapshot of two tests, of which one ran."""
    before = approve_change(only(propose(make_call("a", scope="x"), make_call("a", scope="y", number=1))))

    change = only(propose(make_call("b", scope="x", number=2), approved=[before]))

    assert [{"scope": "x", "calls": 1}, {"scope": "y", "calls": 1}] == change.source["scopes"]


def test_a_new_turn_is_numbered_after_the_replayed_ones() -> None:
    """The first was replayed, so the new one is the second of its test."""
    before = approve_change(only(propose(make_call("a", "1", scope="x"), models=REQUEST_GATE)))

    change = only(
        propose(make_call("a", "2", 5, "x"), approved=[before], used={("x", before.id): 1}, models=REQUEST_GATE)
    )

    assert (ChangeKind.NEW, [{"scope": "x", "turn": 1, "calls": 1}]) == (change.kind, change.source["scopes"])
    assert f"{before.id}-2" == change.id


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"temperature": 0.7}, "request.temperature"),
        ({"seed": None}, "request.seed"),
        ({"max_tokens": None}, "request.max_tokens"),
        ({"temperature": None}, "request.temperature"),
    ],
)
def test_a_strict_project_names_a_missing_field_with_its_fix(more: dict[str, Any], field: str) -> None:
    """The field, what is wrong, and what to do; any other project approves the call."""
    change = only(propose(make_call("a", **more), is_strict=True))

    assert ChangeKind.NEW is only(propose(make_call("a", **more))).kind
    assert ChangeKind.REFUSED is change.kind
    assert field in [reason.field for reason in change.reasons]
    assert all(reason.hint for reason in change.reasons)


def test_a_declared_model_is_not_refused() -> None:
    """What is declared is listed in the record, and only the request is gated."""
    change = only(propose(make_call("a", temperature=None, max_tokens=None, seed=None), models=REQUEST_GATE))

    assert (ChangeKind.NEW, "request") == (change.kind, change.gate)
    assert change.record is not None
    assert ["temperature", "max_tokens"] == change.record["request"]["declared"]  # type: ignore[index,call-overload]


KEY = b"a key of a test"
LETTERS = [
    make_call(f"Write to {name}@corp-example.org.", f"Dear {name}", number, scope="t::test_letters")
    for number, name in enumerate(("ann", "bob", "ann"))
]


def test_requests_that_differ_in_a_redacted_part_are_two_snapshots() -> None:
    """Also with different answers, which would be refused if the requests were the same."""
    proposal = propose(*LETTERS, match_key=KEY)

    assert [ChangeKind.NEW] * 2 == kinds(proposal)
    assert {"Dear ann", "Dear bob"} == {change.record["response"]["content"] for change in proposal.changes}  # type: ignore[index,call-overload]
    assert [change.id for change in proposal.changes] == [
        change.id for change in propose(*LETTERS[::-1], match_key=KEY).changes
    ]
    assert [ChangeKind.REFUSED] == kinds(propose(*LETTERS))


def test_a_redacted_part_that_changed_is_a_changed_request() -> None:
    """The successor of the same test's call keeps its id; the others are as approved."""
    approved = [approve_change(change) for change in propose(*LETTERS, match_key=KEY).changes]
    eve = make_call("Write to eve@corp-example.org.", "Dear bob", 9, scope="t::test_letters")

    proposal = propose(LETTERS[0], eve, match_key=KEY, approved=approved)

    assert (ChangeKind.REQUEST, 1) == (only(proposal).kind, proposal.unchanged)
    assert only(proposal).id in {call.id for call in approved}


def test_a_call_that_was_recorded_without_the_key_is_recorded_again() -> None:
    approved = [approve_change(only(propose(LETTERS[0])))]

    assert [ChangeKind.REQUEST] == kinds(propose(LETTERS[0], match_key=KEY, approved=approved))
    assert [] == kinds(propose(LETTERS[0], approved=approved))


def test_a_failed_attempt_at_another_redacted_part_stays() -> None:
    """Only an identical success replaces it."""
    failed = make_call("Write to bob@corp-example.org.", "no", 0, status=500)
    success = make_call("Write to ann@corp-example.org.", "yes", 1)

    assert 2 == len(candidates_from(failed, success, match_key=KEY))
    assert 1 == len(candidates_from(failed, make_call("Write to bob@corp-example.org.", "yes", 1), match_key=KEY))


def test_a_failed_attempt_before_an_identical_success_is_dropped() -> None:
    """It is neither new nor changed; another failed request is proposed as its raw response alone."""
    proposal = propose(
        make_call("a", "slow down", 0, status=429), make_call("a", "yes", 1), make_call("b", "no", 2, status=400)
    )

    records = {change.record is not None: change for change in proposal.changes}
    assert {True, False} == set(records)
    assert ("request", 400) == (records[False].gate, records[False].raw_response.status)
    assert "app.py" == records[False].source["file"]


def _unfinished_stream(outcome: CallOutcome) -> Exchange:
    request = chat_request("a", **REPEATABLE)
    piece = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "y"}}]}
    return make_exchange(
        CHAT, {**request, "stream": True}, b"data: " + json.dumps(piece).encode() + b"\n\n",
        outcome=outcome, caller=Caller("a.py:1:f"), media_type="text/event-stream",
    )  # fmt: skip


def test_an_answer_that_was_cut_off_is_refused() -> None:
    """Nobody knows how much of it the application would have read."""
    change = only(propose(_unfinished_stream(CallOutcome.CUT)))

    assert (ChangeKind.REFUSED, True) == (change.kind, "cut off" in change.reasons[0].message)


def _conversation(outcome: CallOutcome, last: dict[str, Any], number: int = 0) -> Exchange:
    answer = {"server_frames": [{"after": 1, "text": "hello"}, {"after": 1, **last}]}
    exchange = make_exchange(
        "https://api.openai.com/v1/realtime", {"client_frames": [{"text": "hi"}]}, answer, status=101,
        outcome=outcome, caller=Caller("a.py:1:f"), number=number,
    )  # fmt: skip
    return replace(exchange, method="GET")


def test_a_websocket_that_broke_off_is_refused() -> None:
    """Also where it was approved as it ended: that stays. One that the application left can be approved."""
    closed = _conversation(CallOutcome.ANSWERED, {"close": 1000})
    broken = _conversation(CallOutcome.CUT, {"broken": True}, 1)
    approved = approve_change(only(propose(closed)))

    new, again = only(propose(broken)), only(propose(broken, approved=[approved]))

    assert (ChangeKind.REFUSED, True) == (new.kind, "the WebSocket connection was lost" in new.reasons[0].message)
    assert ChangeKind.REFUSED is again.kind
    assert [ChangeKind.NEW] == kinds(propose(_conversation(CallOutcome.CLIENT_LEFT, {"text": "bye"})))


def test_a_stream_that_the_application_left_can_be_approved_as_far_as_it_was_read() -> None:
    """Its end is missing, so the record declares what the end would say; the raw response says why."""
    change = only(propose(_unfinished_stream(CallOutcome.CLIENT_LEFT)))

    assert (ChangeKind.NEW, ()) == (change.kind, change.reasons)
    assert change.record is not None
    record: dict[str, Any] = change.record
    assert ("y", "left_early", 0) == tuple(
        record["response"][name] for name in ("content", "finish_reason", "tokens_used")
    )
    assert ["tokens_used", "finish_reason"] == record["request"]["declared"]
    raw = read_raw_response(change.raw_response_text.encode())
    assert (True, change.raw_response) == (raw.is_left_early, raw)
    assert [] == find_disagreements(record, raw, ModelPolicy())
    assert [] == kinds(propose(_unfinished_stream(CallOutcome.CLIENT_LEFT), approved=[approve_change(change)]))


def test_a_call_without_an_answer_is_not_a_candidate() -> None:
    assert [] == candidates_from(make_exchange(CHAT, chat_request("a"), b"", status=0, outcome=CallOutcome.FAILED))


def test_missing_usage_is_listed_as_declared() -> None:
    """A strict project refuses it, unless the model is declared to report none."""
    request = chat_request("a", **REPEATABLE)
    exchange = make_exchange(CHAT, request, chat_answer("y", usage=None), caller=Caller("a.py:1:f"))

    refused = only(propose(exchange, is_strict=True))
    declared = only(propose(exchange))
    absent = only(propose(exchange, models={"gpt-*": ModelRule(usage_in_answers="absent")}, is_strict=True))

    assert ["the answer has no token usage"] == [reason.message for reason in refused.reasons]
    assert ChangeKind.NEW is declared.kind is absent.kind
    assert declared.record is not None
    record: dict[str, Any] = declared.record
    assert (0, ["tokens_used"]) == (record["response"]["tokens_used"], record["request"]["declared"])
    assert [] == find_disagreements(declared.record, declared.raw_response, ModelPolicy())
