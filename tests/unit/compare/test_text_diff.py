"""`compare/text_diff.py`: both texts can be rebuilt from the difference, it is made of words, its work is bounded."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.example_counts import RunLength
from support.work_counts import count_lines
from traceforge.compare import text_diff as module
from traceforge.compare.text_diff import (
    TextSegment,
    count_words,
    diff_words,
    has_same_text_without_space,
    split_tokens,
)

_ALPHABET = [
    "a",
    "b",
    "the ",
    " ",
    "  ",
    "\n",
    ". ",
    "! ",
    ", ",
    "1",
    "3.14",
    "é",
    "'",
    "日",
    "本",
    "_",
    "-",
    "😀",
    "\ud800",
]
texts = st.lists(st.sampled_from(_ALPHABET), max_size=30).map("".join) | st.text(max_size=30)


def _edits(before: str, after: str) -> list[tuple[str, str]]:
    return [(edit.before, edit.after) for edit in diff_words(before, after).edits]


@given(texts, texts)
def test_both_texts_can_be_rebuilt(before: str, after: str) -> None:
    diff = diff_words(before, after)

    assert (before, after) == (diff.before, diff.after)


@given(texts, texts, st.integers(0, 40))
def test_both_texts_can_be_rebuilt_where_the_work_runs_out(before: str, after: str, work: int) -> None:
    """However coarse the comparison became."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WORK_MAX", work)
        patch.setattr(module, "HUNK_WORK_MAX", work // 4)
        diff = diff_words(before, after)

    assert (before, after) == (diff.before, diff.after)


@given(texts, texts)
def test_stretches_alternate_and_none_is_empty(before: str, after: str) -> None:
    """Two adjacent edits would be one edit."""
    stretches = diff_words(before, after).segments

    assert [] == [stretch for stretch in stretches if not stretch.before and not stretch.after]
    assert [] == [pair for pair in pairwise(stretches) if pair[0].is_same == pair[1].is_same]


@given(texts)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    assert () == diff_words(text, text).edits


@given(texts)
def test_tokens_joined_are_the_text(text: str) -> None:
    assert text == "".join(split_tokens(text))


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Don't panic, it’s 3.14!", ["Don't", " ", "panic", ",", " ", "it’s", " ", "3.14", "!"]),
        ("2026-01-09 10:30", ["2026-01-09", " ", "10:30"]),
        ("a  b\n\nc", ["a", "  ", "b", "\n\n", "c"]),
        ("日本語 is", ["日", "本", "語", " ", "is"]),
        ("1.5x", ["1", ".", "5x"]),
    ],
)
def test_a_token_is_a_word_a_number_a_space_or_one_other_character(text: str, cut: list[str]) -> None:
    """Numbers, dates and words with an apostrophe are one token; Chinese is split by character."""
    assert cut == split_tokens(text)


@pytest.mark.parametrize(
    ("before", "after", "edits"),
    [
        ("You are a precise assistant.", "You are a terse assistant.", [("precise", "terse")]),
        ("It costs 3.14 euro", "It costs 3.15 euro", [("3.14", "3.15")]),
        ("red green blue", "one two three", [("red green blue", "one two three")]),
        ("a b c", "a  b c", [(" ", "  ")]),
        ("one", "one two", [("", " two")]),
        ("", "x", [("", "x")]),
    ],
)
def test_an_edit_is_whole_words(before: str, after: str, edits: list[tuple[str, str]]) -> None:
    """Edits with only a space between them are one."""
    assert edits == _edits(before, after)


def test_many_edits_in_a_long_text_are_compared_by_sentence() -> None:
    """Beyond the work limit for words, sentences are compared, then the words of those that changed."""
    sentences = [f"Sentence number {place} says something of its own. " for place in range(3_000)]
    edited = [text.replace("something", "nothing") if i % 3 == 0 else text for i, text in enumerate(sentences)]

    diff = diff_words("".join(sentences), "".join(edited))

    assert "sentence" == diff.unit
    assert {("something", "nothing")} == {(edit.before, edit.after) for edit in diff.edits}
    assert 1_000 == len(diff.edits)


def _random_text(seed: int, pieces: list[str], size: int) -> str:
    return "".join(random.Random(seed).choices(pieces, k=size // len(pieces[0])))


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(["word ", "other ", "end. ", "line\n"], marks=pytest.mark.slow),
        ["a", "b", " ", ","],
        [" "],
        ["."],
        ["_"],
        pytest.param(["日", "本"], marks=pytest.mark.slow),
        ["a b "],
        pytest.param(["x\n", "y\n"], marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_the_work_of_a_comparison_grows_no_faster_than_the_texts(pieces: list[str]) -> None:
    """Also where the texts share nothing or repeat one piece."""

    def work(size: int) -> int:
        before, after = _random_text(1, pieces, size), "x" + _random_text(2, pieces, size)[:-5] + "y"
        return count_lines(lambda: diff_words(before, after))

    size = 5_000 if RunLength.is_short else 10_000
    assert work(4 * size) <= 4.2 * work(size)


def test_a_megabyte_is_compared_whole() -> None:
    """Both sides can be rebuilt from the difference."""
    pieces = ["word ", "other ", "end. ", "line\n"]
    before, after = _random_text(1, pieces, 1_000_000), "x" + _random_text(2, pieces, 1_000_000)

    diff = diff_words(before, after)

    assert (before, after) == (diff.before, diff.after)


def test_a_difference_in_white_space_only_is_recognised() -> None:
    """Equal texts do not differ in white space."""
    assert has_same_text_without_space("a b", "a\n b ")
    assert not has_same_text_without_space("a b", "a c")
    assert not has_same_text_without_space("a b", "a b")


def test_words_are_counted_in_any_script() -> None:
    """A word is a run of letters and digits; each Chinese character is one."""
    assert 5 == count_words("Don't stop, 日本 now!")


def test_a_stretch_is_printed_with_its_sides() -> None:
    """An equal stretch has its text once."""
    assert [{"same": "a"}, {"before": "b", "after": "c"}] == [
        stretch.to_json() for stretch in (TextSegment("a", "a"), TextSegment("b", "c"))
    ]
