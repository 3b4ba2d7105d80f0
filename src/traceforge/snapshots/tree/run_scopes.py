"""Scopes: the test or command that makes a call, and which tests no longer exist.

A scope is the node id of a test, or, for calls outside of tests, a command: `$ python agent.py hello`.

In: commands, node ids of tests that ran, and the folders they are relative to. Out: the scope of a command; whether a
test was removed. Never: imports a test, or takes a test for removed that merely did not run: in doubt, it exists.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Sequence
from functools import lru_cache

from traceforge.errors import CannotRead
from traceforge.files import read_file

COMMAND_PREFIX = "$ "  # starts the scope of a command
_PYTHON = r"python[0-9.]*(?:\.exe)?"


def command_scope(words: Sequence[str]) -> str:
    """The scope of a command's calls outside of tests. It does not depend on which Python runs it, or from where."""
    program = os.path.basename(words[0])
    return COMMAND_PREFIX + shlex.join(["python" if re.fullmatch(_PYTHON, program) else program, *words[1:]])


def is_test_scope(scope: str) -> bool:
    """Whether the scope is a test, and not a command."""
    return bool(scope) and not scope.startswith(COMMAND_PREFIX)


class RunScopes:
    """The scopes of a run. Node ids are relative to one of `folders`: the current folder, or the project."""

    def __init__(self, scopes: Collection[str], folders: Sequence[str]) -> None:
        self._ran = frozenset(scopes)
        self._folders = folders
        self._test_folders = {
            os.path.dirname(_file_of(scope))
            for scope in scopes
            if is_test_scope(scope) and self._find_file(_file_of(scope))
        }
        self._is_gone = lru_cache(None)(self._is_removed_test)

    def has_run(self, scope: str) -> bool:
        return scope in self._ran

    def is_removed(self, scope: str) -> bool:
        """Whether the test was deleted or renamed."""
        return is_test_scope(scope) and scope not in self._ran and self._is_gone(scope)

    def _is_removed_test(self, scope: str) -> bool:
        file, _, node = scope.partition("::")
        path = self._find_file(file)
        if not path:  # Removed, if tests of the same folder ran; else the node id may be relative to another folder.
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


TESTS_LENGTH_MAX = 200  # Of the tests in a command to copy: some lines of a terminal, and not a screen full.
_OPTIONS_WITH_VALUE = frozenset(  # of pytest: what follows them may be a path, and names no test
    {
        "-c", "--config-file", "--rootdir", "--confcutdir", "--ignore", "--ignore-glob", "--deselect", "--basetemp",
        "--junitxml", "--junit-xml", "--log-file", "-o", "--override-ini", "-p", "-k", "-m", "-n", "--maxfail",
        "--import-mode", "--cov", "--cov-config", "--cov-report", "--html", "--durations", "--tb", "-W", "-r",
    }
)  # fmt: skip


def narrow_command(words: Sequence[str], scopes: Sequence[str]) -> list[str]:
    """The command, narrowed to these tests: for pytest, their node ids replace its paths.

    Where that is long, their files do; where even that is long, or a test cannot be found from this folder, the
    command stays as it is.
    """
    index = next(
        (position for position, word in enumerate(words) if os.path.basename(word) in ("pytest", "py.test")), None
    )
    if index is None or not scopes or not all(map(_is_test_path, scopes)):
        return list(words)
    options = [
        word
        for before, word in zip(words[index:], words[index + 1 :], strict=False)
        if word.startswith("-") or before in _OPTIONS_WITH_VALUE or not _is_test_path(word)
    ]
    for chosen in (scopes, list(dict.fromkeys(map(_file_of, scopes)))):
        if len(shlex.join(chosen)) <= TESTS_LENGTH_MAX:
            return [*words[: index + 1], *options, *chosen]
    return list(words)


def _is_test_path(word: str) -> bool:
    return os.path.exists(_file_of(word))
