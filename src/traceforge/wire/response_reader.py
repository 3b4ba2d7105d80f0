"""An answer, whole or streamed: from bytes to the unified view.

In: the decoded bytes of a response body, split anywhere. Out: an `Answer`. Never: I/O, or a crash: what cannot be
understood is said to be raw, and the bytes are kept by whoever has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.errors import NotJSON
from traceforge.http.event_stream import EventStreamParser
from traceforge.tuples import NamedTuple
from traceforge.wire.dialects import decode_response, new_assembly
from traceforge.wire.endpoints import Dialect, Endpoint
from traceforge.wire.json_streams import ArrayParser, LineParser
from traceforge.wire.openai.chat import DONE, ChatAssembly
from traceforge.wire.provider_error import read_error
from traceforge.wire.stream_assembly import Assembly


class Ending(StrEnum):
    """How an answer ended."""

    COMPLETE = "complete"
    CUT = "cut"  # the stream stopped before the provider said that it was done
    ERROR = "error"  # the provider answered with an error
    RAW = "raw"  # the bytes are not of a kind we read


class Answer(NamedTuple):
    """What a response body says."""

    ending: Ending
    body: JSON  # the provider's own answer, assembled if it was a stream; None where it is raw
    unified: JSONObject | None  # None on an error, and where it is raw
    unknown_events: Counter[str]
    broken_events: int = 0  # events whose data was not JSON
    error: JSONObject | None = None  # on an error: message, type and code, as far as the provider gave them
    streamed: bool = False  # did it come as events or lines?


class Framing(StrEnum):
    """How a body is divided."""

    WHOLE = "whole"
    SSE = "sse"
    LINES = "lines"
    ARRAY = "array"


def find_framing(endpoint: Endpoint, media_type: str, start: bytes) -> Framing:
    """How to read a body that begins like this. A label is believed only where the bytes do not contradict it."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith((b"data:", b"event:", b"id:", b"retry:", b":")):
        return Framing.SSE
    if endpoint.dialect is Dialect.GEMINI and text.startswith(b"["):
        return Framing.ARRAY
    labelled = media_type.partition(";")[0].strip().lower()
    if labelled in ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"):
        return Framing.LINES
    return Framing.WHOLE


class AnswerReader:
    """Reads one response body as it comes."""

    def __init__(
        self, endpoint: Endpoint, status: int, media_type: str, hear: Callable[[JSONObject], object] | None = None
    ) -> None:
        self._endpoint = endpoint
        self._hear = hear  # Whoever wants each event of a stream as it comes.
        self._status = status
        self._media_type = media_type
        self._assembly: Assembly | None = None
        self._parser: EventStreamParser | LineParser | ArrayParser | None = None
        self._whole: list[bytes] | None = None
        self._start = b""
        self._broken = 0

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        if self._parser is None and self._whole is None:
            self._start += data
            if len(self._start.lstrip(b"\xef\xbb\xbf \t\r\n")) < 6:  # too little to tell `data:` from anything else
                return
            data = self._start
            self._open()
        self._take(data)

    def finish(self) -> Answer:
        """The body has ended."""
        if self._parser is None and self._whole is None:
            self._open()
            self._take(self._start)
        if self._whole is not None:
            return self._finish_whole(b"".join(self._whole))
        assert self._parser is not None
        for event in self._parser.finish():
            self._take_event(event)
        return self._finish_stream()

    def _open(self) -> None:
        framing = find_framing(self._endpoint, self._media_type, self._start)
        self._assembly = new_assembly(self._endpoint) if framing is not Framing.WHOLE else None
        if self._assembly is None:
            self._whole = []
        else:
            self._parser = _new_parser(framing)

    def _take(self, data: bytes) -> None:
        if self._whole is not None:
            self._whole.append(data)
        elif self._parser is not None:
            for event in self._parser.feed(data):
                self._take_event(event)

    def _take_event(self, event: object) -> None:
        assert self._assembly is not None
        name, data = event if isinstance(event, tuple) else ("", event)
        if data.strip() == DONE:
            if isinstance(self._assembly, ChatAssembly):
                self._assembly.end()
            return
        try:
            value = parse_json(data)
        except NotJSON:
            self._broken += 1
            return
        if isinstance(value, dict):
            self._assembly.take(value, name)
            if self._hear is not None:
                self._hear(value)
        else:
            self._broken += 1

    def _finish_whole(self, data: bytes) -> Answer:
        try:
            body = parse_json(data)
        except NotJSON:
            return self._finish_lines(data)
        return self.finish_value(body)

    def finish_value(self, body: JSON) -> Answer:
        """The body has ended, and somebody has read it already: it is this one JSON value."""
        if not isinstance(body, dict):
            ending = Ending.ERROR if self._status >= 400 else Ending.RAW
            return Answer(ending, body, None, Counter())
        cut = self._endpoint.dialect is Dialect.OLLAMA and body.get("done") is False  # a stream of one line
        return self._judge(body, Ending.CUT if cut else Ending.COMPLETE)

    def _finish_lines(self, data: bytes) -> Answer:
        """Not one document: Ollama's lines may come under any label."""
        if self._endpoint.dialect is Dialect.OLLAMA and data.lstrip().startswith(b"{"):
            self._assembly, self._parser, self._whole = new_assembly(self._endpoint), LineParser(), None
            self._take(data)
            return self.finish()
        return self.finish_value(None)

    def _finish_stream(self) -> Answer:
        assert self._assembly is not None
        body = self._assembly.finish()
        ended = Ending.COMPLETE if self._assembly.complete else Ending.CUT
        return self._judge(body, Ending.ERROR if self._assembly.failed else ended)

    def _judge(self, body: JSONObject, ending: Ending) -> Answer:
        unknown = self._assembly.unknown_events if self._assembly else Counter()
        if self._status >= 400 or (body.get("error") and "choices" not in body and "output" not in body):
            ending = Ending.ERROR
        said_something = bool(body) and (ending is not Ending.ERROR or self._has_content(body))
        unified = decode_response(self._endpoint, body) if said_something else None
        error = read_error(body) if ending is Ending.ERROR else None
        return Answer(ending, body, unified, unknown, self._broken, error, self._assembly is not None)

    def _has_content(self, body: JSONObject) -> bool:
        """A stream that failed half-way has said something all the same; a whole answer that failed has not."""
        names = ("choices", "content", "candidates", "message", "output", "response")
        return self._assembly is not None and any(body.get(name) for name in names)


def _new_parser(framing: Framing) -> EventStreamParser | LineParser | ArrayParser:
    if framing is Framing.SSE:
        return EventStreamParser()
    return LineParser() if framing is Framing.LINES else ArrayParser()


def read_answer(endpoint: Endpoint, status: int, media_type: str, body: bytes) -> Answer:
    """Read a body that is there as a whole."""
    reader = AnswerReader(endpoint, status, media_type)
    reader.feed(body)
    return reader.finish()


def read_value(endpoint: Endpoint, status: int, body: JSON) -> Answer:
    """Read a body that is one JSON value; None where it is something else."""
    return AnswerReader(endpoint, status, "").finish_value(body)
