"""The exact reader, for every text that orjson refuses.

In: bytes. Out: the value, where the text is JSON after all (a lone surrogate), or the error with its
place. The standard library's scanner does the reading; what it lets through and we do not is found first.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from traceforge.canon.json_types import DEPTH_MAX, JSON
from traceforge.errors import CONFLICT_MARKERS, NotJSON

_WHITE_SPACE = " \t\r\n"  # of JSON
_BOM = b"\xef\xbb\xbf"

# Compiled on first use: most texts are read by orjson alone.
# A string that never ends is one token to the end of the text; otherwise every quote in it would start another.
# Possessive, because every step that could be taken back costs memory.
_LEXEME = r'(?s)"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{\]}]|-?[0-9][0-9.eE+-]*'

_CONFLICT_MARKER = r"(?m)^<{7} "


def scan(data: bytes) -> JSON:
    """Read one JSON document, as `parse` promises."""
    if data.startswith(_BOM):
        raise NotJSON("a byte order mark", line=1, column=1, offset=0)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise _error("invalid UTF-8", data[: exc.start].decode()) from None
    if not text.strip(_WHITE_SPACE):
        raise NotJSON("the text is empty", line=1, column=1, offset=0, is_empty=True)
    refuse_tokens(text)
    try:
        value: JSON = json.loads(text, parse_constant=_refuse_constant, parse_int=_integer)
    except json.JSONDecodeError as exc:
        raise _syntax_error(exc, text) from None
    except _Constant as exc:
        raise _error(f"{exc} is not JSON", text[: _find_constant(text, str(exc))]) from None
    return value


def refuse_tokens(text: str) -> None:
    """Find what the standard scanner would let through: deep nesting and infinite numbers."""
    depth = 0
    for token in re.finditer(_LEXEME, text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise _error(f"nesting deeper than {DEPTH_MAX}", text[: token.start()])
        elif first in "]}":
            depth -= 1
        elif first != '"' and _overflows(token[0]):
            raise _error("a number too large for a double", text[: token.start()])


def _overflows(token: str) -> bool:
    try:
        return abs(float(token)) == float("inf")
    except ValueError:
        return False  # Not a number at all: the scanner will say so, with its place.


def _integer(digits: str) -> int | float:
    value = int(digits) if len(digits) <= 20 else None
    if value is not None and -(2**63) <= value < 2**64:
        return value
    return float(digits)  # as orjson: beyond 64 bits, a double


def find_repeated_name(data: bytes, *, nested: bool) -> str | None:
    """The first name that an object of a JSON document has twice, which `parse_json` lets pass: the last value wins.

    `nested` looks into every object; otherwise only the outermost one counts.
    """
    repeated: list[str] = []

    def check_names(pairs: list[tuple[str, object]]) -> None:
        if not nested:
            repeated.clear()  # The outermost object is read last.
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                repeated.append(name)
            names.add(name)

    json.loads(data, object_pairs_hook=check_names, parse_int=len, parse_float=len)  # `len`: no number is read.
    return repeated[0] if repeated else None


def find_conflict_marker(text: str) -> int:
    """The line at which Git marks a conflict of a merge; 0 where it marks none. No line of a JSON text begins so."""
    marker = re.search(_CONFLICT_MARKER, text)
    return text.count("\n", 0, marker.start()) + 1 if marker is not None else 0


def _syntax_error(error: json.JSONDecodeError, text: str) -> NotJSON:
    """Name a conflict of a merge, and a text that was cut off, of which the standard library says what it expected
    behind the end.
    """
    if marker := re.search(_CONFLICT_MARKER, text):
        before = text[: marker.start()]
        line, offset = before.count("\n") + 1, len(before.encode())
        return NotJSON(CONFLICT_MARKERS, line=line, column=1, offset=offset, is_conflict=True)
    end = len(text.rstrip(_WHITE_SPACE))
    if error.pos >= end:
        return _error("the text ends too early", text[:end])
    if error.msg.startswith("Unterminated string"):
        return _error("the text ends inside the string that begins", text[: error.pos])
    return _error(error.msg[0].lower() + error.msg[1:].removesuffix(" at"), text[: error.pos])


class _Constant(Exception):
    pass


def _refuse_constant(name: str) -> NoReturn:
    raise _Constant(name)


def _find_constant(text: str, name: str) -> int:
    for match in re.finditer(rf'"(?:[^"\\]++|\\.)*+"|{name}', text, re.DOTALL):
        if match[0] == name:
            return match.start()
    return 0


def _error(reason: str, before: str) -> NotJSON:
    return NotJSON(
        reason,
        line=before.count("\n") + 1,
        column=len(before) - before.rfind("\n"),
        offset=len(before.encode()),
    )
