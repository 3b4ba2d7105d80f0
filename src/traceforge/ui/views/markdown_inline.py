"""One paragraph of Markdown as safe HTML: emphasis, code and links.

In: the text of a paragraph, a heading or a table cell. Out: balanced HTML with the tags `em`, `strong`, `del`,
`code`, `a`, `span` and `mark`. Never: looks at a character again and again; nests deeper than NESTING_MAX; links to
anything but http, https and mailto.

    *a* _a_ **a** __a__ ~~a~~     emphasis; `_` only around whole words; four or more in a row are text
    `a` ``a``                     code; ends at the next run of as many backticks
    [a](address)                  a link, followed by its address; any other address leaves the text as it is
    ![a](address)                 the same: a picture is never loaded
    https://…                     a link
    \\*                            the character, where it would mean something here
"""

from __future__ import annotations

import re
from typing import NamedTuple

from markupsafe import escape

from traceforge.redact.redactions import MARKER_PATTERN
from traceforge.terminal import escape_characters
from traceforge.ui.views.text_view import visible_html

NESTING_MAX = 16  # Open marks that are remembered; the oldest is then taken for text.
ADDRESS_CHARS_MAX = 2_000  # What browsers and servers accept; a longer address stays text.
RUN_MAX = 3  # `***`: strong and emphasised. A longer run is a ruler or a row of stars.

_SPECIAL = re.compile(
    rf"(?P<marker>{MARKER_PATTERN})"
    r"|(?P<escape>\\[\\`*_~#|>+.-])"
    r"|(?P<code>`++)"
    r"|(?P<run>\*++|_++|~~++)"
    r"|(?P<open>!?\[)"
    r"|(?P<close>\])"
    r"|(?P<address>(?<![A-Za-z0-9])(?i:https?)://[^\s<>()\[\]\"'`*]++)"
)
_BACKTICKS = re.compile(r"`++")
# No parenthesis inside but a balanced pair, so that two attempts at most look at one character.
_DESTINATION = re.compile(r'\([ ]?<?((?:[^\s()<>]|\([^\s()<>]*+\))++)>?(?:[ \n]"[^"\n()]*+")?\)')
_ALLOWED_ADDRESS = re.compile(r"(?:https?://[^\s/?#\\]|mailto:[^\s?#\\])[^\s\\]*", re.IGNORECASE)
_TAGS = {"*": ("em", "strong"), "_": ("em", "strong"), "~": ("", "del")}


class _OpenMark(NamedTuple):
    """A mark that may begin emphasis: its place in the output, its character, and how many of it."""

    place: int
    char: str
    length: int


def render_inline(text: str) -> str:
    """Render the text of one paragraph as HTML."""
    return _InlineRenderer(text).render()


def link_html(address: str, label_html: str) -> str:
    """A link that tells the other host nothing; `label_html` is HTML."""
    return f'<a href="{escape(address)}" rel="noopener noreferrer nofollow">{label_html}</a>'


def is_allowed_address(address: str) -> bool:
    """Whether a page may link to an address: a known scheme, no hidden character, not endless."""
    return (
        len(address) <= ADDRESS_CHARS_MAX
        and _ALLOWED_ADDRESS.fullmatch(address) is not None
        and escape_characters(address) == address
    )


class _InlineRenderer:
    """Goes through a text once, from mark to mark. `output` holds HTML; a mark is text until its partner is met."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.output: list[str] = []
        self.marks: list[_OpenMark] = []
        self.brackets: list[int] = []  # places of `[` in the output
        self.addresses: list[tuple[int, str]] = []  # links without brackets, and their text
        self.backticks: dict[int, list[int]] | None = None  # by length, the last run first

    def render(self) -> str:
        position = 0
        while match := _SPECIAL.search(self.text, position):
            if match.start() > position:
                self.output.append(visible_html(self.text[position : match.start()]))
            position = self.add(match)
        self.output.append(visible_html(self.text[position:]))
        return "".join(self.output)

    def add(self, match: re.Match[str]) -> int:
        """Add what a match means to the output, and return where the text goes on."""
        kind, source = match.lastgroup, match[0]
        if kind == "code":
            return self.add_code(match)
        if kind == "run":
            self.add_run(match)
        elif kind == "open":
            self.brackets = [*self.brackets[1 - NESTING_MAX :], len(self.output)]
            self.output.append(source)
        elif kind == "close":
            return self.add_close(match)
        elif kind == "address":
            return self.add_address(match)
        else:
            self.output.append(visible_html(source[1:] if kind == "escape" else source))
        return match.end()

    def add_code(self, match: re.Match[str]) -> int:
        end = self.find_code_end(match)
        if end is None:
            self.output.append(match[0])
            return match.end()
        code = self.text[match.end() : end]
        if code.startswith(" ") and code.endswith(" ") and not code.isspace():
            code = code[1:-1]  # The space that keeps a backtick of the code from the marks.
        self.output.append(f"<code>{visible_html(code)}</code>")
        return end + len(match[0])

    def find_code_end(self, match: re.Match[str]) -> int | None:
        """Where the next run of as many backticks starts. Each run is looked at once, for any text."""
        if self.backticks is None:
            self.backticks = {}
            for run in reversed(list(_BACKTICKS.finditer(self.text))):
                self.backticks.setdefault(len(run[0]), []).append(run.start())
        places = self.backticks.get(len(match[0]), [])
        while places and places[-1] < match.end():
            places.pop()
        return places[-1] if places else None

    def add_run(self, match: re.Match[str]) -> None:
        """Marks of emphasis: close what is open, as far as they reach, and open with the rest."""
        char, length = match[0][0], len(match[0])
        before, after = self.text[match.start() - 1 : match.start()], self.text[match.end() : match.end() + 1]
        is_closing = bool(before) and not before.isspace() and not (char == "_" and after.isalnum())
        is_opening = bool(after) and not after.isspace() and not (char == "_" and before.isalnum())
        if length > RUN_MAX:
            self.output.append(match[0])
            return
        while is_closing and length and (place := self.find_mark(char, length)) is not None:
            length -= self.close_mark(place)
        if length and is_opening and (char != "~" or length == 2):
            self.open_marks(char, length)
        else:
            self.output.append(char * length)

    def find_mark(self, char: str, length: int) -> int | None:
        places = range(len(self.marks) - 1, -1, -1)
        return next((n for n in places if self.marks[n].char == char and self.marks[n].length <= length), None)

    def close_mark(self, number: int) -> int:
        """End the emphasis that a mark began; marks and brackets inside of it stay text."""
        mark = self.marks[number]
        del self.marks[number:]
        self.brackets = [place for place in self.brackets if place < mark.place]
        tag = _TAGS[mark.char][mark.length - 1]
        self.output[mark.place] = f"<{tag}>"
        self.output.append(f"</{tag}>")
        return mark.length

    def open_marks(self, char: str, length: int) -> None:
        for size in (2, 1) if length == RUN_MAX else (length,):
            self.marks = [*self.marks[1 - NESTING_MAX :], _OpenMark(len(self.output), char, size)]
            self.output.append(char * size)

    def add_close(self, match: re.Match[str]) -> int:
        """The end of a label: a link if an allowed address follows."""
        destination = _DESTINATION.match(self.text, match.end()) if self.brackets else None
        if destination is None or not is_allowed_address(destination[1]):
            if self.brackets:
                self.brackets.pop()
            self.output.append("]")
            return match.end()
        self.add_link(self.brackets.pop(), destination[1])
        return destination.end()

    def add_link(self, start: int, address: str) -> None:
        while self.addresses and self.addresses[-1][0] > start:  # No link inside a link.
            place, label = self.addresses.pop()
            self.output[place] = label
        is_picture = self.output[start] == "!["
        self.output[start] = ""
        label = "".join(self.output[start:])
        self.marks = [mark for mark in self.marks if mark.place < start]
        self.brackets = []
        address_html = visible_html(address)
        suffix = "" if label == address_html else f' <span class="link-address">{address_html}</span>'
        picture = '<span class="link-kind">image</span> ' if is_picture else ""
        del self.output[start:]
        self.output.append(f"{picture}{link_html(address, label or str(address_html))}{suffix}")

    def add_address(self, match: re.Match[str]) -> int:
        """An address in the text; punctuation at its end belongs to the sentence."""
        address = match[0].rstrip(".,;:!?_~")
        address_html = visible_html(address)
        if is_allowed_address(address):
            self.addresses.append((len(self.output), str(address_html)))
            self.output.append(link_html(address, str(address_html)))
        else:
            self.output.append(address_html)
        return match.start() + len(address)
