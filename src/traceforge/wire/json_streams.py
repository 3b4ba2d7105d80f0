"""JSON values one after another: a value a line (NDJSON), or the items of one growing array.

In: the bytes of a stream, split anywhere. Out: the bytes of each value, as soon as it is complete. Never: parses
them; a broken value is passed on as it is.
"""

from __future__ import annotations

import re
from functools import cache

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+'


def _nested(depth: int) -> bytes:
    """What matches an object that nests no deeper."""
    inner = rb"|" + _nested(depth - 1) if depth else b""
    return rb'\{(?:[^"{}]++|' + _STRING + rb'"' + inner + rb")*+\}"


@cache
def _token() -> re.Pattern[bytes]:
    """A string, with its end where it has come, or a bracket."""
    return re.compile(_STRING + rb'("?)|[{}\]]', re.DOTALL)


@cache
def _item() -> re.Pattern[bytes]:
    """A whole item in one step; deeper ones, and those that have not come whole, are read token by token."""
    return re.compile(rb"[\s,]*+(" + _nested(12) + rb")", re.DOTALL)


class LineParser:
    """Turns bytes into lines; blank lines are none."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the lines they complete."""
        self._unfinished.append(data)
        if b"\n" not in data:  # A long line is joined once.
            return []
        *lines, unfinished = b"".join(self._unfinished).split(b"\n")
        self._unfinished = [unfinished]
        return [line.strip() for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """The stream has ended: return the last line if it was not terminated."""
        line, self._unfinished = b"".join(self._unfinished).strip(), []
        return [line] if line else []


class ArrayParser:
    """Turns the bytes of one JSON array into its items, which are objects."""

    def __init__(self) -> None:
        self._buffer = b""  # what was not given out yet
        self._scanned = 0  # how far `_buffer` is known
        self._depth = -1  # of braces; 0 is between items, -1 before the array
        self._ended = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the items they complete."""
        if self._ended:
            return []
        self._buffer += data
        if self._depth < 0:
            opening = self._buffer.find(b"[")
            if opening < 0:
                return []
            self._depth = 0
            self._forget(opening + 1)
        items: list[bytes] = []
        while self._take_whole(items) or self._scan(items):
            pass
        return items

    def _take_whole(self, items: list[bytes]) -> bool:
        """Take every item that is there as a whole; say whether there was one."""
        at = 0
        while self._depth == 0 and (match := _item().match(self._buffer, at)):
            items.append(match[1])
            at = match.end()
        if at:
            self._forget(at)
        return at > 0

    def _scan(self, items: list[bytes]) -> bool:
        """Go on token by token; say whether that ended an item."""
        start = 0
        for token in _token().finditer(self._buffer, self._scanned):
            if token[1] == b"":
                self._forget(start, scanned=token.start())  # an open string is looked at again when more has come
                return False
            if token[0] == b"{":
                start = start if self._depth else token.start()
                self._depth += 1
            elif token[0] == b"}" and self._depth:
                self._depth -= 1
                if not self._depth:
                    items.append(self._buffer[start : token.end()])
                    self._forget(token.end())
                    return True
            elif token[0] == b"]" and not self._depth:
                self._ended = True
                break
        self._forget(start if self._depth else len(self._buffer), scanned=len(self._buffer))
        return False

    def _forget(self, size: int, scanned: int = 0) -> None:
        """Drop what is not needed again."""
        self._buffer = self._buffer[size:]
        self._scanned = max(0, scanned - size)

    def finish(self) -> list[bytes]:
        """The stream has ended: return the item that was not closed, as far as it came."""
        unfinished = self._buffer.strip() if self._depth > 0 else b""
        return [unfinished] if unfinished else []
