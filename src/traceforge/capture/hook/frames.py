"""The protocol between a child process and `traceforge run`, byte by byte.

In: one message and the bytes that belong to it. Out: one frame, and back. Never: understands a message.

    4 bytes   length of all that follows, big-endian
    4 bytes   length of the head
    head      one JSON object, UTF-8; "kind" says what it is, "sizes" how the rest is to be cut
    rest      the bytes of a call: the body of the request, then each chunk of the response

    hello  pid, token                once for a connection, before anything else
    begin  id, method, url, …        a call begins: it gets its number in its session
    end    id, status, sizes, …      and has ended
    note   what                      traffic that cannot be watched
    test   scope, what               a test began, or has passed, failed or was skipped
    suite  what                      a run of pytest began or ended in this process
    bye    lost, faults, fault       the process ends

Where a run observes the recorder of a suite, in place of `begin` and `end`:

    loaded      scope, cassette, recorded                 a cassette was read; methods and URLs
    played      scope, cassette, index, recorded, sent    the bytes are the body of the recorded and the sent request
    unanswered  scope, cassette, method, url, what        a call that was not answered from a cassette

In a replay there is also a call that was refused by the child itself, and queries on connections of their own, with
the replies after the colon:

    refused  why
    play     method, url, …, sizes   a whole request: `answer` status, headers, times, cut, pace, sizes; or `live`
    test, suite  asked               as above: `heard`
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import Any

FRAME_BYTES_MAX = 256 << 20  # Two bodies of the largest size that is kept, and room for the head.
_LENGTHS = struct.Struct(">II")


def write_frame(head: dict[str, Any], chunks: Iterable[bytes] = ()) -> bytes:
    """One message with its bytes."""
    body = list(chunks)
    if body:
        head["sizes"] = [len(chunk) for chunk in body]
    text = json.dumps(head, separators=(",", ":")).encode()
    size = 4 + len(text) + sum(map(len, body))
    return b"".join([_LENGTHS.pack(size, len(text)), text, *body])


def read_frame(read: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytes]] | None:
    """The next message of a connection; None at its end.

    Raises:
        ValueError: the bytes are not a frame.
    """
    lengths = read(8)
    if len(lengths) < 8:
        return None
    size, head_size = _LENGTHS.unpack(lengths)
    if not 4 <= head_size + 4 <= size <= FRAME_BYTES_MAX:
        raise ValueError("a frame with impossible lengths")
    data = read(size - 4)
    if len(data) < size - 4:
        return None  # the process ended in the middle of it
    head = json.loads(data[:head_size])
    if not isinstance(head, dict):
        raise ValueError("a frame without a head")
    return head, _split_chunks(data, head_size, head.get("sizes", []))


def _split_chunks(data: bytes, start: int, sizes: list[int]) -> list[bytes]:
    chunks = []
    for size in sizes:
        if not 0 <= size <= len(data) - start:
            raise ValueError("a frame whose chunks do not fit")
        chunks.append(data[start : start + size])
        start += size
    return chunks
