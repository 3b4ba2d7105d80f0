"""The review queue: pending changes by cause, in the order of their pages, and a part of them that was searched for.

In: the pending state of a project, already redacted. Out: plain data for `templates/changes/list.html`. Never: says
of a count anything else than the command line does, or leaves a change out that was not filtered.

What cannot be approved comes first, then the edit that explains most calls. New calls have no cause: those of one
source file stand together, at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from traceforge.errors import CannotRead
from traceforge.replay.request_key import RequestKeyer
from traceforge.report.gate_text import TITLES
from traceforge.report.text_format import count, gate_counts
from traceforge.snapshots.approve.pending_state import PendingState
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE
from traceforge.snapshots.record.change_groups import CauseGroup, ComparedChange, group_by_cause
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingFolder
from traceforge.ui.views.change_item_view import ChangeItem, compare_all, view_item
from traceforge.ui.views.diff_view import ChangeGroup, view_comparison

PREVIEW_GROUPS = 2  # The first parts that differ; the page of the change has all.
ROWS_MAX = 6  # Of a cause; of more, ROWS_OPEN are shown and the others are folded.
ROWS_OPEN = 3


class ChangeRow(NamedTuple):
    """A change of a cause; `role` says how it belongs to it, "" for the first one."""

    item: ChangeItem
    role: str = ""


@dataclass(frozen=True)
class ChangeCause:
    """One edit, the calls that repeat it, and later calls of their conversations; or new calls of one file."""

    title: str
    summary: str  # `the same edit in 2 more calls, and 1 later call repeats it`; "" for one call
    first: ChangeItem
    rows: tuple[ChangeRow, ...]
    preview: tuple[ChangeGroup, ...] = ()  # what differs, in few lines

    @property
    def items(self) -> tuple[ChangeItem, ...]:
        return tuple(row.item for row in self.rows)

    @property
    def open_rows(self) -> tuple[ChangeRow, ...]:
        return self.rows if len(self.rows) <= ROWS_MAX else self.rows[:ROWS_OPEN]

    @property
    def folded_rows(self) -> tuple[ChangeRow, ...]:
        return () if len(self.rows) <= ROWS_MAX else self.rows[ROWS_OPEN:]


@dataclass(frozen=True)
class ChangeListView:
    """The page that lists the pending changes."""

    causes: tuple[ChangeCause, ...]
    counts: tuple[tuple[str, int], ...]  # by title, of all changes
    total: int
    approved: str  # `9 snapshots: 4 prompt and answer, 5 prompt only`
    finding_count: int
    settings: tuple[str, ...]

    @property
    def items(self) -> tuple[ChangeItem, ...]:
        return tuple(item for cause in self.causes for item in cause.items)


class DamagedFile(NamedTuple):
    """A file among the pending changes that is none."""

    file: str
    message: str
    hint: str
    code: str


def view_damaged(folder: PendingFolder) -> tuple[DamagedFile, ...]:
    """The files that cannot be read, with what to do."""
    return tuple(
        DamagedFile(file, error.reason if isinstance(error, CannotRead) else error.message, error.hint, error.code)
        for file, error in folder.errors.items()
    )


def view_changes(state: PendingState, keys: RequestKeyer) -> ChangeListView:
    """The review queue of a project."""
    titles = Counter(TITLES[change.kind] for change in state.changes)
    gated = sum(call.gate == REQUEST_GATE for call in state.approved.values())
    return ChangeListView(
        tuple(_view_section(section) for section in _list_sections(compare_all(state, keys))),
        tuple((title, titles[title]) for title in TITLES.values() if titles[title]),
        len(state.changes),
        gate_counts(len(state.approved), gated),
        state.finding_count,
        tuple(setting.describe() for setting in state.settings),
    )


def list_queue(changes: Sequence[ComparedChange]) -> list[tuple[ComparedChange, CauseGroup]]:
    """Every change in the order of the queue, with the group that it belongs to."""
    return [
        (change, group)
        for section in _list_sections(changes)
        for group in section
        for change in group.changes
    ]  # fmt: skip


def filter_changes(page: ChangeListView, kind: str, text: str) -> ChangeListView:
    """The changes of a kind, named by its title, that contain every word of a text."""
    words = text.lower().split()
    if not kind and not words:
        return page
    causes = []
    for cause in page.causes:
        rows = tuple(row for row in cause.rows if _is_match(row.item, kind, words))
        if rows:
            causes.append(replace(cause, rows=rows))
    return replace(page, causes=tuple(causes))


def _is_match(item: ChangeItem, kind: str, words: Sequence[str]) -> bool:
    if kind and item.title != kind:
        return False
    parts = (item.id, item.provider, item.model, item.location, item.sentence, item.sample, *item.tests)
    text = "\n".join((*parts, *(change.sentence for change in item.changes))).lower()
    return all(word in text for word in words)


def _list_sections(changes: Sequence[ComparedChange]) -> list[tuple[CauseGroup, ...]]:
    """The groups in the order of the queue; new calls of one file are one section."""
    groups = group_by_cause(changes)
    new_calls: dict[str, list[CauseGroup]] = {}
    for group in groups:
        if group.cause.change.kind is ChangeKind.NEW:
            new_calls.setdefault(str(group.cause.change.source.get("file") or ""), []).append(group)
    edits = [group for group in groups if group.cause.change.kind is not ChangeKind.NEW]
    edits.sort(key=lambda group: (group.cause.change.kind is not ChangeKind.REFUSED, -len(group.changes)))
    return [*((group,) for group in edits), *map(tuple, new_calls.values())]


def _view_section(section: tuple[CauseGroup, ...]) -> ChangeCause:
    first, *others = section
    rows = tuple(row for group in section for row in _view_rows(group))
    item = rows[0].item
    if others:
        place = f" in {item.file}" if item.file else ""
        return ChangeCause(f"{len(section)} calls that were never approved{place}.", "", item, rows)
    comparison = first.cause.comparison
    groups = view_comparison(comparison).groups if comparison is not None and comparison.has_changed else ()
    return ChangeCause(item.sentence, _summarize(first), item, rows, groups[:PREVIEW_GROUPS])


def _view_rows(group: CauseGroup) -> Iterator[ChangeRow]:
    yield ChangeRow(view_item(group.cause))
    yield from (ChangeRow(view_item(change), "same edit") for change in group.repeats)
    yield from (ChangeRow(view_item(change), "later call of this conversation") for change in group.later_calls)


def _summarize(group: CauseGroup) -> str:
    parts = []
    if group.repeats:
        parts.append(f"the same edit in {count(len(group.repeats), 'more call')}")
    if group.later_calls:
        later = len(group.later_calls)
        parts.append(f"{later} later calls repeat it" if later > 1 else "1 later call repeats it")
    return ", and ".join(parts)
