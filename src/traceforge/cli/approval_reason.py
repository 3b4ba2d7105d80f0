"""The option `--reason`: a reason that says something."""

from __future__ import annotations

import click

from traceforge.snapshots.approve.reason_check import REASON_HINT, find_reason_problem


def check_reason(reason: str | None) -> str:
    """The reason without white space around it.

    Raises:
        click.UsageError: there is none, or it says nothing.
    """
    if reason is None:
        raise click.UsageError(f"Missing option '--reason': {REASON_HINT}")
    if problem := find_reason_problem(reason):
        raise click.BadParameter(problem, param_hint="--reason")
    return reason.strip()
