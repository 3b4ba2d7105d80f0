"""The frames of Amazon's event streams, as its services write them."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any
from zlib import crc32


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One frame, from the description of the format."""
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    data = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return data + struct.pack(">I", crc32(data))


def event(name: str, value: dict[str, Any]) -> bytes:
    """An event, with a payload of JSON."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(value, separators=(",", ":")).encode())


def exception(name: str, message: str) -> bytes:
    """A failure in the middle of a stream."""
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def chunk(value: dict[str, Any]) -> bytes:
    """An event of InvokeModel: that of the model's family, in base64."""
    return event("chunk", {"bytes": base64.b64encode(json.dumps(value).encode()).decode(), "p": "abcdefgh"})


USAGE = {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16}


def converse_events(*texts: str) -> list[bytes]:
    """The frames of a stream of Converse."""
    return [
        event("messageStart", {"p": "abcdefghijk", "role": "assistant"}),
        *(
            event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}, "p": "abc"})
            for text in texts
        ),
        event("contentBlockStop", {"contentBlockIndex": 0, "p": "abcd"}),
        event("messageStop", {"p": "ab", "stopReason": "end_turn"}),
        event("metadata", {"metrics": {"latencyMs": 12}, "p": "a", "usage": USAGE}),
    ]
