"""Which test a cassette belongs to, by its path.

In: the path of a cassette and a pattern, such as `cassettes/{module}/{test}`. Out: the node id of its test, or ""
where that is unknown. Never: imports a test module, or guesses between two tests.

A pattern matches the end of a path, without the ending of the file. `{module}` is the name of the test module in the
folder above. Without it, the test modules of the project are searched for the class or the function. `{test}` may
name its class before a dot: `TestChat.test_hello[gpt-4.1]`. `*` matches anything within one part of the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from traceforge.errors import CannotRead
from traceforge.files import read_file, walk_folders
from traceforge.snapshots.record.cassette_format import CASSETTE_ENDS

DEFAULT_PATTERN = "cassettes/{module}/{test}"  # of pytest-recording
SOURCE_BYTES_MAX = 4 << 20  # A test module is far smaller.
_SKIPPED_FOLDERS = frozenset({"node_modules", "site-packages", "__pycache__", "venv"})

_PLACEHOLDERS = {
    "{module}": r"(?P<module>[^/]+)",
    "{class}": r"(?P<class>[A-Za-z_]\w*)",
    "{test}": r"(?P<test>[^/]+)",
}
_PIECES = re.compile(r"(\{[^{}]*\}|\*)")
_CLASS_NAME = re.compile(r"([A-Za-z_]\w*)\.(?=\w)")
_DEFINITION = re.compile(r"^([ \t]*)(?:class[ \t]+(\w+)|(?:async[ \t]+)?def[ \t]+(test\w*))", re.MULTILINE)


class _Definition(NamedTuple):
    """A test function, or a class of tests (`function` is "")."""

    file: str
    class_name: str
    function: str


class CassetteLayout:
    """The layout of the cassettes of one project.

    Raises:
        ValueError: the pattern has an unknown placeholder, or no `{test}`.
    """

    def __init__(self, project: str, pattern: str = DEFAULT_PATTERN) -> None:
        self._project = os.path.realpath(project)
        self._pattern = re.compile(rf"(?:\A|/){_translate(pattern)}\Z")

    def find_test(self, path: str) -> str:
        """The node id of the test of a cassette; "" if unknown."""
        relative = os.path.relpath(os.path.realpath(path), self._project).replace(os.sep, "/")
        end = max((end for end in CASSETTE_ENDS if relative.lower().endswith(end)), key=len, default="")
        match = self._pattern.search(relative[: len(relative) - len(end)])
        if match is None:
            return ""
        groups = match.groupdict()
        function, bracket, parameters = groups["test"].partition("[")
        *classes, name = _CLASS_NAME.sub(r"\1\n", function).split("\n")
        if groups.get("class"):
            classes = [groups["class"], *classes]
        above = relative[: match.start()]
        if groups.get("module"):
            file = "/".join(filter(None, (above, f"{groups['module']}.py")))
            nodes = [file, *classes, name] if os.path.isfile(os.path.join(self._project, file)) else []
        else:
            nodes = self._search(above, classes, name)
        return "::".join(nodes) + bracket + parameters if nodes else ""

    def _search(self, above: str, classes: list[str], name: str) -> list[str]:
        """The parts of the node id, where a single test has the name: near the cassettes, or in the project."""
        matches = [definition for definition in self._definitions if _is_named(definition, classes, name)]
        near = [definition for definition in matches if definition.file.startswith(f"{above}/")] if above else matches
        for candidates in (near, matches):
            if len({*candidates}) == 1:
                file, class_name, _ = candidates[0]
                return [file, *(classes or filter(None, [class_name])), name]
        return []

    @cached_property
    def _definitions(self) -> list[_Definition]:
        return [definition for file in self._list_modules() for definition in self._read_definitions(file)]

    def _list_modules(self) -> Iterator[str]:
        for parent, folders, files in walk_folders(self._project):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
            for name in sorted(files):
                if name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py")):
                    yield os.path.relpath(os.path.join(parent, name), self._project).replace(os.sep, "/")

    def _read_definitions(self, file: str) -> Iterator[_Definition]:
        try:
            data = read_file(os.path.join(self._project, file), follow_links=False, bytes_max=SOURCE_BYTES_MAX)
        except CannotRead:
            return
        class_name = ""
        for match in _DEFINITION.finditer(data.decode("utf-8", "replace")):
            indent, new_class, function = match.groups()
            if new_class and not indent:
                class_name = new_class
                yield _Definition(file, class_name, "")
            elif function:
                yield _Definition(file, class_name if indent else "", function)


def _is_named(definition: _Definition, classes: list[str], name: str) -> bool:
    """A class may inherit its tests, so its own name decides."""
    if classes:
        return not definition.function and definition.class_name == classes[-1]
    return definition.function == name


def _translate(pattern: str) -> str:
    pieces = _PIECES.split(pattern.strip("/"))
    unknown = [piece for piece in pieces if piece.startswith("{") and piece not in _PLACEHOLDERS]
    if unknown or "{test}" not in pieces:
        raise ValueError(f"a layout has {{test}}, and may have {{module}}, {{class}} and *; this one is {pattern!r}")
    repeated = [piece for piece in _PLACEHOLDERS if pieces.count(piece) > 1]
    if repeated:
        raise ValueError(f"a layout has each placeholder once; this one is {pattern!r}")
    return "".join(_PLACEHOLDERS.get(piece, "[^/]*" if piece == "*" else re.escape(piece)) for piece in pieces)
