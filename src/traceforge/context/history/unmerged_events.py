"""The events of a branch that another branch does not have yet.

In: the path of a target and that of a source. Out: the source's events that a merge has to bring, in causal order.
Never: compares contents: an event was brought before where the store has recorded it.

A branch has the events on its path. It also has the events that these were copied from (`rebased_from`), and the
whole path of each head that a checkpoint or a summary was merged from (`merged_from`), with all that such a path has.
A checkpoint that an earlier version of TraceForge wrote brought no text, so it does not count.
A copy of an event that the target has is nothing new, nor is a checkpoint of such events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import or_, select

from traceforge.context.history.branch_paths import Path, branch_path, clip_path, event_rows
from traceforge.context.history.branches import load_branch_row
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import events

_IDS_PER_STATEMENT = 500  # Ids in one statement; databases have a limit.
_PLACE = select(
    events.c.id,
    events.c.session_id,
    events.c.branch_id,
    events.c.sequence,
    events.c.rebased_from,
    events.c.merged_from,
)
_LINKS = select(events.c.rebased_from, events.c.merged_from, events.c.payload_ref).where(
    or_(events.c.rebased_from.is_not(None), events.c.merged_from.is_not(None))
)


def find_unmerged_events(tx: StoreTransaction, target: Path, source: Path, common: int) -> list[AnyRow]:
    """The source's events after the common ancestor that no merge has brought into the target."""
    high = source[-1].high if source else 0
    candidates = list(event_rows(tx, clip_path(source, common, high), _PLACE))
    if not candidates:
        return []
    target_events = _KnownEvents(tx, target)
    target_events.load_places(row.rebased_from for row in candidates)
    target_events.load_places(row.merged_from for row in candidates)
    unmerged = {row.id: row.sequence for row in candidates if not target_events.has_event(row)}
    if not unmerged:
        return []
    rows = event_rows(tx, clip_path(source, min(unmerged.values()) - 1, high))  # Contents of these alone.
    return [row for row in rows if row.id in unmerged]


class _KnownEvents:
    """The events that a branch has: on its path, copied from elsewhere, or merged as a checkpoint or a summary."""

    def __init__(self, tx: StoreTransaction, path: Path) -> None:
        self._tx = tx
        self._known_up_to: dict[str, int] = {}  # Of each branch: every path covers it from its fork to a sequence.
        self._origins: set[str] = set()
        self._places: dict[str, AnyRow] = {}  # Where an event is, and what it was copied from.
        self._add_path(path)

    def has_event(self, row: AnyRow) -> bool:
        """Whether the branch has this event, one that it was copied from, or all that it summarizes."""
        if row.merged_from is not None and self._is_covered(self._places[row.merged_from]):
            return True
        return any(place.id in self._origins or self._is_covered(place) for place in self._chain(row))

    def load_places(self, ids: Iterable[str | None]) -> None:
        """Read the rows of events, and of all that they were copied from."""
        wanted = {event_id for event_id in ids if event_id is not None} - self._places.keys()
        while wanted:
            batch = sorted(wanted)[:_IDS_PER_STATEMENT]
            wanted.difference_update(batch)
            for row in self._tx.fetch_all(_PLACE.where(events.c.id.in_(batch))):
                self._places[row.id] = row
                if row.rebased_from is not None and row.rebased_from not in self._places:
                    wanted.add(row.rebased_from)

    def _add_path(self, path: Path) -> None:
        """Add a path, and those of all heads that were merged into it; no event is read twice."""
        waiting = [path]
        while waiting:
            rows = list(event_rows(self._tx, self._cover(waiting.pop()), _LINKS))
            copied = {row.rebased_from for row in rows} - {None}
            # One without a text, of an earlier version of TraceForge, brought nothing of the branch.
            heads = {row.merged_from for row in rows if row.payload_ref is not None} - {None}
            self.load_places(copied | heads)
            for event_id in copied:
                self._origins.update(place.id for place in self._chain(self._places[event_id]))
            last_heads: dict[str, AnyRow] = {}  # The path to the last head of a branch has the earlier ones.
            for head in sorted((self._places[event_id] for event_id in heads), key=lambda place: place.sequence):
                if not self._is_covered(head):
                    last_heads[head.branch_id] = head
            waiting += [self._path_to(head) for head in last_heads.values()]

    def _cover(self, path: Path) -> Path:
        """Count the events of a path as known; return the part of it that was not known before."""
        unknown: Path = []
        for segment in path:
            covered_up_to = self._known_up_to.get(segment.branch_id, 0)
            if segment.high > covered_up_to:
                unknown.append(segment._replace(low=max(segment.low, covered_up_to)))
                self._known_up_to[segment.branch_id] = segment.high
        return unknown

    def _path_to(self, head: AnyRow) -> Path:
        branch = load_branch_row(self._tx, head.session_id, head.branch_id)
        return branch_path(self._tx, branch, head.sequence)

    def _chain(self, row: AnyRow) -> Iterator[AnyRow]:
        """The event, the one that it was copied from, and so on."""
        yield row
        while row.rebased_from is not None:
            row = self._places[row.rebased_from]
            yield row

    def _is_covered(self, row: AnyRow) -> bool:
        last_sequence: int = self._known_up_to.get(row.branch_id, 0)
        return bool(row.sequence <= last_sequence)
