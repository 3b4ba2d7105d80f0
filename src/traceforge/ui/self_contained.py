"""A page as one file that opens from a disk: nothing in it leads to the server, and nothing is unredacted.

In: the HTML of a page. Out: the same page without controls, scripts and links to other pages of the server. Never: an
address that a browser would load, or a text that the redactor has not seen. The policy in the head of the file
forbids every request as well; this is the second lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from html.parser import HTMLParser

SHARED_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_DROPPED = frozenset(
    {"script", "form", "button", "dialog", "select", "textarea", "iframe", "object", "template", "noscript"}
)  # With everything inside of them.
_DROPPED_VOID = frozenset({"link", "input", "base", "embed"})
_VOID = frozenset({"meta", "img", "br", "hr", "wbr", "col"})
_RAW_TEXT = frozenset({"style"})
_SAFE_LINK = re.compile(r"(?:#|https?://|mailto:)", re.IGNORECASE)
_SAFE_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,")
_DROPPED_ATTRIBUTE = re.compile(r"on|data-|style\Z|action\Z|formaction\Z|srcset\Z|ping\Z|download\Z|target\Z|xlink:")
_TEXT_ATTRIBUTES = frozenset({"title", "alt", "aria-label"})
_SHORT = 6  # No secret is shorter, and most texts of a page are.


def make_self_contained(html: str, redact: Callable[[str], str]) -> str:
    """The page as one file; `redact` gets every text that people read."""
    writer = _SelfContainedWriter(redact)
    writer.feed(html)
    writer.close()
    return "".join(writer.parts)


class _SelfContainedWriter(HTMLParser):
    """Writes the elements that may stay, as they come."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._redact = redact
        self._dropped: list[str] = []  # The elements that are being left out, outermost first.
        self._links: list[str] = []  # What each open link was written as.
        self._is_raw = False
        self._drawings = 0  # The open `<svg>` elements: no `<span>` may be in one.

    def handle_decl(self, decl: str) -> None:
        self.parts.append(f"<!{decl}>")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped or tag in _DROPPED:
            if tag in _DROPPED:
                self._dropped.append(tag)
            return
        if tag in _DROPPED_VOID or (tag == "img" and not _SAFE_IMAGE.match(dict(attrs).get("src") or "")):
            return
        name = tag
        if tag == "a":
            name = "a" if _SAFE_LINK.match(dict(attrs).get("href") or "") else "g" if self._drawings else "span"
            self._links.append(name)
        self._drawings += tag == "svg"
        self._is_raw = tag in _RAW_TEXT
        self.parts.append(f"<{name}{''.join(map(self._attribute, attrs, [name] * len(attrs)))}>")

    def _attribute(self, pair: tuple[str, str | None], tag: str) -> str:
        name, value = pair
        if _DROPPED_ATTRIBUTE.match(name) or (name == "href" and tag != "a") or (name == "src" and tag != "img"):
            return ""
        if value is None:
            return f" {name}"
        return f' {name}="{escape(self._clean(value) if name in _TEXT_ATTRIBUTES else value)}"'

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element of a drawing, as `<path …/>`."""
        self.handle_starttag(tag, attrs)
        if tag not in _VOID | _DROPPED_VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            if tag == self._dropped[-1]:
                self._dropped.pop()
            return
        if tag in _VOID or tag in _DROPPED_VOID or tag in _DROPPED:
            return
        self._drawings -= tag == "svg"
        self._is_raw = False
        name = self._links.pop() if tag == "a" and self._links else tag
        self.parts.append(f"</{name}>")

    def handle_data(self, data: str) -> None:
        if not self._dropped:
            self.parts.append(data if self._is_raw else escape(self._clean(data), quote=False))

    def _clean(self, text: str) -> str:
        return self._redact(text) if len(text) > _SHORT else text
