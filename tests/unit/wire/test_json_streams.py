"""NDJSON lines and the items of a growing array, split anywhere."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.wire.json_streams import ArrayParser, LineParser

_TEXTS = st.text(st.sampled_from('ab{}[]",:\\\n\u2028é😀 '), max_size=8)
_values = st.recursive(
    _TEXTS | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_objects = st.dictionaries(_TEXTS, _values, max_size=4)
_cuts = st.lists(st.integers(0, 10_000), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The same bytes in pieces."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def feed(parser: LineParser | ArrayParser, pieces: list[bytes]) -> list[bytes]:
    """All values of a stream in pieces."""
    return [*(value for piece in pieces for value in parser.feed(piece)), *parser.finish()]


@fuzz(500)
@given(st.lists(st.binary(max_size=5) | st.sampled_from([b"\n", b"\r\n", b"{}", b" ", b"\xf0\x9f"]), max_size=20))
def test_any_split_gives_the_same_lines(pieces: list[bytes]) -> None:
    """Lines end with LF; white space around them and empty lines are dropped."""
    expected = [line.strip() for line in b"".join(pieces).split(b"\n") if line.strip()]

    assert expected == feed(LineParser(), pieces)


def test_a_line_is_returned_as_soon_as_it_is_complete() -> None:
    parser = LineParser()

    assert [] == parser.feed(b'{"a"')
    assert [b'{"a":1}', b"{}"] == parser.feed(b":1}\n{}\n")


@fuzz(500)
@given(st.lists(_objects, max_size=5), _cuts, st.sampled_from([None, 1]), st.booleans())
def test_any_split_of_an_array_gives_its_items(
    items: list[dict[str, Any]], places: list[int], indent: int | None, escaped: bool
) -> None:
    """Brackets and quotes inside strings are text."""
    data = json.dumps(items, indent=indent, ensure_ascii=escaped).encode()

    given_out = feed(ArrayParser(), cut(data, places))
    assert items == [json.loads(item) for item in given_out]


@fuzz(500)
@given(st.lists(_objects, min_size=1, max_size=4), st.integers(0, 10_000), _cuts)
def test_a_truncated_array_gives_its_complete_items(
    items: list[dict[str, Any]], size: int, places: list[int]
) -> None:
    """The beginning of the next item comes last, unchanged."""
    data = json.dumps(items).encode()
    data = data[: size % len(data)]

    given_out = feed(ArrayParser(), cut(data, places))
    complete = [item for item in given_out if _is_json(item)]
    assert items[: len(complete)] == [json.loads(item) for item in complete]
    assert len(given_out) <= len(complete) + 1
    assert given_out == feed(ArrayParser(), [data])


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


@fuzz(500)
@given(st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b",", b"a", b"\xf0", b"\n"]), max_size=25))
def test_bytes_that_are_not_an_array_never_raise(pieces: list[bytes]) -> None:
    """And any split gives the same items."""
    assert feed(ArrayParser(), [b"".join(pieces)]) == feed(ArrayParser(), pieces)


def test_an_item_is_returned_as_soon_as_it_is_complete() -> None:
    """Gemini without `alt=sse` sends an array that grows while the model writes."""
    parser = ArrayParser()

    assert [] == parser.feed(b'[{"a": "}')
    assert [b'{"a": "}"}'] == parser.feed(b'"}\n,')
    assert [b'{"b": [1]}'] == parser.feed(b'{"b": [1]}')
    assert [] == parser.feed(b"]")
    assert [] == parser.finish()
