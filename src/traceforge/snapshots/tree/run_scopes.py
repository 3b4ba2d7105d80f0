"""Scopes: the test or command that makes a call, and which tests no longer exist.

A scope is the node id of a test; a fixture or an import that tests share, `@ session fixture tests::menu`; or, for
calls outside of pytest, a command: `$ python agent.py hello`.

In: commands, node ids of tests that ran, and the folders they are relative to. Out: the scope of a command; whether a
test was removed. Never: imports a test, or takes a test for removed that merely did not run: in doubt, it exists.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

from traceforge.capture.hook.pytest_scopes import PREFIX as SHARED_PREFIX
from traceforge.errors import CannotRead
from traceforge.files import read_file
from traceforge.redact.redactions import REDACTED

_IMPORT = "import of "
COMMAND_PREFIX = "$ "  # starts the scope of a command
_FIXTURE = re.compile(r"(?P<scope>\w+) fixture (?P<name>[^\[]*?)(?:\[.*\])?(?: of (?P<node>.+))?", re.DOTALL)
_PYTHON = r"python[0-9.]*(?:\.exe)?"


def command_scope(words: Sequence[str], join: Callable[[Sequence[str]], str] = shlex.join) -> str:
    """The scope of a command's calls outside of tests. It does not depend on which Python runs it, or from where.

    `join` makes a line of its words.
    """
    program = os.path.basename(words[0])
    return COMMAND_PREFIX + join(["python" if re.fullmatch(_PYTHON, program) else program, *words[1:]])


def is_test_scope(scope: str) -> bool:
    """Whether the scope is a test, and not a command, a fixture or an import."""
    return bool(scope) and not scope.startswith((COMMAND_PREFIX, SHARED_PREFIX))


def is_command_scope(scope: str) -> bool:
    """Whether the scope is a command, whose calls belong to no test."""
    return scope.startswith(COMMAND_PREFIX)


def is_shared_scope(scope: str) -> bool:
    """Whether tests of a pytest process share the scope: a wide fixture, an import, the start of pytest."""
    return scope.startswith(SHARED_PREFIX)


def find_scope_file(scope: str) -> str:
    """The file or folder in a scope: of the module that sets a fixture up, else of what defines it; "" for none."""
    if not is_shared_scope(scope):
        return scope.partition("::")[0]
    name = scope.removeprefix(SHARED_PREFIX)
    if name.startswith(_IMPORT):
        return name.removeprefix(_IMPORT)
    match = _FIXTURE.fullmatch(name)
    if match is None:
        return ""
    node = match["node"] or match["name"].rpartition("::")[0]
    return node.partition("::")[0]


def find_renamed_tests(approved: Collection[str], ran: Collection[str]) -> dict[str, str]:
    """Tests that ran under the name that they have in another root of pytest, by the name they were approved with:
    `tests/test_a.py::test_b` is `test_a.py::test_b` where there is a `tests/pytest.ini`, and `::test_b` where the
    command names the file and the root is a folder beside it. Only where no other fits.
    """
    names: dict[str, list[str]] = {}
    for test in filter(is_test_scope, {*ran} - {*approved}):
        names.setdefault(test.partition("::")[2], []).append(test)
    pairs = [
        (scope, test)
        for scope in filter(is_test_scope, {*approved} - {*ran})
        for test in names.get(scope.partition("::")[2], ())
        if _is_same_file(_file_of(scope), _file_of(test))
    ]
    uses = Counter(name for pair in pairs for name in pair)
    return {scope: test for scope, test in pairs if uses[scope] == uses[test] == 1}


def _is_same_file(file: str, other: str) -> bool:
    return "" in (file, other) or file.endswith(f"/{other}") or other.endswith(f"/{file}")


def find_gone_cases(scopes: Iterable[str], collected: Collection[str]) -> list[str]:
    """The cases of parametrised tests that were not collected, although their functions were."""
    functions = {_function_of(test) for test in collected}
    return [scope for scope in scopes if "[" in scope and scope not in collected and _function_of(scope) in functions]


def _function_of(scope: str) -> str:
    return scope.partition("[")[0]


class RunScopes:
    """The scopes of a run. Node ids are relative to one of `folders`: the current folder, or the project."""

    def __init__(self, scopes: Collection[str], folders: Sequence[str], gone_cases: Collection[str] = ()) -> None:
        self._ran = frozenset(scopes)
        self._gone_cases = frozenset(gone_cases)
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
        """Whether the test, or this case of it, was deleted or renamed."""
        return is_test_scope(scope) and scope not in self._ran and (scope in self._gone_cases or self._is_gone(scope))

    def _is_removed_test(self, scope: str) -> bool:
        file, _, node = scope.partition("::")
        path = self._find_file(file)
        if not path:  # Removed, if tests of the same folder ran; else the node id may be relative to another folder.
            return os.path.dirname(file) in self._test_folders
        name = node.partition("[")[0].rpartition("::")[2]  # a case may have `::` in its name
        try:
            text = read_file(path).decode(errors="replace")
        except CannotRead:
            return False
        outside_comments = rf"^[^#\n]*\b{re.escape(name)}\b"
        return bool(name) and re.search(outside_comments, text, re.MULTILINE) is None

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
    command stays as it is. A case whose name was redacted is named by its test, because pytest knows the real name.
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
    tests = (scope.partition("[")[0] if REDACTED in scope else scope for scope in scopes)
    for chosen in (list(dict.fromkeys(tests)), list(dict.fromkeys(map(_file_of, scopes)))):
        if len(shlex.join(chosen)) <= TESTS_LENGTH_MAX:
            return [*words[: index + 1], *options, *chosen]
    return list(words)


def _is_test_path(word: str) -> bool:
    return os.path.exists(_file_of(word))
