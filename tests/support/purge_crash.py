"""Kill a purge before each change that it makes, and check that the purge can be finished.

Run as a program, in the folder of the tests:

    python -m support.purge_crash TARGET KEYS TRACES FIRST EVERY

It fills a project, forks a process that purges half of it and is killed (SIGKILL) before its N-th change, lets
another store finish the purge, and checks that all of the purged half is gone and all of the other half remains. It
repeats this for N = FIRST, FIRST + EVERY, … until a purge completes. A change is a statement or a commit sent to the
database, or a file that is opened for writing, written, synced, linked, renamed or removed. Prints how many purges
were killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from support.context_builders import append_event, branch_ids, list_all_events, new_artifact, new_session
from support.operation_store import Store
from support.purge_rows import insert_idempotent_response, insert_response, search_files, trace_with_text
from traceforge.context.model.inputs import NewProject, NewPurge, NewSnapshot
from traceforge.errors import ContentPurged
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_store import TraceStore

_CHANGES = frozenset(("os.rename", "os.link", "os.remove", "os.truncate"))
_WRITES = os.O_WRONLY | os.O_RDWR


def die_at_change(number: int, store: Store) -> None:
    """Kill this process before its N-th change from now on."""
    steps_left = [number]

    def change() -> None:
        steps_left[0] -= 1
        if not steps_left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(name: str, arguments: tuple[Any, ...]) -> None:
        if name in _CHANGES or (name == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES):
            change()

    for each in ("write", "fsync"):
        setattr(os, each, _counted(getattr(os, each), change))
    event.listen(store.database.engine, "before_cursor_execute", lambda *_: change())
    event.listen(store.database.engine, "commit", lambda *_: change())
    sys.addaudithook(audit)


def _counted(real: Callable[..., Any], change: Callable[[], None]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        change()
        return real(*arguments)

    return counted


class Case:
    """A project of which one half is purged."""

    def __init__(self, shared: Store, traces: Path, number: int) -> None:
        self.marker = f"Wq{number:04}-Löwenzahn-Xy"
        self.store = shared.of_project(shared.create_project(NewProject(name=f"case {number}")).id)
        purged, remaining = trace_with_text(self.marker), trace_with_text("neighbour")
        writer = SpoolWriter(str(traces))
        for stored in (purged, remaining):
            writer.append(stored)
        writer.seal()
        self.trace_ids = purged.summary.id, remaining.summary.id
        self.artifact = new_artifact(self.store, self.marker)
        self.talk, self.other = new_session(self.store), new_session(self.store, "base")
        appended = append_event(self.store, self.talk, self.marker)
        snapshot = self.store.create_snapshot(*branch_ids(self.talk), NewSnapshot())
        insert_response(self.store, snapshot.id, self.marker, trace_id=purged.summary.id)
        insert_idempotent_response(self.store, "/events", "key", appended, self.talk.id, appended.id)
        self.kept = append_event(self.store, self.other, "kept")
        self.snapshot = self.store.create_snapshot(*branch_ids(self.other), NewSnapshot())
        ring = json.loads(Path(self.store.keyring.path).read_bytes())
        self.old_key = ring["keys"][self.store.project_id]["1"]

    def purge(self) -> None:
        """Purge one half, in a process that may be killed."""
        self.store.create_purge_job(NewPurge(targets=[self.artifact.id, self.talk.id]))

    def check(self, folders: list[Path]) -> None:
        """Either one half is purged completely or no job was stored; the other half is there."""
        jobs = self.store.list_purge_jobs().data
        assert [self.kept] == list_all_events(self.store, self.other)
        assert self.snapshot == self.store.get_snapshot(self.snapshot.id)
        assert [] == self.store.verify().problems
        if not jobs:
            assert self.marker.encode() == self.store.get_artifact_content(self.artifact.id).data
            self.purge()
            jobs = self.store.list_purge_jobs().data
        assert ["completed"] == [job.status for job in jobs]
        receipt = self.store.get_receipt(jobs[0].id)
        assert 2 == receipt.generation == self.store.get_project().generation
        assert [2] == self.store.keyring.generations(self.store.project_id)
        for read in (lambda: self.store.get_artifact(self.artifact.id), lambda: self.store.get_session(self.talk.id)):
            with pytest.raises(ContentPurged, match=receipt.id):
                read()
        assert [] == search_files(self.marker, *folders)
        assert [] == search_files(self.old_key, *folders)
        traces = TraceStore(str(self.store.models.traces_dir))
        traces.update_index()
        assert {self.trace_ids[1]} == {row.summary.id for row in traces.list_rows()} & set(self.trace_ids)
        traces.close()


def purge_until_killed(shared: Store, case: Case, number: int) -> bool:
    """Purge in a process that is killed at the N-th change; whether it was killed."""
    child = os.fork()
    if not child:
        ended = 1
        try:
            die_at_change(number, shared)
            case.purge()
            ended = 0
        finally:
            os._exit(ended)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "the purge failed by itself"
    return os.WIFSIGNALED(status)


def main(target: str, keys: str, traces: str, first: int, every: int) -> int:
    """Kill purges until one completes; returns the number of kills."""
    killed, number = 0, first
    folders = [Path(keys).parent, Path(traces)]
    while True:
        with closing(Store.open(target, keys=keys, traces_dir=traces)) as shared:
            case = Case(shared, Path(traces), number)
            was_killed = purge_until_killed(shared, case, number)
        with closing(Store.open(target, keys=keys, traces_dir=traces)) as reopened:
            case.store = reopened.of_project(case.store.project_id)
            case.check(folders)
        if not was_killed:
            return killed
        killed += 1
        number += every


if __name__ == "__main__":
    sys.stdout.write(f"{main(*sys.argv[1:4], *map(int, sys.argv[4:6]))}\n")
