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

from traceforge.canon.fast_writer import json_bytes
from traceforge.canon.json_types import DEPTH_MAX, JSON, JSONObject
from traceforge.canon.strict_reader import find_repeated_name, refuse_tokens, scan
from traceforge.errors import NotJSON

_ENOUGH = DEPTH_MAX + 1
_COPIED_BYTES_MAX = 64 << 10
_INDENTED_LINES_MAX = 1 << 16
_DEEP_LINE = b"\n" + b"  " * DEPTH_MAX  # No string has such a line: a line break in a string is written as `\n`.
REPEATED = "[REPEATED]"  # The name under which the values of a repeated name are collected.
_REPEATED_TEXT = f'"{REPEATED}'.encode()
_REPEATED_NAME = re.compile(rf"{re.escape(REPEATED)}=*\Z")

# orjson reads an integer beyond 64 bits as a double. Such an integer has 19 digits or more, so at least four of the
# bytes at every fourth place are digits in a row; looking at those first takes a twentieth of the expression's time.
# Most long rows of digits are in strings, such as ids: so the expression, for a text in which every digit is `0`,
# begins with the row, which `re` finds quickly, and then looks back at what precedes it.
_LONG_DIGITS = b"0" * 19
_LONG_INTEGER = re.compile(rb"%b(?<=[\[:,\s-]0{19})" % _LONG_DIGITS)
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
    if _may_be_deep(data) and _may_have_deep_lines(data, value) and is_deeper_than(value):
        refuse_tokens(data.decode())
    return value


def parse_exact_json(data: bytes) -> JSON:
    """As `parse_json`, but an integer of any size keeps its value; elsewhere, one beyond 64 bits becomes a double.

    Raises:
        NotJSON: as `parse_json`.
    """
    value = parse_json(data)
    if b"0000" not in data[::4].translate(_DIGITS_TO_ZERO):
        return value
    zeros = data.translate(_DIGITS_TO_ZERO)
    if not zeros.startswith(_LONG_DIGITS) and not _LONG_INTEGER.search(zeros):
        return value
    exact: JSON = json.loads(data)
    return exact


def parse_all_members(data: bytes) -> JSON:
    """As `parse_exact_json`, but no member is lost: a name that an object has twice holds all its values.

    Readers differ in which of two members of one name they take. `{"a": 1, "a": 2}` is read as
    `{"a": {"[REPEATED]": [1, 2]}}`. A member that is really called `[REPEATED]` is read as `[REPEATED]=`.

    Raises:
        NotJSON: as `parse_json`; or names repeat in a text that nests deeper than a third of DEPTH_MAX.
    """
    value = parse_exact_json(data)
    text = json_bytes(value)
    if _REPEATED_TEXT not in text and not has_repeated_names(data, text):
        return value
    if is_deeper_than(value, DEPTH_MAX // 3):  # Each level becomes up to three.
        raise NotJSON("repeated names, nested too deeply", line=1, column=1, offset=0)
    with_repeated: JSON = json.loads(data, object_pairs_hook=_collect_members)
    return with_repeated


def _collect_members(pairs: list[tuple[str, JSON]]) -> JSONObject:
    values: dict[str, list[JSON]] = {}
    for name, value in pairs:
        values.setdefault(f"{name}=" if _REPEATED_NAME.match(name) else name, []).append(value)
    return {name: items[0] if len(items) == 1 else {REPEATED: items} for name, items in values.items()}


def has_repeated_names(data: bytes, text: bytes) -> bool:
    """Whether an object of a JSON text has two members of one name, at any depth; `text` is its value again."""
    # Every member has a colon, so a text that lost one has fewer, unless one in a string was escaped.
    if text == data or (text.count(b":") == data.count(b":") and b"\\u003" not in data):
        return False
    return find_repeated_name(data, nested=True) is not None


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
    if len(data) < _COPIED_BYTES_MAX:
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


def _may_have_deep_lines(data: bytes, value: JSON) -> bool:
    """Whether a value may nest deeper than DEPTH_MAX: indented, it then has a line that begins with so many spaces.

    Writing a value takes a quarter of the time of walking through it, and most values with many brackets are flat:
    the messages of a conversation. A value of very many lines is not written: each may begin with hundreds of spaces.
    """
    if data.count(b",") + 2 * (data.count(b"[") + data.count(b"{")) > _INDENTED_LINES_MAX:
        return True
    try:
        return _DEEP_LINE in orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except orjson.JSONEncodeError:  # It nests deeper than orjson writes.
        return True
