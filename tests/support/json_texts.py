"""Hypothesis strategies for JSON texts, as an editor, another language or an attacker could write them.

Texts rather than values, because JSON readers differ in number notation, escapes, white space and repeated keys.
Every text is JSON, holds only numbers that fit a double, and nests at most 200 deep.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from itertools import cycle

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from support.example_counts import scale_examples

DEPTH_MAX = 200  # Ours, on purpose not imported: the format documents says 200.

_INTEGERS = (0, 2**31, 2**32, 2**53, 10**16, 10**17, 10**20, 10**21, 2**63, 2**64, 10**22)
_EDGES = (
    "-0", "-0.0", "0e5", "0E-400", "1.0", "1E+2", "10e-1", "1e5", "1e20", "1e21", "1e-6", "1e-7", "0.0001",
    "9.999e-5", "123e-8", "1e15", "1e16", "123456789012345680000", "1.7976931348623157e308",
    "1.7976931348623158e308", "-1.7976931348623157E+308", "5e-324", "2.4703282292062328e-324",
    "2.2250738585072011e-308", "9007199254740993", "9007199254740992.9999", "1e-400",
)  # fmt: skip
# Each key is written as it stands between quotes in a text.
_KEYS = (
    "a", "b", "\\u0061", "", "0", "\\u0030", "9", "10", "17", "4294967294", "4294967295", "4294967296", "01",
    "00", "-1", "1.5", "1e3", " 1", "9007199254740993", "__proto__", "constructor", "length", "A", "_", "é",
    "e\u0301", "٣", "\u2028", "\\n", "\\\"", "\\u0000", "\ud7ff", "\ue000", "\uff5e", "\uffff", "😀",
    "\\ud83d\\ude00", "\\uD83D\\uDE01", "🿿a",
)  # fmt: skip
_LONE_KEYS = ("\\ud800", "\\uDFFF", "\\ude00\\ud83d", "\\ud83d\\ud83d\\ude00", "0\\udc00")
_PIECES = (
    "/", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\\"", "\\\\", "\\u0000", "\\u001f", "\\u001F", "\\u007f",
    "\x7f", "\u2028", "\\u2029", "\ufeff", "\ufffe", "\uffff", "\u0080", "😀", "\\ud83d\\ude00",
    "\\uDBFF\\uDFFF", "\U0010ffff", "'", "[", "{", "]", "1e400", "NaN", ",", ": ",
)  # fmt: skip

gaps = st.sampled_from(["", "", "", " ", "\n", "\t", "\r\n  "])


def fuzz(examples: int) -> settings:
    """Try this many examples without a deadline, because Node and a busy machine are slow."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=scale_examples(examples), deadline=None, suppress_health_check=slow, report_multiple_bugs=False
    )


def double(bits: int) -> float:
    """Read 64 bits as a double."""
    value: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return value


def _is_finite(text: str) -> bool:
    return math.isfinite(float(text))


def _notations(value: float) -> tuple[str, ...]:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    shifted = f"{'-' if sign else ''}{int(''.join(map(str, digits)))}E{exponent:+04d}"
    return (
        repr(value), f"{value:.17g}", f"{value:.16e}", f"{value:.30E}", shifted, format(Decimal(value), "f")
    )  # fmt: skip


doubles = st.integers(0, 2**64 - 1).map(double).filter(math.isfinite)
numbers = st.one_of(
    st.sampled_from(_EDGES),
    st.builds(lambda value, notation: _notations(value)[notation], doubles, st.integers(0, 5)),
    st.builds(
        lambda near, step, sign: str(sign * (near + step)),
        st.sampled_from(_INTEGERS), st.integers(-3, 3), st.sampled_from([1, -1]),
    ),
    st.integers(-(10**25), 10**25).map(str),
    st.builds(lambda digits, power: f"{digits}e{power}", st.integers(-999, 999), st.integers(-12, 24)),
    st.from_regex(r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
).filter(_is_finite)  # fmt: skip

_pieces = st.one_of(
    st.sampled_from(_PIECES),
    st.characters(min_codepoint=0x20, exclude_characters='"\\', exclude_categories=["Cs"]),
    st.integers(0, 0xD7FF).map(lambda unit: f"\\u{unit:04x}"),
    st.integers(0xE000, 0xFFFF).map(lambda unit: f"\\u{unit:04X}"),
)
_lone_pieces = st.one_of(_pieces, st.integers(0xD800, 0xDFFF).map(lambda unit: f"\\u{unit:04x}"))


def strings(*, lone: bool) -> st.SearchStrategy[str]:
    """Draw strings with their quotes; `lone` allows surrogate escapes without a partner."""
    return st.lists(_lone_pieces if lone else _pieces, max_size=8).map(lambda parts: f'"{"".join(parts)}"')


def _join(opening: str, parts: list[str], closing: str, spaces: list[str]) -> str:
    space = cycle(spaces)
    body = ",".join(f"{next(space)}{part}{next(space)}" for part in parts)
    return f"{opening}{body or next(space)}{closing}"


def _arrays(items: st.SearchStrategy[str], *, least: int = 0, most: int = 4) -> st.SearchStrategy[str]:
    return st.builds(
        lambda parts, spaces: _join("[", parts, "]", spaces),
        st.lists(items, min_size=least, max_size=most),
        st.lists(gaps, min_size=1, max_size=3),
    )


def _objects(values: st.SearchStrategy[str], keys: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.builds(lambda key, gap, value: f"{key}{gap}:{gap}{value}", keys, gaps, values)
    return st.builds(
        lambda parts, spaces: _join("{", parts, "}", spaces),
        st.lists(members, max_size=6),
        st.lists(gaps, min_size=1, max_size=3),
    )


def _often(usual: st.SearchStrategy[str], *others: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw from the first four times as often as from each other; `one_of` would count it once."""
    return st.sampled_from([usual] * 4 + list(others)).flatmap(lambda drawn: drawn)


def _values(*, lone: bool) -> st.SearchStrategy[str]:
    scalars = st.one_of(numbers, strings(lone=lone), st.sampled_from(["null", "true", "false"]))
    named = st.sampled_from(_KEYS + (_LONE_KEYS if lone else ())).map(lambda key: f'"{key}"')
    keys = _often(named, strings(lone=lone))
    long_lists = _arrays(numbers, least=14, most=20)  # The writers treat 16 numbers and more as one text.
    return st.recursive(
        _often(scalars, long_lists),
        lambda inner: _arrays(inner) | _objects(inner, keys),
        max_leaves=10,
    )


def nest(text: str, depth: int, pattern: str = "[") -> str:
    """Put `text` inside `depth` containers; `pattern` gives their opening brackets in turn."""
    brackets = [bracket for bracket, _ in zip(cycle(pattern), range(depth), strict=False)]
    opening = "".join("[" if bracket == "[" else '{"a":' for bracket in brackets)
    closing = "".join("]" if bracket == "[" else "}" for bracket in reversed(brackets))
    return f"{opening}{text}{closing}"


# Lone surrogates are rare, because a text that holds one takes other ways through reader and writer.
_any_value = _often(_values(lone=False), _values(lone=True))
_patterns = st.sampled_from(["[", "{", "[{", "{{["])
_usual = st.builds(lambda gap, value: f"{gap}{value}{gap}", gaps, _any_value)
_nested = st.builds(nest, _any_value, st.integers(0, DEPTH_MAX - 20), _patterns)
_deepest = st.builds(nest, strings(lone=True) | numbers, st.just(DEPTH_MAX), _patterns)

shallow_texts = _usual.map(str.encode)
json_texts = _often(_usual, _nested, _deepest).map(str.encode)
