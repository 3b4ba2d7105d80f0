"""A recorded answer, ready to be sent again.

In: a trace and its chunks. Out: status, headers and the chunks with their times, byte for byte as they were kept.
Never: an encoding that the kept bytes do not have, a header that speaks about a connection that is gone, an end that
the answer never had, or a `[REDACTED]` where the live request holds the value that belongs there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, cast

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.exchange import CallOutcome, Chunk, Headers
from traceforge.redact import REDACTED, Redaction
from traceforge.tuples import NamedTuple

# About the connection or the encoding that the answer once had; lengths are computed anew.
DROPPED_HEADERS = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

_MARKER = re.escape(REDACTED.encode())
_SENDABLE = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*"  # RFC 9110: a name, and no control


class Reference(NamedTuple):
    """A `[REDACTED]` that is refilled: its number in the answer, the place in the request, how deep it stands."""

    marker: int
    path: str
    nth: int
    depth: int = 1


class _Answer(NamedTuple):
    status: int
    headers: Headers
    chunks: tuple[Chunk, ...]
    streamed: bool
    references: tuple[Reference, ...] = ()
    redacted: int = 0  # values that cannot be refilled: they replay as `[REDACTED]`
    cut: bool = False  # it broke off, and breaks off again


class RecordedAnswer(_Answer):
    """What is sent when a request is recognised."""

    @cached_property
    def made(self) -> dict[Any, Any]:
        """What edges have made of it: the same answer is often sent again."""
        return {}

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(chunk.data for chunk in self.chunks)


def answer_of_trace(body: JSONObject, chunk_lines: bytes) -> RecordedAnswer | None:
    """The answer that a trace keeps; None where the call got none, or one that nobody could read.

    Raises:
        InvalidFile: the chunks are none.
    """
    wire, value = body.get("wire"), body.get("provider_response")
    if not isinstance(wire, dict) or not wire.get("status"):
        return None
    if (
        isinstance(value, dict)
        and "omitted" in value
        and "response_layout" not in wire
        and "response_text" not in wire
    ):
        return None  # It could not be decoded, so it was not kept.
    from traceforge.traces.chunks import read_chunks  # Snapshots need nothing of what reads traces.

    chunks = read_chunks(chunk_lines) if chunk_lines else [Chunk(_first_byte(wire), _whole(body, wire))]
    found = body.get("redacted")
    redacted = found if isinstance(found, dict) else {}
    references = find_references(redacted, chunks)
    taken_out = len(cast("list[JSON]", redacted.get("response", [])))
    return RecordedAnswer(
        int(str(wire["status"])),
        _headers(wire),
        tuple(chunks),
        bool(chunk_lines),
        references,
        max(0, taken_out - len(references)),
        _is_cut(wire),
    )


def find_references(redacted: JSONObject, chunks: Sequence[Chunk]) -> tuple[Reference, ...]:
    """What is refilled in an answer, from what is kept about its redactions."""
    found = cast("list[JSONObject]", redacted.get("echoes", []))
    if not found:
        return ()
    from traceforge.replay.nesting import marker_depths  # Few answers refer to their requests.

    depths = dict(enumerate(marker_depths(b"".join(chunk.data for chunk in chunks))))
    kept = ((int(str(one["marker"])), str(one["path"]), int(str(one["nth"]))) for one in found)
    return tuple(Reference(marker, path, nth, depths.get(marker, 1)) for marker, path, nth in kept)


def _whole(body: JSONObject, wire: JSONObject) -> bytes:
    value = body.get("provider_response")
    if isinstance(wire.get("response_layout"), str):
        from traceforge.traces.bodies import write_body

        return write_body(value, str(wire["response_layout"]))
    if isinstance(wire.get("response_text"), str):
        return str(wire["response_text"]).encode()
    if isinstance(value, dict) and isinstance(value.get("b64"), str):
        return base64.b64decode(str(value["b64"]))
    if value is None:
        return b""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json_bytes(value)


def _is_cut(wire: JSONObject) -> bool:
    """Did the call end before the answer did? One that said that it was complete was not cut."""
    from traceforge.wire.answer import Ending

    return wire.get("outcome") in (CallOutcome.CUT, CallOutcome.CLIENT_LEFT) and wire.get("ending") != Ending.COMPLETE


def _first_byte(wire: JSONObject) -> float:
    time = wire.get("first_byte_ms")
    return float(time) if isinstance(time, int | float) else 0.0


def _headers(wire: JSONObject) -> Headers:
    """Those that can be sent again."""
    from traceforge.wire.encoding import EncodingState

    still_encoded = (EncodingState.FAILED, EncodingState.TOO_LARGE)  # Kept as it came: the header is true.
    dropped = DROPPED_HEADERS - ({"content-encoding"} if wire.get("encoding") in still_encoded else set())
    lines: Iterable[str] = cast("list[str]", wire.get("response_headers", []))
    pairs = (line.partition(": ")[::2] for line in lines if re.fullmatch(_SENDABLE, line) and REDACTED not in line)
    return tuple((name, value) for name, value in pairs if name.lower() not in dropped)


def refill(answer: RecordedAnswer, asked: Sequence[Redaction]) -> RecordedAnswer:
    """Put values of the live request where the recorded answer refers to them; chunks keep their borders."""
    if not answer.references:
        return answer
    from traceforge.redact.streams import Edit, apply_edits
    from traceforge.replay.nesting import escape

    values = _values(asked)
    wanted = {
        one.marker: escape(values[one.path, one.nth], one.depth)
        for one in answer.references
        if (one.path, one.nth) in values
    }
    edits = [
        Edit(found.start(), found.end(), wanted[number])
        for number, found in enumerate(re.finditer(_MARKER, answer.body))
        if number in wanted
    ]
    pieces = apply_edits([chunk.data for chunk in answer.chunks], edits)
    chunks = (Chunk(chunk.t_ms, data) for chunk, data in zip(answer.chunks, pieces, strict=True))
    return answer._replace(chunks=tuple(chunks))


def _values(asked: Sequence[Redaction]) -> dict[tuple[str, int], str]:
    seen: dict[str, int] = {}
    values: dict[tuple[str, int], str] = {}
    for item in asked:
        nth = seen[item.path] = seen.get(item.path, -1) + 1
        values[item.path, nth] = item.reveal()
    return values
