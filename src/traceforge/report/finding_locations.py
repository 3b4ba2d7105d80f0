"""The file and line of a finding, as code hosts expect them.

In: findings, whose files are named as a person reads them. Out: a path relative to the root of the repository, with
`/`, and a line from 1. Never: a path outside the repository, or a guessed line: 0 means unknown.
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

SCAN_BYTES_MAX = 16 << 20  # A larger file is not read for a line number alone.

_CALL_SITE = re.compile(r"(?P<file>.+?):(?P<line>[0-9]+)(?::.*| in .*)?\Z", re.DOTALL)
_LINE = re.compile(r"\bline (?P<line>[0-9]+) column [0-9]+")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|\n|[^\s{}\[\]:,"]+', re.DOTALL)


class SourceLocation(NamedTuple):
    """A file relative to the root of the repository, or ""; a line from 1, or 0 if unknown."""

    file: str = ""
    line: int = 0


class FindingLocator:
    """Finds the locations of findings in one project."""

    def __init__(self, project: str, folder: str) -> None:
        """`folder` is the current folder: relative names are resolved from it."""
        self.root = find_repository(project)
        self._bases = (folder, project)

    def locate(self, finding: Finding, base: str = "") -> SourceLocation:
        """The location of a finding; `base` is the folder that its file name is relative to, if known."""
        name, line = finding.file, 0
        if "::" in name:  # a test, as its node id
            name = name.partition("::")[0]
        elif site := _CALL_SITE.match(name):
            name, line = site["file"], int(site["line"])
        path = self._find_in_repository(name, base)
        if not path:
            return SourceLocation()
        return SourceLocation(
            os.path.relpath(path, self.root).replace(os.sep, "/"), line or _find_line(path, finding)
        )

    def _find_in_repository(self, name: str, base: str) -> str:
        """The path of a file, or "" if it is outside the repository. A deleted file gets the path it would have."""
        if not name or name.startswith("("):
            return ""
        bases = (base,) if base else self._bases
        paths = [os.path.realpath(os.path.join(folder, name)) for folder in bases]
        path = next((path for path in paths if os.path.exists(path)), paths[-1])
        inside = path.startswith(os.path.join(self.root, ""))
        return path if inside else ""


def _find_line(path: str, finding: Finding) -> int:
    match = _LINE.search(finding.path) or _LINE.search(finding.message if finding.is_unchecked else "")
    if match:
        return int(match["line"])
    return _read_json_lines(path).get(finding.path, 0) if finding.path.startswith("$") else 0


@lru_cache(maxsize=64)  # Findings are sorted by file.
def _read_json_lines(path: str) -> dict[str, int]:
    try:
        return json_lines(read_file(path, bytes_max=SCAN_BYTES_MAX).decode())
    except (CannotRead, UnicodeDecodeError):
        return {}


def json_lines(text: str) -> dict[str, int]:
    """The line on which each member of a JSON text begins, by JSON path, up to the first syntax error."""
    scanner = _JsonLineScanner()
    line = 1
    for word in (match[0] for match in _TOKEN.finditer(text)):
        if word == "\n":
            line += 1
        elif not scanner.read_token(word, line):
            break
    return scanner.lines


class _JsonLineScanner:
    """Follows the containers and members of a JSON text, token by token."""

    def __init__(self) -> None:
        self.lines = {"$": 1}
        self._containers: list[
            tuple[str, int]
        ] = []  # the path of each open container, and the next index; -1 in an object
        self._member_path = ""  # the path of the member whose value comes next

    def read_token(self, word: str, line: int) -> bool:
        """Whether the text can still be JSON with this token."""
        if word in ("}", "]"):
            return bool(self._containers and self._containers.pop())
        if word == ",":
            self._read_comma()
        elif word != ":":
            if self._containers and self._containers[-1][1] < 0 and not self._member_path:
                return self._read_member_name(word, line)
            self._read_value(word, line)
        return True

    def _read_comma(self) -> None:
        if self._containers and self._containers[-1][1] >= 0:
            path, index = self._containers[-1]
            self._containers[-1] = (path, index + 1)
        self._member_path = ""

    def _read_member_name(self, word: str, line: int) -> bool:
        try:
            name = parse_json(word.encode())
        except NotJSON:
            return False
        self._member_path = json_path(self._containers[-1][0], str(name))
        self.lines[self._member_path] = line
        return True

    def _read_value(self, word: str, line: int) -> None:
        path = self._member_path or (json_path(*self._containers[-1]) if self._containers else "$")
        self.lines.setdefault(path, line)
        self._member_path = ""
        if word in ("{", "["):
            self._containers.append((path, -1 if word == "{" else 0))
