"""Background work of a server: resume replay runs and purges whose process died, remove traces that a purge elsewhere
did not find, purge expired content, and write recorded traces to files.

Never: delays a request, or stops because one of its steps fails: the other steps run, and it is tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from traceforge.context.api.project_operations import list_every_project
from traceforge.context.comparison.replay_worker import resume_replay_runs
from traceforge.context.project_store import Store
from traceforge.context.purge.expired_content import purge_expired
from traceforge.context.purge.purge_jobs import RemainingTraces, finish_purges
from traceforge.errors import TraceForgeError

EVERY_S = 5.0

ReportFailure = Callable[[Exception], object]


@contextmanager
def running_janitor(store: Store, every_s: float = EVERY_S, fail: ReportFailure = lambda _: None) -> Iterator[None]:
    """Do the background work for all projects while the block runs, the first time at once.

    `fail` gets unexpected errors. A database that cannot be reached for a while is not one.
    """
    over = threading.Event()
    steps = (_resume_runs, finish_purges, RemainingTraces().remove, purge_expired, _settle)

    def work() -> None:
        while True:
            for step in steps:
                try:
                    step(store)
                except TraceForgeError:
                    continue
                except Exception as exc:  # noqa: BLE001 (a janitor that stopped would not be noticed)
                    fail(exc)
            if over.wait(every_s):
                return

    thread = threading.Thread(target=work, name="traceforge-janitor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _resume_runs(store: Store) -> None:
    """Resume the replay runs of every project."""
    after = None
    while True:
        page = list_every_project(store, 100, after)
        for project in page.data:
            resume_replay_runs(store.of_project(project.id))
        if not page.has_more:
            return
        after = page.data[-1].id


def _settle(store: Store) -> None:
    store.models.drain_traces()
