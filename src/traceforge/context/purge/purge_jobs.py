"""Purge jobs: content is removed for good, with everything that was derived from it.

In: ids of artifacts, events and sessions. Out: a job, and a receipt of the removed objects. Never: half of a purge: a
job that a crash has interrupted is finished by the next process that opens the database.

A job has four steps, each of which may be repeated:

1. The job is stored, with the ids that the caller named.
2. One transaction: the key of the next generation is added to the keyring; the content of everything in reach is
   removed; every other data key of the project is wrapped under the new key; the project's generation is raised; the
   receipt is stored. A transaction that seals content locks the project's row, so none seals under the old key.
3. The old key is destroyed. From here on no older copy of the database can be read: no backup, no write-ahead log, no
   freed page.
4. The traces of the model calls are removed from the traces folder of this process, and the job is completed. Only
   now the receipt can be read. It also counts the traces that were not there: the store does not know in which folder
   a trace was recorded. They stay `pending`: a server looks for them in its own folder (`RemainingTraces`), and
   `remove_remaining_traces` removes them by hand.

One process at a time purges with one keyring.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import cast

from msgspec.structs import replace
from sqlalchemy import func, insert, select, update

from traceforge.clock import now_text
from traceforge.context.model.inputs import NewPurge
from traceforge.context.model.objects import Progress, PurgeJob, Receipt, Removed
from traceforge.context.project_store import Store
from traceforge.context.purge.purge_reach import IDS_PER_STATEMENT, PurgeReach, find_reach
from traceforge.context.purge.purge_removal import count_removed, remove_content, rewrap_keys
from traceforge.context.storage.keyring import Keyring
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.projects import get_project
from traceforge.context.storage.sealing import BrokenSeal
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction, check_text, not_found
from traceforge.context.storage.tables import artifacts, events, projects, purge_jobs, receipts, responses, sessions
from traceforge.conversion import decode_json, encode_json
from traceforge.errors import ContentPurged, StoreRefused, StoreUnavailable, TraceForgeError
from traceforge.ids import new_id
from traceforge.traces.trace_purge import purge_traces

_KIND = "purge job"
_TARGETS = {"art": (artifacts, "artifact"), "evt": (events, "event"), "ses": (sessions, "session")}
_UNFINISHED = (Progress.QUEUED.value, Progress.RUNNING.value)
_DAMAGED = "store_damaged"
_TRACE = "trace"
_LATE_TRACES = (
    select(responses.c.id, responses.c.trace_id, responses.c.project_id, purge_jobs.c.id.label("job_id"))
    .join(purge_jobs, purge_jobs.c.receipt_id == responses.c.purged_by)
    .where(responses.c.trace_id.is_not(None), purge_jobs.c.status == Progress.COMPLETED.value)
    .limit(IDS_PER_STATEMENT)
)
_REMAINING_TRACES = select(
    purge_jobs.c.id, purge_jobs.c.project_id, func.length(purge_jobs.c.pending).label("size")
).where(purge_jobs.c.status == Progress.COMPLETED.value, purge_jobs.c.pending.is_not(None))


def create_purge_job(tx: StoreTransaction, body: NewPurge) -> PurgeJob:
    """Store a purge job.

    Raises:
        StoreRefused: an artifact, event or session does not exist; `param` says which.
        ContentPurged: every target was purged before; the error names the receipt.
    """
    targets = list(dict.fromkeys(body.targets))
    receipts_before = [_find_receipt(tx, target, f"targets[{body.targets.index(target)}]") for target in targets]
    receipt_ids = [receipt_id for receipt_id in receipts_before if receipt_id is not None]
    if len(receipt_ids) == len(targets):
        raise ContentPurged(targets[0], receipt_ids[0])
    job_id = new_id("pjb")
    reason = check_text(body.reason, "reason")
    row = {
        "id": job_id,
        "project_id": tx.project_id,
        "status": Progress.QUEUED.value,
        "targets": encode_json(targets).decode(),
        "created_at": now_text(),
        **tx.sealer.seal_text("purge_jobs", job_id, tx.lock_generation(), reason),
    }
    tx.lock_inserts()
    tx.execute(insert(purge_jobs), [row])
    return get_purge_job(tx, job_id)


def start_purge(store: Store, body: NewPurge) -> PurgeJob:
    """Purge content for good, with all that was made of it.

    A store that has joined a transaction queues the job; it runs when the transaction is committed.
    """
    job = store.write(lambda tx: create_purge_job(tx, body))
    outside = store.of_project(store.project_id)
    store.after_commit(lambda: run_purge_job(outside, job.id))
    return store.read(lambda tx: get_purge_job(tx, job.id))


def get_purge_job(tx: StoreTransaction, job_id: str) -> PurgeJob:
    """A job by its id."""
    return _job(tx, tx.load(purge_jobs, _KIND, job_id))


def list_purge_jobs(tx: StoreTransaction, limit: int, after: str | None) -> Page[PurgeJob]:
    return list_page(tx, purge_jobs, (), lambda rows: [_job(tx, row) for row in rows], limit=limit, after=after)


def get_receipt(tx: StoreTransaction, job_id: str) -> Receipt:
    """The receipt of a job that is completed.

    Raises:
        StoreRefused: the job does not exist, or is not completed.
    """
    job = tx.load(purge_jobs, _KIND, job_id)
    row = None
    if job.status == Progress.COMPLETED.value:
        own = (receipts.c.purge_job_id == job.id, receipts.c.project_id == tx.project_id)
        row = tx.fetch_one(select(receipts).where(*own))
    if row is None:
        raise StoreRefused(
            f"purge job {job_id} is {job.status}: its receipt is available when it is completed",
            reason="purge_not_completed",
            status=409,
            hint="Try again later. An interrupted job continues when the database is opened.",
        )
    return Receipt(
        id=row.id,
        purge_job_id=row.purge_job_id,
        project_id=row.project_id,
        removed=decode_json(row.removed, list[Removed]),
        invalidated=decode_json(row.invalidated, list[Removed]),
        not_found=[count_removed(_TRACE, traces)] if (traces := _pending_traces(job)) else [],
        generation=row.generation,
        created_at=row.created_at,
    )


def finish_purges(store: Store) -> None:
    """Finish the jobs of every project that a crash has interrupted, unless another process purges.

    A database or a keyring that cannot be written now can still be opened: the jobs wait.
    """
    unfinished = select(purge_jobs.c.id, purge_jobs.c.project_id).where(purge_jobs.c.status.in_(_UNFINISHED))
    waiting, late = store.read(
        lambda tx: (tx.fetch_all(unfinished.order_by(purge_jobs.c.seq)), tx.fetch_all(_LATE_TRACES))
    )
    if not waiting and not late:
        return
    with suppress(TraceForgeError), store.keyring.lock_purges(wait=False) as alone:
        for row in waiting if alone else ():
            with suppress(TraceForgeError):
                continue_purge_job(store.of_project(row.project_id), row.id)
        if alone and late:
            _remove_late_traces(store, late)


def _remove_late_traces(store: Store, late: list[AnyRow]) -> None:
    """Remove the traces of model calls that ended after their response was purged."""
    removed = _remove_traces(store, [row.trace_id for row in late])
    for row in late:
        store.of_project(row.project_id).write(partial(_note_late_trace, row=row, removed=removed))


def _note_late_trace(tx: StoreTransaction, row: AnyRow, removed: Collection[str]) -> None:
    job = tx.load(purge_jobs, _KIND, row.job_id)
    _note_traces(tx, job, {row.trace_id} & set(removed), {*_pending_traces(job), row.trace_id} - set(removed))
    tx.execute(update(responses).where(responses.c.id == row.id).values(trace_id=None))


def run_purge_job(store: Store, job_id: str) -> None:
    """Run a job from the step that it has reached.

    Raises:
        StoreUnavailable: the database was lost, or a row cannot be decrypted. The job continues later.
        CannotWrite: the keyring or the traces cannot be written. The job continues later.
    """
    with store.keyring.lock_purges(wait=True):
        continue_purge_job(store, job_id)


def continue_purge_job(store: Store, job_id: str) -> None:
    """Like `run_purge_job`, for a process that holds the lock of the keyring."""
    job = store.read(lambda tx: tx.load(purge_jobs, _KIND, job_id))
    if job.status not in _UNFINISHED:
        return
    if job.receipt_id is None:
        _commit_purge(store, job_id)
    store.keyring.destroy_keys(store.project_id, before=store.read(get_project).generation)
    store.database.truncate_log()  # Its pages are sealed, but old.
    job = store.read(lambda tx: tx.load(purge_jobs, _KIND, job_id))
    traces = _pending_traces(job)
    removed = _remove_traces(store, traces)

    def complete(tx: StoreTransaction) -> None:
        _note_traces(tx, job, removed, set(traces) - removed)
        completed = {"status": Progress.COMPLETED.value, "completed_at": now_text()}
        tx.execute(update(purge_jobs).where(purge_jobs.c.id == job_id).values(completed))

    store.write(complete)


def remove_remaining_traces(store: Store, job_id: str) -> Receipt:
    """Remove the traces that a completed purge did not find, where they are in the traces folder of this process.

    Raises:
        StoreRefused: the job does not exist, or is not completed.
        CannotWrite: the traces cannot be written.
    """
    store.read(lambda tx: get_receipt(tx, job_id))
    with store.keyring.lock_purges(wait=True):
        _remove_pending_traces(store, job_id)
    return store.read(lambda tx: get_receipt(tx, job_id))


class RemainingTraces:
    """Removes the traces that other processes did not find when they purged, for a process that calls models."""

    def __init__(self) -> None:
        self._searched: set[tuple[str, int]] = set()  # Jobs, and how long their lists of traces were.

    def remove(self, store: Store) -> None:
        """Look once for the traces of each job in the traces folder of this process, unless another process purges.

        Traces that cannot be removed now are looked for again in the next call.
        """
        rows = store.read(lambda tx: tx.fetch_all(_REMAINING_TRACES))
        waiting = [row for row in rows if (row.id, row.size) not in self._searched]
        if not waiting:
            return
        with store.keyring.lock_purges(wait=False) as alone:
            for row in waiting if alone else ():
                with suppress(TraceForgeError):
                    _remove_pending_traces(store.of_project(row.project_id), row.id)
                    self._searched.add((row.id, row.size))


def _remove_pending_traces(store: Store, job_id: str) -> None:
    """For a completed job, and a process that holds the lock of the keyring."""
    job = store.read(lambda tx: tx.load(purge_jobs, _KIND, job_id))
    traces = _pending_traces(job)
    removed = _remove_traces(store, traces)
    if removed:
        store.write(lambda tx: _note_traces(tx, job, removed, set(traces) - removed))


def _pending_traces(job: AnyRow) -> list[str]:
    return decode_json(job.pending or "[]", list[str])


def _remove_traces(store: Store, traces: list[str]) -> frozenset[str]:
    """Remove traces from the traces folder of this process; those that were there."""
    if not traces:
        return frozenset()
    store.models.drain_traces()
    return purge_traces(store.models.traces_dir, traces).ids


def _note_traces(tx: StoreTransaction, job: AnyRow, removed: Collection[str], pending: Collection[str]) -> None:
    """Add removed traces to the receipt of a job, and store which of its traces were not found.

    A crash between removing a trace and this leaves it among those that were not found, never the other way round.
    """
    own = receipts.c.id == job.receipt_id
    row = tx.fetch_one(select(receipts.c.removed).where(own))
    assert row is not None, "a job that removes traces has a receipt"
    groups = decode_json(row.removed, list[Removed])
    others = [group for group in groups if group.kind != _TRACE]
    # A job that is not completed may be of an earlier version, whose receipt counted every trace in advance.
    before = [group for group in groups if group.kind == _TRACE and job.status == Progress.COMPLETED.value]
    count = sum(group.count for group in before) + len(removed)
    ids = [trace_id for group in before for trace_id in group.ids]
    if count:
        others.append(replace(count_removed(_TRACE, [*ids, *removed]), count=count))
    tx.execute(update(receipts).where(own).values(removed=encode_json(others).decode()))
    pending_ids = encode_json(sorted(pending)).decode() if pending else None
    tx.execute(update(purge_jobs).where(purge_jobs.c.id == job.id).values(pending=pending_ids))


def _commit_purge(store: Store, job_id: str) -> None:
    try:
        store.write(lambda tx: _purge_content(tx, store.keyring, job_id))
    except BrokenSeal:
        failed = {"status": Progress.FAILED.value, "error_code": _DAMAGED, "completed_at": now_text()}
        store.write(lambda tx: tx.execute(update(purge_jobs).where(purge_jobs.c.id == job_id).values(failed)))
        raise
    except StoreUnavailable as exc:
        if not exc.outcome_unknown:
            raise
        if store.read(lambda tx: tx.load(purge_jobs, _KIND, job_id)).receipt_id is None:
            raise


def _purge_content(tx: StoreTransaction, keyring: Keyring, job_id: str) -> None:
    """Step 2. Its commit is the point of no return; before it, nothing has changed."""
    tx.require_durable_commit()  # The old key goes after the commit, so the commit must be on the disk.
    own = select(projects.c.generation).where(projects.c.id == tx.project_id)
    project = tx.fetch_one(own.with_for_update(key_share=True))
    if project is None:
        raise not_found("project", tx.project_id)
    job = tx.load(purge_jobs, _KIND, job_id)
    if job.receipt_id is not None or job.status not in _UNFINISHED:
        return
    reach = _find_reach(tx, decode_json(job.targets, list[str]))
    generation: int = project.generation + 1 if reach else project.generation
    receipt_id = new_id("pur")
    removed: list[Removed] = []
    invalidated: list[Removed] = []
    if reach:
        keyring.add_key(tx.project_id, generation)
        removed, invalidated = remove_content(tx, reach, receipt_id)
        rewrap_keys(tx, generation)
        tx.execute(update(projects).where(projects.c.id == tx.project_id).values(generation=generation))
    receipt = {
        "id": receipt_id,
        "project_id": tx.project_id,
        "purge_job_id": job_id,
        "removed": encode_json(removed).decode(),
        "invalidated": encode_json(invalidated).decode(),
        "generation": generation,
        "created_at": now_text(),
    }
    tx.execute(insert(receipts), [receipt])
    changed = {
        "status": Progress.RUNNING.value,
        "old_generation": project.generation,
        "new_generation": generation,
        "pending": encode_json(sorted(reach.traces)).decode(),
        "receipt_id": receipt_id,
    }
    tx.execute(update(purge_jobs).where(purge_jobs.c.id == job_id).values(changed))


def _find_reach(tx: StoreTransaction, targets: list[str]) -> PurgeReach:
    unpurged: dict[str, list[str]] = {"art": [], "evt": [], "ses": []}
    for target in targets:
        if _find_receipt(tx, target, "targets") is None:
            unpurged[target.partition("_")[0]].append(target)
    return find_reach(tx, unpurged["art"], unpurged["evt"], unpurged["ses"])


def _find_receipt(tx: StoreTransaction, target: str, param: str) -> str | None:
    """The receipt of an earlier purge of this target; None where it still has content, also if it was deleted.

    Raises:
        StoreRefused: it does not exist, or is of a kind that cannot be purged.
    """
    kind = _TARGETS.get(target.partition("_")[0])
    if kind is None:
        raise StoreRefused(
            "only artifacts (art_…), events (evt_…) and sessions (ses_…) can be purged",
            reason="invalid_target",
            param=param,
            hint="Everything that was derived from them is purged with them.",
        )
    table, name = kind
    row = tx.find(table, target)
    if row is None:
        raise not_found(name, target, param)
    return cast("str | None", row.purged_by)


def _job(tx: StoreTransaction, row: AnyRow) -> PurgeJob:
    return PurgeJob(
        id=row.id,
        status=Progress(row.status),
        targets=decode_json(row.targets, list[str]),
        reason=tx.sealer.open_text("purge_jobs", row),
        receipt_id=row.receipt_id,
        error_code=row.error_code,
        created_at=row.created_at,
        completed_at=row.completed_at,
    )
