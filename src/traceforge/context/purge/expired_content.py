"""Purges ephemeral artifacts whose time is over, with everything made from them.

In: a store. Out: a purge job for each project with such artifacts, each with a receipt. Never: a job without targets.
A server's janitor calls this; in a process without one, every use of the store does (`ExpiryWatch`).
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import select, update

from traceforge.clock import now, now_text, timestamp_text
from traceforge.context.model.inputs import NewPurge
from traceforge.context.model.objects import Progress, PurgeJob
from traceforge.context.project_store import Store
from traceforge.context.purge.purge_jobs import continue_purge_job, create_purge_job, get_purge_job
from traceforge.context.storage.leases import seconds_ago
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.context.storage.tables import artifacts, purge_jobs
from traceforge.conversion import encode_json
from traceforge.errors import TraceForgeError

REASON = "expired: the retention class is ephemeral"
TARGETS_MAX = 1000  # Of one job, as of one that a caller creates.
CHECK_SECONDS = 1.0  # How often a store in use is asked at most.
RETRY_SECONDS = 3600.0  # After a job that failed: its store is damaged, and each try stops the project's writers.


def purge_expired(store: Store, *, at_once: bool = False) -> list[PurgeJob]:
    """Purge what has expired in every project, unless another process purges at this moment.

    A project that cannot be purged does not keep the others from it. Its job is continued by the next call; one that
    failed is tried again after an hour, or `at_once`.

    Raises:
        StoreUnavailable: the database was lost, or a row cannot be decrypted. A job that was created continues later.
        CannotWrite: the keyring or the traces cannot be written.
    """
    if not store.read(_find_expired):
        return []
    jobs: list[PurgeJob] = []
    failures: dict[str, TraceForgeError] = {}
    finished_projects = set[str]()
    with store.keyring.lock_purges(wait=False) as alone:
        while alone and (targets := store.read(lambda tx: _find_expired(tx, finished_projects))):
            for project_id, artifact_ids in targets.items():
                try:
                    job = _purge_artifacts(store.of_project(project_id), artifact_ids, at_once=at_once)
                except TraceForgeError as exc:
                    failures[project_id] = exc
                    job = None
                if job is None:
                    finished_projects.add(project_id)
                else:
                    jobs.append(job)
    for failure in failures.values():
        raise failure
    return jobs


def _purge_artifacts(store: Store, artifact_ids: list[str], *, at_once: bool) -> PurgeJob | None:
    """Purge artifacts of a project; None where that has failed, and it is too early to try again."""
    job_id = store.write(lambda tx: _find_job(tx, artifact_ids, at_once=at_once))
    if job_id is None:
        return None
    continue_purge_job(store, job_id)
    return store.read(lambda tx: get_purge_job(tx, job_id))


def _find_job(tx: StoreTransaction, artifact_ids: list[str], *, at_once: bool) -> str | None:
    """The job of these artifacts that an earlier call left, or a new one: a call that fails leaves one, not many."""
    unfinished_jobs = select(purge_jobs.c.id, purge_jobs.c.status, purge_jobs.c.completed_at).where(
        purge_jobs.c.project_id == tx.project_id,
        purge_jobs.c.status != Progress.COMPLETED.value,
        purge_jobs.c.targets == encode_json(artifact_ids).decode(),
    )
    for row in tx.fetch_all(unfinished_jobs.order_by(purge_jobs.c.seq.desc()).limit(1)):
        if row.status == Progress.FAILED.value:
            if not at_once and row.completed_at > seconds_ago(RETRY_SECONDS):
                return None
            queued = {"status": Progress.QUEUED.value, "error_code": None, "completed_at": None}
            tx.execute(update(purge_jobs).where(purge_jobs.c.id == row.id).values(queued))
        return str(row.id)
    return create_purge_job(tx, NewPurge(targets=artifact_ids, reason=REASON)).id


def _find_expired(tx: StoreTransaction, without: Collection[str] = ()) -> dict[str, list[str]]:
    """Expired artifacts that were not purged, by project; `without` are projects to leave out."""
    is_expired = (artifacts.c.expires_at <= now_text(), artifacts.c.purged_by.is_(None))
    others = artifacts.c.project_id.not_in(sorted(without))
    columns = select(artifacts.c.id, artifacts.c.project_id).where(*is_expired, others)
    expired: dict[str, list[str]] = {}
    for row in tx.fetch_all(columns.order_by(artifacts.c.seq).limit(TARGETS_MAX)):
        expired.setdefault(row.project_id, []).append(row.id)
    return expired


class ExpiryWatch:
    """Purges what has expired when a store is used in a process without a janitor."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checked = ("", "")  # From when until when the last check is good for.

    def purge_if_due(self) -> None:
        """Purge what has expired, asking the database once a second at most; again where the clock was set back.

        A purge that fails does not fail the call that it precedes: an expired artifact cannot be read anyway.
        """
        since, until = self._checked
        if since <= now_text() < until:
            return
        self._checked = (now_text(), timestamp_text(now() + timedelta(seconds=CHECK_SECONDS)))
        with suppress(TraceForgeError):
            purge_expired(self._store)
