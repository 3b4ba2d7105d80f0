"""Purges ephemeral artifacts whose time is over, with everything made from them.

In: a store. Out: a purge job for each project with such artifacts, each with a receipt. Never: a job without targets.
A server's janitor calls this; in a process without one, every use of the store does (`ExpiryWatch`).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from sqlalchemy import select

from traceforge.clock import now, now_text, timestamp_text
from traceforge.context.model.inputs import NewPurge
from traceforge.context.model.objects import PurgeJob
from traceforge.context.project_store import Store
from traceforge.context.purge.purge_jobs import continue_purge_job, create_purge_job, get_purge_job
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.context.storage.tables import artifacts
from traceforge.errors import TraceForgeError

REASON = "expired: the retention class is ephemeral"
TARGETS_MAX = 1000  # Of one job, as of one that a caller creates.
CHECK_SECONDS = 1.0  # How often a store in use is asked at most.


def purge_expired(store: Store) -> list[PurgeJob]:
    """Purge what has expired in every project, unless another process purges at this moment.

    Raises:
        StoreUnavailable: the database was lost, or a row cannot be decrypted. A job that was created continues later.
        CannotWrite: the keyring or the traces cannot be written.
    """
    if not store.read(_find_expired):
        return []
    jobs: list[PurgeJob] = []
    with store.keyring.lock_purges(wait=False) as alone:
        while alone and (targets := store.read(_find_expired)):
            for project_id, artifact_ids in targets.items():
                jobs.append(_purge_artifacts(store.of_project(project_id), artifact_ids))
    return jobs


def _purge_artifacts(store: Store, artifact_ids: list[str]) -> PurgeJob:
    job = store.write(lambda tx: create_purge_job(tx, NewPurge(targets=artifact_ids, reason=REASON)))
    continue_purge_job(store, job.id)
    return store.read(lambda tx: get_purge_job(tx, job.id))


def _find_expired(tx: StoreTransaction) -> dict[str, list[str]]:
    """Expired artifacts that were not purged, by project."""
    is_expired = (artifacts.c.expires_at <= now_text(), artifacts.c.purged_by.is_(None))
    expired: dict[str, list[str]] = {}
    for row in tx.fetch_all(
        select(artifacts.c.id, artifacts.c.project_id).where(*is_expired).order_by(artifacts.c.seq).limit(TARGETS_MAX)
    ):
        expired.setdefault(row.project_id, []).append(row.id)
    return expired


class ExpiryWatch:
    """Purges what has expired when a store is used in a process without a janitor."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._check_at = ""

    def purge_if_due(self) -> None:
        """Purge what has expired, asking the database once a second at most.

        A purge that fails does not fail the call that it precedes: an expired artifact cannot be read anyway.
        """
        if now_text() < self._check_at:
            return
        self._check_at = timestamp_text(now() + timedelta(seconds=CHECK_SECONDS))
        with suppress(TraceForgeError):
            purge_expired(self._store)
