"""The slow JSON writer: any value, piece by piece, by the rules alone.

In: any Python value. Out: its exact text, in either order of keys, with or without indentation. It handles everything
that the fast path of `json_writer` cannot, and raises the error with the path of a value that is not JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any

import orjson

from traceforge.canon.json_types import DEPTH_MAX, JSON, json_path
from traceforge.canon.numbers import number_text
from traceforge.errors import NotCanonical

_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER_KEY = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z")
_INTEGER_KEY_MAX = 2**32 - 2


def write_slowly(value: Any, *, sort: bool, indent: int) -> bytes:  # noqa: ANN401 (it finds out what it is)
    """Write `value`; a Fragment in it is exact text that the fast writer left there.

    Raises:
        NotCanonical: `value` holds something JSON cannot; the message says where.
    """
    return "".join(_value_text(value, sort, " " * indent, "$", 0)).encode()


def utf8_replaced(text: str) -> bytes:
    """Encode as JavaScript does: a lone surrogate becomes U+FFFD."""
    return _SURROGATE.sub("\ufffd", _join_surrogates(text)).encode()


def _value_text(value: Any, sort: bool, indent: str, path: str, depth: int) -> Iterator[str]:  # noqa: ANN401
    """Write any value, piece by piece, by the rules alone."""
    kind = type(value)
    if kind is str:
        yield _string_text(value)
    elif value is None or kind is bool:
        yield "null" if value is None else "true" if value else "false"
    elif kind is int or kind is float:
        yield _finite_text(value, path)
    elif kind is orjson.Fragment:
        yield orjson.dumps(value).decode()
    elif kind is list or kind is dict:
        if depth == DEPTH_MAX:
            raise NotCanonical(path, f"nesting deeper than {DEPTH_MAX}")
        yield from _container_text(value, sort, indent, path, depth + 1)
    else:
        raise NotCanonical(path, f"a value of type {kind.__name__}, which is not JSON,")


def _container_text(value: Any, sort: bool, indent: str, path: str, depth: int) -> Iterator[str]:  # noqa: ANN401
    keys: Sequence[Any] = _ordered_keys(value, sort, path) if type(value) is dict else range(len(value))
    opening, closing = "{}" if type(value) is dict else "[]"
    line = "\n" + indent * depth if indent else ""
    yield opening
    for place, key in enumerate(keys):
        yield "," + line if place else line
        if type(value) is dict:
            yield _string_text(key) + (": " if indent else ":")
        yield from _value_text(value[key], sort, indent, json_path(path, key), depth)
    if keys and indent:
        yield "\n" + indent * (depth - 1)
    yield closing


def _ordered_keys(value: dict[Any, JSON], sort: bool, path: str) -> list[str]:
    for key in value:
        if type(key) is not str:
            raise NotCanonical(path, f"a key of type {type(key).__name__}")
    if sort:
        return sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
    indices = sorted((key for key in value if _is_array_index(key)), key=int)
    return indices + [key for key in value if not _is_array_index(key)] if indices else list(value)


def _is_array_index(key: str) -> bool:
    """Whether ECMAScript moves this key to the front of its object."""
    return bool(_INTEGER_KEY.match(key)) and int(key) <= _INTEGER_KEY_MAX


def _finite_text(value: float, path: str) -> str:
    try:
        double = float(value)
    except OverflowError:
        double = float("inf")
    if double - double != 0.0:
        raise NotCanonical(path, f"{double} cannot be written as JSON")
    return number_text(double)


def _string_text(value: str) -> str:
    text = encode_basestring(value)
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", _join_surrogates(text))


def _join_surrogates(text: str) -> str:
    """Replace each pair of surrogates by its character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
