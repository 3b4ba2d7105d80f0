"""A page without the secrets that its content holds.

In: the HTML of a page, as our templates write it. Out: the same page, in which the redactor has seen every text that
people read. Never: changes an element, an address, or the value of a form.

Traces and snapshots are redacted before they are stored. The context store is not: it must give the same bytes again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape

_TAG = re.compile(r"(<[^>]*>)")  # Templates escape `>` in attributes.
_TEXT_ATTRIBUTE = re.compile(r'(\s(?:title|alt|aria-label|placeholder|data-copy)=")([^"]*)(?=")')
_SHORT = 8  # No secret is shorter, and most texts of a page are.


def redact_page(html: str, redact: Callable[[str], str]) -> str:
    """The page; `redact` gets every text, as it is read."""

    def clean(text: str) -> str:
        if len(text) < _SHORT or text.isspace():
            return text
        plain = unescape(text)
        redacted = redact(plain)
        return text if redacted == plain else escape(redacted)

    pieces = _TAG.split(html)
    pieces[::2] = map(clean, pieces[::2])
    pieces[1::2] = [_TEXT_ATTRIBUTE.sub(lambda match: f"{match[1]}{clean(match[2])}", tag) for tag in pieces[1::2]]
    return "".join(pieces)
