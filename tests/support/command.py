"""Run the real `traceforge` command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

COMMAND = Path(sys.executable).parent / "traceforge"

# Plugins of our own tests that load themselves into every pytest here, for two seconds each time, and that no
# application of the tests uses.
PLAIN_PYTEST = {"PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:schemathesis"}


class CommandResult(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def traceforge(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> CommandResult:
    """Run the command in a clean environment; `variables` are added to it."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    result = subprocess.run(
        [str(COMMAND), *map(str, arguments)],
        cwd=cwd,
        env={**PLAIN_PYTEST, **environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return CommandResult(result.returncode, result.stdout.decode(), result.stderr.decode())
