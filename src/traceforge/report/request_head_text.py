"""Where a call goes and what its headers are, in lines of text: the changes of them, and what is unknown.

In: raw responses. Out: lines of text. Never: prints, decides, or shows an unredacted value.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.snapshots.formats.raw_response import RawResponse
from traceforge.terminal import one_line

UNKNOWN = "unknown"


def head_change_lines(before: RawResponse | None, after: RawResponse) -> Iterator[str]:
    """The upstream and the headers that differ; "unknown" for what a side does not say."""
    if before is None:
        return
    if before.upstream != after.upstream:
        yield f"upstream: {one_line(before.upstream or UNKNOWN)} → {one_line(after.upstream or UNKNOWN)}"
    sides = [_join_headers(raw) for raw in (before, after)]
    for name in sorted({*sides[0], *sides[1]}):
        values = [_header_value(name, side, raw) for side, raw in zip(sides, (before, after), strict=True)]
        if values[0] != values[1]:
            yield f"header {one_line(name)}: {values[0]} → {values[1]}"


def unknown_parts_text(raw: RawResponse) -> str:
    """What a raw response does not say about its request; "" where it says all."""
    if not raw.unknown:
        return ""
    known_headers = sorted(raw.unknown.known_headers) if raw.unknown.known_headers is not None else None
    parts = ["where it went"] if raw.unknown.upstream else []
    if known_headers is not None:
        parts.append(
            f"its headers except {', '.join(map(one_line, known_headers))}" if known_headers else "its headers"
        )
    return " and ".join(parts)


def _join_headers(raw: RawResponse) -> dict[str, str]:
    values: dict[str, list[str]] = {}
    for name, value in raw.request_headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(texts) for name, texts in values.items()}


def _header_value(name: str, headers: dict[str, str], raw: RawResponse) -> str:
    if name in headers:
        return one_line(headers[name])
    known_headers = raw.unknown.known_headers
    return UNKNOWN if known_headers is not None and name not in known_headers else "nothing"
