"""The difference of two texts for a page: inline, or side by side.

In: two texts, already redacted. Out: lines of escaped HTML in which `<del>` and `<ins>` mark the words that changed.
Never: compares by itself (`compare/text_diff.py` does, with a bound); shows more than LINES_MAX lines.

    inline         one text with both versions of what changed
    side by side   two columns; lines that both texts have in common are on one row

Unchanged lines further than CONTEXT_LINES from a change are folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Literal

from markupsafe import Markup

from traceforge.compare.text_diff import TextDiff, count_words, diff_words
from traceforge.ui.views.json_view import folded_html
from traceforge.ui.views.text_view import fold_text

CONTEXT_LINES = 3  # As Git shows.
FOLD_LINES_MIN = 3  # Fewer unchanged lines are not worth a click.
FOLDED_LINES_MAX = 400  # Of one fold; the rest is counted.
LINES_MAX = 2_000  # Of one diff on a page; the rest is counted.
PIECE_CHARS = 2_000  # Of one segment inside a line before it is folded.

LineKind = Literal["same", "changed", "added", "removed", "fold", "cut"]


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff. A `fold` holds unchanged lines, and `cut` says in `label` what is not on the page."""

    kind: LineKind
    before: Markup | None = None
    after: Markup | None = None
    before_number: int | None = None
    after_number: int | None = None
    label: str = ""
    lines: tuple[DiffLine, ...] = ()


@dataclass(frozen=True)
class TextDiffView:
    """The comparison of two texts, line by line."""

    diff: TextDiff

    @property
    def words_added(self) -> int:
        return sum(count_words(segment.after) for segment in self.diff.edits)

    @property
    def words_removed(self) -> int:
        return sum(count_words(segment.before) for segment in self.diff.edits)

    @cached_property
    def side_lines(self) -> tuple[DiffLine, ...]:
        """The lines of both texts beside each other."""
        return tuple(_fold_unchanged(list(_side_lines(self.diff))))

    @cached_property
    def inline_lines(self) -> tuple[DiffLine, ...]:
        """The lines of one text that holds both versions; each has its HTML in `after`."""
        return tuple(_fold_unchanged(list(_inline_lines(self.diff))))


def view_text_diff(before: str, after: str) -> TextDiffView:
    """Compare two texts word by word."""
    return TextDiffView(diff_words(before, after))


def _piece_html(text: str, tag: str = "") -> str:
    html = folded_html(fold_text(text, PIECE_CHARS))
    return f"<{tag}>{html}</{tag}>" if tag and text else html


class _Column:
    """The lines of one side, since both sides last ended a line together."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.number = 0
        self.pieces: list[str] = []
        self.lines: list[tuple[Markup, int]] = []

    def add(self, text: str, is_edit: bool) -> None:
        self.pieces.append(_piece_html(text, self.tag if is_edit else ""))

    def end_line(self) -> None:
        self.number += 1
        html = Markup("".join(self.pieces))  # noqa: S704 (every piece is escaped)
        self.lines.append((html, self.number))
        self.pieces = []

    def take_lines(self) -> list[tuple[Markup, int]]:
        lines, self.lines = self.lines, []
        return lines


def _side_lines(diff: TextDiff) -> Iterator[DiffLine]:
    columns = _Column("del"), _Column("ins")
    for segment in diff.segments:
        if segment.is_same:
            for place, text in enumerate(segment.before.split("\n")):
                if place:
                    yield from _end_lines(columns)
                for column in columns if text else ():
                    column.add(text, is_edit=False)
            continue
        for column, text in zip(columns, (segment.before, segment.after), strict=True):
            _add_edit(column, text)
        if not any(column.pieces for column in columns):  # Both are at the start of a line: what follows is level.
            yield from _pair_lines(columns)
    yield from _end_lines(columns)


def _add_edit(column: _Column, text: str) -> None:
    for place, line in enumerate(text.split("\n")):
        if place:
            column.end_line()
        if line:
            column.add(line, is_edit=True)


def _end_lines(columns: tuple[_Column, _Column]) -> Iterator[DiffLine]:
    """End the line of both sides, and pair the lines since both last ended one together."""
    for column in columns:
        column.end_line()
    yield from _pair_lines(columns)


def _pair_lines(columns: tuple[_Column, _Column]) -> Iterator[DiffLine]:
    for old, new in zip_longest(columns[0].take_lines(), columns[1].take_lines()):
        if old is None or new is None:
            html, number = old or new
            yield DiffLine("removed", html, None, number) if old else DiffLine("added", None, html, None, number)
        else:
            yield DiffLine("same" if old[0] == new[0] else "changed", old[0], new[0], old[1], new[1])


def _inline_lines(diff: TextDiff) -> Iterator[DiffLine]:
    pieces: list[str] = []
    number, is_changed = 1, False
    for text, tag in _inline_pieces(diff):
        for place, line in enumerate(text.split("\n")):
            if place:
                yield _inline_line(pieces, number, is_changed or bool(tag))
                pieces, number, is_changed = [], number + 1, False
            if line:
                pieces.append(_piece_html(line, tag))
                is_changed = is_changed or bool(tag)
    yield _inline_line(pieces, number, is_changed)


def _inline_pieces(diff: TextDiff) -> Iterator[tuple[str, str]]:
    for segment in diff.segments:
        if segment.is_same:
            yield segment.before, ""
        else:
            yield segment.before, "del"
            yield segment.after, "ins"


def _inline_line(pieces: Iterable[str], number: int, is_changed: bool) -> DiffLine:
    html = Markup("".join(pieces))  # noqa: S704 (every piece is escaped)
    return DiffLine("changed" if is_changed else "same", None, html, None, number)


def _fold_unchanged(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    """Fold unchanged lines that are far from a change, and cut what a page cannot hold."""
    visible = 0
    start = 0
    while start < len(lines):
        end = start + 1
        if lines[start].kind == "same":
            while end < len(lines) and lines[end].kind == "same":
                end += 1
            head = CONTEXT_LINES if start else 0
            tail = CONTEXT_LINES if end < len(lines) else 0
            yield from _fold(lines[start:end], head, tail)
            visible += min(end - start, head + tail)
        else:
            yield lines[start]
            visible += 1
        start = end
        if visible >= LINES_MAX and start < len(lines):
            yield DiffLine("cut", label=f"{len(lines) - start:,} more lines are not shown")
            return


def _fold(lines: Sequence[DiffLine], head: int, tail: int) -> Iterator[DiffLine]:
    inner = lines[head : len(lines) - tail]
    if len(inner) < FOLD_LINES_MIN:
        yield from lines
        return
    unfolded = tuple(inner[:FOLDED_LINES_MAX])
    if len(unfolded) < len(inner):
        unfolded += (DiffLine("cut", label=f"{len(inner) - len(unfolded):,} more lines are not shown"),)
    yield from lines[:head]
    yield DiffLine("fold", label=f"{len(inner):,} unchanged lines", lines=unfolded)
    yield from lines[len(lines) - tail :]
