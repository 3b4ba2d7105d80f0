"""Where a finding is: a file of the repository and a line of it, as code hosts want them.

In: findings, whose files are named as a person reads them. Out: a path from the root of the repository, with `/`, and
a line from 1. Never: a path that leads out of the repository, or a line that is guessed: 0 says that none is
known.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import NamedTuple

from traceforge.canon import json_path, parse_json
from traceforge.config import find_repository
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import read_file
from traceforge.findings import Finding

SCAN_BYTES_MAX = 16 << 20  # A larger file is not looked into for the sake of a line number.

_CALL_SITE = re.compile(r"(?P<file>.+?):(?P<line>[0-9]+)(?::.*| in .*)?\Z", re.DOTALL)
_LINE = re.compile(r"\bline (?P<line>[0-9]+) column [0-9]+")
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|\n|[^\s{}\[\]:,"]+', re.DOTALL)


class Place(NamedTuple):
    """A file from the root of the repository, "" if none is known; a line from 1, 0 if none is known."""

    file: str = ""
    line: int = 0


class Places:
    """Finds places in one project."""

    def __init__(self, project: str, folder: str) -> None:
        """`folder` is where the person stands: other names are relative to it."""
        self.root = find_repository(project)
        self._bases = (folder, project)

    def find(self, finding: Finding, base: str = "") -> Place:
        """The place of a finding; `base` is the folder its file is named from, where that is known."""
        name, line = finding.file, 0
        if "::" in name:  # a test, as its node id
            name = name.partition("::")[0]
        elif site := _CALL_SITE.match(name):
            name, line = site["file"], int(site["line"])
        path = self._existing(name, base)
        if not path:
            return Place()
        return Place(os.path.relpath(path, self.root).replace(os.sep, "/"), line or _line_in(path, finding))

    def _existing(self, name: str, base: str) -> str:
        """The file, if it is one of the repository; a file that is gone is named where it would be."""
        if not name or name.startswith("("):
            return ""
        bases = (base,) if base else self._bases
        paths = [os.path.realpath(os.path.join(folder, name)) for folder in bases]
        path = next((path for path in paths if os.path.exists(path)), paths[-1])
        inside = path.startswith(os.path.join(self.root, ""))
        return path if inside else ""


def _line_in(path: str, finding: Finding) -> int:
    said = _LINE.search(finding.path) or _LINE.search(finding.message if finding.is_unchecked else "")
    if said:
        return int(said["line"])
    return _lines(path).get(finding.path, 0) if finding.path.startswith("$") else 0


@lru_cache(maxsize=64)  # Findings are sorted by file.
def _lines(path: str) -> dict[str, int]:
    try:
        return json_lines(read_file(path, bytes_max=SCAN_BYTES_MAX).decode())
    except (CannotRead, UnicodeDecodeError):
        return {}


def json_lines(text: str) -> dict[str, int]:
    """The line on which each member of a JSON text begins, by its JSON path; as far as the text is JSON."""
    walk = _Walk()
    line = 1
    for word in (match[0] for match in _WORD.finditer(text)):
        if word == "\n":
            line += 1
        elif not walk.step(word, line):
            break
    return walk.found


class _Walk:
    """Where a reader of JSON stands."""

    def __init__(self) -> None:
        self.found = {"$": 1}
        self._open: list[tuple[str, int]] = []  # the path of each open container, and the next index; -1 in an object
        self._name = ""  # the path of the member whose value comes next

    def step(self, word: str, line: int) -> bool:
        """Take in one word; no, if this cannot be JSON."""
        if word in ("}", "]"):
            return bool(self._open and self._open.pop())
        if word == ",":
            self._next()
        elif word != ":":
            if self._open and self._open[-1][1] < 0 and not self._name:
                return self._member(word, line)
            self._value(word, line)
        return True

    def _next(self) -> None:
        if self._open and self._open[-1][1] >= 0:
            path, index = self._open[-1]
            self._open[-1] = (path, index + 1)
        self._name = ""

    def _member(self, word: str, line: int) -> bool:
        try:
            name = parse_json(word.encode())
        except NotJSON:
            return False
        self._name = json_path(self._open[-1][0], str(name))
        self.found[self._name] = line
        return True

    def _value(self, word: str, line: int) -> None:
        path = self._name or (json_path(*self._open[-1]) if self._open else "$")
        self.found.setdefault(path, line)
        self._name = ""
        if word in ("{", "["):
            self._open.append((path, -1 if word == "{" else 0))
