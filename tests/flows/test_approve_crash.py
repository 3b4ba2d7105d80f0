"""SIGKILL at every write of an approval: the tree is the old or the new one, never a part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import support.approval_crash
from support.example_counts import lengthen, seeded_rounds

POINTS_MIN = 200

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def _kill_approvals(folder: Path, steps: int, kill_round: int = 0) -> int:
    """Kill approvals at every call that reaches the disk; how many."""
    completed = subprocess.run(
        [sys.executable, "-m", "support.approval_crash", folder, str(steps), str(kill_round)],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(support.approval_crash.__file__).parents[1]),
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
        },
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert 0 == completed.returncode, completed.stderr.decode()
    report = json.loads(completed.stdout)
    print(f"killed {report['killed']} approvals: {report['old']} old, {report['new']} new")  # noqa: T201

    assert [] == report["problems"]
    assert report["killed"] == report["old"] + report["new"] >= POINTS_MIN
    assert report["old"] > 50
    assert report["new"] > 50
    assert report["killed again"] > 50
    return int(report["killed"])


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 6])
def test_a_killed_approval_leaves_the_old_or_the_new_tree(tmp_path: Path, steps: int) -> None:
    """Killed at every call that reaches the disk; the processes that finish the work are killed as well."""
    _kill_approvals(tmp_path, steps)


@pytest.mark.soak
def test_an_approval_killed_twice_at_any_places_leaves_the_old_or_the_new_tree(
    tmp_path: Path, record_property: Any
) -> None:
    """In each round, the process that finishes an approval dies at another place; a full soak tries them all."""
    rounds = min(support.approval_crash.ROUNDS, lengthen(1))
    count = 0
    for number, _ in seeded_rounds(rounds):
        folder = tmp_path / str(number)
        folder.mkdir()
        count += _kill_approvals(folder, 6, number)

    record_property("summary", f"approvals: {count} killed in {rounds} rounds")
