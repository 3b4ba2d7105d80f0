"""The two exact JSON writers: ECMAScript order and canonical order.

In: JSON values. Out: the bytes that `JSON.stringify` gives for the same document, or those of
RFC 8785, which differ only in the order of keys. Never: changes what a value means, or writes
a number that JSON cannot hold.

Why our own code: no library is exact. orjson prints `1.0`, 64-bit integers and 1e16 in its own
way, sorts keys by code point and refuses lone surrogates; `rfc8785` refuses large integers
and is ten times slower. So a value is *settled* first: one walk replaces every number that
orjson would print differently by its exact text. Then orjson writes. What settling cannot
mend (integer-like keys, keys beyond the BMP, surrogates) goes to `slow_writer`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import orjson

from traceforge.canon.json_reader import parse_json
from traceforge.canon.json_types import DEPTH_MAX, JSON
from traceforge.canon.numbers import INT_EXACT_MAX, number_text
from traceforge.canon.slow_writer import write_slowly

_TINY = 1e-4  # Fractions from here up are printed alike by every orjson; below, notations differ.
_TINY_BELOW = -_TINY
_FINITE_MAX = sys.float_info.max
_FINITE_MIN = -_FINITE_MAX
_INT_MIN = -INT_EXACT_MAX
_SORTED = orjson.OPT_SORT_KEYS
_INDENTED = orjson.OPT_INDENT_2
_NUMBERS = frozenset({int, float})
_INTEGERS = frozenset({int})
_OBJECTS = {dict}
_LEAVES = frozenset({str, bool, type(None)})
_LONG_LIST = 16  # From this length, a list of one kind of thing is worth looking at as a whole.

_PLAIN_KEYS: set[str] = set()  # Keys seen before that sort alike everywhere and are not integer-like.
_PLAIN_KEYS_MAX = 10_000  # Documents repeat their keys; this bounds what hostile ones can leave behind.
_PLAIN_KEY_CHARS_MAX = 64

# Where orjson writes an exponent as ECMAScript does (since 3.12), only these need another notation.
_EXPONENT = rb"e(?:\+(?:1[6-9]|20)|-6)(?=[,\]])" if orjson.dumps(1e21) == b"1e+21" else rb"e-?[0-9]+(?=[,\]])"


def canonical_bytes(value: JSON, *, may_modify: bool = False) -> bytes:
    """Write `value` as RFC 8785 does: keys by UTF-16 code unit, no white space.

    With `may_modify`, the caller gives the value away and must not use it again; this saves a copy.

    Raises:
        NotCanonical: `value` holds something JSON cannot; the message says where.
    """
    return _write(value, may_modify, _SORTED)


def exact_canonical_bytes(value: JSON) -> bytes:
    """As `canonical_bytes`, but a whole number beyond 2**53 has all its digits: 2**53 + 1 is not 2**53.

    So has a whole double, because equal numbers have equal texts: 2**63 and 2.0**63, 10**21 and 1e21.

    Raises:
        NotCanonical: as `canonical_bytes`.
    """
    text = _fast(value, False, _SORTED)
    return _write(_copy(value, 0, _NUMBERS), True, _SORTED) if text is None else text


def ecmascript_bytes(value: JSON, *, may_modify: bool = False, indent: int = 0) -> bytes:
    """Write `value` as `JSON.stringify(value, null, indent)` does; `indent` is 0 or 2.

    Raises:
        NotCanonical: `value` holds something JSON cannot; the message says where.
    """
    return _write(value, may_modify, _INDENTED if indent else 0)


def exact_ecmascript_bytes(value: JSON, *, indent: int = 0) -> bytes:
    """As `ecmascript_bytes`, but an integer beyond 2**53 has all its digits; a double is written as a double.

    Raises:
        NotCanonical: as `ecmascript_bytes`.
    """
    return _write(_copy(value, 0, _INTEGERS), True, _INDENTED if indent else 0)


def canonicalize(data: bytes) -> bytes:
    """Read one JSON document and write it canonically, in as few steps as possible.

    Raises:
        NotJSON: as `parse`.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return canonical_bytes(parse_json(data), may_modify=True)
    text = _fast(value, True, _SORTED)
    return canonical_bytes(parse_json(data)) if text is None else text


def _write(value: JSON, may_modify: bool, option: int) -> bytes:
    text = _fast(value, may_modify, option)
    if text is None and not may_modify:
        text = _fast(_copy(value, 0), True, option)
    if text is None:
        text = write_slowly(value, sort=option == _SORTED, indent=2 if option == _INDENTED else 0)
    return text


def _fast(value: Any, mend: bool, option: int) -> bytes | None:  # noqa: ANN401 (it finds out what it is)
    """Let orjson write; None where it would not be exact and we cannot or may not mend that."""
    if type(value) is not dict and type(value) is not list:
        return None
    nodes = _settle(value, mend, option != _INDENTED)
    if nodes is None:
        return None
    try:
        text = orjson.dumps(value, None, option)
    except TypeError:  # A lone surrogate, or a key that is not a string.
        return None
    if option == _SORTED and text.isascii():  # Then every order of keys is the same.
        return text
    return text if all(map(_has_plain_keys, nodes)) else None


def _settle(root: dict[str, JSON] | list[JSON], mend: bool, long_lists: bool) -> list[Any] | None:
    """Make every number in `root` one that orjson prints exactly; list all containers.

    None: something is not JSON, nests too deeply, or must be mended and `mend` does not allow it.
    """
    nodes: list[Any] = [root]
    level_end = depth = 0  # The containers are listed level by level.
    checked: list[Any] = []
    add = nodes.append
    for number, node in enumerate(nodes):
        if number == level_end:
            level_end, depth = len(nodes), depth + 1
            if depth > DEPTH_MAX:
                return None
        if type(node) is dict:
            children = node.values()
        elif len(node) < _LONG_LIST:
            children = node
        else:
            kinds = set(map(type, node))
            if kinds <= _NUMBERS and mend and long_lists and _mend_numbers(node, kinds):
                continue
            if kinds == _OBJECTS and _LEAVES.issuperset(map(type, chain.from_iterable(map(dict.values, node)))):
                if depth == DEPTH_MAX:
                    return None
                checked += node
                continue
            children = node
        odd = False
        for child in children:
            kind = type(child)
            if kind is str:
                continue
            if kind is dict or kind is list:
                add(child)
            elif kind is int:
                if child > INT_EXACT_MAX or child < _INT_MIN:
                    odd = True
            elif kind is float:
                if not child % 1.0 or not (_TINY <= child < _FINITE_MAX or _FINITE_MIN < child <= _TINY_BELOW):
                    odd = True
            elif kind is not bool and child is not None:
                return None
        if odd and not (mend and _mend(node)):
            return None
    return nodes + checked


def _mend(node: Any) -> bool:  # noqa: ANN401 (a list or a dict)
    """Replace each number that orjson would print differently; False if one is not finite."""
    for key, child in node.items() if type(node) is dict else enumerate(node):
        kind = type(child)
        if kind is not float and kind is not int:
            continue
        if _INT_MIN <= child <= INT_EXACT_MAX:
            if kind is float and not child % 1.0:
                node[key] = int(child)
            elif kind is float and _TINY_BELOW < child < _TINY:
                node[key] = orjson.Fragment(number_text(child))
        elif not _FINITE_MIN <= child <= _FINITE_MAX:
            return False
        else:
            node[key] = orjson.Fragment(number_text(float(child)))
    return True


def _has_plain_keys(node: Any) -> bool:  # noqa: ANN401 (a list or a dict)
    return type(node) is list or _PLAIN_KEYS.issuperset(node) or _learn_keys(node)


def _learn_keys(node: dict[Any, JSON]) -> bool:
    """Whether every order sorts all keys alike, and none is an array index."""
    for key in node:
        if type(key) is not str:
            return False
        if key in _PLAIN_KEYS:
            continue
        if key[:1].isdigit() or not (key.isascii() or max(key) < "\ud800"):
            return False
        if len(_PLAIN_KEYS) < _PLAIN_KEYS_MAX and len(key) <= _PLAIN_KEY_CHARS_MAX:
            _PLAIN_KEYS.add(key)
    return True


def _mend_numbers(node: list[Any], kinds: set[type]) -> bool:
    """Put the exact text of a list of nothing but numbers in place of its items.

    It contains no strings, so its text can be changed as text, which is several times faster
    than looking at each number. False: one is not finite, or an integer that a double cannot hold.
    """
    if int in kinds and (max(node) > INT_EXACT_MAX or min(node) < _INT_MIN):
        return False
    text = orjson.dumps(node)
    if b"n" in text:  # null, for NaN and infinities
        return False
    if b"-0.0" in text:
        text = text.replace(b"-0.0,", b"0,").replace(b"-0.0]", b"0]")
    text = text.replace(b".0,", b",").replace(b".0]", b"]")
    if b"e" in text:
        text = b"".join(_mend_exponents(text))
    node[:] = [orjson.Fragment(text[1:-1])]
    return True


def _mend_exponents(text: bytes) -> Iterator[bytes]:
    copied = 0
    for match in re.finditer(_EXPONENT, text):
        start = max(text.rfind(b",", copied, match.start()), copied and copied - 1) + 1
        yield text[copied:start]
        yield number_text(float(text[start : match.end()])).encode()
        copied = match.end()
    yield text[copied:]


def _copy(value: Any, depth: int, with_digits: frozenset[type] = frozenset()) -> Any:  # noqa: ANN401 (keeps its type)
    """A copy; whole numbers of the types `with_digits` that not every double holds become their digits."""
    if depth > DEPTH_MAX:
        return value  # Too deep to be written; the slow writer raises the error.
    if type(value) is dict:
        return {key: _copy(child, depth + 1, with_digits) for key, child in value.items()}
    if type(value) is list:
        return [_copy(child, depth + 1, with_digits) for child in value]
    if type(value) in with_digits and not _INT_MIN <= value <= INT_EXACT_MAX and value % 1 == 0:
        return orjson.Fragment(str(int(value)))
    return value
