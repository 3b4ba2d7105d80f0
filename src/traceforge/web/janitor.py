"""What a server does beside its requests.

In: a store. Out: replay runs that nobody works on are worked on, here; what was recorded of models becomes files.
Never: holds a request up, or ends because the database cannot be reached for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from traceforge.context.store import Store
from traceforge.errors import TraceForgeError

EVERY_S = 5.0


@contextmanager
def going_on(store: Store, every_s: float = EVERY_S) -> Iterator[None]:
    """Look after all projects of the database while the block runs, the first time at once."""
    over = threading.Event()

    def work() -> None:
        while True:
            with suppress(TraceForgeError):
                look_after(store)
            if over.wait(every_s):
                return

    thread = threading.Thread(target=work, name="traceforge-janitor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def look_after(store: Store) -> None:
    """Once."""
    after = None
    while True:
        page = store.list_projects(limit=100, after=after)
        for project in page.data:
            store.of_project(project.id).resume_replay_runs()
        if not page.has_more:
            break
        after = page.data[-1].id
    store.models.settle()
