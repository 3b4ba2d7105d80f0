"""Any text as HTML that shows every character of it.

In: text of a model, a user or a file, already redacted. Out: escaped HTML, in which characters that a browser would
hide, or that change the order of others, are visible, and redactions are marked. Never: a character that `terminal`
would escape; a lone surrogate, which no page can hold; more than FOLD_CHARS + TAIL_CHARS_MAX characters of one text,
or more HTML than the `PageBudget` has left.

    a control character   <span class="control" title="U+202E RIGHT-TO-LEFT OVERRIDE">\\u202e</span>
    a redaction           <mark class="redacted">[REDACTED]</mark>
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from markupsafe import Markup, escape

from traceforge.redact.redactions import MARKER_PATTERN
from traceforge.terminal import escape_characters

FOLD_CHARS = 4_000  # About two screens of prose; what follows is one click away.
TAIL_CHARS_MAX = 100_000  # A page with a few such texts still opens at once; beyond, the raw page has it.
LINE_SEARCH_CHARS = 400  # A text is folded at the end of a line or a word if there is one this close.
PAGE_CHARS_LIMIT = 2_000_000  # HTML of the texts of one page; what does not fit is counted.
NAME_CHARS_MAX = 300  # Of a model, a tool, a session or a file in a list.
TITLES_MAX = 4  # Different characters that the title of one span names.

_MARKER = re.compile(MARKER_PATTERN)
_NOT_PLAIN = re.compile(r"[^\n\t -~]+")


class FoldedText(NamedTuple):
    """A text cut for display: `head` is visible, `tail` is folded, and `omitted` characters are not on the page."""

    head: str
    tail: str = ""
    omitted: int = 0

    @property
    def label(self) -> str:
        """What the fold says, as `Show 4.9 MB more`; "" where nothing is folded."""
        return f"Show {format_size(len(self.tail) + self.omitted)} more" if self.tail else ""


class PageBudget:
    """How much HTML the texts of one page may still take: a trace may hold any number of long texts."""

    def __init__(self, chars: int = PAGE_CHARS_LIMIT) -> None:
        self.chars_left = chars
        self._heads_chars = chars // 2  # So that what is folded leaves room for the beginnings of later texts.

    @property
    def is_spent(self) -> bool:
        return self.chars_left <= 0

    def fold(self, text: str, head_chars: int = FOLD_CHARS) -> FoldedText:
        """As `fold_text`, as far as the text fits on the page."""
        folded = fold_text(text, head_chars)
        head = folded.head[: max(self.chars_left, 0)]
        tail = folded.tail[: max(self.chars_left - self._heads_chars - len(head), 0)]
        return FoldedText(head, tail, len(text) - len(head) - len(tail))

    def spend(self, html: str) -> None:
        """Count the HTML of a text: hidden characters make it longer than the text."""
        self.chars_left -= len(html)


def visible_html(text: str) -> Markup:
    """Escape a text for a page, show its hidden characters and mark its redactions."""
    pieces = []
    end = 0
    for marker in _MARKER.finditer(text):
        pieces += [_visible_characters(text[end : marker.start()]), f'<mark class="redacted">{marker[0]}</mark>']
        end = marker.end()
    pieces.append(_visible_characters(text[end:]))
    return Markup("".join(pieces))  # noqa: S704 (every piece is escaped)


def fold_text(text: str, head_chars: int = FOLD_CHARS, tolerance: int = LINE_SEARCH_CHARS) -> FoldedText:
    """Cut a text after about `head_chars` characters, at the end of a line or of a word if one is near.

    A text that has no more than `tolerance` characters beyond is left whole.
    """
    if len(text) <= head_chars + tolerance:
        return FoldedText(text)
    start = max(head_chars - LINE_SEARCH_CHARS, 0)
    near = text[start:head_chars]
    place = near.rfind("\n" if "\n" in near else " ")
    cut = head_chars if place < 0 else start + place + 1
    tail = text[cut : cut + TAIL_CHARS_MAX]
    return FoldedText(text[:cut], tail, len(text) - cut - len(tail))


def clip_text(text: str, chars: int = NAME_CHARS_MAX) -> str:
    """At most `chars` characters of a short text, such as a name, with an ellipsis where it was longer."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def format_size(characters: int) -> str:
    """A number of characters in words: `812 characters`, `12 kB`, `4.9 MB`."""
    if characters < 1_000:
        return f"{characters} character{'' if characters == 1 else 's'}"
    return f"{characters / 1_000:.0f} kB" if characters < 999_500 else f"{characters / 1_000_000:.1f} MB"


def _visible_characters(text: str) -> str:
    return _NOT_PLAIN.sub(_mark_up_run, str(escape(text)))


def _mark_up_run(run: re.Match[str]) -> str:
    """Characters outside of ASCII: the printable ones as they are, the others together in one span each."""
    text = run[0]
    if escape_characters(text) == text:  # Most runs are words of another script.
        return text
    pieces: list[str] = []
    hidden: list[str] = []
    for char in text:
        if escape_characters(char) == char:
            pieces += [*_control_span(hidden), char]
            hidden = []
        else:
            hidden.append(char)
    return "".join([*pieces, *_control_span(hidden)])


def _control_span(hidden: list[str]) -> list[str]:
    if not hidden:
        return []
    distinct = list(dict.fromkeys(hidden))
    names = ", ".join(map(_character_name, distinct[:TITLES_MAX])) + (", …" if len(distinct) > TITLES_MAX else "")
    return [f'<span class="control" title="{names}">{escape_characters("".join(hidden))}</span>']


def _character_name(char: str) -> str:
    name = "LONE SURROGATE" if "\ud800" <= char <= "\udfff" else unicodedata.name(char, _CONTROL_NAMES.get(char, ""))
    return f"U+{ord(char):04X} {name}".rstrip()


_CONTROL_NAMES = {  # Unicode gives control characters no name.
    "\x00": "NULL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\x0b": "LINE TABULATION",
    "\x0c": "FORM FEED",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
}
