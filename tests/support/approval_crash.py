"""Kill an approval at every system call that writes to disk, and check what is left.

Run as a program: `python -m support.approval_crash FOLDER STEPS [ROUND]`. Each of several approvals runs in a child
process that is killed with SIGKILL before, during or after its n-th system call. The program then finishes the
interrupted approval (and kills that too, at another place in each round), and compares the tree byte for byte with
the tree before and after the approval. It prints one JSON object.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.approval_project import record_change
from support.sample_files import raw_error_response
from traceforge.snapshots.approve.tree_commit import SnapshotChange, commit_changes
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.tree.tree_transaction import finish_interrupted_approval
from traceforge.snapshots.tree.tree_verification import verify_tree

ROUNDS = 31  # So many places at which the process that finishes an approval is killed.
CALLS = ("open", "fsync", "replace", "unlink", "mkdir", "rmdir", "close")

REMOVALS = [SnapshotChange("", name, None, None) for name in ("one", "two", "oops", "many0", "many1", "many2")]
STEPS: list[list[SnapshotChange]] = [
    [record_change("one")],
    [record_change("two"), SnapshotChange("openai", "oops", None, raw_error_response())],
    [record_change("one", "Changed."), SnapshotChange("openai", "oops", None, raw_error_response("Other"))],
    [*(record_change(f"many{number}") for number in range(3)), SnapshotChange("", "two", None, None)],
    [record_change("two", "Back."), record_change("one", provider="corp")],
    REMOVALS,
]


class Killer:
    """Kills this process at its n-th step; a step is a point before, during or after a system call."""

    def __init__(self, at: int) -> None:
        self.steps = 0
        self._at = at

    def step(self) -> None:
        """Count one step, and die at the chosen one."""
        self.steps += 1
        if self.steps == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def patch(self) -> None:
        """Count every system call that changes the disk."""
        for name in CALLS:
            setattr(os, name, self._around(getattr(os, name)))
        real = os.fdopen
        os.fdopen = lambda *arguments, **named: _File(real(*arguments, **named), self)  # type: ignore[assignment]

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.step()
            answer = real(*arguments, **named)
            self.step()
            return answer

        return call


class _File:
    """A file that is written in two halves, with a step in between."""

    def __init__(self, real: Any, killer: Killer) -> None:
        self._real, self._killer = real, killer

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def write(self, data: bytes) -> None:
        self._real.write(data[: len(data) // 2])
        self._real.flush()
        self._killer.step()
        self._real.write(data[len(data) // 2 :])


def read_tree(project: Path) -> dict[str, bytes]:
    """Every file of the snapshot tree with its bytes, hidden files included."""
    root = project / ".ai-snapshots"
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def approve(project: Path, number: int) -> None:
    """Approve the changes of one step, at the same time in every run."""
    now = datetime(2026, 1, 10, 9, number, tzinfo=UTC)
    commit_changes(str(project), ModelPolicy(), STEPS[number], reason="as agreed", now=now)


def kill_at_step(at: int, act: Callable[[], object]) -> bool:
    """Run `act` in a child that dies at its n-th step. False if it finished before that step."""
    child = os.fork()
    if child == 0:
        Killer(at).patch()
        try:
            act()
            os._exit(0)
        except BaseException:  # noqa: BLE001 (the parent is told)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert 0 == os.WEXITSTATUS(status), "the child failed by itself"
    return False


class Run:
    """Kills every step at every kill point, and counts the outcomes."""

    def __init__(self, folder: Path, kill_round: int) -> None:
        self._round = kill_round
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._before, self._victim = folder / "before", folder / "victim"
        self._before.mkdir()

    def step(self, number: int) -> None:
        """Kill one approval at every kill point, then let it finish."""
        old = read_tree(self._before)
        self._renew()
        approve(self._victim, number)
        new = read_tree(self._victim)
        at = 1
        while self._kill(number, at):
            self._judge(f"step {number}, kill {at}", at, old, new)
            if at % 10 == 0:
                self._try_again(number, at, new)
            at += 1
        shutil.rmtree(self._before)
        shutil.copytree(self._victim, self._before)

    def _renew(self) -> None:
        shutil.rmtree(self._victim, ignore_errors=True)
        shutil.copytree(self._before, self._victim)

    def _kill(self, number: int, at: int) -> bool:
        self._renew()
        return kill_at_step(at, lambda: approve(self._victim, number))

    def _judge(self, where: str, at: int, old: dict[str, bytes], new: dict[str, bytes]) -> None:
        journal = self._victim / ".ai-tests/approve.journal"
        self.counts["killed"] += 1
        if journal.exists():  # Whoever finishes it may die too, at another place each time.
            again_at = (at + self._round) % ROUNDS + 1
            is_killed_again = kill_at_step(again_at, lambda: finish_interrupted_approval(str(self._victim)))
            self.counts["killed again"] += is_killed_again
        finish_interrupted_approval(str(self._victim))
        tree = read_tree(self._victim)
        self.counts["new" if tree == new else "old"] += 1
        if tree not in (old, new):
            self.problems.append(f"{where}: neither old nor new, differs in {sorted(set(tree) ^ set(new))}")
        if tree and verify_tree(str(self._victim / ".ai-snapshots"), ModelPolicy()).findings:
            self.problems.append(f"{where}: verify is not green")
        if journal.exists():
            self.problems.append(f"{where}: the journal is still there")

    def _try_again(self, number: int, at: int, new: dict[str, bytes]) -> None:
        """An interrupted approval does not block the next approval and leaves nothing behind."""
        self._kill(number, at)
        finish_interrupted_approval(str(self._victim))
        if read_tree(self._victim) != new:
            approve(self._victim, number)
        if read_tree(self._victim) != new:
            self.problems.append(f"step {number}, kill {at}: approving again did not help")
        finish_interrupted_approval(str(self._victim))


def main(folder: Path, steps: int, kill_round: int = 0) -> None:
    """Print the counts and the problems."""
    os.fsync = lambda _: None  # type: ignore[assignment]  # A kill loses nothing that only the disk lacks.
    run = Run(folder, kill_round)
    for number in range(steps):
        run.step(number)
    print(json.dumps({**run.counts, "problems": run.problems}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
