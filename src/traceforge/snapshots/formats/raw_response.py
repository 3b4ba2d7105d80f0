"""The wire answer: what is replayed for an approved call, byte for byte.

`wire/<id>.json`, two-space indent, a final newline:

    {"version": "1.0.0",
     "source": {"file", "line", "function", "scopes"},      only where no record has it: see below
     "keys": ["OPENAI_API_KEY", …],      names of the key variables that were set while it was recorded, if any
     "request": {"method", "path", "query", "headers", "body"},
     "response": {"status", "headers", "t_ms": [...], "chunks": [...]},
     "redacted": {"request": [...], "response": [...], "echoes": [...]}}      only where something was

Bodies are stored content-decoded and redacted. Request headers are those that change behaviour. A chunk is a string,
or `{"b64"}` where it is not UTF-8, one a line; `t_ms` is one array on one line, so that recording again changes few
lines.

A wire answer that a record names is that record's. One that no record names stands for itself: the format of records
has no place for the call (an error, an embedding, several answers). It says itself where the call was made.

In: bytes, or the parts of a call. Out: the same. Never: says another thing than the record that points at it:
`disagreements` decodes it again and compares.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.canon import JSON, JSONObject, json_bytes, parse_json
from traceforge.compare.json_diff import ABSENT, same
from traceforge.config import ModelRule
from traceforge.errors import InvalidFile
from traceforge.exchange import Chunk, Headers, find_header
from traceforge.findings import Finding
from traceforge.shape import NonEmptyText, NonNegative, ShapeProblem, WholeNumber, find_problems
from traceforge.snapshots.formats.record_draft import Draft, Kind, draft
from traceforge.snapshots.formats.snapshot_format import RESTORE, Source
from traceforge.tuples import NamedTuple
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import Answer, AnswerReader

if TYPE_CHECKING:
    from traceforge.compare.compared_call import Call

VERSION = "1.0.0"
RULE = "SN9"
STREAM_TYPES = frozenset({"text/event-stream", "application/x-ndjson"})

Pair = Annotated[list[str], Meta(min_length=2, max_length=2)]
KeyName = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,99}$(?!\n)", description="the name of a variable")]


class _Request(Struct, forbid_unknown_fields=True):
    method: NonEmptyText
    path: NonEmptyText
    query: str
    headers: list[Pair]
    body: Any


class _Encoded(Struct, forbid_unknown_fields=True):
    b64: str


class _Response(Struct, forbid_unknown_fields=True):
    status: WholeNumber
    headers: list[Pair]
    t_ms: list[NonNegative]
    chunks: list[str | _Encoded]


class _Entry(Struct, forbid_unknown_fields=True):
    path: NonEmptyText
    type: NonEmptyText
    fingerprint: str | UnsetType = UNSET


class _Echo(Struct, forbid_unknown_fields=True):
    marker: WholeNumber
    path: NonEmptyText
    nth: WholeNumber


class _Redacted(Struct, forbid_unknown_fields=True):
    """What was taken out, as a trace says it; an echo is a marker of the answer that a live request refills."""

    request: list[_Entry]
    response: list[_Entry]
    echoes: list[_Echo]


class WireShape(Struct, forbid_unknown_fields=True):
    """The whole file."""

    version: str
    request: _Request
    response: _Response
    source: Source | UnsetType = UNSET
    keys: list[KeyName] | UnsetType = UNSET
    redacted: _Redacted | UnsetType = UNSET


class WireAnswer(NamedTuple):
    """A wire answer that passed every rule."""

    method: str
    path: str
    query: str
    request_headers: Headers
    body: JSON  # the request's
    status: int
    response_headers: Headers
    chunks: tuple[Chunk, ...]
    source: JSONObject | None = None  # where the call was made, in one that no record names
    redacted: JSONObject | None = None
    keys: tuple[str, ...] = ()  # names of the key variables that were set while it was recorded

    @property
    def streamed(self) -> bool:
        """Did it come in pieces whose number nobody knew?"""
        kind = find_header(self.response_headers, "content-type").partition(";")[0].strip().lower()
        return kind in STREAM_TYPES or len(self.chunks) != 1

    def taken_out(self, side: str) -> list[JSONObject]:
        """What was redacted in the `request`, in the `response`, or the `echoes`."""
        return cast("list[JSONObject]", self.redacted[side]) if self.redacted is not None else []

    @property
    def url(self) -> str:
        """The address, without a host."""
        return f"{self.path}?{self.query}" if self.query else self.path


def read_wire(data: bytes) -> WireAnswer:
    """Read a wire answer.

    Raises:
        NotJSON: it is not JSON.
        InvalidFile: it breaks a rule; the error holds every finding.
    """
    value = parse_json(data)
    found = check_wire(value)
    if found:
        raise InvalidFile(tuple(sorted(found)))
    request = cast("dict[str, Any]", cast("JSONObject", value)["request"])
    response = cast("dict[str, Any]", cast("JSONObject", value)["response"])
    pieces = [_bytes(piece) for piece in response["chunks"]]
    return WireAnswer(
        request["method"],
        request["path"],
        request["query"],
        tuple((name, text) for name, text in request["headers"]),
        request["body"],
        int(response["status"]),
        tuple((name, text) for name, text in response["headers"]),
        tuple(Chunk(t_ms, data) for t_ms, data in zip(response["t_ms"], pieces, strict=True)),
        cast("JSONObject | None", cast("JSONObject", value).get("source")),
        cast("JSONObject | None", cast("JSONObject", value).get("redacted")),
        tuple(cast("list[str]", cast("JSONObject", value).get("keys", []))),
    )


def _bytes(piece: str | dict[str, str]) -> bytes:
    return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else base64.b64decode(piece["b64"])


def write_wire(answer: WireAnswer) -> bytes:
    """Write a wire answer, so that a change of one chunk is a change of one line."""
    request = {
        "method": answer.method,
        "path": answer.path,
        "query": answer.query,
        "headers": [list(pair) for pair in answer.request_headers],
        "body": answer.body,
    }
    source = ""
    if answer.source is not None:
        source = f'  "source": {_nested(answer.source, 2)},\n'
    if answer.keys:
        source += f'  "keys": {json_bytes(list(answer.keys)).decode()},\n'
    redacted = ""
    if answer.redacted is not None:
        redacted = f',\n  "redacted": {_nested(answer.redacted, 2)}'
    times = json_bytes([round(chunk.t_ms, 3) for chunk in answer.chunks]).decode()
    chunks = ",\n".join(f"      {json_bytes(_piece(chunk.data)).decode()}" for chunk in answer.chunks)
    body = _nested(cast("JSON", request), 2)
    headers = _nested([list(pair) for pair in answer.response_headers], 4)
    listed = f"[\n{chunks}\n    ]" if answer.chunks else "[]"
    return (
        f'{{\n  "version": "{VERSION}",\n{source}  "request": {body},\n  "response": {{\n'
        f'    "status": {answer.status},\n    "headers": {headers},\n'
        f'    "t_ms": {times},\n    "chunks": {listed}\n  }}{redacted}\n}}\n'
    ).encode()


def _nested(value: JSON, depth: int) -> str:
    """Text of a value that stands `depth` spaces deep."""
    return json_bytes(value, indent=True).decode().replace("\n", "\n" + " " * depth)


def _piece(data: bytes) -> JSON:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def check_wire(value: JSON, file: str = "") -> list[Finding]:
    """Find everything that is wrong with a parsed wire answer."""
    found = [*find_problems(value, WireShape)]
    if not found:
        found += _beyond_types(cast("dict[str, Any]", value))
    return [Finding(file, problem.path, RULE, problem.message, RESTORE) for problem in found]


def _beyond_types(value: dict[str, Any]) -> list[ShapeProblem]:
    found: list[ShapeProblem] = []
    if value["version"] != VERSION:
        found.append(ShapeProblem("$.version", f"must be {VERSION}"))
    response = value["response"]
    if not 100 <= response["status"] <= 599:
        found.append(ShapeProblem("$.response.status", "must be an HTTP status, 100 to 599"))
    if len(response["t_ms"]) != len(response["chunks"]):
        found.append(ShapeProblem("$.response.t_ms", "must have as many times as there are chunks"))
    for place, piece in enumerate(response["chunks"]):
        if isinstance(piece, dict):
            try:
                base64.b64decode(piece["b64"], validate=True)
            except (binascii.Error, ValueError):
                found.append(ShapeProblem(f"$.response.chunks[{place}].b64", "is no base64"))
    return found


def read_call(answer: WireAnswer) -> tuple[JSONObject, Answer]:
    """What was asked and what was said, decoded again from the bytes that are replayed."""
    endpoint = find_endpoint(answer.method, answer.url)
    request = decode_request(endpoint, answer.body) if isinstance(answer.body, dict) else {}
    reader = AnswerReader(endpoint, answer.status, find_header(answer.response_headers, "content-type"))
    for chunk in answer.chunks:
        reader.feed(chunk.data)
    return request, reader.finish()


def draft_of_wire(answer: WireAnswer, models: Mapping[str, ModelRule]) -> Draft:
    """What a record of this wire answer would say."""
    request, said = read_call(answer)
    return draft(request, said.unified if said.error is None else None, models)


def call_of_wire(answer: WireAnswer) -> Call:
    """A wire answer as it is compared: for those that no record speaks for."""
    from traceforge.compare.compared_call import Call

    request, said = read_call(answer)
    asked: JSONObject = request or (answer.body if isinstance(answer.body, dict) else {"body": answer.body})
    return Call.from_trace({"request": asked, "response": _whole(answer, said)})


def answer_of_wire(answer: WireAnswer) -> JSONObject:
    """What `call_of_wire` compares of an answer."""
    return _whole(answer, read_call(answer)[1])


def _whole(answer: WireAnswer, said: Answer) -> JSONObject:
    if said.error is None and said.unified is not None:
        return said.unified
    return {"status": answer.status, "body": said.body if said.body is not None else _text_of(answer)}


def _text_of(answer: WireAnswer) -> str:
    return b"".join(chunk.data for chunk in answer.chunks).decode(errors="replace")


def why_not_alone(answer: WireAnswer, models: Mapping[str, ModelRule]) -> list[str]:
    """Why a wire answer cannot stand without a record: a record can hold the call, and would gate its answer too."""
    if draft_of_wire(answer, models).kind is Kind.WIRE_ONLY:
        return []
    return ["no record names this wire answer, and it is a call that a record can hold"]


def disagreements(record: JSONObject, answer: WireAnswer, models: Mapping[str, ModelRule]) -> list[ShapeProblem]:
    """Where a record says another thing than the wire answer that is replayed for it."""
    made = draft_of_wire(answer, models)
    if made.kind is Kind.WIRE_ONLY:
        return [ShapeProblem("", f"the wire answer holds no call of a model: {made.reasons[0].message}")]
    found: list[ShapeProblem] = []
    declared = cast("list[JSON]", cast("JSONObject", record["request"]).get("declared", []))
    for side, fields in (("request", made.request), ("response", made.response)):
        stated = cast("JSONObject", record[side])
        names = [name for name in {**fields, **stated} if name not in ("latency_ms", "wire", "declared")]
        found += [
            ShapeProblem(f"{side}.{name}", "the wire answer says otherwise")
            for name in names
            if name not in declared and not same(stated.get(name, ABSENT), fields.get(name, ABSENT))
        ]
    return found
