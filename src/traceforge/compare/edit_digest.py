"""The digest of an edit, so that one edit that repeats in many calls is counted once.

In: a comparison. Out: a digest that is equal for equal edits, in any calls. Never: covers what did not change.

If the request changed, the digest covers the request's edits alone: the answer followed from them, and n calls give n
answers to one edit. If only the answer changed, it covers the answer's edits. The digest is over the *set* of edits,
sorted by their canonical text, so that an edit made to two messages of one call and to three of another is one edit.

    an edit of            covers                                                      and not
    a setting             its path, the value before and after
    a prompt or message   its field, the role, the place inside the message, the      its index, the words that stayed
                          changed segments before and after
    an added or removed   its field, the whole message or tool                        its index
    a tool                its name, the place inside it, the segments or values       its index
    an answer's text      the changed segments                                        the words that stayed
    a tool call           name, the path in its arguments, before and after           its index, its id

The bytes: `digest_fields` (canon/digests) under the domain `traceforge.edit/1`, with the fields `side` (`request` or
`answer`) and `edits` (the canonical JSON of the sorted list).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from traceforge.canon import JSON, Digest, digest_fields, exact_canonical_bytes
from traceforge.compare.answer_diff import AnswerDiff, ChoiceDiff, ToolCallChange
from traceforge.compare.comparison import Comparison
from traceforge.compare.json_diff import Absent, Side, ValueChange
from traceforge.compare.request_diff import ItemChange, RequestDiff

DOMAIN = "traceforge.edit/1"


def digest_edit(comparison: Comparison) -> Digest | None:
    """Name the edit of a comparison; None if nothing changed. See the top of this module for what it covers."""
    if comparison.request_changes:
        return _key("request", _request_edits(comparison.request))
    if comparison.answer_changes:
        return _key("answer", _answer_edits(comparison.answer))
    return None


def _key(side: str, edits: Iterable[JSON]) -> Digest:
    texts = sorted({exact_canonical_bytes(edit) for edit in edits})
    return digest_fields(DOMAIN, [("side", side), ("edits", f"[{b','.join(texts).decode()}]")])


def _request_edits(diff: RequestDiff) -> Iterator[JSON]:
    for row in diff.table:
        yield ["setting", row.path, _side(row.before), _side(row.after)]
    for row in diff.prompt:
        yield ["prompt", row.path, *_edit(row)]
    for change in diff.messages + diff.tools:
        yield from _item_edits(change)


def _item_edits(change: ItemChange) -> Iterator[JSON]:
    if change.kind in ("added", "removed"):
        yield [change.kind, change.field, _side(change.before), _side(change.after)]
    if change.moved:
        yield ["moved", change.field, change.name]
    for row in change.rows:
        yield ["changed", change.field, change.name, row.path.removeprefix(change.path), *_edit(row)]


def _answer_edits(diff: AnswerDiff) -> Iterator[JSON]:
    if diff.presence:
        yield ["answer", diff.presence]
    for choice in diff.choices:
        yield from _choice_edits(choice)
    for row in diff.other:
        yield ["other", row.path, _side(row.before), _side(row.after)]


def _choice_edits(choice: ChoiceDiff) -> Iterator[JSON]:
    if choice.before is None or choice.after is None:
        yield ["choice", "added" if choice.before is None else "removed"]
    for row in (choice.text, choice.refusal, choice.finish_reason, *choice.other):
        if row:
            yield ["answer", row.path.removeprefix(choice.path), *_edit(row)]
    for change in choice.tool_calls:
        yield from _call_edits(change)


def _call_edits(change: ToolCallChange) -> Iterator[JSON]:
    if change.before is None or change.after is None:
        yield ["call", change.kind, *(call.to_json() for call in (change.before, change.after) if call)]
    for row in change.rows:
        yield ["call", change.name, row.path, _side(row.before), _side(row.after)]


def _edit(row: ValueChange) -> list[JSON]:
    """The changed segments of two texts, or the two values."""
    if row.text is None:
        return [_side(row.before), _side(row.after)]
    return [[segment.before, segment.after] for segment in row.text.edits]


def _side(value: Side) -> JSON:
    """A value in a list, so that an absent one and null differ."""
    return [] if isinstance(value, Absent) else [value]
