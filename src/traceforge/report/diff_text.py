"""A comparison of two calls for a terminal.

In: a comparison. Out: text. Never: prints, decides, or lets a character of a call move the cursor, start a line at
the margin, or look like one of our own marks.

    [-removed-]  {+added+}  … 42 words …     the last replaces words that are equal in both
    ·  ⏎                                     a space and a line ending that changed

A text keeps its lines. Each starts after a bar, so none can be mistaken for a line of the report. With `colour`,
removed text is red and added text green; the marks stay, for readers who cannot tell the two apart.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from traceforge.canon import JSON, json_path
from traceforge.compare.answer_diff import ChoiceDiff, ToolCallChange
from traceforge.compare.classification import ClassifiedChange, value_text
from traceforge.compare.comparison import Comparison
from traceforge.compare.json_diff import ABSENT, Absent, ValueChange
from traceforge.compare.request_diff import ItemChange
from traceforge.compare.text_diff import TextSegment, count_words, diff_words, split_tokens
from traceforge.report.text_format import count
from traceforge.terminal import one_line

CONTEXT_WORDS = 8  # Enough words around an edit to recognise the place.
EDIT_WORDS_MAX = 400  # A screen full; more is shown with `full`.
VALUE_CHARS_MAX = 120
SECTION_LINES_MAX = 40  # An embedding differs in 1,536 places.

_RED, _GREEN, _RESET = "\x1b[31m", "\x1b[32m", "\x1b[0m"
_MARK = re.compile(r"\[(?=-)|-(?=\])|\{(?=\+)|\+(?=\})")
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "renamed": "~", "moved": ">"}
_GUTTER = "\n        | "


def comparison_text(comparison: Comparison, *, colour: bool = False, full: bool = False) -> str:
    """Print the rules that matched, then every difference; `full` shortens nothing."""
    return "\n".join(_ComparisonWriter(colour, full).lines(comparison))


def text_diff(before: str, after: str) -> str:
    """The words that changed between two texts: on the same line, or below for texts of several lines."""
    return _ComparisonWriter(colour=False, full=False).text(diff_words(before, after).segments)


class _ComparisonWriter:
    """Writes a comparison with one choice of colour and length."""

    def __init__(self, colour: bool, full: bool) -> None:
        self.colour = colour
        self.full = full

    def lines(self, comparison: Comparison) -> Iterator[str]:
        if not comparison.has_changed:
            yield "unchanged"
        for change in comparison.changes:
            yield from _change_lines(change)
        yield from self.section("settings", (self.row(row) for row in comparison.parameters))
        yield from self.section("prompt", (self.row(row) for row in comparison.request.prompt))
        yield from self.section("messages", self.items(comparison.request.messages))
        yield from self.section("tools", self.items(comparison.request.tools))
        for choice in comparison.answer.choices:
            title = f"answer {choice.index}" if choice.index else "answer"
            yield from self.section(title, self.choice(choice))
        yield from self.section("answer", (self.row(row) for row in comparison.answer.other))
        if comparison.answer.served_model:
            yield from ("", f"note: another model answered: {self.values(comparison.answer.served_model)}")

    def section(self, title: str, lines: Iterable[str]) -> Iterator[str]:
        all_lines = list(lines)
        visible = all_lines if self.full else all_lines[:SECTION_LINES_MAX]
        if all_lines:
            yield from ("", title, *visible)
        if len(visible) < len(all_lines):
            yield f"    … {count(len(all_lines) - len(visible), 'more line')} …"

    def items(self, changes: Iterable[ItemChange]) -> Iterator[str]:
        for change in changes:
            moved = ", moved" if change.moved and change.rows else ""
            name = f" ({one_line(change.name)})" if change.name else ""
            yield f"  {_SIGNS[change.kind]} {one_line(change.path)}{name} {change.kind}{moved}"
            for row in change.rows or _member_rows(change):
                yield self.row(row, row.path.removeprefix(change.path))

    def choice(self, choice: ChoiceDiff) -> Iterator[str]:
        if choice.before is None or choice.after is None:
            old, new = (side.text if side else ABSENT for side in (choice.before, choice.after))
            yield self.row(
                ValueChange(choice.path, old, new), "text added" if choice.before is None else "text removed"
            )
            return
        for label, row in (("text", choice.text), ("refusal", choice.refusal)):
            if row:
                yield self.row(row, label)
        if choice.finish_reason:
            yield f"    finish_reason: {self.values(choice.finish_reason)}"
        for change in choice.tool_calls:
            yield from self.tool_call(change)
        for row in choice.other:
            yield self.row(row)

    def tool_call(self, change: ToolCallChange) -> Iterator[str]:
        name = one_line(change.name) or "(no name)"
        if change.before is None or change.after is None:
            call = change.after or change.before
            arguments = self.value(call.arguments if call else None)
            yield f"  {_SIGNS[change.kind]} tool call {name} {change.kind}: {arguments}"
            return
        yield f"  {_SIGNS[change.kind]} tool call {name} {change.kind}"
        for row in change.rows:
            yield self.row(row)

    def row(self, row: ValueChange, label: str | None = None) -> str:
        """One difference: a text as a diff of words, any other value as before and after."""
        name = one_line(row.path if label is None else label)
        if row.text and _is_prose(row):
            return f"    {name}:{self.text(row.text.segments)}"
        if isinstance(row.before, Absent) and isinstance(row.after, str):
            return f"    {name}:{self.text((TextSegment('', row.after),))}"
        if isinstance(row.after, Absent) and isinstance(row.before, str):
            return f"    {name}:{self.text((TextSegment(row.before, ''),))}"
        return f"    {name}: {self.values(row)}"

    def values(self, row: ValueChange) -> str:
        return f"{self.value(row.before)} → {self.value(row.after)}"

    def value(self, value: JSON | Absent) -> str:
        return one_line(value_text(value, sys.maxsize if self.full else VALUE_CHARS_MAX))

    def text(self, stretches: tuple[TextSegment, ...]) -> str:
        parts = []
        last = len(stretches) - 1
        for place, stretch in enumerate(stretches):
            if stretch.is_same:
                parts.append(_lines(self.elided(stretch.before, place > 0, place < last)))
            else:
                parts += [self.edit(stretch.before, "[-", "-]", _RED), self.edit(stretch.after, "{+", "+}", _GREEN)]
        text = "".join(parts)
        return (_GUTTER if "\n" in text else " ") + text

    def elided(self, text: str, after_edit: bool, before_edit: bool) -> str:
        """The words next to an edit, and how many words are left out."""
        total = 0 if self.full else count_words(text)
        kept_words = CONTEXT_WORDS * (after_edit + before_edit)
        if total <= kept_words + 3:  # `… 3 words …` is longer than three words.
            return text
        pieces = split_tokens(text)
        head = _first_words(pieces, CONTEXT_WORDS) if after_edit else ""
        tail = _first_words(pieces[::-1], CONTEXT_WORDS, back=True) if before_edit else ""
        return f"{head}{' ' if head else ''}… {count(total - kept_words, 'word')} …{' ' if tail else ''}{tail}"

    def edit(self, text: str, opening: str, closing: str, colour: str) -> str:
        if not text:
            return ""
        if not self.full and count_words(text) > EDIT_WORDS_MAX:
            head = _first_words(split_tokens(text), EDIT_WORDS_MAX)
            text, ellipsis = head, f" … {count(count_words(text) - EDIT_WORDS_MAX, 'word')} …"
        else:
            ellipsis = ""
        visible = text.replace(" ", "·") if text.isspace() else text
        marked = f"{opening}{_lines(visible, '⏎')}{ellipsis}{closing}"
        if not self.colour:
            return marked
        return _GUTTER.join(f"{colour}{line}{_RESET}" for line in marked.split(_GUTTER))


def _change_lines(change: ClassifiedChange) -> Iterator[str]:
    yield f"{change.rule}: {change.sentence}"
    yield f"    {one_line(change.because)}"


def _member_rows(change: ItemChange) -> Iterator[ValueChange]:
    """The members of an added or removed message or tool, except the role, which its heading shows."""
    added = change.kind == "added"
    value = change.after if added else change.before
    if change.kind == "moved" or isinstance(value, Absent):
        return
    members = value if isinstance(value, dict) else {"": value}
    for key, member in members.items():
        if key != "role":
            path = json_path(change.path, key) if isinstance(value, dict) else change.path
            yield ValueChange(path, ABSENT if added else member, member if added else ABSENT)


def _is_prose(row: ValueChange) -> bool:
    """Whether a diff of words says more than both values: one of them has white space."""
    return any(isinstance(side, str) and re.search(r"\s", side) for side in (row.before, row.after))


def _lines(text: str, line_end: str = "") -> str:
    """A text of a call with control characters and our marks escaped, each line after the bar."""
    harmless = (_MARK.sub(r"\g<0>\\", one_line(line)) for line in text.split("\n"))
    return f"{line_end}{_GUTTER}".join(harmless)


def _first_words(pieces: list[str], words_max: int, *, back: bool = False) -> str:
    """The first pieces that hold `words_max` words; `back` restores their order when they were counted from the
    end.
    """
    word_count = 0
    for end, piece in enumerate(pieces):
        word_count += count_words(piece)
        if word_count >= words_max:
            first = pieces[: end + 1]
            return "".join(first[::-1] if back else first)
    return "".join(pieces[::-1] if back else pieces)
