"""What a browser makes of some HTML: its text, its elements with their attributes, and whether they are balanced."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

_VOID = frozenset({"br", "hr", "img"})


class Element(NamedTuple):
    """One start tag."""

    tag: str
    attributes: dict[str, str | None]


class ParsedHtml(HTMLParser):
    """HTML, parsed. `unbalanced` lists every end tag without its start, and every start without its end."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.texts: list[str] = []  # the texts between tags
        self.elements: list[Element] = []
        self.unbalanced: list[str] = []
        self.depth = 0  # of the deepest element
        self._open: list[str] = []
        self.feed(str(html))
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)
            self.depth = max(self.depth, len(self._open))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element of SVG that has no content."""
        self.elements.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the element that is open."""
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unbalanced.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data
        self.texts.append(data)

    def find_all(self, tag: str, class_name: str | None = None) -> list[Element]:
        """The elements with this tag and, if given, this class."""
        return [
            element
            for element in self.elements
            if element.tag == tag
            and (class_name is None or class_name in (element.attributes.get("class") or "").split())
        ]
