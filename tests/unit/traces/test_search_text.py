"""The words of a trace, and of a query."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import CHAT, COMPOSER, chat_answer, chat_request, make_exchange, parse_object
from support.json_texts import fuzz
from traceforge.traces.search_text import (
    BLOB_LENGTH_MIN,
    TERMS_MAX,
    TEXT_LENGTH_MAX,
    join_characters,
    match_expression,
    separate_characters,
    trace_text,
)


def _text(request: Any, response: Any, **fields: Any) -> str:
    return trace_text(parse_object(COMPOSER.compose(make_exchange(CHAT, request, response, **fields)).trace))


def test_prompt_and_response_are_searchable() -> None:
    """In order; ids, models, roles, kinds and counts are none."""
    text = _text(chat_request("what is it?"), chat_answer("a cat"))

    assert "what is it?\na cat" == text


def test_an_error_is_searchable() -> None:
    assert "too many requests" in _text(chat_request("x"), {"error": {"message": "too many requests"}}, status=429)


def test_a_call_of_an_unknown_dialect_is_found_by_its_body() -> None:
    """Text, or another provider's JSON."""
    assert "plain words" in _text(b"plain words", b"more words")


def test_binary_data_and_very_long_texts_do_not_fill_the_index() -> None:
    """Images are skipped, and only the beginning of a long text is indexed."""
    picture = "iVBORw0KGgo" * (BLOB_LENGTH_MIN // 11 + 1)
    text = _text(chat_request(picture + "\n" + picture), chat_answer("word " * TEXT_LENGTH_MAX))

    assert "iVBOR" not in text
    assert len(text) <= TEXT_LENGTH_MAX + 50


@given(st.text(max_size=60))
def test_separated_characters_are_joined_again(text: str) -> None:
    """A snippet reads as it was written, but for spaces that stood between characters of such scripts."""
    assert text.encode("utf-8", "replace").decode().replace(" ", "") == join_characters(
        separate_characters(text)
    ).replace(" ", "")


@pytest.mark.parametrize("text", ["日本語", "a日本b", "한국어 텍스트", "ภาษาไทย", "漢字とkana"])
def test_scripts_without_spaces_read_as_they_were_written(text: str) -> None:
    """Up to spaces at the borders of other scripts."""
    assert text.replace(" ", "") == join_characters(separate_characters(text)).replace(" ", "")
    assert "  " not in join_characters(separate_characters("日本語")).strip()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("a b", '"a" AND "b"'), ('"a b" c', '"a b" AND "c"'), ("a*", '"a"*'), ('"a', '"a"'), ("a AND b OR c",
        '"a" AND "AND" AND "b" AND "OR" AND "c"'), ("x:y -z", '"x:y" AND "-z"'), ("", '""'), ("* ( ) ^", '""'),
        ("a a a", '"a"'), ("日本", '" 日  本 "'),
    ],
)  # fmt: skip
def test_a_query_is_words_phrases_and_beginnings(query: str, expected: str) -> None:
    """Nothing in it is an operator."""
    assert expected == match_expression(query)


def test_the_number_of_terms_of_a_query_is_limited() -> None:
    """The first ones."""
    assert TERMS_MAX == match_expression(" ".join(map(str, range(10 * TERMS_MAX)))).count(" AND ") + 1


@fuzz(500)
@given(st.text(max_size=50))
def test_every_expression_is_valid_for_sqlite(query: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")

    assert [] == connection.execute("SELECT * FROM texts WHERE texts MATCH ?", (match_expression(query),)).fetchall()
    connection.close()
