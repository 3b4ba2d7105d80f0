"""The one JSON reader.

In: bytes. Out: a value, read as `JSON.parse` reads it: the last of two equal keys wins at
the place of the first, a lone surrogate escape is kept, an integer that a double cannot hold
keeps its digits until it is printed. Never: repairs, guesses, or reads past the document.

orjson does the work wherever it is right. It refuses lone surrogates, which JSON allows, and
allows more nesting than we do; those texts, and every text it refuses, go to `strict_reader`.
"""

from __future__ import annotations

from typing import TypeAlias

import orjson

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
JSONObject: TypeAlias = "dict[str, JSON]"

DEPTH_MAX = 200  # Deeper text is hostile or broken; every walk over a value may rely on this.
_ENOUGH = DEPTH_MAX + 1


def parse_json(data: bytes) -> JSON:
    """Read one JSON document.

    Raises:
        NotJSON: it is not one, or holds a number beyond a double, or nests deeper than
            DEPTH_MAX; the error has the line, the column and the byte offset.
    """
    try:
        value: JSON = orjson.loads(data)
    except orjson.JSONDecodeError:
        from traceforge.canon.strict_reader import scan

        return scan(data)
    if _may_be_deep(data) and is_deeper_than(value):
        from traceforge.canon.strict_reader import refuse_tokens

        refuse_tokens(data.decode())
    return value


def is_deeper_than(value: JSON, depth: int = DEPTH_MAX) -> bool:
    """Does `value` nest deeper than `depth`?"""
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
    """Are there enough brackets to nest that deep?

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
