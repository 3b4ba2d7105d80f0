"""What changed in the model's answer.

In: two answers. Out: for each choice its text, its refusal, its reason to stop, its tool calls and everything else
that differs. Never: classifies; `classification` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from traceforge.canon import JSONObject, exact_canonical_bytes
from traceforge.compare.alignment import IndexPair
from traceforge.compare.compared_call import ComparedAnswer, ComparedChoice, ToolCall
from traceforge.compare.json_diff import ValueChange, list_differences
from traceforge.compare.sequence_diff import list_gaps, match_equal

ROOT = "$.response"
_CALLS_WORK_MAX = 100_000  # Steps to pair tool calls; beyond, they are paired by place.


@dataclass(frozen=True)
class ToolCallChange:
    """A tool call that was added, removed or changed; paths of `rows` begin at the call: `$.arguments.city`."""

    before_index: int | None
    after_index: int | None
    before: ToolCall | None
    after: ToolCall | None
    rows: tuple[ValueChange, ...] = ()

    @property
    def kind(self) -> str:
        """`added`, `removed`, `renamed` or `changed`."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        return "changed" if self.before.name == self.after.name else "renamed"

    @property
    def name(self) -> str:
        """The tool that is called, after if it still is."""
        call = self.after or self.before
        return call.name if call else ""

    def to_json(self) -> JSONObject:
        """The change with both calls whole."""
        calls = {"before": self.before, "after": self.after}
        both = {side: call.to_json() for side, call in calls.items() if call}
        return {"kind": self.kind, "name": self.name, **both, "rows": [row.to_json() for row in self.rows]}


@dataclass(frozen=True)
class ChoiceDiff:
    """One choice that differs; each part is None or empty where it does not."""

    index: int
    before: ComparedChoice | None
    after: ComparedChoice | None
    text: ValueChange | None = None
    refusal: ValueChange | None = None
    finish_reason: ValueChange | None = None
    tool_calls: tuple[ToolCallChange, ...] = ()
    other: tuple[ValueChange, ...] = ()

    @property
    def path(self) -> str:
        """The JSON path of the choice in a trace; the answer of a snapshot counts as the first choice."""
        return f"{ROOT}.choices[{self.index}]"

    def to_json(self) -> JSONObject:
        """The parts that differ; equal parts have no key."""
        result: JSONObject = {"index": self.index}
        if self.before is None or self.after is None:
            return {**result, "kind": "added" if self.before is None else "removed"}
        if self.text and self.text.text:
            result["text"] = self.text.text.to_json()
        for name, row in (("refusal", self.refusal), ("finish_reason", self.finish_reason)):
            if row:
                result[name] = row.to_json()
        if self.tool_calls:
            result["tool_calls"] = [change.to_json() for change in self.tool_calls]
        if self.other:
            result["other"] = [row.to_json() for row in self.other]
        return result


@dataclass(frozen=True)
class AnswerDiff:
    """The differences of two answers. `presence` is `appeared` or `vanished` where only one call has an answer."""

    presence: str = ""
    choices: tuple[ChoiceDiff, ...] = ()
    other: tuple[ValueChange, ...] = ()
    served_model: ValueChange | None = (
        None  # The response names another model. A note: it is not a change of behaviour.
    )

    def to_json(self) -> JSONObject:
        """The parts, as `Comparison.to_json` shows them."""
        return {
            "presence": self.presence,
            "choices": [choice.to_json() for choice in self.choices],
            "other": [row.to_json() for row in self.other],
            "served": self.served_model.to_json() if self.served_model else None,
        }


def diff_answer(before: ComparedAnswer | None, after: ComparedAnswer | None) -> AnswerDiff:
    """Find every difference of two answers."""
    if before is None or after is None:
        return AnswerDiff("" if before is after else "appeared" if before is None else "vanished")
    pairs = enumerate(zip_longest(before.choices, after.choices))
    choices = tuple(diff for index, (old, new) in pairs if (diff := _diff_choice(index, old, new)))
    other = tuple(list_differences(before.other, after.other, ROOT))
    served = ValueChange(f"{ROOT}.model", before.model, after.model) if before.model != after.model else None
    return AnswerDiff("", choices, other, served if before.model and after.model else None)


def _diff_choice(index: int, before: ComparedChoice | None, after: ComparedChoice | None) -> ChoiceDiff | None:
    if before is None or after is None:
        return ChoiceDiff(index, before, after)
    path = f"{ROOT}.choices[{index}]"
    diff = ChoiceDiff(
        index,
        before,
        after,
        _row(f"{path}.message.content", before.text, after.text),
        _row(f"{path}.message.refusal", before.refusal, after.refusal),
        next(list_differences(before.finish_reason, after.finish_reason, f"{path}.finish_reason"), None),
        tuple(_tool_call_changes(before.tool_calls, after.tool_calls)),
        tuple(list_differences(before.other, after.other, path)),
    )
    parts = (diff.text, diff.refusal, diff.finish_reason, diff.tool_calls, diff.other)
    return diff if any(parts) else None


def _row(path: str, before: str, after: str) -> ValueChange | None:
    return ValueChange(path, before, after) if before != after else None


def _tool_call_changes(before: tuple[ToolCall, ...], after: tuple[ToolCall, ...]) -> Iterator[ToolCallChange]:
    for i, j in _pair_calls(before, after):
        old, new = (before[i] if i is not None else None), (after[j] if j is not None else None)
        rows = tuple(list_differences(old.to_json(), new.to_json(), "$")) if old and new else ()
        if rows or old is None or new is None:
            yield ToolCallChange(i, j, old, new, rows)


def _pair_calls(before: tuple[ToolCall, ...], after: tuple[ToolCall, ...]) -> list[IndexPair]:
    """In order: equal calls first, then between those calls of one name, then what is left by its place."""

    def pair(old: range, new: range, keys: tuple[Callable[[ToolCall], object], ...]) -> list[IndexPair]:
        if not keys:
            return list(zip_longest(old, new))
        key, *other_keys = keys
        anchors = match_equal([key(before[i]) for i in old], [key(after[j]) for j in new], _CALLS_WORK_MAX) or []
        pairs: list[IndexPair] = [(old[i], new[j]) for i, j in anchors]
        for gap in list_gaps(anchors, len(old), len(new)):
            pairs += pair(old[gap.start : gap.end], new[gap.after_start : gap.after_end], tuple(other_keys))
        return pairs

    places = pair(range(len(before)), range(len(after)), (_content, lambda call: call.name))
    return sorted(places, key=lambda place: tuple(len(before) if side is None else side for side in place))


def _content(call: ToolCall) -> bytes:
    return exact_canonical_bytes(call.to_json())
