"""A benchmark says a ratio, or fails: never a row left out."""

from __future__ import annotations

import subprocess
import sys

from support.corpus import PROJECT


def run(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run benchmarks/run.py, after some lines of Python."""
    program = f"{before}\nimport sys, runpy\nsys.argv = {['run.py', *arguments]!r}\n"
    program += "runpy.run_path('benchmarks/run.py', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_peer_that_is_missing_is_an_error() -> None:
    """Without the library to compare with, the run fails and says which one."""
    ran = run("canon", before="import sys; sys.modules['rfc8785'] = None")

    assert 0 != ran.returncode
    assert "rfc8785" in ran.stderr


def test_a_command_that_fails_is_an_error() -> None:
    """A peer process that does not run ends the benchmark with its name."""
    program = "import sys; sys.path.insert(0, 'benchmarks')\nimport harness\nharness.run(['false'])"

    ran = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=False)

    assert 0 != ran.returncode
    assert "false did not run" in ran.stderr


def test_an_unknown_benchmark_is_an_error() -> None:
    """A misspelt name runs nothing, which must not pass as a success."""
    ran = run("cannon")

    assert 0 != ran.returncode
    assert "there is no cannon" in ran.stderr
