"""Secrets whose name stands once for many values: the column of a table, an INSERT of SQL, a Secret of Kubernetes.

In: text with a table as CSV, with tabs or in Markdown, with SQL, or with a manifest in YAML. Out: the ranges of all
values below the name, and where the table ends: a line is read as the head of a table once, and as a row once.
Never: takes a name alone as proof: in a table that describes fields, the column `password` holds words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceforge.redact.detector import ByteRange, Detector, ManyRanges
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.ordinary_values import is_ordinary
from traceforge.redact.plausibility import is_common_word, is_opaque, is_password, is_placeholder, is_random
from traceforge.redact.secret_names import MANIFEST_KEYS, is_description

_HEAD_BYTES_MAX = 2_000  # The line with the names of columns is no longer, nor a manifest before its kind.
_COLUMNS_MAX = 200
_VALUE_BYTES_MAX = 8_192
_JUDGED_BYTES = 200  # Of a value: enough to tell.
_NAME = (
    rb"(?i:passw(?:or)?d|passphrase|pwd|secret|(?:secret[-_ ]?access|api|access|secret|private)[-_ ]?key"
    rb"|(?:access|auth|api|refresh|bearer)?[-_ ]?token|client[-_ ]?secret)"
)
_SECRET_HEAD = LazyPattern(rb"(?:[A-Za-z0-9]{1,20}[-_ ])?" + _NAME + rb"\Z")
_OTHER_HEAD = LazyPattern(rb"[^\x00()\[\]{}:=<>]{0,48}\Z")  # no code and no sentence
_PASSWORD_HEAD = LazyPattern(rb"(?i)pass|pwd|secret\Z")
_RULED_LINE = LazyPattern(rb"[ \t]{0,8}[-+=][-+=|: \t]{2,4096}\r?\Z")  # `-----+-----`, as psql and mysql draw it
_INSERT = LazyPattern(
    rb"(?i)insert\s{1,8}into\s{1,8}[^\x00\s(]{1,128}\s{0,8}\(([^\x00()]{1,2000})\)\s{0,8}values\s{0,8}"
)
_VALUES = LazyPattern(rb"\s{0,32}\(((?:[^\x00'()]|'[^\x00']*+'){1,8192})\)\s{0,8},?")
_MANIFEST_END = LazyPattern(rb"\x00|\n---")
_MANIFEST_DATA = LazyPattern(rb"(?m)^([ ]{0,8})(?:%b):[ ]{0,4}\r?$" % "|".join(MANIFEST_KEYS).encode())
_MANIFEST_ENTRY = LazyPattern(
    rb"\r?\n(?P<indent>[ ]{1,16})[\"']?[A-Za-z0-9_.-]{1,128}[\"']?:[ ]{1,8}"
    rb"[\"']?(?P<value>[^\x00\s\"']{1,8192})[^\n\x00]{0,64}"
)


def _is_secret_value(name: bytes, value: bytes) -> bool:
    """Whether a value in a column of this name is a secret."""
    value = value[:_VALUE_BYTES_MAX]
    if is_placeholder(value) or is_common_word(value) or is_ordinary(value) or value.count(b" ") > 2:
        return False
    if _PASSWORD_HEAD.search(name):
        return is_password(value)
    return is_random(value) if b"api" in name.lower() or b"secret" in name.lower() else is_opaque(value)


def _cells(text: bytes, start: int, end: int, mark: bytes) -> Iterator[ByteRange]:
    """The cells of a row between two marks, without the spaces and quotes around them."""
    for _ in range(_COLUMNS_MAX):
        while start < end and text[start : start + 1] == b" ":
            start += 1
        quote = text[start : start + 1]
        closing = text.find(quote, start + 1, end) if quote in (b'"', b"'", b"`") else -1
        first, last = (start + 1, closing) if closing >= 0 else (start, -1)
        border = text.find(mark, max(start, closing), end)
        stop = end if border < 0 else border
        last = stop if last < 0 else last
        yield first, first + len(text[first:last].rstrip(b" \r"))
        if border < 0:
            return
        start = border + 1


def _secret_columns(text: bytes, cells: list[ByteRange]) -> dict[int, bytes]:
    """The secret columns by their place, with their name; none where the line does not begin a table."""
    names = [text[first:last] for first, last in cells]
    columns = {place: name for place, name in enumerate(names) if _SECRET_HEAD.match(name)}
    is_head = len(names) > 1 and all(_OTHER_HEAD.match(name) for name in names[1:])
    return columns if is_head else {}


def _secret_cells(text: bytes, cells: list[ByteRange], columns: dict[int, bytes]) -> list[ByteRange]:
    return [
        cells[place]
        for place, name in columns.items()
        if _is_secret_value(name, text[cells[place][0] : cells[place][1]])
    ]


def _line_end(text: bytes, start: int) -> int:
    """Where a line of a text ends: the next line break or the border of the text."""
    newline = text.find(b"\n", start)
    end = len(text) if newline < 0 else newline
    border = text.find(b"\0", start, end)
    return end if border < 0 else border


def _table(text: bytes, start: int, anchor_end: int) -> ManyRanges:
    """A line with the name of a secret among other names, and below it lines with as many cells."""
    floor = max(0, start - _HEAD_BYTES_MAX)
    head = 1 + max(text.rfind(b"\n", floor, start), text.rfind(b"\0", floor, start), floor - 1)
    end = text.find(b"\n", start, head + _HEAD_BYTES_MAX)
    if end < 0 or text.find(b"\0", start, end) >= 0:
        return [], anchor_end
    for mark in (b"\t", b"|", b";", b","):
        heads = list(_cells(text, head, end, mark)) if mark in text[head:end] else []
        columns = _secret_columns(text, heads)
        if columns:
            return _rows(text, end, mark, len(heads), columns)
    return [], end


def _rows(text: bytes, end: int, mark: bytes, count: int, columns: dict[int, bytes]) -> ManyRanges:
    """The secrets of the rows below a head."""
    ranges: list[ByteRange] = []
    while text[end : end + 1] == b"\n":
        row_end = _line_end(text, end + 1)
        if not _RULED_LINE.match(text, end + 1, row_end):
            cells = list(_cells(text, end + 1, row_end, mark))
            if len(cells) != count:
                break
            ranges += _secret_cells(text, cells, columns)
        end = row_end
    return ranges, end


def _insert(text: bytes, start: int, anchor_end: int) -> ManyRanges:
    """`INSERT INTO users (name, password) VALUES ('ann', '…'), …`."""
    match = _INSERT.match(text, start)
    if match is None:
        return [], anchor_end
    columns = _secret_columns(text, list(_cells(text, *match.span(1), b",")))
    ranges: list[ByteRange] = []
    end = match.end()
    while columns and (row := _VALUES.match(text, end)) is not None:
        cells = list(_cells(text, *row.span(1), b","))
        ranges += _secret_cells(text, cells, columns) if max(columns) < len(cells) else []
        end = row.end()
    return ranges, end


_COLLECTION_WORD = rb"(?i:secrets|credentials|passwords|(?:api|access)[-_]?(?:keys|tokens))"
_BRACES = LazyPattern(_COLLECTION_WORD + rb"(?P<quote>\\{0,3}[\"']?)\s{0,4}[:=]\s{0,4}\{")
_BRACE = LazyPattern(rb"[{}\x00]")
_BRACED_ENTRY = LazyPattern(
    rb"[\"']?(?P<name>[A-Za-z0-9_.-]{1,128})\\{0,3}[\"']?\s{0,4}[:=]\s{0,4}\\{0,3}[\"'](?P<value>[^\x00\"'\\\n]{6,8192})"
)
_COLLECTION_BYTES_MAX = 16_384
_LINES = LazyPattern(_COLLECTION_WORD + rb"[\"']?:[ ]{0,4}\r?(?=\n[ ]{0,16}(?:[ ][^ ]|-[ ]))")
_LINE_START = LazyPattern(rb"(?:^|[\n\x00\"])(?P<indent>[ ]{0,16})(?:-[ ])?[\"']?\Z")
_LINE_START_BYTES = 24
_SECTION = LazyPattern(_COLLECTION_WORD + rb"\][ \t]{0,8}\r?(?=\n)")
_LINE_ENTRY = LazyPattern(
    rb"\n(?P<indent>[ ]{0,32})(?:-[ ]{1,4})?(?:[\"']?(?P<name>[A-Za-z0-9_.-]{1,128})[\"']?[ ]{0,8}[:=][ ]{0,8})?"
    rb"[\"']?(?P<value>[^\x00\s\"'#]{6,8192})[\"']?[ \t]{0,8}(?:#[^\n\x00]{0,200})?\r?(?=\n|\x00|\Z)"
)
_ANY_LINE = LazyPattern(rb"\n(?P<indent>[ ]{0,32})(?P<start>[^\s\x00])?[^\n\x00]{0,8192}")


def _is_entry(entry: re.Match[bytes]) -> bool:
    """Whether an entry of a collection holds a secret: a random value, and no description of one."""
    name = (entry["name"] or b"").decode("latin-1")
    value = entry["value"][:_JUDGED_BYTES]
    return is_opaque(value) and not is_placeholder(value) and not is_description(name)


def _collection(text: bytes, start: int, _: int) -> ManyRanges:
    """`"secrets": {"github": "…"}` in a text, `secrets:` in YAML, `[secrets]` in TOML, and what is inside."""
    if (head := _BRACES.match(text, start)) is not None:
        return _braced(text, head.end())
    if (head := _SECTION.match(text, start)) is not None and text[start - 1 : start] == b"[":
        return _lines_below(text, head.end(), -1)
    before = _LINE_START.search(text[max(0, start - _LINE_START_BYTES) : start])
    head = _LINES.match(text, start)
    if head is None or before is None:
        return [], start + 1
    return _lines_below(text, head.end(), len(before["indent"]))


def _braced(text: bytes, start: int) -> ManyRanges:
    """The secrets until the brace before `start` is closed."""
    end, depth = start, 1
    limit = start + _COLLECTION_BYTES_MAX
    while depth and (brace := _BRACE.search(text, end, limit)) is not None and brace[0] != b"\0":
        depth += 1 if brace[0] == b"{" else -1
        end = brace.end()
    return [entry.span("value") for entry in _BRACED_ENTRY.finditer(text, start, end) if _is_entry(entry)], end


def _lines_below(text: bytes, start: int, indent: int) -> ManyRanges:
    """The secrets in the lines below a name at this indentation; -1: until the next `[section]`."""
    ranges: list[ByteRange] = []
    end, limit = start, start + _COLLECTION_BYTES_MAX
    while (line := _ANY_LINE.match(text, end, limit)) is not None:
        if line["start"] and _ends_collection(line["start"], len(line["indent"]), indent):
            break
        entry = _LINE_ENTRY.match(text, end, limit)
        if entry is not None and _is_entry(entry):
            ranges.append(entry.span("value"))
        end = line.end()
    return ranges, max(end, start + 1)


def _ends_collection(first: bytes, line_indent: int, indent: int) -> bool:
    if indent < 0:
        return first == b"["
    return line_indent + (first == b"-") <= indent


def _manifest(text: bytes, start: int, _: int) -> ManyRanges:
    """`kind: Secret` of Kubernetes, in YAML: every value of `data` and `stringData` that looks like a secret."""
    border = _MANIFEST_END.search(text, start)
    end = border.start() if border else len(text)
    floor = max(0, start - _HEAD_BYTES_MAX)
    head = max(text.rfind(b"\n---", floor, start), text.rfind(b"\0", floor, start) + 1, floor)
    ranges: list[ByteRange] = []
    for data in _MANIFEST_DATA.finditer(text, head, end):
        place = data.end()
        while (entry := _MANIFEST_ENTRY.match(text, place, end)) is not None and entry["indent"] > data[1]:
            value = entry["value"]
            if is_password(value) and not is_placeholder(value) and not is_common_word(value):
                ranges.append(entry.span("value"))
            place = entry.end()
    return ranges, end


DETECTORS = (
    Detector("FIELD", _NAME + rb"[\"'`]?[ \t]*[,;|\t\r\n]", locate_all=_table),
    Detector("FIELD", rb"(?i:insert[ ]into[ ])", locate_all=_insert),
    Detector("FIELD", rb"kind:[ ]Secret\s", locate_all=_manifest),
    Detector(
        "FIELD",
        _COLLECTION_WORD + rb"(?:\\*[\"']?\s*[:=]\s*\{|[\"']?:[ ]*\r?\n[ -]|\][ \t]*\r?\n)",
        locate_all=_collection,
    ),
)
