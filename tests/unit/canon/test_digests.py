"""`canon/digests.py`: digests of content, recomputed here by hand."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz, strings
from support.node import CanonicalOracle
from traceforge.canon import (
    DIGEST_PATTERN,
    FieldsDigest,
    digest_bytes,
    digest_canonical,
    digest_canonical_line,
    digest_ecmascript,
    digest_fields,
    digest_text,
    encode_utf8,
    parse_json,
)

Fields = list[tuple[str, str | None]]

tags = st.sampled_from(["a", "b", "ab", "a_1"])
field_lists = st.lists(
    st.tuples(tags, st.none() | st.text("ab:-1\n") | st.text()), max_size=4
)  # Values that imitate the layout.


def _sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_the_digest_of_no_bytes_is_the_published_one() -> None:
    """The empty input has the SHA-256 that FIPS 180 examples print."""
    assert digest_bytes(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", b""),
        ("a\n", b"a\n"),
        ("é", b"\xc3\xa9"),
        ("e\u0301", b"e\xcc\x81"),
        ("😀", b"\xf0\x9f\x98\x80"),
        ("\ud83d\ude00", b"\xf0\x9f\x98\x80"),
        ("\ud800", b"\xef\xbf\xbd"),
        ("a\udfffb", b"a\xef\xbf\xbdb"),
        ("\ude00\ud83d", b"\xef\xbf\xbd\xef\xbf\xbd"),
        ("\ud83d\ud83d\ude00", b"\xef\xbf\xbd\xf0\x9f\x98\x80"),
        ("😀\ud800", b"\xf0\x9f\x98\x80\xef\xbf\xbd"),
    ],
    ids=ascii,
)
def test_a_string_is_hashed_as_the_bytes_javascript_would_send(text: str, data: bytes) -> None:
    """A lone surrogate counts as U+FFFD, a pair as its character, and nothing is normalised."""
    assert data == encode_utf8(text)
    assert _sha256(data) == digest_text(text)


@fuzz(60)
@given(texts=st.lists(strings(lone=True).map(str.encode), min_size=1, max_size=20))
def test_every_string_is_hashed_as_node_hashes_it(oracle: CanonicalOracle, texts: list[bytes]) -> None:
    """Node hashes the same UTF-8 for any string a JSON text can hold."""
    expected = [f"sha256:{answer.string_sha256}" for answer in oracle.judge(texts)]

    assert expected == [digest_text(str(parse_json(text))) for text in texts]


def test_each_digest_is_over_the_text_of_its_writer() -> None:
    """The sorted text, the sorted text and a newline, and the text in file order."""
    text = b'{"b":1.0,"a":[]}'

    assert _sha256(b'{"a":[],"b":1}') == digest_canonical(parse_json(text))
    assert _sha256(b'{"a":[],"b":1}') == digest_canonical(parse_json(text), may_modify=True)
    assert _sha256(b'{"a":[],"b":1}\n') == digest_canonical_line(parse_json(text))
    assert _sha256(b'{"b":1,"a":[]}') == digest_ecmascript(parse_json(text))
    assert _sha256(b'{"b":1,"a":[]}') == digest_ecmascript(parse_json(text), may_modify=True)


def test_a_composite_digest_has_the_documented_layout() -> None:
    """Domain line, then tag, length in bytes and value of each field; a null has `-` for a length."""
    fields: Fields = [("model", "é1"), ("seed", None), ("system", ""), ("note_2", "a\nb"), ("bad", "\ud800")]
    layout = b"traceforge.key\nmodel:3:\xc3\xa91\nseed:-\nsystem:0:\nnote_2:3:a\nb\nbad:3:\xef\xbf\xbd\n"

    assert _sha256(layout) == digest_fields("traceforge.key", fields)


@pytest.mark.parametrize(
    ("fields", "other"),
    [
        ([("a", "ab"), ("b", "c")], [("a", "a"), ("b", "bc")]),
        ([("a", None)], [("a", "")]),
        ([("a", None)], [("a", "-")]),
        ([("a", "")], [("a", "-")]),
        ([("a", "")], []),
        ([("a", None)], []),
        ([("a", "same")], [("b", "same")]),
        ([("a", "x"), ("b", "y")], [("b", "y"), ("a", "x")]),
        ([("a", "x\nb:1:y")], [("a", "x"), ("b", "y")]),
        ([("a", "é")], [("a", "e\u0301")]),
    ],
)
def test_different_fields_have_different_digests(fields: Fields, other: Fields) -> None:
    """No border between fields can be moved, and null, empty and `-` are three values."""
    assert digest_fields("d", fields) != digest_fields("d", other)


def test_equal_fields_in_two_domains_have_different_digests() -> None:
    """A key of one kind is never a key of another kind."""
    assert digest_fields("one", [("a", "x")]) != digest_fields("two", [("a", "x")])


@fuzz(500)
@given(fields=field_lists, other=field_lists)
def test_two_field_lists_have_one_digest_exactly_when_they_are_equal(fields: Fields, other: Fields) -> None:
    assert (fields == other) == (digest_fields("d", fields) == digest_fields("d", other))


@fuzz(300)
@given(fields=field_lists, data=st.data())
def test_a_small_change_of_a_field_changes_the_digest(fields: Fields, data: st.DataObject) -> None:
    """Moving one character over a border, or putting null in place of a value, changes the digest."""
    fields = [*fields, ("a", data.draw(st.text(min_size=1))), ("b", data.draw(st.text()))]
    tag, text = fields[-2]
    assert text
    last = fields[-1][1] or ""
    moved: Fields = [*fields[:-2], (tag, text[:-1]), ("b", text[-1] + last)]
    nulled: Fields = [*fields[:-2], (tag, None), ("b", last)]

    assert len({digest_fields("d", variant) for variant in (fields, moved, nulled)}) == 3


@pytest.mark.parametrize("tag", ["", "1a", "a b", "a:1", "a\n", "a\nb", "a-b"])
def test_a_tag_with_a_colon_or_newline_raises(tag: str) -> None:
    """It could imitate the layout."""
    with pytest.raises(AssertionError, match="not a tag"):
        digest_fields("d", [(tag, "x")])


def test_a_digest_fits_the_pattern_of_digests() -> None:
    assert re.search(DIGEST_PATTERN, digest_text("anything"))


@pytest.mark.parametrize(
    "wrong",
    [
        "sha256:" + "a" * 64 + "\n",
        "\nsha256:" + "a" * 64,
        " sha256:" + "a" * 64,
        "sha256:" + "a" * 63,
        "sha256:" + "a" * 65,
        "sha256:" + "A" * 64,
        "sha256:" + "g" * 64,
        "sha256:" + "\u0663" * 64,
        "SHA256:" + "a" * 64,
        "sha512:" + "a" * 64,
        "a" * 64,
        "",
    ],
    ids=ascii,
)
def test_the_pattern_of_digests_refuses_everything_else(wrong: str) -> None:
    """A final newline, another case, another length, another tag."""
    assert re.search(DIGEST_PATTERN, wrong) is None


@pytest.mark.parametrize("last", ["", "x", "é\n", "x" * 5000])
def test_repeated_fields_give_the_same_digest(last: str) -> None:
    """With any last field."""
    fields = [("a", "one"), ("b", None), ("c", "é")]

    begun = FieldsDigest("d/1", fields, "e")

    assert digest_fields("d/1", [*fields, ("e", last)]) == begun.digest(last.encode())
    assert digest_fields("d/1", [*fields, ("e", "more")]) == begun.digest(b"more")
