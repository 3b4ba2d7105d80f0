"""Many processes that append to one branch at the same time; some of them are killed.

Run as a program, it is one writer process with several threads:

    python concurrent_writers.py TARGET KEYS PROJECT SESSION BRANCH NAME COUNT THREADS

Each thread appends its share of the events, each with a unique content. If an append fails with an unknown outcome,
the writer reads the branch before it repeats the append; so does a writer that takes over from a killed one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from support.operation_store import Store
from traceforge.context.model.inputs import Append, NewEvent
from traceforge.context.model.objects import Event, EventType
from traceforge.errors import BranchConflict, StoreUnavailable

RETRY_S = 120
PAUSE_S = 0.002
PAUSE_MAX_S = 0.1

T = TypeVar("T")
Ids = tuple[str, str, str]  # Project, session, branch.


def open_with_retries(target: str, keys: str, project: str) -> Store:
    """Open the store, even while its server restarts."""
    return retry_until_available(lambda: Store.open(target, keys=keys, project_id=project))


def retry_until_available(work: Callable[[], T]) -> T:
    """Retry `work` until the database can be reached."""
    deadline = time.monotonic() + RETRY_S
    while True:
        try:
            return work()
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Writer:
    """Appends each of its events once, despite other writers and lost connections."""

    def __init__(self, store: Store, session: str, branch: str, name: str) -> None:
        self.store, self.session, self.branch, self.name = store, session, branch, name
        self.last: str | None = None  # Everything up to here has been read.
        self.appended: set[str] = set()

    def run(self, count: int) -> None:
        """Append `count` events."""
        retry_until_available(self.read_new_events)  # Who was here before may have been killed.
        for number in range(count):
            tag = f"{self.name}-{number}"
            if tag not in self.appended:
                self.append(tag)

    def append(self, tag: str) -> None:
        """Append one event; retry after a conflict, and after a lost connection if the event was not written."""
        version, head = retry_until_available(self.read_head)
        event = NewEvent(event_type=EventType.USER_MESSAGE, content=tag)
        pause = PAUSE_S
        while True:
            try:
                body = Append(expected_version=version, expected_head_event_id=head, event=event)
                self.store.append_event(self.session, self.branch, body)
                return
            except BranchConflict as exc:
                version, head = exc.version, exc.head_event_id
                time.sleep(random.random() * pause)
                pause = min(pause * 2, PAUSE_MAX_S)
            except StoreUnavailable:
                retry_until_available(self.read_new_events)
                if tag in self.appended:
                    return
                version, head = retry_until_available(self.read_head)

    def read_head(self) -> tuple[int, str | None]:
        """The branch's current version and head."""
        now = self.store.get_branch(self.session, self.branch)
        return now.version, now.head_event_id

    def read_new_events(self) -> None:
        """Read the events since the last call."""
        while True:
            page = self.store.list_events(self.session, self.branch, limit=100, after=self.last)
            self.appended.update(str(event.content) for event in page.data)
            self.last = page.data[-1].id if page.data else self.last
            if not page.has_more:
                return


def start(target: str, keys: str, ids: Ids, name: str, count: int, threads: int) -> subprocess.Popen[bytes]:
    """Start a process with `threads` writers."""
    command = [sys.executable, __file__, target, keys, *ids, name, str(count), str(threads)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)


def run_all(target: str, keys: str, ids: Ids, *, processes: int, threads: int, each: int, kills: int = 0) -> int:
    """Let every process append its events; kill some at random and restart them. Returns the number of kills."""
    running = {number: start(target, keys, ids, f"w{number}", each, threads) for number in range(processes)}
    try:
        return _watch(running, lambda number: start(target, keys, ids, f"w{number}", each, threads), kills)
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def _watch(
    running: dict[int, subprocess.Popen[bytes]], restart: Callable[[int], subprocess.Popen[bytes]], kills: int
) -> int:
    killed = 0
    source = random.Random(kills)
    while running:
        time.sleep(0.02)
        for number, process in list(running.items()):
            if process.poll() is None:
                continue
            _, stderr = process.communicate()
            assert process.returncode in (0, -signal.SIGKILL), stderr.decode()[-2000:]
            del running[number]
            if process.returncode:
                running[number] = restart(number)
        if killed < kills and running and source.random() < 0.03:
            victim = source.choice(list(running.values()))
            if victim.poll() is None:
                os.kill(victim.pid, signal.SIGKILL)
                killed += 1
    return killed


def check_events(events: list[Event], expected: set[str]) -> None:
    """No event is lost or doubled, the sequence has no gap, and each event is the child of the one before."""
    contents = [str(event.content) for event in events]
    assert len(contents) == len(set(contents)), "an event is there twice"
    assert expected == set(contents)
    assert list(range(1, len(events) + 1)) == [event.sequence for event in events]
    assert [None, *(event.id for event in events[:-1])] == [event.parent_event_id for event in events]


def main(arguments: list[str]) -> None:
    """Run one writer process."""
    target, keys, project, session, branch, name, count, threads = arguments
    with closing(open_with_retries(target, keys, project)) as store, ThreadPoolExecutor(int(threads)) as pool:
        writers = [Writer(store, session, branch, f"{name}.{number}") for number in range(int(threads))]
        list(pool.map(lambda writer: writer.run(int(count) // int(threads)), writers))


if __name__ == "__main__":
    main(sys.argv[1:])
