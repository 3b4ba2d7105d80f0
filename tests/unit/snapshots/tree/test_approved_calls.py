"""What a diff shows of a call: nothing that is ignored. And what a snapshot that a person wrote answers."""

from __future__ import annotations

from typing import Any

import pytest

from support.exchanges import REDACTOR, chat_request, make_exchange
from support.proposals import REPEATABLE, approve_change, make_call, propose
from support.replay_player import keyed_request_of
from support.wire_transcripts import CHAT
from traceforge.exchange import Exchange
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.request_key import RequestKeyer
from traceforge.replay.volatile import VolatileRules
from traceforge.report.gate_text import diff_lines
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.gate.gate_findings import find_unapproved_requests
from traceforge.snapshots.record.pending_changes import PendingChange
from traceforge.snapshots.tree.approved_calls import ApprovedCall, build_recordings
from traceforge.snapshots.tree.synthesised_answers import SynthesisedAnswers

VOLATILE = RequestKeyer(REDACTOR, VolatileRules(["$.metadata.run"], ["id-[0-9]+"]))


def _conversation(call_id: str, text: str = "hi", **more: Any) -> Exchange:
    """A call with something at every place that is ignored."""
    tool_call = {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": f"id-{len(call_id)} {text}"},
        {"role": "assistant", "content": None, "tool_calls": [tool_call]},
        {"role": "tool", "tool_call_id": call_id, "content": "sunny"},
    ]
    return make_call("x", **{"messages": messages, "metadata": {"run": call_id}, "user": call_id, **more})


def _pending(exchange: Exchange) -> PendingChange:
    (change,) = propose(exchange).changes
    return change


def _rows(approved: ApprovedCall, exchange: Exchange) -> list[str]:
    """The lines of the pending diff, and the changes that a red run shows."""
    player = Player(VOLATILE, Library(build_recordings([approved], VOLATILE)))
    player.play("POST", exchange.url, exchange.request_headers, exchange.request_body, exchange.caller)
    (finding,) = find_unapproved_requests(player.unmatched, [approved], player.use_counts, VOLATILE)
    assert finding.comparison is not None
    changes = [str(change.to_json()) for change in finding.comparison.request_changes]
    return [*diff_lines(_pending(exchange), approved, VOLATILE, colour=False, full=True), *changes]


def test_an_ignored_place_is_no_row_of_a_diff() -> None:
    """Volatile parts, invented ids and fields that are never compared; what really changed is a row."""
    approved = approve_change(_pending(_conversation("call_1")))

    text = "\n".join(_rows(approved, _conversation("other_2", "bye")))

    assert "bye" in text
    for ignored in ("call_1", "other_2", "id-6", "id-7", "metadata", "user:"):
        assert ignored not in text, text


def test_an_ignored_prompt_is_not_called_the_same_prompt() -> None:
    """A pull request may bring the setting that ignores it: who reviews the change must know that there is one."""
    approved = approve_change(_pending(_conversation("call_1")))

    changed, same = (
        "\n".join(diff_lines(_pending(_conversation(call_id)), approved, VOLATILE, colour=False, full=True))
        for call_id in ("other_2", "call_1")
    )

    assert "differ, but only in what is not compared" in changed
    assert "same prompt" not in changed
    assert "same prompt" in same


def test_a_redacted_part_that_differs_is_said() -> None:
    ann, bob = (make_call(f"Write to {name}@corp-example.org.") for name in ("ann", "bob"))
    (before,), (after,) = (propose(call, match_key=b"key").changes for call in (ann, bob))

    lines = list(diff_lines(after, approve_change(before), VOLATILE, colour=False, full=True))

    assert "    a redacted part of the request differs at $.messages[0].content" in lines
    assert "bob" not in "".join(lines)


def _written_by_hand(**request: Any) -> SynthesisedAnswers:
    change = _pending(_conversation("call_1"))
    assert change.record is not None
    stated: Any = change.record["request"]
    record = {**change.record, "request": {**stated, **request}}
    return SynthesisedAnswers([approve_change(change)._replace(record=record, raw_response=None)], ModelPolicy())


@pytest.mark.parametrize(
    ("more", "is_answered"),
    [
        ({"seed": 2**53 + 1}, True),
        ({"seed": 2**53}, False),
        ({"seed": 2**53 + 1, "user": "somebody else"}, True),
        ({"seed": 2**53 + 1, "service_tier": "flex"}, False),
    ],
)
def test_a_snapshot_that_a_person_wrote_is_compared_alike(more: dict[str, Any], is_answered: bool) -> None:
    """Integers exactly, ids by their references, and without the fields that decide no answer."""
    answers = _written_by_hand(seed=2**53 + 1, metadata={"run": "other1"})

    live = _conversation("other1", **more)

    assert is_answered is (answers.find_response(keyed_request_of(live)) is not None)


def test_an_answer_of_such_a_snapshot_counts_redacted_parts_as_uncompared() -> None:
    """The record has no fingerprints."""
    request = chat_request("Write to ann@corp-example.org.", **REPEATABLE)
    change = _pending(make_call("Write to bob@corp-example.org."))
    answers = SynthesisedAnswers([approve_change(change)._replace(raw_response=None)], ModelPolicy())
    player = Player(VOLATILE, Library([]), match_key=b"key", fallback=answers)
    live = make_exchange(CHAT, request)

    player.play("POST", live.url, live.request_headers, live.request_body, live.caller)

    assert (1, 1) == (player.synthesised_count, player.uncompared_call_count)
