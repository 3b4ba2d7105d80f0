"""What two recordings have in common, and what one of them costs.

In: valid sessions. Out: differences of their cores, prompt by prompt, and totals. Never: judges what is ephemeral:
two recordings that differ only in times and tokens are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, encode_utf8
from traceforge.modelio.format import CORE_FIELDS


class Difference(NamedTuple):
    """One difference: a field, or an interaction that was added, removed, changed or moved."""

    kind: str
    name: str  # of a field, or the hash of a prompt
    before: JSON  # the interaction's number, or the field's value; None where it is not there
    after: JSON
    old_content: str = ""
    new_content: str = ""

    def to_json(self) -> JSONObject:
        """The difference as `--json` prints it."""
        shown: JSONObject = {"kind": self.kind, "name": self.name, "before": self.before, "after": self.after}
        if self.kind == "changed":
            shown |= {"response_before": self.old_content, "response_after": self.new_content}
        return shown


def compare_sessions(before: JSONObject, after: JSONObject) -> Iterator[Difference]:
    """Every difference of two cores: fields first, then interactions in the order of the second recording.

    An interaction is paired with the one that has the same prompt for as many a time.
    """
    for name in CORE_FIELDS:
        if before[name] != after[name]:
            yield Difference("field", name, before[name], after[name])
    old, new = _by_turn(before), _by_turn(after)
    for turn, item in new.items():
        was = old.get(turn)
        if was is None:
            yield Difference("added", turn[0], None, item["i"])
        elif was["response_content"] != item["response_content"]:
            contents = str(was["response_content"]), str(item["response_content"])
            yield Difference("changed", turn[0], was["i"], item["i"], *contents)
        elif was["i"] != item["i"]:
            yield Difference("moved", turn[0], was["i"], item["i"])
    for turn, item in old.items():
        if turn not in new:
            yield Difference("removed", turn[0], item["i"], None)


def _by_turn(session: JSONObject) -> dict[tuple[str, int], JSONObject]:
    turns: dict[str, int] = {}
    found: dict[tuple[str, int], JSONObject] = {}
    for item in items(session):
        prompt = str(item["prompt_hash"])
        turns[prompt] = turns.get(prompt, -1) + 1
        found[prompt, turns[prompt]] = item
    return found


def items(session: JSONObject) -> list[JSONObject]:
    """The interactions of a valid session."""
    return cast("list[JSONObject]", session["interactions"])


def statistics(session: JSONObject) -> JSONObject:
    """Totals, from the interactions themselves: what the session says about itself is not believed."""
    listed = items(session)
    sizes = [len(encode_utf8(str(item["response_content"]))) for item in listed]
    latencies = sorted(_numbers(listed, "latency_ms"))
    return {
        "interactions": len(listed),
        "prompts": len({item["prompt_hash"] for item in listed}),
        "response_bytes": sum(sizes),
        "largest_response_bytes": max(sizes, default=0),
        "tokens_input": sum(_numbers(listed, "tokens_input")),
        "tokens_output": sum(_numbers(listed, "tokens_output")),
        "latency_ms_total": round(sum(latencies), 3),
        "latency_ms_median": _quantile(latencies, 0.5),
        "latency_ms_p95": _quantile(latencies, 0.95),
    }


def _numbers(listed: Iterable[JSONObject], name: str) -> list[float]:
    found = (item.get(name) for item in listed)
    return [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]


def _quantile(ordered: list[float], share: float) -> float | None:
    """The smallest that is not exceeded by this share of them."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
