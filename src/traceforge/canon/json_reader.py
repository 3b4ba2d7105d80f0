"""The one JSON reader.

In: bytes. Out: a value, read as `JSON.parse` reads it: the last of two equal keys wins at
the place of the first, a lone surrogate escape is kept, an integer that a double cannot hold
keeps its digits until it is printed. Never: repairs, guesses, or reads past the document.

orjson does the work wherever it is right. It refuses lone surrogates, which JSON allows, and
allows more nesting than we do; those texts, and every text it refuses, go to `strict_reader`.
"""

from __future__ import annotations

import json
import re

import orjson

from traceforge.canon.json_types import DEPTH_MAX, JSON
from traceforge.canon.strict_reader import refuse_tokens, scan

_ENOUGH = DEPTH_MAX + 1

# orjson reads an integer beyond 64 bits as a double. Such an integer has 19 digits or more, so at least four of the
# bytes at every fourth place are digits in a row; looking at those first takes a twentieth of the expression's time.
_LONG_INTEGER = re.compile(rb"[0-9]{19}")
_DIGITS_TO_ZERO = bytes(ord("0") if chr(byte).isascii() and chr(byte).isdigit() else byte for byte in range(256))


def parse_json(data: bytes) -> JSON:
    """Read one JSON document.

    Raises:
        NotJSON: it is not one, or holds a number beyond a double, or nests deeper than
            DEPTH_MAX; the error has the line, the column and the byte offset.
    """
    try:
        value: JSON = orjson.loads(data)
    except orjson.JSONDecodeError:
        return scan(data)
    if _may_be_deep(data) and is_deeper_than(value):
        refuse_tokens(data.decode())
    return value


def parse_exact_json(data: bytes) -> JSON:
    """As `parse_json`, but an integer of any size keeps its value; elsewhere, one beyond 64 bits becomes a double.

    Raises:
        NotJSON: as `parse_json`.
    """
    value = parse_json(data)
    if b"0000" not in data[::4].translate(_DIGITS_TO_ZERO) or not _LONG_INTEGER.search(data):
        return value
    exact: JSON = json.loads(data)
    return exact


def try_parse_json(data: bytes | str) -> JSON:
    """Read a text that may be JSON, quickly; None where orjson refuses it (also for a lone surrogate).

    It may nest deeper than DEPTH_MAX: a caller that walks the value calls `is_deeper_than` first.
    """
    try:
        value: JSON = orjson.loads(data)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    return value


def is_deeper_than(value: JSON, depth: int = DEPTH_MAX) -> bool:
    """Whether `value` nests deeper than `depth`."""
    level: list[JSON] = [value]
    for _ in range(depth):
        level = [
            child
            for node in level
            if type(node) is list or type(node) is dict
            for child in (node.values() if type(node) is dict else node)
            if type(child) is list or type(child) is dict
        ]
        if not level:
            return False
    return True


def _may_be_deep(data: bytes) -> bool:
    """Whether there are enough brackets to nest deeper than DEPTH_MAX.

    `count` looks at every byte, `replace` and `find` skip through prose; in long texts `find` saves a copy.
    """
    if len(data) < 8192:
        remaining = len(data.replace(b"[", b"", _ENOUGH)) + len(data.replace(b"{", b"", _ENOUGH))
        return 2 * len(data) - remaining > DEPTH_MAX
    count = 0
    for bracket in (b"[", b"{"):
        place = data.find(bracket)
        while place >= 0:
            count += 1
            if count > DEPTH_MAX:
                return True
            place = data.find(bracket, place + 1)
    return False
