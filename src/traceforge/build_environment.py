"""The environment variables that the verdict of a run depends on, and whether the run is a build of a CI service.

In: the variables of this process. Out: the same, or those of an earlier moment: the pytest plugin shares its process
with the project's code, so it reads them when it is loaded and freezes them before that code runs. Never: lets code
that runs later, such as a `conftest.py`, decide what is compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

NOT_CI = frozenset({"", "0", "false"})  # values of CI, in lower case, with which a run is none of a CI service

_frozen: list[Mapping[str, str]] = []  # the last one counts


def build_environment() -> Mapping[str, str]:
    """The variables to judge by: those that were frozen, else those of this process."""
    return _frozen[-1] if _frozen else os.environ


def is_ci(environ: Mapping[str, str] | None = None) -> bool:
    """Whether this is a build of a CI service: approved files are written on a developer's machine only."""
    value = (build_environment() if environ is None else environ).get("CI", "")
    return value.strip().lower() not in NOT_CI


def find_ci_refusal(command: str) -> str:
    """Why a command that writes what is approved is refused in a build of a CI service; "" if this is none."""
    if not is_ci():
        return ""
    return f"`traceforge {command}` writes files, and CI is set. Run it on your machine and commit the result."


@contextmanager
def frozen_environment(environ: Mapping[str, str]) -> Iterator[None]:
    """Judge by these variables in the meantime, even if those of the process change."""
    _frozen.append(environ)
    try:
        yield
    finally:
        _frozen.remove(environ)
