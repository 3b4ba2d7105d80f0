"""Scopes: who asks, and which of them are there no more.

A scope is a test, named by its node id, or a command, for what is asked outside of tests: `$ python agent.py hello`.

In: commands, node ids of tests that ran, and the folders they are named from. Out: the scope of a command; whether a
test still exists. Never: imports a test, or takes one for gone that merely did not run: where it cannot be told, it
is there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from functools import lru_cache

from traceforge.errors import CannotRead
from traceforge.files import read_file

RUN = "$ "  # Begins the scope of a command.
_PYTHON = r"python[0-9.]*(?:\.exe)?"


def run_scope(words: Sequence[str]) -> str:
    """The scope of what a command asks outside of tests: the same for every interpreter and its place."""
    program = os.path.basename(words[0])
    return RUN + shlex.join(["python" if re.fullmatch(_PYTHON, program) else program, *words[1:]])


def is_test(scope: str) -> bool:
    """Is it a test, and not a command?"""
    return bool(scope) and not scope.startswith(RUN)


class Scopes:
    """The tests of a run. `folders` are where node ids may begin: where the command ran, and the project."""

    def __init__(self, ran: Collection[str], folders: Sequence[str]) -> None:
        self._ran = frozenset(ran)
        self._folders = folders
        self._beside = {os.path.dirname(_file(scope)) for scope in ran if is_test(scope) and self._find(_file(scope))}
        self._is_gone = lru_cache(None)(self._look)

    def ran(self, scope: str) -> bool:
        """Did it run?"""
        return scope in self._ran

    def is_gone(self, scope: str) -> bool:
        """Was it deleted, or given another name?"""
        return is_test(scope) and scope not in self._ran and self._is_gone(scope)

    def _look(self, scope: str) -> bool:
        file, _, rest = scope.partition("::")
        found = self._find(file)
        if not found:  # Gone, if tests of the same folder ran: otherwise the name may begin somewhere else.
            return os.path.dirname(file) in self._beside
        name = rest.rpartition("::")[2].partition("[")[0]
        try:
            text = read_file(found).decode(errors="replace")
        except CannotRead:
            return False
        return bool(name) and re.search(rf"\b{re.escape(name)}\b", text) is None

    def _find(self, file: str) -> str:
        paths = (os.path.join(folder, file) for folder in self._folders)
        return next((path for path in paths if os.path.isfile(path)), "")


def _file(scope: str) -> str:
    return scope.partition("::")[0]


def narrowed(words: Sequence[str], scopes: Sequence[str]) -> list[str]:
    """The command for the tests in which something was found: pytest is given their node ids alone."""
    place = next((n for n, word in enumerate(words) if os.path.basename(word) in ("pytest", "py.test")), None)
    if place is None or not scopes:
        return list(words)
    kept = [word for word in words[place + 1 :] if word.startswith("-") or not _is_test_path(word)]
    return [*words[: place + 1], *kept, *scopes]


def _is_test_path(word: str) -> bool:
    return os.path.exists(word.partition("::")[0])
