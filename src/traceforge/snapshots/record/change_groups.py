"""Pending changes grouped by their cause, as the gate groups its findings.

In: pending changes with their comparisons. Out: groups: one edit, the calls that repeat it, and the later calls of
the same conversations, which are its consequences. Never: drops a change, or has one in two groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from traceforge.canon import JSON
from traceforge.compare.comparison import Comparison
from traceforge.compare.edit_digest import digest_edit
from traceforge.compare.json_diff import is_same_json
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange


class ComparedChange(NamedTuple):
    """A pending change, and its comparison with the approved call; None if there is none, or only counts differ."""

    change: PendingChange
    comparison: Comparison | None


@dataclass(frozen=True)
class CauseGroup:
    """One edit: the first call that has it, those that repeat it, and the later calls of their conversations."""

    cause: ComparedChange
    repeats: list[ComparedChange] = field(default_factory=list)
    later_calls: list[ComparedChange] = field(default_factory=list)

    @property
    def changes(self) -> list[ComparedChange]:
        return [self.cause, *self.repeats, *self.later_calls]


class _Conversation(NamedTuple):
    """The messages of a request, and the scopes that send it."""

    messages: list[JSON]
    scopes: frozenset[str]

    def is_continued_by(self, other: _Conversation) -> bool:
        """Whether a request of the same test begins with all messages of this one."""
        return (
            0 < len(self.messages) < len(other.messages)
            and not self.scopes.isdisjoint(other.scopes)
            and is_same_json(self.messages, other.messages[: len(self.messages)])
        )


def group_by_cause(changes: Sequence[ComparedChange]) -> list[CauseGroup]:
    """Group changes by their edit. Groups are in the order of the changes; refused changes are alone."""
    conversations = [_read_conversation(compared.change) for compared in changes]
    groups: dict[int, CauseGroup] = {}  # by the place of their first change
    edits: dict[str, CauseGroup] = {}
    causes: list[tuple[_Conversation, CauseGroup]] = []
    for place in sorted(range(len(changes)), key=lambda place: len(conversations[place].messages)):
        compared, conversation = changes[place], conversations[place]
        if compared.change.kind is ChangeKind.REFUSED:
            groups[place] = CauseGroup(compared)
            continue
        group = next((group for cause, group in causes if cause.is_continued_by(conversation)), None)
        if group is not None:
            group.later_calls.append(compared)
            continue
        edit = _find_edit(compared)
        if edit in edits:
            group = edits[edit]
            group.repeats.append(compared)
        else:
            group = groups[place] = CauseGroup(compared)
            edits.update({edit: group} if edit else {})
        if _has_new_messages(compared):
            causes.append((conversation, group))
    return [group for _, group in sorted(groups.items())]


def _read_conversation(change: PendingChange) -> _Conversation:
    messages = change.call.request.get("messages")
    return _Conversation(
        messages if isinstance(messages, list) else [], frozenset(turn.scope for turn in change.turns)
    )


def _find_edit(compared: ComparedChange) -> str:
    return (digest_edit(compared.comparison) or "") if compared.comparison is not None else ""


def _has_new_messages(compared: ComparedChange) -> bool:
    """Whether later turns of the conversation repeat the edit: it is one of the messages."""
    comparison = compared.comparison
    return compared.change.kind is ChangeKind.NEW or (comparison is not None and bool(comparison.request.messages))
