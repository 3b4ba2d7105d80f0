"""Compare two recordings by their cores, and compute the statistics of one.

Times and tokens are not compared: recordings that differ only in those are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, encode_utf8
from traceforge.modelio.recording_format import CORE_FIELDS


class RecordingDifference(NamedTuple):
    """One difference: a field, or an interaction that was added, removed, changed or moved."""

    kind: str
    name: str  # of a field, or the hash of a prompt
    before: JSON  # the number of the interaction, or the value of the field; None where it is missing
    after: JSON
    old_content: str = ""
    new_content: str = ""

    def to_json(self) -> JSONObject:
        """The difference as `--json` prints it."""
        difference: JSONObject = {"kind": self.kind, "name": self.name, "before": self.before, "after": self.after}
        if self.kind == "changed":
            difference |= {"response_before": self.old_content, "response_after": self.new_content}
        return difference


def compare_sessions(before: JSONObject, after: JSONObject) -> Iterator[RecordingDifference]:
    """Every difference of two cores: fields first, then interactions in the order of the second recording.

    The n-th interaction of a prompt is compared with the n-th interaction of the same prompt.
    """
    for name in CORE_FIELDS:
        if before[name] != after[name]:
            yield RecordingDifference("field", name, before[name], after[name])
    old, new = _by_occurrence(before), _by_occurrence(after)
    for occurrence, item in new.items():
        old_item = old.get(occurrence)
        if old_item is None:
            yield RecordingDifference("added", occurrence[0], None, item["i"])
        elif old_item["response_content"] != item["response_content"]:
            contents = str(old_item["response_content"]), str(item["response_content"])
            yield RecordingDifference("changed", occurrence[0], old_item["i"], item["i"], *contents)
        elif old_item["i"] != item["i"]:
            yield RecordingDifference("moved", occurrence[0], old_item["i"], item["i"])
    for occurrence, item in old.items():
        if occurrence not in new:
            yield RecordingDifference("removed", occurrence[0], item["i"], None)


def _by_occurrence(session: JSONObject) -> dict[tuple[str, int], JSONObject]:
    counts: dict[str, int] = {}
    by_occurrence: dict[tuple[str, int], JSONObject] = {}
    for item in session_interactions(session):
        prompt = str(item["prompt_hash"])
        counts[prompt] = counts.get(prompt, -1) + 1
        by_occurrence[prompt, counts[prompt]] = item
    return by_occurrence


def session_interactions(session: JSONObject) -> list[JSONObject]:
    """The interactions of a valid session."""
    return cast("list[JSONObject]", session["interactions"])


def session_statistics(session: JSONObject) -> JSONObject:
    """Totals of the interactions; the `stats` of the session are not trusted."""
    interactions = session_interactions(session)
    sizes = [len(encode_utf8(str(item["response_content"]))) for item in interactions]
    latencies = sorted(_numbers(interactions, "latency_ms"))
    return {
        "interactions": len(interactions),
        "prompts": len({item["prompt_hash"] for item in interactions}),
        "response_bytes": sum(sizes),
        "largest_response_bytes": max(sizes, default=0),
        "tokens_input": sum(_numbers(interactions, "tokens_input")),
        "tokens_output": sum(_numbers(interactions, "tokens_output")),
        "latency_ms_total": round(sum(latencies), 3),
        "latency_ms_median": _quantile(latencies, 0.5),
        "latency_ms_p95": _quantile(latencies, 0.95),
    }


def _numbers(interactions: Iterable[JSONObject], name: str) -> list[float]:
    values = (item.get(name) for item in interactions)
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _quantile(ordered: list[float], share: float) -> float | None:
    """The smallest value that this share of the values does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
