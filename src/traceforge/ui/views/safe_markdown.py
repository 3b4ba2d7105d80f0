"""Markdown that a model wrote, as HTML that can do no harm.

In: any text. Out: balanced HTML with the tags of ALLOWED_ELEMENTS and no other attribute than those beside them.
Never: raw HTML (it is shown as text), a script, a handler, a style, a picture, an address other than http, https and
mailto; a depth beyond DEPTH_MAX blocks; more work than the text is long, times DEPTH_MAX.

We wrote it ourselves because it has to be exact and safe, and no package of the base install or of the extra `ui`
renders Markdown. A general renderer passes HTML through, loads pictures and drops what it does not understand.

    # a          a heading of level 1 to 6, two levels lower on our page
    - a          a list: `-`, `*`, `+`, `1.`, `1)`; what is indented by two or more belongs to the item
    > a          a quotation
    ```python    code up to the next such line, or to the end; also `~~~`
    | a | b |    a table, if a line of dashes follows
    ---          a rule
    a            a paragraph: lines and white space stay as they are

`markdown_inline` renders what is inside of a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup, escape

from traceforge.terminal import escape_characters
from traceforge.ui.views.markdown_inline import render_inline
from traceforge.ui.views.text_view import visible_html

DEPTH_MAX = 8  # Lists and quotations inside each other; what is deeper is a paragraph.
COLUMNS_MAX = 50  # Of a table; what follows stands in the last cell.
ITEM_INDENT = 2  # Spaces that make a line a part of the item above it; models write two, three or four.

ALLOWED_ELEMENTS = {
    "a": frozenset({"href", "rel"}),
    "span": frozenset({"class", "title"}),
    "mark": frozenset({"class"}),
    "pre": frozenset({"data-language"}),
    "ol": frozenset({"start"}),
    "div": frozenset({"class", "tabindex", "role", "aria-label"}),
    "th": frozenset({"class"}),
    "td": frozenset({"class"}),
    **dict.fromkeys(("p", "h3", "h4", "h5", "h6", "ul", "li", "blockquote", "hr"), frozenset[str]()),
    **dict.fromkeys(("code", "em", "strong", "del", "table", "thead", "tbody", "tr"), frozenset[str]()),
}

_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)([^`]*+)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]++|\Z)")
_ITEM = re.compile(r"( {0,3})([-*+]|(\d{1,9})[.)])(?:[ \t]|\Z)")
_LEADING_TAB = re.compile(r"^\t")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)")
_QUOTE = re.compile(r" {0,3}> ?")
_CELL_END = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r"\s*+(:?)-++(:?)\s*+")
_ALIGNMENTS = {(True, True): "align-center", (False, True): "align-right"}


class _Lines(NamedTuple):
    """The lines of a block, and the number of the line after it."""

    lines: list[str]
    end: int


def render_markdown(text: str) -> Markup:
    """Render a text. `\\r\\n` counts as one line ending; every other character stays visible."""
    lines = text.replace("\r\n", "\n").split("\n")
    return Markup("".join(_render_blocks(lines, 0)))  # noqa: S704 (every piece is escaped)


def _render_blocks(lines: list[str], depth: int) -> Iterator[str]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line or line.isspace():
            place += 1
        elif fence := _FENCE.fullmatch(line):
            code, place = _read_code(lines, place + 1, fence[1])
            yield _code_html(code, fence[2].strip())
        elif heading := _HEADING.match(line):
            yield _heading_html(len(heading[1]), line[heading.end() :])
            place += 1
        elif _RULE.fullmatch(line):
            yield "<hr>"
            place += 1
        elif _starts_table(lines, place):
            table, place = _read_table(lines, place)
            yield _table_html(table)
        elif depth < DEPTH_MAX and _QUOTE.match(line):
            quoted, place = _read_quote(lines, place)
            yield f"<blockquote>{''.join(_render_blocks(quoted, depth + 1))}</blockquote>"
        elif depth < DEPTH_MAX and (item := _ITEM.match(line)):
            items, place = _read_items(lines, place, item)
            yield _list_html(items, item, depth)
        else:
            paragraph, place = _read_paragraph(lines, place, depth)
            yield f"<p>{render_inline(chr(10).join(paragraph))}</p>"


def _read_code(lines: list[str], start: int, fence: str) -> _Lines:
    for place in range(start, len(lines)):
        line = lines[place].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return _Lines(lines[start:place], place + 1)
    return _Lines(lines[start:], len(lines))


def _code_html(lines: list[str], language: str) -> str:
    attribute = f' data-language="{escape(escape_characters(language))}"' if language else ""
    return f"<pre{attribute}><code>{visible_html(chr(10).join(lines))}</code></pre>"


def _heading_html(level: int, text: str) -> str:
    title = text.rstrip()
    unmarked = title.rstrip("#")
    if not unmarked or unmarked[-1].isspace():
        title = unmarked.rstrip()
    tag = f"h{min(level + 2, 6)}"
    return f"<{tag}>{render_inline(title)}</{tag}>"


def _read_quote(lines: list[str], start: int) -> _Lines:
    quoted: list[str] = []
    for place in range(start, len(lines)):
        mark = _QUOTE.match(lines[place])
        if mark is None:
            return _Lines(quoted, place)
        quoted.append(lines[place][mark.end() :])
    return _Lines(quoted, len(lines))


def _read_items(lines: list[str], start: int, first: re.Match[str]) -> tuple[list[list[str]], int]:
    """The items of a list, each as its lines without their indentation, and where the list ends."""
    items: list[list[str]] = []
    inner_indent = len(first[1]) + ITEM_INDENT
    content_indent = blank = 0
    for place in range(start, len(lines)):
        line = _LEADING_TAB.sub("    ", lines[place])
        item = _ITEM.match(line)
        if not line or line.isspace():
            blank += 1
        elif item and len(item[1]) < inner_indent and _has_same_mark(item, first) and not _RULE.fullmatch(line):
            content_indent = item.end()
            items.append([line[content_indent:].lstrip(" ")])
            blank = 0
        elif line.startswith(" " * inner_indent):
            items[-1] += [*[""] * blank, _without_indent(line, content_indent)]
            blank = 0
        else:
            return items, place
    return items, len(lines)


def _has_same_mark(item: re.Match[str], first: re.Match[str]) -> bool:
    return item[2][-1] == first[2][-1]


def _without_indent(line: str, indent: int) -> str:
    spaces = min(indent, len(line) - len(line.lstrip(" ")))
    return line[spaces:]


def _list_html(items: list[list[str]], first: re.Match[str], depth: int) -> str:
    body = "".join(f"<li>{''.join(_render_blocks(item, depth + 1))}</li>" for item in items)
    if first[3] is None:
        return f"<ul>{body}</ul>"
    start = "" if int(first[3]) == 1 else f' start="{int(first[3])}"'
    return f"<ol{start}>{body}</ol>"


def _starts_table(lines: list[str], place: int) -> bool:
    if "|" not in lines[place] or place + 1 >= len(lines) or "-" not in lines[place + 1]:
        return False
    delimiters = _cells(lines[place + 1])
    return len(delimiters) == len(_cells(lines[place])) and all(map(_DELIMITER.fullmatch, delimiters))


def _read_table(lines: list[str], start: int) -> _Lines:
    end = start + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return _Lines(lines[start:end], end)


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return _CELL_END.split(inner, maxsplit=COLUMNS_MAX - 1)


def _table_html(lines: list[str]) -> str:
    classes = [_alignment(cell) for cell in _cells(lines[1])]
    head = _row_html(lines[0], "th", classes)
    body = "".join(_row_html(line, "td", classes) for line in lines[2:])
    table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f'<div class="table-box" tabindex="0" role="region" aria-label="Table">{table}</div>'


def _alignment(delimiter: str) -> str:
    match = _DELIMITER.fullmatch(delimiter)
    name = _ALIGNMENTS.get((bool(match and match[1]), bool(match and match[2])), "")
    return f' class="{name}"' if name else ""


def _row_html(line: str, tag: str, classes: list[str]) -> str:
    cells = _cells(line)
    if len(cells) > len(classes):  # Cells without a heading stand in the last one.
        cells[len(classes) - 1 :] = ["|".join(cells[len(classes) - 1 :])]
    columns = zip(cells, classes, strict=False)  # A row may be short.
    return f"<tr>{''.join(f'<{tag}{name}>{render_inline(cell.strip())}</{tag}>' for cell, name in columns)}</tr>"


def _read_paragraph(lines: list[str], start: int, depth: int) -> _Lines:
    place = start + 1
    while place < len(lines) and lines[place].strip() and not _interrupts(lines, place, depth):
        place += 1
    return _Lines(lines[start:place], place)


def _interrupts(lines: list[str], place: int, depth: int) -> bool:
    """Whether a line starts a block in the middle of a paragraph; a number does only if it is 1."""
    line = lines[place]
    if _FENCE.fullmatch(line) or _HEADING.match(line) or _RULE.fullmatch(line) or _starts_table(lines, place):
        return True
    item = _ITEM.match(line)
    return depth < DEPTH_MAX and bool(_QUOTE.match(line) or (item and item[3] in (None, "1")))
