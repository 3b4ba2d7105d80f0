"""What a server does beside its requests.

In: a store. Out: replay runs that nobody works on are worked on, here; purges whose process died are finished; what
was recorded of models becomes files. Never: holds a request up, or ends because something of it fails: whatever it
is, the others are done, and there is another time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from traceforge.context.api.project_operations import list_every_project
from traceforge.context.comparison.replay_worker import resume_replay_runs
from traceforge.context.project_store import Store
from traceforge.context.purge.purge_jobs import finish_purges
from traceforge.errors import TraceForgeError

EVERY_S = 5.0

ReportFailure = Callable[[Exception], object]


@contextmanager
def running_janitor(store: Store, every_s: float = EVERY_S, fail: ReportFailure = lambda _: None) -> Iterator[None]:
    """Look after all projects of the database while the block runs, the first time at once.

    `fail` is told of what should not have happened. A database that is away for a while is not such a thing.
    """
    over = threading.Event()

    def work() -> None:
        while True:
            for step in (_resume_runs, finish_purges, _settle):
                try:
                    step(store)
                except TraceForgeError:
                    continue
                except Exception as exc:  # noqa: BLE001 (a janitor that is gone is noticed by nobody)
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
    """Of every project."""
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
