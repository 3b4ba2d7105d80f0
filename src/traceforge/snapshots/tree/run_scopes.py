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

COMMAND_PREFIX = "$ "  # Begins the scope of a command.
_PYTHON = r"python[0-9.]*(?:\.exe)?"


def command_scope(words: Sequence[str]) -> str:
    """The scope of what a command asks outside of tests: the same for every interpreter and its place."""
    program = os.path.basename(words[0])
    return COMMAND_PREFIX + shlex.join(["python" if re.fullmatch(_PYTHON, program) else program, *words[1:]])


def is_test_scope(scope: str) -> bool:
    """Is it a test, and not a command?"""
    return bool(scope) and not scope.startswith(COMMAND_PREFIX)


class RunScopes:
    """The tests of a run. `folders` are where node ids may begin: where the command ran, and the project."""

    def __init__(self, has_run: Collection[str], folders: Sequence[str]) -> None:
        self._ran = frozenset(has_run)
        self._folders = folders
        self._test_folders = {
            os.path.dirname(_file_of(scope))
            for scope in has_run
            if is_test_scope(scope) and self._find_file(_file_of(scope))
        }
        self._is_gone = lru_cache(None)(self._is_removed_test)

    def has_run(self, scope: str) -> bool:
        """Did it run?"""
        return scope in self._ran

    def is_removed(self, scope: str) -> bool:
        """Was it deleted, or given another name?"""
        return is_test_scope(scope) and scope not in self._ran and self._is_gone(scope)

    def _is_removed_test(self, scope: str) -> bool:
        file, _, node = scope.partition("::")
        path = self._find_file(file)
        if not path:  # Gone, if tests of the same folder ran: otherwise the name may begin somewhere else.
            return os.path.dirname(file) in self._test_folders
        name = node.rpartition("::")[2].partition("[")[0]
        try:
            text = read_file(path).decode(errors="replace")
        except CannotRead:
            return False
        return bool(name) and re.search(rf"\b{re.escape(name)}\b", text) is None

    def _find_file(self, file: str) -> str:
        paths = (os.path.join(folder, file) for folder in self._folders)
        return next((path for path in paths if os.path.isfile(path)), "")


def _file_of(scope: str) -> str:
    return scope.partition("::")[0]


def narrow_command(words: Sequence[str], scopes: Sequence[str]) -> list[str]:
    """The command for the tests in which something was found: pytest is given their node ids alone."""
    index = next(
        (position for position, word in enumerate(words) if os.path.basename(word) in ("pytest", "py.test")), None
    )
    if index is None or not scopes:
        return list(words)
    other_words = [word for word in words[index + 1 :] if word.startswith("-") or not _is_test_path(word)]
    return [*words[: index + 1], *other_words, *scopes]


def _is_test_path(word: str) -> bool:
    return os.path.exists(word.partition("::")[0])
