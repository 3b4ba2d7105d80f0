"""A JSON value as nested HTML: indented, coloured by type, and folded where it is deep.

In: a JSON value, already redacted. Out: HTML, in which objects and lists below FOLD_DEPTH are `<details>`. Never:
follows a value deeper than DEPTH_MAX, or shows more than VALUES_MAX values or than the page has room for: what is
left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from traceforge.canon import JSON, exact_ecmascript_bytes
from traceforge.ui.views.text_view import FoldedText, PageBudget, visible_html

FOLD_DEPTH = 2  # Levels that are open at first.
DEPTH_MAX = 40  # Deeper values are shown as one line of JSON.
VALUES_MAX = 2_000  # Of one document on a page.
ITEMS_MAX = 200  # Of one object or list: an embedding has 1,536.
INLINE_CHARS_MAX = 72  # An object or list that fits a line is shown on one.
STRING_CHARS = 1_000  # Of a string inside a document before it is folded.


def json_html(value: JSON, budget: PageBudget | None = None, open_depth: int = FOLD_DEPTH) -> Markup:
    """Show a JSON value, with its objects and lists indented.

    Args:
        value: the value.
        budget: that of a page with other texts.
        open_depth: objects and lists below this depth are folded.
    """
    budget = budget or PageBudget()
    pieces: list[str] = []
    for piece in _JsonRenderer(budget, open_depth).render(value, 0):
        budget.spend(piece)
        pieces.append(piece)
    return Markup(f'<div class="json">{"".join(pieces)}</div>')  # noqa: S704 (escaped)


def json_line(value: JSON) -> str:
    """A JSON value on one line, with integers as they are."""
    return exact_ecmascript_bytes(value).decode(errors="surrogatepass")


def folded_html(folded: FoldedText) -> str:
    """A text that may be folded, inside of a line."""
    more = f"<span>… {folded.omitted:,} more characters</span>" if folded.omitted else ""
    if not folded.tail:
        return f"{visible_html(folded.head)}{more}"
    details = f'<details class="fold"><summary>{folded.label}</summary>{visible_html(folded.tail)}{more}</details>'
    return f"{visible_html(folded.head)}{details}"


class _JsonRenderer:
    """Writes one document and counts its values."""

    def __init__(self, budget: PageBudget, open_depth: int) -> None:
        self.open_depth = open_depth
        self.values_left = VALUES_MAX
        self.budget = budget

    @property
    def is_full(self) -> bool:
        return self.values_left <= 0 or self.budget.is_spent

    def fold(self, text: str) -> str:
        return folded_html(self.budget.fold(text, STRING_CHARS))

    def render(self, value: JSON, depth: int) -> Iterator[str]:
        self.values_left -= 1
        if isinstance(value, str):
            yield f'<span class="json-string">{self.fold(_string_text(value))}</span>'
        elif not isinstance(value, dict | list) or not value:
            yield f'<span class="json-{_type_name(value)}">{self.fold(json_line(value))}</span>'
        elif depth >= DEPTH_MAX or self.is_full:
            yield f'<span class="json-line">{self.fold(json_line(value))}</span>'
        elif _is_short(value):
            yield from self.render_inline(value)
        else:
            yield from self.render_members(value, depth)

    def render_inline(self, value: dict[str, JSON] | list[JSON]) -> Iterator[str]:
        """An object or a list of plain values, on one line."""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        yield opening
        for place, (key, member) in enumerate(self.members(value)):
            yield f"{', ' if place else ''}{key}"
            yield from self.render(member, DEPTH_MAX)
        yield closing

    def render_members(self, value: dict[str, JSON] | list[JSON], depth: int) -> Iterator[str]:
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        count = f"{len(value)} {'field' if isinstance(value, dict) else 'item'}{'' if len(value) == 1 else 's'}"
        is_folded = depth >= self.open_depth
        if is_folded:
            yield f'<details class="json-fold"><summary>{opening} {count} {closing}</summary>'
        else:
            yield opening
        yield '<div class="json-members">'
        for place, (key, member) in enumerate(self.members(value)):
            if place >= ITEMS_MAX or self.is_full:
                yield f'<div class="json-more">… {len(value) - place:,} more</div>'
                break
            yield f"<div>{key}"
            yield from self.render(member, depth + 1)
            yield f"{',' if place + 1 < len(value) else ''}</div>"
        yield "</div></details>" if is_folded else f"</div>{closing}"

    def members(self, value: dict[str, JSON] | list[JSON]) -> Iterator[tuple[str, JSON]]:
        """The members with their keys as HTML."""
        if isinstance(value, list):
            yield from (("", item) for item in value)
            return
        for name, member in value.items():
            yield f'<span class="json-key">{self.fold(json_line(name))}</span>: ', member


def _is_short(value: dict[str, JSON] | list[JSON]) -> bool:
    """Whether a value fits a line: few plain members, and few characters."""
    members = [*value, *value.values()] if isinstance(value, dict) else value
    if len(members) > INLINE_CHARS_MAX // 2 or any(isinstance(member, dict | list) for member in members):
        return False
    length = sum(len(member) if isinstance(member, str) else 6 for member in members)
    return length <= INLINE_CHARS_MAX and not any(isinstance(member, str) and "\n" in member for member in members)


def _string_text(text: str) -> str:
    """A string in its quotes; one of several lines keeps them, because `\\n` is hard to read."""
    return f'"{text}"' if "\n" in text else json_line(text)


def _type_name(value: JSON) -> str:
    if value is None or isinstance(value, bool):
        return "word"
    return "number" if isinstance(value, int | float) else "empty"
