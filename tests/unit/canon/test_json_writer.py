"""`canon/json_writer.py`: every writer against published vectors and against Node."""

from __future__ import annotations

import enum
import json
import math
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import shared_file_params, shared_path
from support.json_texts import fuzz, json_texts, nest
from support.node import Answer, CanonicalOracle
from traceforge.canon import (
    JSON,
    canonical_bytes,
    canonicalize,
    digest_canonical,
    digest_canonical_line,
    ecmascript_bytes,
    exact_canonical_bytes,
    exact_ecmascript_bytes,
    json_writer,
    parse_exact_json,
    parse_json,
)
from traceforge.errors import NotCanonical, NotJSON

NAN = math.nan
INFINITY = math.inf

# Every way to write a value, each with the answer of Node that it must equal.
VALUE_WRITERS: dict[str, tuple[Callable[[Any], bytes], Callable[[Answer], bytes]]] = {
    "canonical": (canonical_bytes, attrgetter("canonical")),
    "canonical, owned": (partial(canonical_bytes, may_modify=True), attrgetter("canonical")),
    "ecmascript": (ecmascript_bytes, attrgetter("ecmascript")),
    "ecmascript, owned": (partial(ecmascript_bytes, may_modify=True), attrgetter("ecmascript")),
    "indented": (partial(ecmascript_bytes, indent=2), attrgetter("indented")),
    "indented, owned": (partial(ecmascript_bytes, indent=2, may_modify=True), attrgetter("indented")),
}
EVERY_WRITER = pytest.mark.parametrize("name", list(VALUE_WRITERS))
KEEPING_WRITERS = [name for name in VALUE_WRITERS if "owned" not in name]


def _assert_all_writers_agree(oracle: CanonicalOracle, texts: list[bytes]) -> None:
    for text, answer in zip(texts, oracle.judge(texts), strict=True):
        assert answer.error is None, text
        for name, (write, expected) in VALUE_WRITERS.items():
            assert expected(answer) == write(parse_json(text)), name
        assert answer.canonical == canonicalize(text)
        value = parse_exact_json(text)
        assert answer.canonical == canonicalize(exact_canonical_bytes(value))
        assert answer.indented == ecmascript_bytes(parse_json(exact_ecmascript_bytes(value, indent=2)), indent=2)


# ---------------------------------------------------------------------------------------------
# Exact integers


EXACT_INTEGERS = [
    (b"9007199254740992", b"9007199254740992"),
    (b"9007199254740993", b"9007199254740993"),
    (b"-9007199254740993", b"-9007199254740993"),
    (b"9007199254740994", b"9007199254740994"),
    (b"9007199254740992.0", b"9007199254740992"),
    (b"18446744073709551615", b"18446744073709551615"),
    (b"18446744073709551617", b"18446744073709551617"),  # beyond 64 bits
    (b"-9223372036854775809", b"-9223372036854775809"),
    (b"100000000000000000000", b"100000000000000000000"),
    (b"1e20", b"100000000000000000000"),
    (b"9223372036854775808", b"9223372036854775808"),  # a double, whose shortest digits are the next number
    (b"9223372036854776000", b"9223372036854776000"),
    (b"10000000000000000000000", b"10000000000000000000000"),
    (b"1e22", b"10000000000000000000000"),
    (b"10000000000000000000001", b"10000000000000000000001"),
]


@pytest.mark.parametrize(("text", "written"), EXACT_INTEGERS, ids=[text.decode() for text, _ in EXACT_INTEGERS])
@pytest.mark.parametrize(
    "around", [b"%b", b'{"a":[0.5,%b]}', b'{"a":%b,"b":"\\ud800"}'], ids=["alone", "list", "slow"]
)
def test_a_whole_number_beyond_2_to_the_53_has_all_its_digits(text: bytes, written: bytes, around: bytes) -> None:
    """Equal numbers have equal texts all the same."""
    assert around % written == exact_canonical_bytes(parse_exact_json(around % text))


@fuzz(300)
@given(st.lists(st.integers(-(10**40), 10**40) | st.integers(2**53 - 9, 2**53 + 9), min_size=1, max_size=20))
def test_different_integers_are_written_differently(numbers: list[int]) -> None:
    texts = {exact_canonical_bytes(number): number for number in numbers}

    assert len(set(numbers)) == len(texts)
    assert numbers == parse_exact_json(json.dumps(numbers).encode())


# ---------------------------------------------------------------------------------------------
# Published vectors


def _vectors() -> list[object]:
    place = shared_path("vectors/canonical.json")
    if not place.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"shared data is absent: {place}"))]
    cases: list[dict[str, str]] = json.loads(place.read_bytes())["cases"]
    return [pytest.param(case, id=ascii(case["json"])) for case in cases]


@pytest.mark.parametrize("case", _vectors())
def test_a_vector_of_the_original_program_has_its_text_and_both_hashes(case: dict[str, str]) -> None:
    data = case["json"].encode()

    assert case["canonical"].encode() == canonicalize(data)
    assert case["canonical"].encode() == canonical_bytes(parse_json(data))
    assert f"sha256:{case['sha256_no_lf']}" == digest_canonical(parse_json(data))
    assert f"sha256:{case['sha256_with_lf']}" == digest_canonical_line(parse_json(data))


@pytest.mark.parametrize("file", shared_file_params("corpus/jcs/input", "*.json"))
def test_an_input_of_rfc_8785_is_written_as_its_output(file: Path) -> None:
    output = (file.parents[1] / "output" / file.name).read_bytes()
    outhex = bytes.fromhex((file.parents[1] / "outhex" / f"{file.stem}.txt").read_text())

    assert output == canonicalize(file.read_bytes())
    assert outhex == canonical_bytes(parse_json(file.read_bytes()))
    assert outhex == canonical_bytes(parse_json(file.read_bytes()), may_modify=True)


# ---------------------------------------------------------------------------------------------
# Node


def test_keys_are_ordered_as_node_orders_them(oracle: CanonicalOracle) -> None:
    """Array indices first in number order, others in file order; sorted, by UTF-16."""
    text = (
        '{"b":0,"4294967295":1,"17":2,"__proto__":3,"01":4,"4294967294":5,"-1":6,"9":7,"\uff5e":8,"😀":9,'
        '"0":10,"":11,"1.0":12,"a":13,"10":14,"٣":15,"\\ud800":16,"\\u0039":17}'
    )
    file_order = (
        '{"0":10,"9":17,"10":14,"17":2,"4294967294":5,"b":0,"4294967295":1,"__proto__":3,"01":4,"-1":6,'
        '"\uff5e":8,"😀":9,"":11,"1.0":12,"a":13,"٣":15,"\\ud800":16}'
    )

    assert file_order.encode() == ecmascript_bytes(parse_json(text.encode()))
    _assert_all_writers_agree(oracle, [text.encode(), text.replace('"\\ud800":16,', "").encode()])


def test_every_character_is_written_as_node_writes_it(oracle: CanonicalOracle) -> None:
    """Each UTF-16 code unit as an escape, and each character unescaped."""
    escaped = [f'"\\u{unit:04x}"' for unit in range(0x10000)]
    raw = [f'"{chr(point)}"' for point in (*range(0x23, 0x5C), *range(0x5D, 0xD800), *range(0xE000, 0x10400))]
    texts = [f"[{','.join(part)}]".encode() for part in (escaped[:0xD800], escaped[0xD800:], raw)]

    _assert_all_writers_agree(oracle, texts)


@pytest.mark.parametrize("pattern", ["[", "{", "[{"])
@pytest.mark.parametrize(
    "leaf", ["0.00001", "[]", "{}", '"\\ud800"', '{"1":1e16,"0":"é"}', "[" + "1.0," * 20 + "1e-7]"]
)
def test_a_document_at_the_limit_of_nesting_is_written(oracle: CanonicalOracle, leaf: str, pattern: str) -> None:
    """200 levels, by every writer."""
    depth = 200 - max(leaf.count("["), leaf.count("{"))

    _assert_all_writers_agree(oracle, [nest(leaf, depth, pattern).encode()])


def test_keys_beyond_the_cache_are_written_in_order(oracle: CanonicalOracle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also very long ones."""
    monkeypatch.setattr(json_writer, "_PLAIN_KEYS", set())
    monkeypatch.setattr(json_writer, "_PLAIN_KEYS_MAX", 100)
    keys = [f"{place * 7 % 1000}{'k' * (place % 130)}é" for place in range(1000)]
    plain = {f"k{key}": place for place, key in enumerate(keys)}
    odd = {"10": 0, "9": 0, "😀": 0, "\uff5e": 0}
    documents = [dict.fromkeys(keys, 0), plain, plain | odd]
    texts = [json.dumps(document, ensure_ascii=False).encode() for document in documents]

    _assert_all_writers_agree(oracle, texts)
    _assert_all_writers_agree(oracle, texts)
    assert len(json_writer._PLAIN_KEYS) == 100


@fuzz(150)
@given(texts=st.lists(json_texts, min_size=1, max_size=10))
def test_every_text_is_written_as_node_writes_it(oracle: CanonicalOracle, texts: list[bytes]) -> None:
    _assert_all_writers_agree(oracle, texts)


@pytest.mark.slow
@fuzz(600)
@given(texts=st.lists(json_texts, min_size=1, max_size=20))
def test_many_texts_are_written_as_node_writes_them(oracle: CanonicalOracle, texts: list[bytes]) -> None:
    """The same for tens of thousands of documents."""
    _assert_all_writers_agree(oracle, texts)


@pytest.mark.slow
@pytest.mark.parametrize("file", shared_file_params("corpus/llm", "*.jsonl.zst"))
def test_recorded_traffic_is_written_as_node_writes_it(oracle: CanonicalOracle, file: Path) -> None:
    """Real requests and responses, and the rows that hold them."""
    rows = zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes()).splitlines()

    for row in rows:
        recorded = json.loads(row)
        bodies = [recorded.get("request_body"), recorded.get("response_body")]
        texts = [row, *(body.encode("utf-8", "surrogatepass") for body in bodies if isinstance(body, str))]
        readable = [text for text, answer in zip(texts, oracle.judge(texts), strict=True) if not answer.error]
        _assert_all_writers_agree(oracle, readable)


# ---------------------------------------------------------------------------------------------
# Values


@EVERY_WRITER
@pytest.mark.parametrize(
    "text",
    [
        '{"\uff5e":1e-7,"😀":1e21}',
        '{"10":0.00001,"9":1e16}',
        '["\\ud800",1e16,1e-5,9007199254740993]',
        '{"\\ud800":[' + ",".join(["1.0", "1e16", "1e-7", "-0.0"] * 5) + "]}",
        '{"a":[' + ",".join(["1.5"] * 20) + '],"0":[' + ",".join(["2", "3"] * 10) + "]}",
    ],
    ids=ascii,
)
def test_numbers_and_keys_that_the_fast_writer_cannot_write_are_mixed(
    oracle: CanonicalOracle, text: str, name: str
) -> None:
    """A number with another notation next to a key or a string that the fast writer cannot take."""
    write, expected = VALUE_WRITERS[name]

    assert expected(oracle.judge_one(text.encode())) == write(parse_json(text.encode()))


@EVERY_WRITER
@pytest.mark.parametrize("item", [[1.0, 1e16, 1e-7] * 6, {"a": 1e16}, {"10": 1e-7, "9": 1.0}], ids=ascii)
def test_an_object_at_two_places_is_written_twice(item: JSON, name: str) -> None:
    """The same text, although the first visit may modify the object."""
    write = VALUE_WRITERS[name][0]
    text = json.dumps([item, {"x": item}]).encode()
    copy = json.loads(json.dumps(item))

    assert write(parse_json(text)) == write([copy, {"x": copy}])


@fuzz(60)
@given(texts=st.lists(json_texts, min_size=1, max_size=8))
def test_a_value_that_may_not_be_modified_is_unchanged(texts: list[bytes]) -> None:
    """Items, order and types: 1.0 stays a float."""
    for text in texts:
        value = parse_json(text)
        before = repr(value)
        for name in KEEPING_WRITERS:
            VALUE_WRITERS[name][0](value)

            assert before == repr(value), name


@pytest.mark.parametrize("name", KEEPING_WRITERS)
def test_writing_twice_gives_the_same_bytes(name: str) -> None:
    value: list[JSON] = [1.0, -0.0, 1e16, {"b": [1e-7] * 20, "\uff5e": 2**53 + 1, "😀": 1.0}]
    write = VALUE_WRITERS[name][0]

    assert write(value) == write(value)
    assert [float, float, float] == [type(item) for item in value[:3]]


@EVERY_WRITER
@pytest.mark.parametrize("number", [2**1024 - 2**970 - 1, -(2**1024 - 2**970 - 1), 2**1024 - 2**971])
def test_the_largest_integers_are_written_as_the_largest_double(number: int, name: str) -> None:
    """An integer is written as long as the nearest double is finite."""
    sign = "-" if number < 0 else ""

    assert f"{sign}1.7976931348623157e+308".encode() == VALUE_WRITERS[name][0](number)


class _Text(str):
    __slots__ = ()


class _Colour(enum.IntEnum):
    RED = 1


@dataclass
class _Record:
    name: str = "hunter2"


def _deep(depth: int, leaf: JSON = 0) -> JSON:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


def _deep_objects(depth: int, key: str) -> JSON:
    value: JSON = 0
    for _ in range(depth):
        value = {key: value}
    return value


# How to make each value (an owned one is used up), and the path that the error must name.
UNWRITABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN": (lambda: NAN, "$"),
    "NaN in a list in objects": (lambda: {"a": {"b": [NAN]}}, "$.a.b[0]"),
    "infinity": (lambda: [0, {"top-p": INFINITY}], '$[1]["top-p"]'),
    "negative infinity": (lambda: {"a": -INFINITY}, "$.a"),
    "NaN behind numbers to mend": (lambda: [1e16, 1e-7, 1.0, NAN], "$[3]"),
    "NaN at the end of a long list": (lambda: [1.0] * 20 + [NAN], "$[20]"),
    "NaN at the start of a long list": (lambda: [NAN, 2**60] + [1] * 20, "$[0]"),
    "infinity in a long list of integers": (lambda: {"a": [1] * 20 + [INFINITY]}, "$.a[20]"),
    "NaN behind a mended long list": (lambda: {"a": [1e16] * 20, "b": [1e-7, NAN]}, "$.b[1]"),
    "an integer beyond a double": (lambda: {"a": 10**400}, "$.a"),
    "an integer with more digits than Python prints": (lambda: [10**5000], "$[0]"),
    "the first integer beyond": (lambda: [2**1024 - 2**970], "$[0]"),
    "an integer beyond in a long list": (lambda: [1] * 16 + [-(10**400)], "$[16]"),
    "bytes": (lambda: {"a": b"hunter2"}, "$.a"),
    "a bytearray": (lambda: bytearray(b"hunter2"), "$"),
    "a tuple": (lambda: [(1, 2)], "$[0]"),
    "a set": (lambda: {"a": {"hunter2"}}, "$.a"),
    "a decimal": (lambda: [Decimal("1.5")], "$[0]"),
    "a complex number": (lambda: [1j], "$[0]"),
    "a date": (lambda: {"a": datetime.now(UTC)}, "$.a"),
    "a UUID": (lambda: {"a": uuid.UUID(int=0)}, "$.a"),
    "an enum": (lambda: {"a": _Colour.RED}, "$.a"),
    "a dataclass": (lambda: {"a": _Record()}, "$.a"),
    "a subclass of str": (lambda: {"a": _Text("hunter2")}, "$.a"),
    "a subclass of dict": (lambda: {"a": OrderedDict(b=1)}, "$.a"),
    "an integer key": (lambda: {"a": {1: 2}}, "$.a"),
    "a key that is null": (lambda: [{None: 2}], "$[0]"),
    "a key that is true": (lambda: [{"a": 1, True: 2}], "$[0]"),
    "a key that is bytes": (lambda: {b"hunter2": 2}, "$"),
    "a key that is a subclass of str": (lambda: {_Text("hunter2"): 2}, "$"),
    "201 lists": (lambda: _deep(201), "$" + "[0]" * 200),
    "202 lists": (lambda: _deep(202), "$" + "[0]" * 200),
    "201 lists around an empty one": (lambda: _deep(200, []), "$" + "[0]" * 200),
    "201 lists with a surrogate": (lambda: _deep(201, "\ud800"), "$" + "[0]" * 200),
    "100,000 lists": (lambda: _deep(100_000), "$" + "[0]" * 200),
    "201 objects": (lambda: _deep_objects(201, "a"), "$" + ".a" * 200),
    "201 objects with numbers for keys": (lambda: _deep_objects(201, "7"), "$" + '["7"]' * 200),
}


@EVERY_WRITER
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case == "100,000 lists")) for case in UNWRITABLE]
)
def test_a_value_that_json_cannot_hold_is_refused_with_its_path(case: str, name: str) -> None:
    """It is not rounded, replaced by null or turned into text."""
    make, path = UNWRITABLE[case]

    with pytest.raises(NotCanonical) as caught:
        VALUE_WRITERS[name][0](make())

    assert path == caught.value.path
    assert str(caught.value).endswith(f" at {path}")
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("read_and_write", [canonicalize, parse_exact_json])
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[NaN]", b"[1e400]", b'["\\ud800", 1e400]', b"\xef\xbb\xbf1", b'"\xff"', b"{} {}"]
    + [nest(leaf, 201, pattern).encode() for leaf in ("0", '"\\ud800"') for pattern in ("[", "{")],
    ids=lambda data: ascii(data[:16]),
)
def test_reading_and_writing_at_once_raises_the_reader_s_errors(
    data: bytes, read_and_write: Callable[[bytes], object]
) -> None:
    with pytest.raises(NotJSON) as expected:
        parse_json(data)
    with pytest.raises(NotJSON) as caught:
        read_and_write(data)

    assert expected.value.__dict__ == caught.value.__dict__
