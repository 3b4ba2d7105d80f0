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
from typing import Any, NamedTuple, cast

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.exchange import CallOutcome, Chunk, Headers
from traceforge.redact import REDACTED, Redaction

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
_SENDABLE_HEADER = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*"  # RFC 9110: a name, and no control


class EchoReference(NamedTuple):
    """A `[REDACTED]` that is refilled: its number in the answer, the place in the request, how deep it stands."""

    marker: int
    path: str
    nth: int
    depth: int = 1


class _ResponseFields(NamedTuple):
    status: int
    headers: Headers
    chunks: tuple[Chunk, ...]
    streamed: bool
    echoes: tuple[EchoReference, ...] = ()
    redacted_count: int = 0  # values that cannot be refilled: they replay as `[REDACTED]`
    cut: bool = False  # it broke off, and breaks off again


class RecordedResponse(_ResponseFields):
    """What is sent when a request is recognised."""

    @cached_property
    def edge_cache(self) -> dict[Any, Any]:
        """What edges have made of it: the same answer is often sent again."""
        return {}

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(chunk.data for chunk in self.chunks)


def response_from_trace(body: JSONObject, chunk_lines: bytes) -> RecordedResponse | None:
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
    from traceforge.traces.chunk_file import read_chunks  # Snapshots need nothing of what reads traces.

    chunks = read_chunks(chunk_lines) if chunk_lines else [Chunk(_first_byte_ms(wire), _response_body(body, wire))]
    redacted_field = body.get("redacted")
    redacted = redacted_field if isinstance(redacted_field, dict) else {}
    echoes = find_echoes(redacted, chunks)
    redaction_count = len(cast("list[JSON]", redacted.get("response", [])))
    return RecordedResponse(
        int(str(wire["status"])),
        _sendable_headers(wire),
        tuple(chunks),
        bool(chunk_lines),
        echoes,
        max(0, redaction_count - len(echoes)),
        _is_cut(wire),
    )


def find_echoes(redacted: JSONObject, chunks: Sequence[Chunk]) -> tuple[EchoReference, ...]:
    """What is refilled in an answer, from what is kept about its redactions."""
    stored = cast("list[JSONObject]", redacted.get("echoes", []))
    if not stored:
        return ()
    from traceforge.replay.marker_depths import find_marker_depths  # Few answers refer to their requests.

    depths = dict(enumerate(find_marker_depths(b"".join(chunk.data for chunk in chunks))))
    places = ((int(str(echo["marker"])), str(echo["path"]), int(str(echo["nth"]))) for echo in stored)
    return tuple(EchoReference(marker, path, nth, depths.get(marker, 1)) for marker, path, nth in places)


def _response_body(body: JSONObject, wire: JSONObject) -> bytes:
    value = body.get("provider_response")
    if isinstance(wire.get("response_layout"), str):
        from traceforge.traces.body_reader import write_body

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
    from traceforge.wire.response_reader import ResponseEnding

    return (
        wire.get("outcome") in (CallOutcome.CUT, CallOutcome.CLIENT_LEFT)
        and wire.get("ending") != ResponseEnding.COMPLETE
    )


def _first_byte_ms(wire: JSONObject) -> float:
    time = wire.get("first_byte_ms")
    return float(time) if isinstance(time, int | float) else 0.0


def _sendable_headers(wire: JSONObject) -> Headers:
    """Those that can be sent again."""
    from traceforge.wire.content_encoding import EncodingState

    still_encoded = (EncodingState.FAILED, EncodingState.TOO_LARGE)  # Kept as it came: the header is true.
    dropped = DROPPED_HEADERS - ({"content-encoding"} if wire.get("encoding") in still_encoded else set())
    lines: Iterable[str] = cast("list[str]", wire.get("response_headers", []))
    pairs = (
        line.partition(": ")[::2] for line in lines if re.fullmatch(_SENDABLE_HEADER, line) and REDACTED not in line
    )
    return tuple((name, value) for name, value in pairs if name.lower() not in dropped)


def refill_echoes(response: RecordedResponse, redactions: Sequence[Redaction]) -> RecordedResponse:
    """Put values of the live request where the recorded answer refers to them; chunks keep their borders."""
    if not response.echoes:
        return response
    from traceforge.redact.stream_redaction import ByteEdit, apply_edits
    from traceforge.replay.marker_depths import escape_for_depth

    values = _values_by_place(redactions)
    replacements = {
        echo.marker: escape_for_depth(values[echo.path, echo.nth], echo.depth)
        for echo in response.echoes
        if (echo.path, echo.nth) in values
    }
    edits = [
        ByteEdit(marker.start(), marker.end(), replacements[number])
        for number, marker in enumerate(re.finditer(_MARKER, response.body))
        if number in replacements
    ]
    pieces = apply_edits([chunk.data for chunk in response.chunks], edits)
    chunks = (Chunk(chunk.t_ms, data) for chunk, data in zip(response.chunks, pieces, strict=True))
    return response._replace(chunks=tuple(chunks))


def _values_by_place(redactions: Sequence[Redaction]) -> dict[tuple[str, int], str]:
    counts: dict[str, int] = {}
    values: dict[tuple[str, int], str] = {}
    for redaction in redactions:
        nth = counts[redaction.path] = counts.get(redaction.path, -1) + 1
        values[redaction.path, nth] = redaction.reveal()
    return values
