"""The raw response: what is replayed for an approved call, byte for byte.

`wire/<id>.json`, two-space indent, a final newline:

    {"version": "1.0.0",
     "source": {"file", "line", "function", "scopes"},      only without a record: see below
     "keys": ["OPENAI_API_KEY", …],      names of the key variables that were set while it was recorded, if any
     "base_urls": {"OPENAI_BASE_URL": "http://…", …},      base-URL variables that were set while it was recorded
     "request": {"method", "upstream", "path", "query", "headers", "known_headers", "body"},
     "response": {"status", "left_early", "cancelled", "adopted_from", "headers", "t_ms": [...], "chunks": [...]},
     "redacted": {"request": [...], "response": [...], "echoes": [...]}}      only where something was redacted

Bodies are stored content-decoded and redacted. Only request headers that are compared are stored. A chunk is a
string, or `{"b64"}` where it is not UTF-8, one a line; `t_ms` is one array on one line, so that recording again
changes few lines.

`upstream` is the logical upstream; without it, where the request went is unknown. `known_headers` are the names of
which it is known whether the request had them; without it all are, unless `upstream` is missing, too: then an older
version has written the file, which stored ALWAYS_STORED and no others. `base_urls` is missing where it is unknown.

`left_early` is true, or missing. It is true where the application closed the stream before its end: the chunks are
what it read, and a replay breaks off after them.

`cancelled` ({"cause": "timeout" or "application", "after_ms"}) takes the place of a response: the application
cancelled the call before one came. The status is then 0, and headers and chunks are empty. A replay does not
answer: it lets the application cancel the call again.

`adopted_from` is missing where the provider gave this response to this request. Otherwise it is the hash of the
snapshot that the response was approved with before: it answered an earlier request, and this one was never sent.

A raw response without a record is a call that the format of records cannot hold (an error, an embedding, several
answers). It states itself where the call was made.

In: bytes, or the parts of a call. Out: the same. Never: disagrees with the record that names it:
`find_disagreements` decodes it again and compares.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, NamedTuple, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.canon import JSON, JSONObject, json_bytes, parse_exact_json
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.json_diff import ABSENT, is_same_as_doubles
from traceforge.compare.shown_body import describe_bytes, describe_request
from traceforge.errors import InvalidFile, NotJSON
from traceforge.exchange import Chunk, Headers, find_header
from traceforge.findings import Finding
from traceforge.replay.compared_frames import list_client_frames
from traceforge.replay.logical_upstream import is_tool
from traceforge.replay.recorded_response import CancelCause, Cancellation
from traceforge.replay.request_key import OLD_REQUEST, UnknownParts
from traceforge.shape import DigestText, NonEmptyText, NonNegative, ShapeProblem, WholeNumber, find_problems
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.record_draft import DraftKind, RecordDraft, RefusalReason, draft_record
from traceforge.snapshots.formats.snapshot_format import OWN_REQUEST_FIELDS, RESTORE_HINT, CallSource
from traceforge.wire.binary_frames import FRAMES_TYPE
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import OTHER_ENDPOINT, Dialect, Endpoint, find_endpoint
from traceforge.wire.operation_names import name_operation, name_tool_operation
from traceforge.wire.response_reader import ParsedResponse, ResponseReader

VERSION = "1.0.0"
RAW_RESPONSE_RULE = "SN9"
AFTER_MS_MAX = 86_400_000  # A day: a test waits as long as the file says until it refuses a call.
POLLING_METHOD = "GET"  # of requests that ask how far something is, and no model
CANCELLED = "the application cancelled the call before a response came"
CANCEL_CAUSES = {CancelCause.TIMEOUT: "a timeout of its HTTP client", CancelCause.APPLICATION: "itself"}
STREAM_TYPES = frozenset({"text/event-stream", "application/x-ndjson", FRAMES_TYPE})
_NOT_IN_RAW_RESPONSES = frozenset({"latency_ms", "wire", *OWN_REQUEST_FIELDS})  # fields of a record

HeaderPair = Annotated[list[str], Meta(min_length=2, max_length=2)]
KeyName = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,99}$(?!\n)", description="the name of a variable")]


class _RequestShape(Struct, forbid_unknown_fields=True):
    method: NonEmptyText
    path: NonEmptyText
    query: str
    headers: list[HeaderPair]
    body: Any
    upstream: NonEmptyText | UnsetType = UNSET
    known_headers: list[NonEmptyText] | UnsetType = UNSET


class _EncodedChunk(Struct, forbid_unknown_fields=True):
    b64: str


class _CancellationShape(Struct, forbid_unknown_fields=True):
    cause: CancelCause
    after_ms: NonNegative


class _ResponseShape(Struct, forbid_unknown_fields=True):
    status: WholeNumber
    headers: list[HeaderPair]
    t_ms: list[NonNegative]
    chunks: list[str | _EncodedChunk]
    left_early: bool | UnsetType = UNSET
    cancelled: _CancellationShape | UnsetType = UNSET
    adopted_from: DigestText | UnsetType = UNSET


class _Redaction(Struct, forbid_unknown_fields=True):
    path: NonEmptyText
    type: NonEmptyText
    fingerprint: str | UnsetType = UNSET


class _Echo(Struct, forbid_unknown_fields=True):
    marker: WholeNumber
    path: NonEmptyText
    nth: WholeNumber


class _Redactions(Struct, forbid_unknown_fields=True):
    """The redacted values, as in a trace. An echo is a marker that replay fills with a value of the live request."""

    request: list[_Redaction]
    response: list[_Redaction]
    echoes: list[_Echo]


class RawResponseShape(Struct, forbid_unknown_fields=True):
    """The content of a raw response's file."""

    version: str
    request: _RequestShape
    response: _ResponseShape
    source: CallSource | UnsetType = UNSET
    keys: list[KeyName] | UnsetType = UNSET
    base_urls: dict[KeyName, str] | UnsetType = UNSET
    redacted: _Redactions | UnsetType = UNSET


class RawResponse(NamedTuple):
    """A raw response that passed every rule, with the request it answers."""

    method: str
    path: str
    query: str
    request_headers: Headers
    request_body: JSON
    status: int
    response_headers: Headers
    chunks: tuple[Chunk, ...]
    source: JSONObject | None = None  # where the call was made; only without a record
    redacted: JSONObject | None = None
    key_names: tuple[str, ...] = ()  # names of the key variables that were set while it was recorded
    upstream: str | None = None  # the logical upstream; None: unknown
    known_headers: tuple[str, ...] | None = None  # names of which it is known whether it had them; None: not stated
    base_urls: JSONObject | None = None  # base-URL variables that were set while it was recorded; None: unknown
    is_left_early: bool = False  # whether the application closed the stream before its end
    adopted_from: str | None = None  # the hash of the snapshot whose response this is; None: given to this request
    cancellation: Cancellation | None = None  # instead of a response: the status is 0, and there are no chunks

    @property
    def is_old(self) -> bool:
        """Whether an older version has written it, which stored neither the upstream nor most headers."""
        return self.upstream is None and self.known_headers is None

    @property
    def unknown(self) -> UnknownParts:
        """What the file does not say about the request."""
        if self.is_old:
            return OLD_REQUEST
        known_headers = frozenset(self.known_headers) if self.known_headers is not None else None
        return UnknownParts(self.upstream is None, known_headers)

    @property
    def is_failure(self) -> bool:
        """Whether a client may send the request again because of this: an error, or a timeout."""
        return self.status >= 400 or (
            self.cancellation is not None and self.cancellation.cause is CancelCause.TIMEOUT
        )

    @property
    def is_poll(self) -> bool:
        """Whether the request may ask how far something is, and no model; a WebSocket begins with a `GET`, too."""
        return self.method == POLLING_METHOD and list_client_frames(self.request_body) is None

    @property
    def is_streamed(self) -> bool:
        """Whether the response was streamed, so that its length was not known in advance."""
        kind = find_header(self.response_headers, "content-type").partition(";")[0].strip().lower()
        return kind in STREAM_TYPES or len(self.chunks) != 1

    def redactions(self, side: str) -> list[JSONObject]:
        """The redacted values of the `request` or of the `response`, or the `echoes`."""
        return cast("list[JSONObject]", self.redacted[side]) if self.redacted is not None else []

    @property
    def operation(self) -> str:
        """The name of what a call without an answer of a model does; "" for any other."""
        if is_tool(self.upstream or ""):
            return name_tool_operation(self.request_body)
        return name_operation(self.method, self.path)

    @property
    def address(self) -> str:
        """The method and the address; "" for a tool, whose name and arguments say more."""
        return "" if is_tool(self.upstream or "") else f"{self.method} {self.url}"

    @property
    def url(self) -> str:
        """The path and the query, without a host."""
        return f"{self.path}?{self.query}" if self.query else self.path


def read_raw_response(data: bytes) -> RawResponse:
    """Read a raw response.

    Raises:
        NotJSON: the data is not JSON.
        InvalidFile: the file breaks a rule; the error holds every finding.
    """
    value = parse_exact_json(data)
    findings = check_raw_response(value)
    if findings:
        raise InvalidFile(tuple(sorted(findings)))
    request = cast("dict[str, Any]", cast("JSONObject", value)["request"])
    response = cast("dict[str, Any]", cast("JSONObject", value)["response"])
    chunks = [_decode_chunk(chunk) for chunk in response["chunks"]]
    return RawResponse(
        request["method"],
        request["path"],
        request["query"],
        tuple((name, text) for name, text in request["headers"]),
        request["body"],
        int(response["status"]),
        tuple((name, text) for name, text in response["headers"]),
        tuple(Chunk(t_ms, data) for t_ms, data in zip(response["t_ms"], chunks, strict=True)),
        cast("JSONObject | None", cast("JSONObject", value).get("source")),
        cast("JSONObject | None", cast("JSONObject", value).get("redacted")),
        tuple(cast("list[str]", cast("JSONObject", value).get("keys", []))),
        request.get("upstream"),
        tuple(request["known_headers"]) if "known_headers" in request else None,
        cast("JSONObject | None", cast("JSONObject", value).get("base_urls")),
        response.get("left_early") is True,
        response.get("adopted_from"),
        _read_cancellation(response.get("cancelled")),
    )


def _read_cancellation(cancelled: JSONObject | None) -> Cancellation | None:
    if cancelled is None:
        return None
    return Cancellation(CancelCause(str(cancelled["cause"])), float(str(cancelled["after_ms"])))


def _decode_chunk(chunk: str | dict[str, str]) -> bytes:
    return chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else base64.b64decode(chunk["b64"])


def write_raw_response(raw: RawResponse) -> bytes:
    """Write a raw response, so that a change of one chunk is a change of one line."""
    request = {
        "method": raw.method,
        **({"upstream": raw.upstream} if raw.upstream is not None else {}),
        "path": raw.path,
        "query": raw.query,
        "headers": [list(pair) for pair in raw.request_headers],
        **({"known_headers": list(raw.known_headers)} if raw.known_headers is not None else {}),
        "body": raw.request_body,
    }
    source = ""
    if raw.source is not None:
        source = f'  "source": {_indented_json(raw.source, 2)},\n'
    if raw.key_names:
        source += f'  "keys": {json_bytes(list(raw.key_names)).decode()},\n'
    if raw.base_urls is not None:
        source += f'  "base_urls": {json_bytes(raw.base_urls).decode()},\n'
    redacted = ""
    if raw.redacted is not None:
        redacted = f',\n  "redacted": {_indented_json(raw.redacted, 2)}'
    times = json_bytes([round(chunk.t_ms, 3) for chunk in raw.chunks]).decode()
    chunks = ",\n".join(f"      {json_bytes(_encode_chunk(chunk.data)).decode()}" for chunk in raw.chunks)
    body = _indented_json(cast("JSON", request), 2)
    headers = _indented_json([list(pair) for pair in raw.response_headers], 4)
    chunk_list = f"[\n{chunks}\n    ]" if raw.chunks else "[]"
    labels = '    "left_early": true,\n' if raw.is_left_early else ""
    if raw.cancellation is not None:
        cause, after_ms = raw.cancellation
        labels += f'    "cancelled": {json_bytes({"cause": cause.value, "after_ms": round(after_ms, 3)}).decode()},\n'
    if raw.adopted_from is not None:
        labels += f'    "adopted_from": "{raw.adopted_from}",\n'
    return (
        f'{{\n  "version": "{VERSION}",\n{source}  "request": {body},\n  "response": {{\n'
        f'    "status": {raw.status},\n{labels}    "headers": {headers},\n'
        f'    "t_ms": {times},\n    "chunks": {chunk_list}\n  }}{redacted}\n}}\n'
    ).encode()


def _indented_json(value: JSON, depth: int) -> str:
    """JSON text of a value that is indented by `depth` spaces."""
    return json_bytes(value, indent=True).decode().replace("\n", "\n" + " " * depth)


def _encode_chunk(data: bytes) -> JSON:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def check_raw_response(value: JSON, file: str = "") -> list[Finding]:
    """Every broken rule of a parsed raw response."""
    violations = [*find_problems(value, RawResponseShape)]
    if not violations:
        violations += _check_beyond_types(cast("dict[str, Any]", value))
    return [Finding(file, problem.path, RAW_RESPONSE_RULE, problem.message, RESTORE_HINT) for problem in violations]


def _check_beyond_types(value: dict[str, Any]) -> list[ShapeProblem]:
    violations: list[ShapeProblem] = []
    if value["version"] != VERSION:
        violations.append(ShapeProblem("$.version", f"must be {VERSION}"))
    response = value["response"]
    if "cancelled" in response:
        violations += _check_cancelled(response)
        if response["cancelled"]["after_ms"] > AFTER_MS_MAX:
            violations.append(ShapeProblem("$.response.cancelled.after_ms", "must be at most a day"))
    elif not 100 <= response["status"] <= 599:
        violations.append(ShapeProblem("$.response.status", "must be an HTTP status, 100 to 599"))
    if len(response["t_ms"]) != len(response["chunks"]):
        violations.append(ShapeProblem("$.response.t_ms", "must have as many times as there are chunks"))
    for index, chunk in enumerate(response["chunks"]):
        if isinstance(chunk, dict):
            try:
                base64.b64decode(chunk["b64"], validate=True)
            except (binascii.Error, ValueError):
                violations.append(ShapeProblem(f"$.response.chunks[{index}].b64", "is not base64"))
    return violations


def _check_cancelled(response: dict[str, Any]) -> list[ShapeProblem]:
    """A call that was cancelled before a response came has nothing of a response."""
    rules = {"status": "0", "headers": "empty", "chunks": "empty", "left_early": "missing", "adopted_from": "missing"}
    return [
        ShapeProblem(f"$.response.{name}", f"must be {rule}: the call was cancelled before a response came")
        for name, rule in rules.items()
        if response.get(name)
    ]


def decode_call(raw: RawResponse) -> tuple[JSONObject, ParsedResponse]:
    """The request and the answer, decoded from the bytes that are replayed."""
    return _decode_as(raw, find_endpoint(raw.method, raw.url))


def _decode_as(raw: RawResponse, endpoint: Endpoint) -> tuple[JSONObject, ParsedResponse]:
    request = decode_request(endpoint, raw.request_body) if isinstance(raw.request_body, dict) else {}
    reader = ResponseReader(endpoint, raw.status, find_header(raw.response_headers, "content-type"))
    for chunk in raw.chunks:
        reader.feed(chunk.data)
    return request, reader.finish()


def draft_raw_response(raw: RawResponse, policy: ModelPolicy) -> RecordDraft:
    """The record that this raw response would have.

    Only of a `Dialect`: what is committed must not depend on what else this machine has installed.
    """
    if raw.cancellation is not None:
        return RecordDraft(DraftKind.RAW_ONLY, {}, {}, (RefusalReason("response", CANCELLED, ""),))
    endpoint = find_endpoint(raw.method, raw.url)
    endpoint = endpoint if isinstance(endpoint.dialect, Dialect) else OTHER_ENDPOINT
    request, answer = _decode_as(raw, endpoint)
    if answer.streamed and request:
        request = {**request, "stream": True}  # Gemini asks for a stream in the address, and Ollama by default.
    return draft_record(
        request,
        answer.unified if answer.error is None else None,
        policy,
        endpoint,
        is_left_early=raw.is_left_early,
        adopted_from=raw.adopted_from,
    )


def decode_comparable_call(raw: RawResponse) -> ComparedCall:
    """The call in the form in which calls are compared, for a raw response without a record."""
    request, answer = decode_call(raw)
    if find_endpoint(raw.method, raw.url).dialect is None:
        content_type = find_header(raw.request_headers, "content-type")
        request = describe_request(raw.address, raw.request_body, content_type)
    shown_request = request or {"body": raw.request_body}
    return ComparedCall.from_trace({"request": shown_request, "response": _comparable_answer(raw, answer)})


def decode_comparable_answer(raw: RawResponse) -> JSONObject:
    """The answer in the form in which `decode_comparable_call` compares it."""
    return _comparable_answer(raw, decode_call(raw)[1])


def _comparable_answer(raw: RawResponse, answer: ParsedResponse) -> JSONObject:
    if raw.cancellation is not None:
        return {"status": raw.status, "body": f"{CANCELLED}, by {CANCEL_CAUSES[raw.cancellation.cause]}"}
    if answer.error is None and answer.unified is not None:
        return answer.unified
    if answer.body is not None:
        return {"status": raw.status, "body": answer.body}
    return {"status": raw.status, "body": _read_lines(raw) or describe_bytes(_response_bytes(raw))}


def _read_lines(raw: RawResponse) -> JSONObject | None:
    """The messages of a tool server, a line each, so that a change in one of them is named by its place."""
    if not find_header(raw.response_headers, "content-type").startswith("application/x-ndjson"):
        return None
    try:
        lines = _response_text(raw).splitlines()
        return {"messages": [parse_exact_json(line.encode()) for line in lines]} if len(lines) > 1 else None
    except NotJSON:
        return None


def _response_text(raw: RawResponse) -> str:
    return _response_bytes(raw).decode(errors="replace")


def _response_bytes(raw: RawResponse) -> bytes:
    return b"".join(chunk.data for chunk in raw.chunks)


def check_has_no_record(raw: RawResponse, policy: ModelPolicy) -> list[str]:
    """Messages if a record could hold this call: then it must have one, because a record also gates the answer."""
    if draft_raw_response(raw, policy).kind is DraftKind.RAW_ONLY:
        return []
    return ["no record names this raw response, and a record could hold the call"]


def find_disagreements(record: JSONObject, raw: RawResponse, policy: ModelPolicy) -> list[ShapeProblem]:
    """Fields in which a record differs from the raw response that is replayed for it.

    The value of a field that was not sent is not compared: the record must list it as declared.
    """
    draft = draft_raw_response(raw, policy)
    if draft.kind is DraftKind.RAW_ONLY:
        return [ShapeProblem("", f"the raw response is not the answer of a model: {draft.reasons[0].message}")]
    not_sent = cast("list[str]", draft.request.get("declared", []))
    declared = cast("list[JSON]", cast("JSONObject", record["request"]).get("declared", []))
    violations = [
        ShapeProblem("request.declared", f"does not list {name}, which was not sent")
        for name in not_sent
        if name not in declared
    ]
    for side, fields in (("request", draft.request), ("response", draft.response)):
        stated = cast("JSONObject", record[side])
        names = [name for name in {**fields, **stated} if name not in _NOT_IN_RAW_RESPONSES]
        violations += [
            ShapeProblem(f"{side}.{name}", "differs from the raw response in wire/")
            for name in names
            if name not in not_sent
            and not (name == "stream" and name not in stated)  # Earlier records do not show it.
            and not is_same_as_doubles(stated.get(name, ABSENT), fields.get(name, ABSENT))
        ]
    return violations
