"""The word-level difference of two texts.

In: two strings, already redacted. Out: segments that, joined, give either text back to the last character. Never:
normalises, trims, or works without a bound (WORK_MAX, HUNK_WORK_MAX).

A *token* is a word (with its apostrophes), a number with its points (`3.14`, `2026-01-09`, `10:30`), a run of white
space, or one other character. Characters of Chinese and Japanese, which have no spaces, are a token each.

    up to WORK_MAX steps    tokens are compared
    beyond                  lines and sentences are compared, then the tokens inside each that changed,
                            while the work left allows it; else the sentence is shown as replaced
    beyond that too         sentences that occur once in each text are paired, and the rest as before
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from traceforge.canon import JSON
from traceforge.compare.sequence_diff import Pairs, list_gaps, match_equal, match_equal_counted, match_unique

WORK_MAX = 200_000  # Steps of the search, about 0.1 s: some 600 scattered edits in a text of any length.
HUNK_WORK_MAX = 5_000  # Steps for one changed sentence: some 100 edits in it; beyond, it is a new sentence.
FOLD_CHARS_MAX = 3  # `, ` between two changed words is not worth keeping apart; a ruler of dashes is.

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = rf"[^\W{_CJK}]+"
# Not compiled here: these two take 12 ms, which every start of the gate would pay. `re` keeps what it compiled.
_TOKEN = rf"(?s:\d+(?:[.,:/-]\d+)+(?!\w)|{_LETTERS}(?:['’]{_LETTERS})*|[{_CJK}]|\s+|.)"
_WORD = rf"{_LETTERS}(?:['’]{_LETTERS})*|[{_CJK}]"
_SENTENCE = re.compile(r"[^\n.!?]*(?:[.!?]+\s*|\n\s*|\Z)")
_HAS_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class TextSegment:
    """A segment of both texts: the same in both, or the text before and the text after."""

    before: str
    after: str

    @property
    def is_same(self) -> bool:
        """Whether the segment is the same in both texts."""
        return self.before == self.after

    def to_json(self) -> JSON:
        """`{"same": …}`, or `{"before": …, "after": …}`."""
        return {"same": self.before} if self.is_same else {"before": self.before, "after": self.after}


@dataclass(frozen=True)
class TextDiff:
    """Two texts as stretches, alternately the same and changed, none empty.

    `unit` says what was compared: `word`, or `sentence` where the texts differ too much for words.
    """

    segments: tuple[TextSegment, ...]
    unit: Literal["word", "sentence"] = "word"

    @cached_property
    def before(self) -> str:
        return "".join(segment.before for segment in self.segments)

    @cached_property
    def after(self) -> str:
        return "".join(segment.after for segment in self.segments)

    @property
    def edits(self) -> tuple[TextSegment, ...]:
        """The segments that differ, without the equal ones."""
        return tuple(segment for segment in self.segments if not segment.is_same)

    def to_json(self) -> JSON:
        """The unit and the stretches."""
        return {"unit": self.unit, "stretches": [segment.to_json() for segment in self.segments]}


def diff_words(before: str, after: str) -> TextDiff:
    """Compare two texts word by word; see the top of this module for what a word is and for the limits."""
    if before == after:
        return TextDiff((TextSegment(before, after),) if before else ())
    old, new = split_tokens(before), split_tokens(after)
    pairs = match_equal(old, new, WORK_MAX)
    if pairs is not None:
        return TextDiff(tuple(_merge_segments(_segments(old, new, pairs))))
    return TextDiff(tuple(_merge_segments(_sentence_segments(before, after))), "sentence")


def has_same_text_without_space(before: str, after: str) -> bool:
    """Whether two different texts are equal without their white space."""
    return before != after and "".join(before.split()) == "".join(after.split())


def split_tokens(text: str) -> list[str]:
    """Cut a text into words, runs of white space and single other characters; joined, they are the text."""
    return re.findall(_TOKEN, text)


def count_words(text: str) -> int:
    """How many words a text has; each Chinese or Japanese character counts as one."""
    return sum(1 for _ in re.finditer(_WORD, text))


def split_words(text: str) -> list[str]:
    """The words of a text, without white space and punctuation."""
    return re.findall(_WORD, text)


def _segments(old: list[str], new: list[str], pairs: Pairs) -> Iterator[TextSegment]:
    i = 0
    for gap in list_gaps(pairs, len(old), len(new)):
        same = "".join(old[i : gap.start])
        yield TextSegment(same, same)
        yield TextSegment("".join(old[gap.start : gap.end]), "".join(new[gap.after_start : gap.after_end]))
        i = gap.end
    same = "".join(old[i:])
    yield TextSegment(same, same)


def _sentence_segments(before: str, after: str) -> Iterator[TextSegment]:
    """Compare sentences, then words inside each stretch that changed, while there is work left for it."""
    old, new = _sentences(before), _sentences(after)
    pairs = match_equal(old, new, WORK_MAX)
    work_left = WORK_MAX
    for segment in _segments(old, new, match_unique(old, new) if pairs is None else pairs):
        if segment.is_same or work_left <= 0:
            yield segment
            continue
        inner_old, inner_new = split_tokens(segment.before), split_tokens(segment.after)
        inner, work = match_equal_counted(inner_old, inner_new, min(work_left, HUNK_WORK_MAX))
        work_left -= work
        yield from [segment] if inner is None else _segments(inner_old, inner_new, inner)


def _sentences(text: str) -> list[str]:
    """Split a text after every line and sentence; joined, the pieces are the text."""
    return [sentence for sentence in _SENTENCE.findall(text) if sentence]


def _merge_segments(segments: Iterable[TextSegment]) -> list[TextSegment]:
    """Drop what is empty, and join edits that only a space or a comma keeps apart."""
    merged: list[TextSegment] = []
    for segment in segments:
        if not segment.before and not segment.after:
            continue
        if merged and merged[-1].is_same == segment.is_same:
            merged[-1] = _join(merged[-1], segment)
        elif not segment.is_same and len(merged) > 1 and _is_slight(merged[-1].before):
            slight = merged.pop()
            merged[-1] = _join(merged[-1], slight, segment)
        else:
            merged.append(segment)
    return merged


def _is_slight(text: str) -> bool:
    return len(text) <= FOLD_CHARS_MAX and not _HAS_WORD.search(text)


def _join(*segments: TextSegment) -> TextSegment:
    return TextSegment("".join(s.before for s in segments), "".join(s.after for s in segments))
