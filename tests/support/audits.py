"""Runs of `traceforge audit vcr` on a suite."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.command import CommandResult, traceforge

NOT_WRITTEN = ("-p", "no:cacheprovider")


def audit(
    project: Path, *options: str, python: str | Path = sys.executable, words: tuple[str, ...] = ()
) -> CommandResult:
    command = [str(python), "-m", "pytest", "-q", *NOT_WRITTEN, *words]
    return traceforge("audit", "vcr", *options, "--", *command, cwd=project, PYTHONDONTWRITEBYTECODE="1")


def report_of(ran: CommandResult) -> dict[str, object]:
    return json.loads(ran.err)
