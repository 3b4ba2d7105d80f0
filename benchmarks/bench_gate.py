"""`traceforge test` without a command: a tree of 1,000 approved calls, against `traceforge verify`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Row, at_most, run
from traceforge.clock import now
from traceforge.snapshots.approve.tree_commit import SnapshotChange, commit_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.proposals import make_call, propose

COMMAND = str(Path(sys.executable).parent / "traceforge")
COUNT = 1_000
GOAL = 1.5


def write_project(folder: str) -> None:
    """A project with approved calls: records, raw responses, a manifest and an approval."""
    calls = (make_call(f"What is the capital of country {number}? " * 20, number=number) for number in range(COUNT))
    changes = propose(*calls).changes
    if len(changes) != COUNT:
        sys.exit(f"benchmark: {len(changes)} calls were made, and not {COUNT}")
    written = [
        SnapshotChange(change.provider, change.id, change.record, change.raw_response_text.encode())
        for change in changes
    ]
    commit_changes(folder, ModelPolicy(), written, reason="a benchmark", now=now())


def rows() -> Iterator[Row]:
    """Every comparison."""
    before = os.getcwd()
    with TemporaryDirectory() as folder:
        write_project(folder)
        os.chdir(folder)
        try:
            yield at_most(
                f"test without a command, {COUNT:,} snapshots",
                lambda: run([COMMAND, "test"]),
                lambda: run([COMMAND, "verify"]),
                peer_name="traceforge verify",
                goal=GOAL,
                rounds=9,
            )
        finally:
            os.chdir(before)
