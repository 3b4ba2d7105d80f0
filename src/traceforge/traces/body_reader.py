"""Redact and parse the bodies of a call.

A body becomes the value that a trace stores, and how to write the same bytes again. Bytes that were not redacted are
never stored, and none are lost: what is not JSON is stored as text, and what is not text as base64.

A JSON body is stored as a value, for people to read and tools to query. Most providers write JSON in one of four
layouts; where writing the value in one of them gives the same bytes, its name is enough to replay them. Otherwise the
text is stored as well.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from traceforge.canon import (
    DEPTH_MAX,
    JSON,
    JSONObject,
    digest_bytes,
    is_deeper_than,
    json_bytes,
    parse_all_members,
    parse_exact_json,
)
from traceforge.errors import NotJSON
from traceforge.exchange import CallOutcome, Exchange, find_header
from traceforge.redact.markers import SecretMarkers
from traceforge.redact.redactions import Redacted, Redaction, pair_echoes
from traceforge.redact.redactor import Redactor, is_redacted_by_type
from traceforge.wire.content_encoding import DecodedBody, EncodingState, decode_body, decode_chunks
from traceforge.wire.dialect_declaration import BodyFraming
from traceforge.wire.dialects import encode_stream, find_framing_of
from traceforge.wire.endpoints import Endpoint
from traceforge.wire.operation_names import TOOL_SCHEMES
from traceforge.wire.response_reader import (
    ParsedResponse,
    ResponseEnding,
    ResponseReader,
    find_framing,
    read_response_value,
)
from traceforge.wire.unified import as_object, list_objects, without_fields
from traceforge.wire.unknown_stream import EVENT_STREAM_TYPE, ends_with_done, is_unknown_stream

STREAM_MEDIA_TYPES = {
    BodyFraming.SSE: EVENT_STREAM_TYPE,
    BodyFraming.LINES: "application/x-ndjson",
}  # as the redactor knows them
COMPACT = "compact"
SWITCHING_PROTOCOLS = 101  # the status of a WebSocket
UNREADABLE = frozenset({EncodingState.FAILED, EncodingState.TOO_LARGE})
_NOT_JSON_MEMBERS = ({"b64"}, {"omitted", "bytes", "digest"})  # of what is stored for a body that is not JSON

TRACE_DEPTH = 50  # How much deeper a value is nested in a trace than in its body.

# The name of a layout, whether it is indented, and what ends it.
LAYOUTS = ((COMPACT, False, b""), ("compact-lf", False, b"\n"), ("indented", True, b""), ("indented-lf", True, b"\n"))
_LAYOUT_NAMES = {(indented, end): name for name, indented, end in LAYOUTS}


class RedactedBody(NamedTuple):
    """A body as a trace stores it."""

    value: JSON  # JSON as a value; else its text, {"b64": …} or {"omitted": …}; None where there was no body
    redactions: list[Redaction]
    is_json: bool = False
    layout: str = ""  # which of LAYOUTS gives the same bytes
    text: str | None = None  # the exact text, where no layout does
    chunks: Sequence[bytes] = ()  # of a stream, redacted
    answer: ParsedResponse | None = None
    encoding: EncodingState = EncodingState.NONE
    markers: Sequence[tuple[int, str]] = ()  # which [REDACTED] of the response are values of the request


def read_request(redactor: Redactor, data: bytes, media_type: str, encodings: str) -> RedactedBody:
    """Redact and parse the body of a request.

    A body that is not encoded as its `content-encoding` says is not parsed: providers may read it differently.
    """
    decoded = decode_body(data, encodings) if encodings else DecodedBody(data, EncodingState.NONE)
    if decoded.state in UNREADABLE:
        return omit_body(data, decoded.state)
    if decoded.state is EncodingState.STALE:
        redacted = redactor.redact_body(data, media_type)
        return omit_body(redacted.value, decoded.state)._replace(redactions=redacted.log)
    body = read_body(redactor, decoded.body, media_type, parse_all_members)
    if body.is_json and looks_like_another_body(body.value):
        return RedactedBody(json_bytes(body.value).decode(), body.redactions)
    return body


def looks_like_another_body(value: JSON) -> bool:
    """Whether a JSON body, stored as a value, would look like a body that is none: a text, bytes, or no body at all.

    It is stored as its text. No other body has this text, because a text that is JSON is stored as a value.
    """
    return value is None or isinstance(value, str) or (isinstance(value, dict) and value.keys() in _NOT_JSON_MEMBERS)


def read_body(
    redactor: Redactor, data: bytes, media_type: str, parse: Callable[[bytes], JSON] = parse_exact_json
) -> RedactedBody:
    """Redact and parse a whole body."""
    if not data:
        return RedactedBody(None, [])
    try:
        value = parse(data)
    except NotJSON:
        redacted = redactor.redact_body(data, media_type)
        return RedactedBody(_text_or_base64(redacted.value), redacted.log)
    document = redactor.redact_json(value)
    if _is_too_deep(data, value):
        return RedactedBody(json_bytes(document.value).decode(), document.log)
    if document.log:
        return RedactedBody(document.value, document.log, is_json=True, layout=COMPACT)
    layout = find_layout(value, data)
    if layout:
        return RedactedBody(value, [], is_json=True, layout=layout)
    redacted = redactor.redact_body(
        data, media_type
    )  # It may hold what its value does not: members of the same name.
    if redacted.value != data:
        return _read_redacted(redacted)
    return RedactedBody(value, [], is_json=True, text=data.decode())


def redact_request(redactor: Redactor, data: bytes, media_type: str, encodings: str) -> tuple[JSON, list[Redaction]]:
    """The value and redactions of `read_request`, without finding the layout."""
    if data and not encodings and not is_redacted_by_type(media_type):
        try:
            value = parse_all_members(data)
        except NotJSON:
            pass
        else:
            document = redactor.redact_json(value)
            is_text = looks_like_another_body(document.value) or _is_too_deep(data, value)
            return (json_bytes(document.value).decode() if is_text else document.value), document.log
    body = read_request(redactor, data, media_type, encodings)
    return body.value, body.redactions


def _read_redacted(redacted: Redacted[bytes]) -> RedactedBody:
    try:
        return RedactedBody(parse_exact_json(redacted.value), redacted.log, is_json=True, layout=COMPACT)
    except NotJSON:  # JSON with the media type of a form, redacted as a form
        return RedactedBody(_text_or_base64(redacted.value), redacted.log)


def _is_too_deep(data: bytes, value: JSON) -> bool:
    """Whether a trace with this value would be nested too deeply for our JSON reader."""
    return data.count(b"[") + data.count(b"{") > DEPTH_MAX - TRACE_DEPTH and is_deeper_than(
        value, DEPTH_MAX - TRACE_DEPTH
    )


def find_layout(value: JSON, data: bytes) -> str:
    """The layout in which `value` is written as `data`; "" where there is none."""
    indented = data[1:2] == b"\n"
    end = b"\n" if data.endswith(b"\n") else b""
    if json_bytes(value, indent=indented) + end != data:
        return ""
    return _LAYOUT_NAMES[indented, end]


def write_body(value: JSON, layout: str) -> bytes:
    """The bytes of a body that was stored as a value and a layout."""
    indented, end = next((indented, end) for name, indented, end in LAYOUTS if name == layout)
    return json_bytes(value, indent=indented) + end


def read_response(
    redactor: Redactor,
    endpoint: Endpoint,
    exchange: Exchange,
    media_type: str,
    request_redactions: Sequence[Redaction],
) -> RedactedBody:
    """Redact and parse a response; values of `request_redactions` in it become echoes."""
    if not exchange.status:
        return RedactedBody(None, [])
    encodings = find_header(exchange.response_headers, "content-encoding")
    decoded = decode_chunks([chunk.data for chunk in exchange.chunks], encodings)
    if decoded.state in UNREADABLE:
        body = omit_body(b"".join(decoded.chunks), decoded.state)
        return body._replace(answer=read_response_value(endpoint, exchange.status, None), encoding=decoded.state)
    framing = _find_framing(endpoint, media_type, decoded.chunks)
    read = _read_whole
    if endpoint.dialect is None:
        if _is_unknown_stream(exchange, framing, media_type, decoded.chunks):
            read = partial(_read_unknown_stream, STREAM_MEDIA_TYPES.get(framing, media_type))
    elif framing is not BodyFraming.WHOLE:
        read = partial(_read_stream, STREAM_MEDIA_TYPES.get(framing, media_type))
    body = read(redactor, endpoint, exchange.status, media_type, decoded.chunks)
    if request_redactions and body.redactions and pair_echoes(request_redactions, body.redactions):
        markers = SecretMarkers(item.reveal() for item in request_redactions)
        body = read(redactor, endpoint, exchange.status, media_type, decoded.chunks, markers)
        body = body._replace(redactions=markers.strip_paths(body.redactions))
    return body if decoded.state is body.encoding else body._replace(encoding=decoded.state)


def _is_unknown_stream(exchange: Exchange, framing: BodyFraming, media_type: str, chunks: Sequence[bytes]) -> bool:
    if exchange.url.startswith(TOOL_SCHEMES) or exchange.status == SWITCHING_PROTOCOLS:
        return False  # Messages, whatever carried them, and the frames of a WebSocket are no chunks of a body.
    has_length = bool(find_header(exchange.response_headers, "content-length"))
    is_left = exchange.outcome is CallOutcome.CLIENT_LEFT
    return is_unknown_stream(framing, media_type, chunks, has_length=has_length, is_left=is_left)


def omit_body(data: bytes, state: EncodingState) -> RedactedBody:
    """What is stored of a body that could not be decoded: its size and digest, because it may hold secrets."""
    return RedactedBody({"omitted": state.value, "bytes": len(data), "digest": digest_bytes(data)}, [])


def find_echoes(request_redactions: Iterable[Redaction], markers: Iterable[tuple[int, str]]) -> list[JSON]:
    """The echoes of a response: which [REDACTED] is refilled from which redaction of the request.

    `marker` counts the [REDACTED] of the stored response, `nth` the redactions at one path of the request, both
    from 0.
    """
    first_places: dict[str, tuple[str, int]] = {}
    counts: dict[str, int] = {}
    for item in request_redactions:
        nth = counts[item.path] = counts.get(item.path, -1) + 1
        first_places.setdefault(item.reveal(), (item.path, nth))
    return [
        {"marker": number, "path": first_places[secret][0], "nth": first_places[secret][1]}
        for number, secret in markers
    ]


def _find_framing(endpoint: Endpoint, media_type: str, chunks: Sequence[bytes]) -> BodyFraming:
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    framing = find_framing(endpoint, media_type, data[:64] if data[:64].strip() else data)
    if framing is BodyFraming.WHOLE and b"}\n{" in data and find_framing_of(endpoint) is BodyFraming.LINES:
        return BodyFraming.LINES
    return framing


def _read_stream(
    kind: str,
    redactor: Redactor,
    endpoint: Endpoint,
    status: int,
    media_type: str,
    chunks: Sequence[bytes],
    markers: SecretMarkers | None = None,
) -> RedactedBody:
    redacted, echo_markers = _redact_stream(redactor, chunks, kind, markers)
    answer = _assemble(endpoint, status, media_type, redacted.value)
    if not answer.streamed:  # an error with the media type of a stream
        return _read_whole(redactor, endpoint, status, kind, chunks, markers)
    answer, redactions = _redact_answer(redactor, answer)
    body = RedactedBody(
        answer.body, redacted.log, is_json=True, chunks=redacted.value, answer=answer, markers=echo_markers
    )
    if not redactions:
        return body
    body = body._replace(redactions=[*redacted.log, *redactions], markers=())
    return _write_anew(redactor, endpoint, status, media_type, chunks, body)


def _read_unknown_stream(
    kind: str,
    redactor: Redactor,
    endpoint: Endpoint,
    status: int,
    media_type: str,
    chunks: Sequence[bytes],
    markers: SecretMarkers | None = None,
) -> RedactedBody:
    """A stream that no dialect can put together: its chunks, and their text."""
    redacted, echo_markers = _redact_stream(redactor, chunks, kind, markers)
    data = b"".join(redacted.value)
    value = _parse_object(data)  # one line, such as an error
    answer = read_response_value(endpoint, status, value)
    if answer.ending is not ResponseEnding.ERROR:
        answer = answer._replace(ending=ResponseEnding.COMPLETE if ends_with_done(data) else ResponseEnding.RAW)
    return RedactedBody(
        _text_or_base64(data) if value is None else value,
        redacted.log,
        is_json=value is not None,
        chunks=redacted.value,
        answer=answer._replace(streamed=True),
        markers=echo_markers,
    )


def _parse_object(data: bytes) -> JSONObject | None:
    """The value of a body that is one object; None where it is something else."""
    try:
        value = parse_exact_json(data)
    except NotJSON:
        return None
    return value if isinstance(value, dict) and not _is_too_deep(data, value) else None


def _write_anew(
    redactor: Redactor, endpoint: Endpoint, status: int, media_type: str, chunks: Sequence[bytes], body: RedactedBody
) -> RedactedBody:
    """A stream that divides a secret in a way that only the assembled answer shows: its redacted answer as a new
    stream, or, where even that holds a secret, nothing of it.
    """
    assert body.answer is not None
    unified = _drop_parts(body.answer.unified) if body.answer.error is None else None
    try:
        frames = encode_stream(endpoint, unified) if unified else []
    except (KeyError, TypeError, ValueError):  # The answer has no form that the dialect could send.
        frames = []
    if frames:
        rebuilt = [b"".join(frames), *([b""] * (len(chunks) - 1))]
        answer, redactions = _redact_answer(redactor, _assemble(endpoint, status, media_type, rebuilt))
        if not redactions:
            return body._replace(value=answer.body, chunks=rebuilt, answer=answer)
    answer = read_response_value(endpoint, status, None)
    return omit_body(b"".join(chunks), EncodingState.FAILED)._replace(redactions=body.redactions, answer=answer)


def _drop_parts(unified: JSONObject | None) -> JSONObject | None:
    """A unified response without the provider's own form of its messages, which may hold a secret in parts."""
    if unified is None or not isinstance(unified.get("choices"), list):
        return unified
    choices: list[JSON] = [
        {**choice, "message": without_fields(as_object(choice["message"]), ("parts",))}
        if "message" in choice
        else choice
        for choice in list_objects(unified["choices"])
    ]
    return {**unified, "choices": choices}


def _assemble(endpoint: Endpoint, status: int, media_type: str, chunks: Sequence[bytes]) -> ParsedResponse:
    reader = ResponseReader(endpoint, status, media_type)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def _redact_answer(redactor: Redactor, answer: ParsedResponse) -> tuple[ParsedResponse, list[Redaction]]:
    """Redact the assembled response as well: a provider may divide a text between events in an unexpected way."""
    if is_deeper_than(answer.body, DEPTH_MAX - TRACE_DEPTH) or is_deeper_than(
        answer.unified, DEPTH_MAX - TRACE_DEPTH
    ):
        answer = answer._replace(ending=ResponseEnding.RAW, body=None, unified=None)
    joined = collect_strings(answer.unified) - collect_strings(
        answer.body
    )  # The unified view joins parts of the body.
    if not redactor.redact_json([answer.body, answer.error, *joined]).log:
        return answer, []
    body, unified, error = (redactor.redact_json(part) for part in (answer.body, answer.unified, answer.error))
    redacted = answer._replace(
        body=body.value, unified=cast("JSONObject", unified.value), error=cast("JSONObject", error.value)
    )
    return redacted, body.log or unified.log or error.log


def collect_strings(value: JSON) -> set[str]:
    """Every text in a value."""
    texts: set[str] = set()
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        if type(item) is str:
            texts.add(item)
        elif type(item) is dict:
            todo += item.values()
        elif type(item) is list:
            todo += item
    return texts


def _read_whole(
    redactor: Redactor,
    endpoint: Endpoint,
    status: int,
    media_type: str,
    chunks: Sequence[bytes],
    markers: SecretMarkers | None = None,
) -> RedactedBody:
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if markers is None:
        body = read_body(redactor, data, media_type)
    else:
        body = _resolve_body_markers(read_body(redactor.with_markers(markers), data, media_type), markers)
    answer = read_response_value(endpoint, status, body.value if body.is_json else None)
    return body._replace(answer=answer)


def _resolve_body_markers(body: RedactedBody, markers: SecretMarkers) -> RedactedBody:
    """Remove the secrets' own markers from a body."""
    if body.is_json:
        (data,), echo_markers = markers.strip_markers([write_body(body.value, COMPACT)])
        return body._replace(value=parse_exact_json(data), markers=echo_markers)
    if isinstance(body.value, str):
        (data,), echo_markers = markers.strip_markers([body.value.encode()])
        return body._replace(value=data.decode(), markers=echo_markers)
    assert isinstance(body.value, dict)
    (data,), echo_markers = markers.strip_markers([base64.b64decode(str(body.value["b64"]))])
    return body._replace(value=_text_or_base64(data), markers=echo_markers)


def _redact_stream(
    redactor: Redactor, chunks: Sequence[bytes], media_type: str, markers: SecretMarkers | None
) -> tuple[Redacted[list[bytes]], Sequence[tuple[int, str]]]:
    if markers is None:
        return redactor.redact_chunks(chunks, media_type), ()
    marked = redactor.with_markers(markers).redact_chunks(chunks, media_type)
    settled, echo_markers = markers.strip_markers(marked.value)
    return Redacted(settled, marked.log), echo_markers


def _text_or_base64(data: bytes) -> JSON:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}
