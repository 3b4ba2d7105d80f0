"""Run a command with a pseudo-terminal behind its standard error, and read both of its streams."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tty
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Progress is shown at once, so that a test needs no work that takes a second.
IMPATIENT = "import traceforge.cli.progress as p; p.SHOWN_AFTER_S = p.REPAINTED_AFTER_S = 0.0; "
COMMAND_LINE = "import sys; from traceforge.cli.main import main; main(sys.argv[1:])"


class TerminalResult(NamedTuple):
    """What a command wrote: to a pipe, and to the terminal."""

    code: int
    out: str
    terminal: str


def run_on_terminal(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None, is_patient: bool = False
) -> TerminalResult:
    """Run a command of TraceForge with stderr on a terminal; impatient unless `is_patient`."""
    leader, follower = pty.openpty()
    tty.setraw(follower)  # Bytes come as they were written.
    program = COMMAND_LINE if is_patient else IMPATIENT + COMMAND_LINE
    variables = {name: value for name, value in os.environ.items() if name not in ("CI", "TERM")}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program, *arguments], cwd=cwd, env={**variables, **(environ or {})},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=follower,
    ) as process:  # fmt: skip
        os.close(follower)
        printed = b"".join(iter(lambda: _read_from(leader), b""))
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(leader)
    return TerminalResult(process.returncode, out.decode(), printed.decode())


def _read_from(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # The other side is closed.
        return b""
