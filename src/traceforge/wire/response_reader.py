"""From the bytes of a response body to the unified view, streamed or not.

In: the decoded bytes of a response body, split anywhere. Out: a `ParsedResponse`. Never: I/O, or an exception: a body
that cannot be understood has the ending `RAW`, and the caller keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.errors import NotJSON
from traceforge.http.event_stream import EventStreamParser
from traceforge.wire.binary_frames import FRAMES_TYPE, FrameParser
from traceforge.wire.dialect_declaration import BodyFraming
from traceforge.wire.dialects import decode_response, find_dialect_module, find_framing_of, new_assembler
from traceforge.wire.endpoints import Endpoint
from traceforge.wire.json_streams import ArrayParser, LineParser
from traceforge.wire.provider_error import read_error
from traceforge.wire.stream_assembly import DONE_DATA, StreamAssembler

_Parser: TypeAlias = EventStreamParser | LineParser | ArrayParser | FrameParser


class ResponseEnding(StrEnum):
    """How the body of a response ended."""

    COMPLETE = "complete"
    CUT = "cut"  # the stream stopped before its final event
    ERROR = "error"  # the provider answered with an error
    RAW = "raw"  # the bytes are not of a kind we read


class ParsedResponse(NamedTuple):
    """The content of a response body."""

    ending: ResponseEnding
    body: JSON  # the provider's own answer, assembled if it was a stream; None where it is raw
    unified: JSONObject | None  # None on an error, and where it is raw
    unknown_events: Mapping[str, int]  # how often each came
    broken_events: int = 0  # events whose data was not JSON
    error: JSONObject | None = None  # on an error: message, type and code, as far as the provider gave them
    streamed: bool = False  # did it come as events or lines?


_LINE_TYPES = frozenset(
    {
        "application/jsonl", "application/ndjson", "application/stream+json", "application/x-jsonlines",
        "application/x-ndjson",
    }
)  # fmt: skip


def find_framing(endpoint: Endpoint, media_type: str, start: bytes) -> BodyFraming:
    """How to read a body that begins like this. A label is believed only where the bytes do not contradict it."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return BodyFraming.SSE
    if text.startswith(b"[") and find_framing_of(endpoint) is BodyFraming.ARRAY:
        return BodyFraming.ARRAY
    label = media_type.partition(";")[0].strip().lower()
    if label in _LINE_TYPES:
        return BodyFraming.LINES
    if label == FRAMES_TYPE and start[:1] == b"\0":
        return BodyFraming.FRAMES
    return BodyFraming.WHOLE


class ResponseReader:
    """Reads one response body as it comes."""

    def __init__(
        self, endpoint: Endpoint, status: int, media_type: str, on_event: Callable[[JSONObject], object] | None = None
    ) -> None:
        self._endpoint = endpoint
        self._on_event = on_event  # Called with each event of a stream as it comes.
        self._status = status
        self._media_type = media_type
        self._assembler: StreamAssembler | None = None
        self._parser: _Parser | None = None
        self._body_parts: list[bytes] | None = None
        self._start = b""
        self._broken_events = 0

    def feed(self, data: bytes) -> None:
        """Parse more bytes of the body, in pieces of any size."""
        if self._parser is None and self._body_parts is None:
            self._start += data
            if len(self._start.lstrip(b"\xef\xbb\xbf \t\r\n")) < 6:  # too little to tell `data:` from anything else
                return
            data = self._start
            self._choose_parser()
        self._feed_parser(data)

    def finish(self) -> ParsedResponse:
        """Parse the last bytes, and return the response."""
        if self._parser is None and self._body_parts is None:
            self._choose_parser()
            self._feed_parser(self._start)
        if self._body_parts is not None:
            return self._finish_whole(b"".join(self._body_parts))
        assert self._parser is not None
        for event in self._parser.finish():
            self._add_event(event)
        return self._finish_stream()

    def _choose_parser(self) -> None:
        framing = find_framing(self._endpoint, self._media_type, self._start)
        self._assembler = new_assembler(self._endpoint) if framing is not BodyFraming.WHOLE else None
        if self._assembler is None:
            self._body_parts = []
        else:
            self._parser = _new_parser(framing)

    def _feed_parser(self, data: bytes) -> None:
        if self._body_parts is not None:
            self._body_parts.append(data)
        elif self._parser is not None:
            for event in self._parser.feed(data):
                self._add_event(event)

    def _add_event(self, event: object) -> None:
        assert self._assembler is not None
        name, data = event if isinstance(event, tuple) else ("", event)
        if data.strip() == DONE_DATA:
            self._assembler.add_done()
            return
        try:
            value = parse_json(data)
        except NotJSON:
            self._broken_events += 1
            return
        if isinstance(value, dict):
            self._assembler.add_event(value, name)
            if self._on_event is not None:
                self._on_event(value)
        else:
            self._broken_events += 1

    def _finish_whole(self, data: bytes) -> ParsedResponse:
        try:
            body = parse_json(data)
        except NotJSON:
            return self._finish_lines(data)
        return self.finish_value(body)

    def finish_value(self, body: JSON) -> ParsedResponse:
        """Finish with a body that the caller has parsed already."""
        decode_list = getattr(find_dialect_module(self._endpoint), "decode_list", None)
        if isinstance(body, list) and decode_list is not None and self._status < 400:
            return ParsedResponse(
                ResponseEnding.COMPLETE, body, decode_response(self._endpoint, decode_list(body)), {}
            )
        if not isinstance(body, dict):
            ending = ResponseEnding.ERROR if self._status >= 400 else ResponseEnding.RAW
            return ParsedResponse(ending, body, None, {})
        is_cut = body.get("done") is False and self._may_be_lines()  # a stream of one line
        return self._build_result(body, ResponseEnding.CUT if is_cut else ResponseEnding.COMPLETE)

    def _finish_lines(self, data: bytes) -> ParsedResponse:
        """Not one document: lines may come under any label."""
        if data.lstrip().startswith(b"{") and self._may_be_lines():
            self._assembler, self._parser, self._body_parts = new_assembler(self._endpoint), LineParser(), None
            self._feed_parser(data)
            return self.finish()
        return self.finish_value(None)

    def _may_be_lines(self) -> bool:
        return find_framing_of(self._endpoint) is BodyFraming.LINES

    def _finish_stream(self) -> ParsedResponse:
        assert self._assembler is not None
        body = self._assembler.finish()
        ending = ResponseEnding.COMPLETE if self._assembler.is_complete else ResponseEnding.CUT
        return self._build_result(body, ResponseEnding.ERROR if self._assembler.has_failed else ending)

    def _build_result(self, body: JSONObject, ending: ResponseEnding) -> ParsedResponse:
        unknown_events = self._assembler.unknown_events if self._assembler else {}
        if self._status >= 400 or (body.get("error") and "choices" not in body and "output" not in body):
            ending = ResponseEnding.ERROR
        has_answer = bool(body) and (ending is not ResponseEnding.ERROR or self._has_content(body))
        unified = decode_response(self._endpoint, body) if has_answer else None
        error = read_error(body) if ending is ResponseEnding.ERROR else None
        return ParsedResponse(
            ending, body, unified, unknown_events, self._broken_events, error, self._assembler is not None
        )

    def _has_content(self, body: JSONObject) -> bool:
        """Whether a failed stream holds a part of an answer. A failed response that was not streamed holds none."""
        names = ("choices", "content", "candidates", "message", "output", "response")
        return self._assembler is not None and any(body.get(name) for name in names)


def _new_parser(framing: BodyFraming) -> _Parser:
    if framing is BodyFraming.SSE:
        return EventStreamParser()
    if framing is BodyFraming.FRAMES:
        return FrameParser()
    return LineParser() if framing is BodyFraming.LINES else ArrayParser()


def read_response(endpoint: Endpoint, status: int, media_type: str, body: bytes) -> ParsedResponse:
    """Read a body that is there as a whole."""
    reader = ResponseReader(endpoint, status, media_type)
    reader.feed(body)
    return reader.finish()


def read_response_value(endpoint: Endpoint, status: int, body: JSON) -> ParsedResponse:
    """Read a body that is one JSON value; None where it is something else."""
    return ResponseReader(endpoint, status, "").finish_value(body)
