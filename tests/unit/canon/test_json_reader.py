"""`canon/json_reader.py`: which texts are read, which are refused, and the place of the error."""

from __future__ import annotations

import json
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import need_shared, shared_file_params
from support.json_texts import fuzz, nest, shallow_texts
from support.node import CanonicalOracle
from traceforge.canon import (
    DEPTH_MAX,
    JSON,
    canonical_bytes,
    ecmascript_bytes,
    parse_all_members,
    parse_json,
    strict_reader,
)
from traceforge.errors import NotJSON

SUITE = "corpus/jsontestsuite"
OVERFLOW = "a number too large for a double"
NOT_UTF8 = "invalid UTF-8"
READ = None

# The texts on which parsers may differ, with our choice, which docs/reference/json.md documents.
UNDEFINED: dict[str, str | None] = {
    "i_number_double_huge_neg_exp.json": READ,  # a number too small for a double is 0
    "i_number_huge_exp.json": OVERFLOW,
    "i_number_neg_int_huge_exp.json": OVERFLOW,
    "i_number_pos_double_huge_exp.json": OVERFLOW,
    "i_number_real_neg_overflow.json": OVERFLOW,
    "i_number_real_pos_overflow.json": OVERFLOW,
    "i_number_real_underflow.json": READ,
    "i_number_too_big_neg_int.json": READ,  # as the nearest double
    "i_number_too_big_pos_int.json": READ,
    "i_number_very_big_negative_int.json": READ,
    "i_object_key_lone_2nd_surrogate.json": READ,  # a lone surrogate escape is kept
    "i_string_1st_surrogate_but_2nd_missing.json": READ,
    "i_string_1st_valid_surrogate_2nd_invalid.json": READ,
    "i_string_UTF-16LE_with_BOM.json": NOT_UTF8,
    "i_string_UTF-8_invalid_sequence.json": NOT_UTF8,
    "i_string_UTF8_surrogate_U+D800.json": NOT_UTF8,  # as bytes, a surrogate is not UTF-8
    "i_string_incomplete_surrogate_and_escape_valid.json": READ,
    "i_string_incomplete_surrogate_pair.json": READ,
    "i_string_incomplete_surrogates_escape_valid.json": READ,
    "i_string_invalid_lonely_surrogate.json": READ,
    "i_string_invalid_surrogate.json": READ,
    "i_string_invalid_utf-8.json": NOT_UTF8,
    "i_string_inverted_surrogates_U+1D11E.json": READ,
    "i_string_iso_latin_1.json": NOT_UTF8,
    "i_string_lone_second_surrogate.json": READ,
    "i_string_lone_utf8_continuation_byte.json": NOT_UTF8,
    "i_string_not_in_unicode_range.json": NOT_UTF8,
    "i_string_overlong_sequence_2_bytes.json": NOT_UTF8,
    "i_string_overlong_sequence_6_bytes.json": NOT_UTF8,
    "i_string_overlong_sequence_6_bytes_null.json": NOT_UTF8,
    "i_string_truncated-utf-8.json": NOT_UTF8,
    "i_string_utf16BE_no_BOM.json": NOT_UTF8,
    "i_string_utf16LE_no_BOM.json": NOT_UTF8,
    "i_structure_500_nested_arrays.json": "nesting deeper than 200",
    "i_structure_UTF-8_BOM_empty_object.json": "a byte order mark",
}

# orjson reads a text unless it holds a lone surrogate; then the standard library's scanner does.
EITHER_READER = pytest.mark.parametrize("lone", [False, True], ids=["orjson", "scanner"])
SHAPES = pytest.mark.parametrize("pattern", ["[", "{", "[{", "{[[{"])


def _refusal(data: bytes) -> NotJSON:
    """The error of reading `data`; checks that its line, column and offset agree."""
    with pytest.raises(NotJSON) as caught:
        parse_json(data)
    error = caught.value
    assert 0 <= error.offset <= len(data)
    before = data[: error.offset].decode()
    assert (error.line, error.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    return error


def _in_list(text: str, lone: bool) -> bytes:
    """`text` as the second item of a list, after a lone surrogate or an ordinary letter."""
    first = "\\ud800" if lone else "a"
    return f'["{first}",{text}]'.encode()


def _second(value: JSON) -> JSON:
    assert isinstance(value, list)
    return value[1]


@pytest.mark.parametrize("file", shared_file_params(SUITE, "y_*.json"))
def test_each_valid_text_is_read_as_node_reads_it(oracle: CanonicalOracle, file: Path) -> None:
    """Every text that the suite calls JSON is accepted with the value of `JSON.parse`."""
    expected = oracle.judge_one(file.read_bytes())

    assert expected.error is None
    assert expected.ecmascript == ecmascript_bytes(parse_json(file.read_bytes()))
    assert expected.canonical == canonical_bytes(parse_json(file.read_bytes()))


@pytest.mark.parametrize("file", shared_file_params(SUITE, "n_*.json"))
def test_each_invalid_text_is_refused_with_its_place(file: Path) -> None:
    """A line, column and offset inside the text."""
    _refusal(file.read_bytes())


@pytest.mark.parametrize("file", shared_file_params(SUITE, "i_*.json"))
def test_each_undefined_text_is_treated_as_documented(oracle: CanonicalOracle, file: Path) -> None:
    """Read as Node reads it, or refused for the documented reason."""
    data = file.read_bytes()
    reason = UNDEFINED[file.name]

    if reason is None:
        assert oracle.judge_one(data).ecmascript == ecmascript_bytes(parse_json(data))
    else:
        assert reason == _refusal(data).reason


def test_the_table_names_every_undefined_text() -> None:
    files = need_shared(SUITE).glob("i_*.json")

    assert sorted(UNDEFINED) == sorted(file.name for file in files)


@pytest.mark.parametrize(
    ("data", "reason", "place"),
    [
        (b"", "the text is empty", (1, 1, 0)),
        (b" \n ", "the text is empty", (1, 1, 0)),
        (b'{"a":', "the text ends too early", (1, 6, 5)),
        (b'{"a":\n', "the text ends too early", (1, 6, 5)),
        (b'[1,\n 2\n', "the text ends too early", (2, 3, 6)),
        (b'{"a": 1,', "the text ends too early", (1, 9, 8)),
        (b'{"a": "b', "the text ends inside the string that begins", (1, 7, 6)),
        (b'{"a":1} x', "extra data", (1, 9, 8)),
        (b"{}\n{}", "extra data", (2, 1, 3)),
        (b"[]\x00", "extra data", (1, 3, 2)),
        (b'{"a" 1}', "expecting ':' delimiter", (1, 6, 5)),
        (b'[1\r\n 2]', "expecting ',' delimiter", (2, 2, 5)),
        (b"[nul]", "expecting value", (1, 2, 1)),
        (b'{"a":1,\n\tb:2}', "expecting property name enclosed in double quotes", (2, 2, 9)),
        ("[\"é😀\", x]".encode(), "expecting value", (1, 8, 11)),
        (b"\xef\xbb\xbf{}", "a byte order mark", (1, 1, 0)),
        (b'["a\xff"]', NOT_UTF8, (1, 4, 3)),
        (b'{\n"\xc3\xa9": "\xc3"}', NOT_UTF8, (2, 7, 9)),
        (b'"\xed\xa0\x80"', NOT_UTF8, (1, 2, 1)),
        (b"NaN", "NaN is not JSON", (1, 1, 0)),
        (b'{\n  "a": NaN}', "NaN is not JSON", (2, 8, 9)),
        (b'["NaN \\" NaN", NaN]', "NaN is not JSON", (1, 16, 15)),
        (b'["NaN", Infinity]', "Infinity is not JSON", (1, 9, 8)),
        (b"[1, -Infinity, Infinity]", "-Infinity is not JSON", (1, 5, 4)),
        (b"1e400", OVERFLOW, (1, 1, 0)),
        (b"[1, -1e400]", OVERFLOW, (1, 5, 4)),
        (b'{"1e400":\n1E+400}', OVERFLOW, (2, 1, 10)),
        ('["é", 1.8e308]'.encode(), OVERFLOW, (1, 7, 7)),
    ],
    ids=ascii,
)  # fmt: skip
def test_an_error_names_the_place_of_the_fault(data: bytes, reason: str, place: tuple[int, int, int]) -> None:
    """Lines and columns count characters from 1, the offset counts bytes from 0."""
    error = _refusal(data)

    assert reason == error.reason
    assert place == (error.line, error.column, error.offset)


@pytest.mark.parametrize("data", [b'["abc', b'"abc', b'{"a', b'["\x01"]', b'["\\x"]', b'["\\u12G4"]'])
def test_an_error_is_a_sentence(data: bytes) -> None:
    """The reason and the place."""
    error = _refusal(data)

    assert str(error) == f"{error.reason} at line {error.line} column {error.column}"
    assert " at at " not in str(error)


def test_an_unterminated_string_is_named_in_the_error() -> None:
    """Brackets inside a string that never ends are not taken for nesting."""
    error = _refusal(b'["' + b"[" * 300)

    assert "string" in error.reason
    assert error.offset == 1


def test_refusing_an_unterminated_string_is_not_quadratic() -> None:
    """40 kB of escaped quotes without an end."""
    text = '"' + '\\"' * 20_000
    tokens = [match.span() for match in re.finditer(strict_reader._LEXEME, text)]
    error = _refusal(text.encode())

    assert [(0, len(text))] == tokens  # One takes all: the search does not begin again at each of the quotes.
    assert "string" in error.reason


def test_an_error_never_repeats_the_text() -> None:
    """Build logs are public."""
    error = _refusal(b'{"key": "hunter2" "hunter3"}')

    assert "hunter" not in f"{error} {error.hint} {error!r}"


@EITHER_READER
@SHAPES
def test_nesting_is_read_down_to_the_limit(pattern: str, lone: bool) -> None:
    """200 levels of lists, objects or both."""
    leaf = '"\\ud800"' if lone else '"a"'
    value = parse_json(nest(leaf, DEPTH_MAX, pattern).encode())

    for _ in range(200):
        assert isinstance(value, list | dict)
        value = value[0] if isinstance(value, list) else value["a"]
    assert value == ("\ud800" if lone else "a")


@EITHER_READER
@SHAPES
@pytest.mark.parametrize("depth", [201, 202, 255, 1025, 10_000, 200_000])
def test_nesting_beyond_the_limit_is_refused_at_the_bracket(pattern: str, lone: bool, depth: int) -> None:
    """The bracket that opens the 201st level, however much deeper the text is."""
    leaf = '"\\ud800"' if lone else "0"
    opening = nest("", 200, pattern).encode()
    error = _refusal(nest(leaf, depth, pattern).encode())

    assert error.reason == "nesting deeper than 200"
    assert error.offset == max(opening.rfind(b"["), opening.rfind(b":")) + 1


@EITHER_READER
def test_an_empty_container_counts_as_a_level(lone: bool) -> None:
    """`[]` at the 201st level is refused, at the 200th it is read."""
    for empty in ("[]", "{}"):
        assert _second(parse_json(_in_list(nest(empty, 198), lone)))
        assert _refusal(_in_list(nest(empty, 199), lone)).reason == "nesting deeper than 200"


@EITHER_READER
def test_a_deep_branch_is_refused_at_any_place(lone: bool) -> None:
    """Behind shallow branches, and between many of them."""
    wide = ",".join(["[]"] * 500)

    assert _refusal(_in_list(f"{wide},{nest('0', 200)},{wide}", lone)).reason == "nesting deeper than 200"


@EITHER_READER
def test_brackets_in_a_row_or_in_strings_are_not_nesting(lone: bool) -> None:
    wide = ",".join(["[{}]"] * 1000)
    quoted = '"' + '[{\\"' * 1000 + '"'

    assert _second(parse_json(_in_list(f"[{wide}]", lone))) == [[{}]] * 1000
    assert _second(parse_json(_in_list(quoted, lone))) == '[{"' * 1000
    assert _second(parse_json(_in_list(f"{{{quoted}:0}}", lone))) == {'[{"' * 1000: 0}


@EITHER_READER
@pytest.mark.parametrize(
    "number",
    ["1e400", "-1e400", "1E309", "1.8e308", "-1.8e+308", "1" * 5000, "-" + "9" * 5000, "1" + "0" * 309],
    ids=lambda number: number[:12],
)
def test_a_number_beyond_a_double_is_refused_at_its_place(number: str, lone: bool) -> None:
    """What would become an infinity is refused, in any notation, at its first character."""
    data = _in_list(number, lone)
    error = _refusal(data)

    assert error.reason == OVERFLOW
    assert data.index(number.encode()) == error.offset


@EITHER_READER
@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_refused_at_their_place(name: str, lone: bool) -> None:
    """JSON has neither, although Python's own reader accepts them."""
    data = _in_list(f'{{"{name}":{name}}}', lone)
    error = _refusal(data)

    assert f"{name} is not JSON" == error.reason
    assert data.rindex(f":{name}".encode()) + 1 == error.offset


@EITHER_READER
@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("1" * 300, float("1" * 300)),
        ("-" + "9" * 300, -float("9" * 300)),
        ("1" + "0" * 308, 1e308),
        (str(2**1024 - 2**970 - 1), 1.7976931348623157e308),
        ("1.7976931348623158079e308", 1.7976931348623157e308),
        ("9007199254740993", 2**53 + 1),
        ("-9223372036854775808", -(2**63)),
        ("1e-400", 0.0),
        ("4.9e-324", 5e-324),
        ("-0", 0),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_number_with_a_finite_double_is_read(number: str, value: float, lone: bool) -> None:
    """Also an integer of any length."""
    assert value == _second(parse_json(_in_list(number, lone)))


@EITHER_READER
def test_the_first_integer_that_rounds_to_infinity_is_refused(lone: bool) -> None:
    """It is half a step above the largest double."""
    assert _refusal(_in_list(str(2**1024 - 2**970), lone)).reason == OVERFLOW


@EITHER_READER
@pytest.mark.parametrize("number", ["18446744073709551615", "9223372036854775808", "-9223372036854775808"])
def test_both_readers_read_the_same_integer(number: str, lone: bool) -> None:
    """A surrogate elsewhere in the document does not change the value of an integer."""
    value = _second(parse_json(_in_list(number, lone)))

    assert (int, int(number)) == (type(value), value)


@EITHER_READER
def test_the_last_of_two_equal_keys_wins_at_the_place_of_the_first(lone: bool) -> None:
    """As `JSON.parse` has it, also where the keys are escaped differently."""
    value = _second(parse_json(_in_list('{"a":1,"b":2,"\\u0061":3,"__proto__":4,"__proto__":5}', lone)))

    assert isinstance(value, dict)
    assert list(value.items()) == [("a", 3), ("b", 2), ("__proto__", 5)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\ud800"', "\ud800"),
        (b'"\\udfff\\ud800"', "\udfff\ud800"),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\ud83d\\ud83d\\ude00"', "\ud83d😀"),
        (b'"\\ud83d\\u0061"', "\ud83da"),
        ('"\\ud83d😀"'.encode(), "\ud83d😀"),
    ],
    ids=ascii,
)
def test_a_lone_surrogate_escape_is_kept(text: bytes, value: str) -> None:
    """A pair becomes one character."""
    assert value == parse_json(text)


def _assert_reader_agrees_with_node(oracle: CanonicalOracle, texts: list[bytes]) -> None:
    for text, expected in zip(texts, oracle.judge(texts), strict=True):
        if expected.error is not None or _hides_infinity(text):
            _refusal(text)
        else:
            assert expected.ecmascript == ecmascript_bytes(parse_json(text))


def _hides_infinity(text: bytes) -> bool:
    """Whether JavaScript drops an infinite number of the text, because a later key of the same name replaces it."""
    infinite: list[str] = []

    def note(number: str) -> float:
        if float(number) in (float("inf"), float("-inf")):
            infinite.append(number)
        return float(number)

    try:
        json.loads(text, parse_float=note, parse_int=note)
    except ValueError:
        return False
    return bool(infinite)


_LETTERS = [bytes([byte]) for byte in b'"\\,:[]{}0123456789.eE+-ntfalsu \t\r\n\x00\x0b\x1f/\xff']
_MORSELS = [b"", b"\xef\xbb\xbf", b"\xc2\xa0", b"\xc3", b"\xed\xa0\x80", b"NaN", b"\\ud800", b"1e"]


@st.composite
def damaged_texts(draw: st.DrawFn) -> bytes:
    """JSON texts with one to three bytes removed, inserted or replaced."""
    text = draw(shallow_texts)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(_LETTERS) | st.sampled_from(_MORSELS))
        text = text[:place] + piece + text[place + draw(st.integers(0, 1)) :]
    return text


@fuzz(150)
@given(texts=st.lists(damaged_texts(), min_size=1, max_size=10))
def test_a_damaged_text_is_refused_exactly_when_node_refuses_it(oracle: CanonicalOracle, texts: list[bytes]) -> None:
    _assert_reader_agrees_with_node(oracle, texts)


@pytest.mark.slow
@fuzz(600)
@given(texts=st.lists(damaged_texts() | st.binary(max_size=12), min_size=1, max_size=20))
def test_many_damaged_texts_are_refused_exactly_when_node_refuses_them(
    oracle: CanonicalOracle, texts: list[bytes]
) -> None:
    """The same for tens of thousands of texts, and for arbitrary bytes."""
    _assert_reader_agrees_with_node(oracle, texts)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1,"a":2}', {"a": {"[REPEATED]": [1, 2]}}),
        ('[{"x": {"a": ":", "b": {}, "a": ":"}}]', [{"x": {"a": {"[REPEATED]": [":", ":"]}, "b": {}}}]),
        ('{"a": "\\u003a", "b": 1, "b": 1}', {"a": ":", "b": {"[REPEATED]": [1, 1]}}),
        ('{"a": 18446744073709551617, "a": -1}', {"a": {"[REPEATED]": [18446744073709551617, -1]}}),
        ('{"a": "\\u003A\\":", "b": [{"a": 1}]}', {"a": ':":', "b": [{"a": 1}]}),
        ('{"a": 18446744073709551617}', {"a": 18446744073709551617}),
        ('{"a":{"[REPEATED]":[1,2]}}', {"a": {"[REPEATED]=": [1, 2]}}),
        ('{"\\u005bREPEATED]":1,"[REPEATED]=":2}', {"[REPEATED]=": 1, "[REPEATED]==": 2}),
        ('{"a": "[REPEATED]"}', {"a": "[REPEATED]"}),
    ],
)
def test_no_member_is_lost_where_names_repeat(text: str, value: JSON) -> None:
    """At any depth, and whatever colons are in strings."""
    assert value == parse_all_members(text.encode())


def test_repeated_names_that_nest_deeply_are_refused() -> None:
    """The value would nest deeper than every walk over it may rely on."""
    text = '{"a":1,"a":' * (DEPTH_MAX // 2) + "1" + "}" * (DEPTH_MAX // 2)

    with pytest.raises(NotJSON):
        parse_all_members(text.encode())


def test_a_long_value_that_nests_deeply_takes_little_memory() -> None:
    """Each of its numbers would be a line that begins with 400 spaces, if it were indented."""
    data = f"[{nest(','.join('1' * 100_000), DEPTH_MAX - 2)},{','.join(['[]'] * DEPTH_MAX)}]".encode()
    tracemalloc.start()
    try:
        parse_json(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 50 * len(data)
