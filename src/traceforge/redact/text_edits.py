"""Replace bytes in data that comes in chunks.

In: chunks, and edits or secrets by their place in the joined chunks. Out: as many chunks, cut at the old borders.
Never: divides what is put in the place of a secret.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from traceforge.redact.scanner import SecretSpan
from traceforge.redact.secret_finder import SecretFinder


class ByteEdit(NamedTuple):
    """Bytes from `start` to `end` become `new`."""

    start: int
    end: int
    new: bytes


def replace_and_split(finder: SecretFinder, pieces: Sequence[bytes], spans: Sequence[SecretSpan]) -> list[bytes]:
    """Replace the secrets of the joined pieces, and cut at the same borders."""
    return apply_edits(pieces, edit_spans(finder, b"".join(pieces), spans), keep_together=True)


def edit_spans(finder: SecretFinder, data: bytes, spans: Sequence[SecretSpan]) -> list[ByteEdit]:
    return [
        ByteEdit(item.start, item.end, finder.replace_secrets(data[item.start : item.end], [_relative_span(item)]))
        for item in spans
    ]


def _relative_span(item: SecretSpan) -> SecretSpan:
    return SecretSpan(0, item.end - item.start, item.type)


def apply_edits(chunks: Sequence[bytes], edits: Sequence[ByteEdit], *, keep_together: bool = False) -> list[bytes]:
    """Make edits in the joined chunks and cut at the old borders.

    A border inside an edit moves: behind the new bytes with `keep_together`, else as far into them as it was into the
    old ones.
    """
    data = b"".join(chunks)
    parts: list[bytes] = []
    olds, news = [0], [0]  # where unchanged bytes go on, before and after
    last = size = 0
    for edit in edits:
        parts += (data[last : edit.start], edit.new)
        size += edit.start - last + len(edit.new)
        last = edit.end
        olds.append(edit.end)
        news.append(size)
    parts.append(data[last:])
    changed = b"".join(parts)

    def move(border: int) -> int:
        index = bisect_right(olds, border) - 1
        if index < len(edits) and border > edits[index].start:
            new = len(edits[index].new)
            into = new if keep_together else min(border - edits[index].start, new)
            return news[index] + edits[index].start - olds[index] + into
        return news[index] + border - olds[index]

    borders, place = [0], 0
    for chunk in chunks[:-1]:
        place += len(chunk)
        borders.append(move(place))
    borders.append(len(changed))
    return [changed[first:second] for first, second in pairwise(borders)]
