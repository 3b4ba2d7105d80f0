"""SIGKILL at every write of an approval: the tree is the old or the new one, never a part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import support.approval_crash

POINTS_MIN = 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("steps", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_a_killed_approval_leaves_the_old_or_the_new_tree(tmp_path: Path, steps: int) -> None:
    """Killed at every call that reaches the disk; the processes that finish the work are killed as well."""
    completed = subprocess.run(
        [sys.executable, "-m", "support.approval_crash", tmp_path, str(steps)],
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
