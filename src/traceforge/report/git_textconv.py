"""A file of the snapshot tree as lines that read well in a diff.

In: the bytes of any file. Out: one line per member; a text of several lines as these lines after a bar, so that an
edited sentence of a prompt is one changed line and not a long escaped string. Never: fails; a file that is not JSON
is returned as it is, because Git also asks for old and broken files.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.canon import JSON, json_bytes, parse_json
from traceforge.errors import NotJSON
from traceforge.terminal import one_line

_INDENT = "  "
_BAR = "| "


def to_readable_text(data: bytes) -> str:
    """Convert a file for `git diff`."""
    try:
        value = parse_json(data)
    except NotJSON:
        return data.decode(errors="backslashreplace")
    return "".join(f"{line}\n" for line in _lines(value, ""))


def _lines(value: JSON, before: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _member(f"{before}{one_line(name)}:", member, f"{before}{_INDENT}")
    elif isinstance(value, list):
        for member in value:
            yield from _member(f"{before}-", member, f"{before}{_INDENT}")
    else:
        yield f"{before}{_scalar(value)}"


def _member(head: str, value: JSON, below: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from _lines(value, below)
    elif isinstance(value, str) and "\n" in value:
        yield head
        yield from (f"{below}{_BAR}{one_line(line)}" for line in value.split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: JSON) -> str:
    """A string as it is, anything else as JSON."""
    return one_line(value if isinstance(value, str) else json_bytes(value).decode())
