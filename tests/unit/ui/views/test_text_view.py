"""Any text as HTML that shows every character of it."""

from __future__ import annotations

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.parsed_html import ParsedHtml
from traceforge.redact.redactions import REDACTED
from traceforge.terminal import escape_characters
from traceforge.ui.views.text_view import (
    FOLD_CHARS,
    LINE_SEARCH_CHARS,
    TAIL_CHARS_MAX,
    fold_text,
    format_size,
    visible_html,
)

ANY_TEXT = st.text(
    st.characters() | st.sampled_from("<>&\"'[]\n\t\r\x00\x1b\u202e\u200b\ufeff\ud800\udfff\U000e0001")
)

OUR_ELEMENTS = {("span", "control"), ("mark", "redacted")}


def test_markup_is_shown_as_text() -> None:
    """Tags, quotes and entities of a text are escaped."""
    text = """<script>alert("x")</script> <b onclick='y'> &amp; {{ 7*7 }}"""

    html = visible_html(text)

    assert [] == ParsedHtml(html).elements
    assert text == ParsedHtml(html).text


def test_a_bidirectional_character_is_visible_and_named() -> None:
    """The order of a line cannot be changed by a character that nobody sees."""
    expected = 'a<span class="control" title="U+202E RIGHT-TO-LEFT OVERRIDE">\\u202e</span>b'

    assert expected == visible_html("a\u202eb")


@pytest.mark.parametrize(
    ("char", "shown", "title"),
    [
        ("\x00", "\\x00", "U+0000 NULL"),
        ("\x1b", "\\x1b", "U+001B ESCAPE"),
        ("\r", "\\r", "U+000D CARRIAGE RETURN"),
        ("\x85", "\\x85", "U+0085"),
        ("\u200b", "\\u200b", "U+200B ZERO WIDTH SPACE"),
        ("\u3164", "\\u3164", "U+3164 HANGUL FILLER"),
        ("\ud83d", "\\ud83d", "U+D83D LONE SURROGATE"),
        ("\U000e0041", "\\U000e0041", "U+E0041 TAG LATIN CAPITAL LETTER A"),
    ],
)
def test_hidden_characters_are_shown_as_a_terminal_shows_them(char: str, shown: str, title: str) -> None:
    """Control, zero-width and invisible characters, and halves of surrogate pairs."""
    page = ParsedHtml(visible_html(f"é{char}é"))

    assert f"é{shown}é" == page.text
    assert [{"class": "control", "title": title}] == [element.attributes for element in page.elements]


def test_a_run_of_hidden_characters_is_one_span() -> None:
    """A million of them would otherwise be a million elements."""
    (span,) = ParsedHtml(visible_html("\u200b\u200c\u200d\u200e\u200f" * 1000)).elements

    assert "control" == span.attributes["class"]
    assert str(span.attributes["title"]).startswith("U+200B ZERO WIDTH SPACE, U+200C")
    assert str(span.attributes["title"]).endswith(", …")


def test_a_redaction_is_marked() -> None:
    """The plain marker, and the temporary one of a single secret; nothing that only resembles them."""
    html = visible_html(f"key {REDACTED}, [REDACTED#abcdefghij] and [REDACTED#x] [redacted]")

    assert 2 == len(ParsedHtml(html).find_all("mark", "redacted"))
    assert '<mark class="redacted">[REDACTED]</mark>, <mark class="redacted">[REDACTED#abcdefghij]</mark> and' in html


@given(ANY_TEXT)
def test_any_text_is_inert_and_whole(text: str) -> None:
    """The page has no other element than our two, no hidden character, and the text as a terminal has it."""
    html = visible_html(text)
    page = ParsedHtml(html)

    assert {(element.tag, element.attributes["class"]) for element in page.elements} <= OUR_ELEMENTS
    assert [] == page.unbalanced
    assert escape_characters(text) == page.text
    html.encode()
    assert escape_characters(unescape(html)) == unescape(html)


def test_a_short_text_is_not_folded() -> None:
    """Folding a few characters would hide more than it saves."""
    text = "x" * (FOLD_CHARS + LINE_SEARCH_CHARS)

    assert (text, "", 0) == fold_text(text)
    assert "" == fold_text(text).label


def test_a_long_text_is_folded_at_a_line() -> None:
    """The parts give the text back, and the visible one ends with a line."""
    text = ("word " * 19 + "end\n") * 100

    folded = fold_text(text)

    assert text == folded.head + folded.tail
    assert folded.head.endswith("end\n")
    assert FOLD_CHARS - LINE_SEARCH_CHARS < len(folded.head) <= FOLD_CHARS
    assert "Show 6 kB more" == folded.label


def test_a_line_is_folded_between_two_words() -> None:
    """A word, or a marker of a redaction, is not cut in two."""
    folded = fold_text("x" * (FOLD_CHARS - 5) + " [REDACTED] " + "y" * FOLD_CHARS)

    assert folded.head.endswith("x ")
    assert folded.tail.startswith("[REDACTED]")


def test_a_line_of_5_mb_is_bounded() -> None:
    """The page holds a part of it, and says how much more there is."""
    folded = fold_text("x" * 5_000_000)

    assert FOLD_CHARS == len(folded.head)
    assert TAIL_CHARS_MAX == len(folded.tail)
    assert 5_000_000 == len(folded.head) + len(folded.tail) + folded.omitted
    assert "Show 5.0 MB more" == folded.label


@pytest.mark.parametrize(
    ("characters", "size"),
    [(1, "1 character"), (999, "999 characters"), (1_000, "1 kB"), (999_499, "999 kB"), (999_500, "1.0 MB")],
)
def test_sizes_are_rounded_within_their_unit(characters: int, size: str) -> None:
    """`1000 kB` is never printed."""
    assert size == format_size(characters)
