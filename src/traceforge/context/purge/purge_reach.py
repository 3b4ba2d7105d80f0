"""The reach of a purge: the named objects, and everything that was derived from them.

In: ids of artifacts, events and sessions. Out: the ids of all objects to remove. Never: changes anything; never
compares contents: an object was derived from another where the store has recorded it.

- A session: all events of all its branches, its metadata, the labels of its branches, its snapshots.
- An artifact: the events that refer to it, the bundles that hold it, and so every snapshot of a session that begins
  with such a bundle.
- An event: its copies (`rebased_from`), and every checkpoint or summary of a branch it was on (`merged_from`), with
  the artifact that holds its text. A checkpoint of an earlier version has no artifact and no content, and stays.
- Derived from these: the snapshots whose manifest has a removed block; the responses to them, with their traces; the
  assistant messages that those responses appended, which are events again, and the response that appended a removed
  message; the items of replay runs of those snapshots or responses, and the reports with such an item; stored answers
  to idempotent calls; stored states of compilers.

An artifact that an event refers to stays, unless it is named: other objects may use it. A message that a caller
appended stays, unless it is named: the store does not know what it was derived from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, or_, select

from traceforge.context.storage.sealed_tables import row_name
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, is_id
from traceforge.context.storage.tables import (
    branches,
    bundle_items,
    bundles,
    events,
    idempotency,
    idempotency_subjects,
    replay_items,
    replay_runs,
    responses,
    session_bundles,
    snapshots,
)
from traceforge.conversion import decode_json

IDS_PER_STATEMENT = 500  # Ids in one statement; databases have a limit.


class EventPosition(NamedTuple):
    """The branch of an event, and its position on it."""

    session_id: str
    branch_id: str
    sequence: int


class StoredAnswerKey(NamedTuple):
    """A stored answer to an idempotent call."""

    path: str
    key_digest: str


class PurgeReach:
    """The ids of everything that a purge removes."""

    def __init__(self) -> None:
        self.artifacts: set[str] = set()
        self.bundles: set[str] = set()
        self.sessions: set[str] = set()
        self.dependent_sessions: set[str] = set()  # Sessions with a base bundle that is removed.
        self.events: dict[str, EventPosition] = {}
        self.snapshots: set[str] = set()
        self.responses: set[str] = set()
        self.traces: set[str] = set()
        self.runs: set[str] = set()
        self.items: set[tuple[str, int]] = set()
        self.answers: set[StoredAnswerKey] = set()
        self.first_sequences: dict[
            str, int
        ] = {}  # Of each branch: the sequence of the first removed event on its path.

    def __bool__(self) -> bool:
        return bool(self.artifacts or self.sessions or self.events)

    @property
    def ids(self) -> set[str]:
        """The ids of all kinds together."""
        id_sets = (
            self.artifacts,
            self.bundles,
            self.sessions,
            self.events,
            self.snapshots,
            self.responses,
            self.runs,
        )
        return {object_id for ids in id_sets for object_id in ids}


def find_reach(
    tx: StoreTransaction, artifact_ids: Iterable[str], event_ids: Iterable[str], session_ids: Iterable[str]
) -> PurgeReach:
    """The named objects and everything derived from them, without what was purged before."""
    search = _ReachSearch(tx)
    search.add_sessions(session_ids)
    search.add_events(_select_events(tx, events.c.id, event_ids))
    search.add_artifacts(artifact_ids)
    search.expand()
    reach = search.reach
    reach.answers = _find_stored_answers(tx, reach)
    return reach


class _ReachSearch:
    def __init__(self, tx: StoreTransaction) -> None:
        self.tx = tx
        self.reach = PurgeReach()
        is_link = or_(events.c.rebased_from.is_not(None), events.c.merged_from.is_not(None))
        links = _EVENT.where(events.c.project_id == tx.project_id, events.c.purged_by.is_(None), is_link)
        self._links = tx.fetch_all(links)
        self._heads = {
            row.id: row for row in _select_in(tx, _PLACE, events.c.id, {row.merged_from for row in self._links})
        }
        self._copies: dict[str, list[AnyRow]] = {}
        for row in self._links:
            if row.rebased_from is not None:
                self._copies.setdefault(row.rebased_from, []).append(row)

    def expand(self) -> None:
        """Add objects until nothing new is in reach."""
        while True:
            before = len(self.reach.ids)
            self._find_first_sequences()
            self._add_summaries()
            self._add_snapshots()
            self._add_responses()
            if len(self.reach.ids) == before:
                break
        self._add_runs()

    def add_sessions(self, ids: Iterable[str]) -> None:
        ids = set(ids) - self.reach.sessions
        self.reach.sessions |= ids
        self.add_events(_select_events(self.tx, events.c.session_id, ids))

    def add_artifacts(self, ids: Iterable[str]) -> None:
        ids = set(ids) - self.reach.artifacts
        if not ids:
            return
        self.reach.artifacts |= ids
        self.add_events(_select_events(self.tx, events.c.payload_ref, ids))
        items = _select_in(self.tx, select(bundle_items.c.bundle_id), bundle_items.c.artifact_id, ids)
        bundle_ids = {row.bundle_id for row in items}
        unpurged = select(bundles.c.id).where(bundles.c.purged_by.is_(None))
        self.reach.bundles |= {row.id for row in _select_in(self.tx, unpurged, bundles.c.id, bundle_ids)}
        begun_with = _select_in(
            self.tx, select(session_bundles.c.session_id), session_bundles.c.bundle_id, bundle_ids
        )
        self.reach.dependent_sessions |= {row.session_id for row in begun_with}

    def add_events(self, rows: Iterable[AnyRow]) -> None:
        waiting = list(rows)
        summaries: set[str] = set()
        while waiting:
            row = waiting.pop()
            if row.id in self.reach.events:
                continue
            self.reach.events[row.id] = EventPosition(row.session_id, row.branch_id, row.sequence)
            waiting += self._copies.get(row.id, ())
            if _is_summary(row):
                summaries.add(row.payload_ref)
        self.add_artifacts(summaries)

    def _find_first_sequences(self) -> None:
        """Find the first removed event on the path of each branch.

        A fork inherits it where it was forked after that event.
        """
        first: dict[str, int] = {}
        for where in self.reach.events.values():
            first[where.branch_id] = min(where.sequence, first.get(where.branch_id, where.sequence))
        touched = {where.session_id for where in self.reach.events.values()}
        columns = select(branches.c.id, branches.c.parent_branch_id, branches.c.forked_at, branches.c.seq)
        for row in sorted(_select_in(self.tx, columns, branches.c.session_id, touched), key=lambda row: row.seq):
            inherited = first.get(row.parent_branch_id)
            if inherited is not None and row.forked_at >= inherited:
                first[row.id] = min(inherited, first.get(row.id, inherited))
        self.reach.first_sequences = first

    def _add_summaries(self) -> None:
        """A summary may hold anything of its branch, from the beginning to the head that was summarized."""
        first, based = self.reach.first_sequences, self.reach.dependent_sessions
        reached = []
        for row in self._links:
            head = self._heads.get(row.merged_from) if _is_summary(row) else None
            if head is not None and (
                head.session_id in based or first.get(head.branch_id, head.sequence + 1) <= head.sequence
            ):
                reached.append(row)
        self.add_events(reached)

    def _add_snapshots(self) -> None:
        reach = self.reach
        touched = reach.sessions | reach.dependent_sessions | {where.session_id for where in reach.events.values()}
        columns = select(snapshots.c.id, snapshots.c.session_id, snapshots.c.branch_id, snapshots.c.version)
        whole_sessions = reach.sessions | reach.dependent_sessions
        for row in _select_in(
            self.tx, columns.where(snapshots.c.purged_by.is_(None)), snapshots.c.session_id, touched
        ):
            if (
                row.session_id in whole_sessions
                or reach.first_sequences.get(row.branch_id, row.version + 1) <= row.version
            ):
                reach.snapshots.add(row.id)

    def _add_responses(self) -> None:
        """Responses to removed snapshots, with their messages; and those whose message is removed."""
        reach = self.reach
        columns = select(responses.c.id, responses.c.event_id, responses.c.trace_id)
        unpurged = columns.where(responses.c.purged_by.is_(None))
        rows = _select_in(self.tx, unpurged, responses.c.snapshot_id, reach.snapshots)
        rows += _select_in(
            self.tx, unpurged, responses.c.event_id, reach.events
        )  # They hold the text of those messages.
        reach.responses |= {row.id for row in rows}
        reach.traces |= {row.trace_id for row in rows if row.trace_id}
        message_ids = {row.event_id for row in rows if row.event_id}
        self.add_events(_select_events(self.tx, events.c.id, message_ids - reach.events.keys()))

    def _add_runs(self) -> None:
        reach = self.reach
        columns = select(replay_items.c.run_id, replay_items.c.position, replay_items.c.trace_ids)
        unpurged = columns.where(replay_items.c.purged_by.is_(None))
        rows = _select_in(self.tx, unpurged, replay_items.c.snapshot_id, reach.snapshots)
        rows += _select_in(
            self.tx, unpurged, replay_items.c.response_id, reach.responses
        )  # They hold the recorded answer.
        reach.items = {(row.run_id, row.position) for row in rows}
        reach.traces |= {trace_id for row in rows for trace_id in (row.trace_ids or "").split()}
        touched = {run_id for run_id, _ in reach.items}
        runs = select(replay_runs.c.id).where(replay_runs.c.purged_by.is_(None))
        reach.runs = {row.id for row in _select_in(self.tx, runs, replay_runs.c.id, touched)}
        reach.runs |= {row.id for row in _select_in(self.tx, runs, replay_runs.c.session_id, reach.sessions)}


_EVENT = select(
    events.c.id,
    events.c.session_id,
    events.c.branch_id,
    events.c.sequence,
    events.c.payload_ref,
    events.c.rebased_from,
    events.c.merged_from,
)
_PLACE = select(events.c.id, events.c.session_id, events.c.branch_id, events.c.sequence)


def _is_summary(row: AnyRow) -> bool:
    """Whether an event is a checkpoint or a summary: it was merged from a branch, and its content is an artifact."""
    return row.merged_from is not None and row.payload_ref is not None


def _select_events(tx: StoreTransaction, column: ColumnElement[Any], ids: Iterable[str]) -> list[AnyRow]:
    unpurged = _EVENT.where(events.c.project_id == tx.project_id, events.c.purged_by.is_(None))
    return list(_select_in(tx, unpurged, column, ids))


def _select_in(
    tx: StoreTransaction, statement: Select[Any], column: ColumnElement[Any], ids: Iterable[str | None]
) -> list[AnyRow]:
    """The rows whose column has one of these ids."""
    rows: list[AnyRow] = []
    for batch in batches(sorted(row_id for row_id in ids if row_id is not None)):
        rows += tx.fetch_all(statement.where(column.in_(batch)))
    return rows


def batches(ids: list[Any]) -> Iterator[list[Any]]:
    """Split ids into lists that one statement takes."""
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        yield ids[start : start + IDS_PER_STATEMENT]


def _find_stored_answers(tx: StoreTransaction, reach: PurgeReach) -> set[StoredAnswerKey]:
    """Find the stored answers that hold removed content.

    An answer holds the object that it is; one that only names a removed id stays. Answers about a removed session all
    go, so they are not decrypted.
    """
    rows: dict[StoredAnswerKey, AnyRow] = {}
    certain: set[StoredAnswerKey] = set()
    subject = idempotency_subjects.c.subject_id
    joined = _ANSWER.join(
        idempotency_subjects,
        (idempotency_subjects.c.project_id == idempotency.c.project_id)
        & (idempotency_subjects.c.path == idempotency.c.path)
        & (idempotency_subjects.c.key_digest == idempotency.c.key_digest),
    ).add_columns(subject)
    own = (idempotency.c.project_id == tx.project_id, idempotency.c.sealed.is_not(None))
    for row in _select_in(tx, joined.where(*own), subject, reach.ids):
        rows[StoredAnswerKey(row.path, row.key_digest)] = row
        if row.subject_id in reach.sessions:
            certain.add(StoredAnswerKey(row.path, row.key_digest))
    in_flight = _ANSWER.where(idempotency.c.project_id == tx.project_id, idempotency.c.purged_by.is_(None))
    for row in _select_in(tx, in_flight, idempotency.c.response_id, reach.responses):  # Also one that is in flight.
        certain.add(StoredAnswerKey(row.path, row.key_digest))
    purged_ids = reach.ids
    return certain | {
        key for key, row in rows.items() if key not in certain and _holds_purged(tx, key, row, purged_ids)
    }


_ANSWER = select(
    idempotency.c.path,
    idempotency.c.key_digest,
    idempotency.c.sealed,
    idempotency.c.wrapped_key,
    idempotency.c.generation,
)


class _AnswerHead(msgspec.Struct):
    id: str = ""
    object: str = ""


def _holds_purged(tx: StoreTransaction, key: StoredAnswerKey, row: AnyRow, purged_ids: set[str]) -> bool:
    sealed = SealedColumns(row.sealed, row.wrapped_key, row.generation)
    try:
        answer = decode_json(tx.sealer.open("idempotency", row_name(*key), sealed), _AnswerHead)
    except msgspec.MsgspecError:
        return True  # Not an object of the store: remove it to be safe.
    if answer.object == "merge":  # Ids, and nothing else.
        return False
    return answer.id in purged_ids or not is_id(answer.id)
