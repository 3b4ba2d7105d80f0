"""Compose the trace of an exchange: redacted, decoded, ready to be stored.

Redaction comes first, and only redacted bodies are decoded, so that no part of a trace can hold what another part
hides. What cannot be decoded is stored as it is after redaction: no content of a call makes composing fail.
"""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple, cast
from urllib.parse import unquote, urlsplit

from traceforge.canon import JSON, JSONObject, digest_bytes, digest_canonical, json_bytes
from traceforge.errors import InvalidFile
from traceforge.exchange import CallOutcome, Exchange, Headers, find_header
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.redact.redactor import Redactor
from traceforge.traces.body_reader import RedactedBody, collect_strings, find_echoes, read_request, read_response
from traceforge.traces.chunk_file import write_chunks
from traceforge.traces.conversation_model import find_conversation_model, is_conversation
from traceforge.traces.trace_format import write_parsed_trace
from traceforge.traces.trace_migration import SCHEMA_VERSION
from traceforge.traces.trace_summary import StoredTrace, summarize_trace
from traceforge.traces.view_repair import repair_views
from traceforge.wire.content_encoding import EncodingState
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import Endpoint, find_endpoint, find_host_dialect, split_url
from traceforge.wire.operation_names import TOOL_SCHEMES
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding
from traceforge.wire.unified import as_object, is_number

HEADS_CACHED = 512  # A client sends the same headers with every call.
OTHER_PROVIDER = "other"  # the provider of a call with an unknown dialect


class _RedactedAddress(NamedTuple):
    """The URL of a request, redacted."""

    endpoint: Endpoint
    url: str
    path: str
    redactions: list[Redaction]


class _RedactedHead(NamedTuple):
    """The URL and headers of a request, redacted."""

    endpoint: Endpoint
    url: str
    path: str
    headers: list[JSON]
    media_type: str
    encodings: str
    redactions: list[Redaction]
    entries: list[JSON]  # the entries of `redactions` in the trace
    redactor: Redactor  # which also finds the values of `redactions`


class _RedactedCall(NamedTuple):
    """A call whose URL, headers and bodies are redacted; everything else of it is redacted when it is composed."""

    exchange: Exchange
    head: _RedactedHead
    request_body: RedactedBody
    response_headers: list[JSON]
    response_body: RedactedBody
    redactor: Redactor  # which also finds every value that was redacted so far


class TraceComposer:
    """Composes traces. Safe to use from several threads.

    With `match_key`, an HMAC of each redacted part of a request is stored, so that the parts can be compared.
    """

    def __init__(self, redactor: Redactor, match_key: bytes | None = None) -> None:
        self._redactor = redactor
        self._match_key = match_key
        self._head = lru_cache(HEADS_CACHED)(self._redact_head)
        # Also where the length of the body makes the head another one:
        self._address = lru_cache(HEADS_CACHED)(self._redact_address)
        self._repeating = lru_cache(HEADS_CACHED)(self._make_repeating)
        self._redact_cached = lru_cache(HEADS_CACHED)(redactor.redact_label)

    def compose(self, exchange: Exchange) -> StoredTrace:
        call = self._redact_call(exchange)
        body = self._compose_fields(call)
        answer = call.response_body.answer
        request_value = call.request_body.value
        endpoint = call.head.endpoint
        if is_conversation(request_value):
            endpoint = endpoint._replace(model=find_conversation_model(call.head.url, request_value))
        request = _redact_view(call.redactor, _unified_request(endpoint, request_value, answer), request_value)
        response = _unified_response(answer)
        if response is not None and answer is not None:
            response = _redact_view(call.redactor, response, answer.body)
        body["request"], body["response"] = request, response
        try:
            trace = write_parsed_trace(body)
        except InvalidFile as exc:  # A provider's field does not fit: the rest of the view stays.
            body["view_problems"] = repair_views(body, exc.findings)
            _add_token_count(as_object(body["metadata"]), as_object(body["response"]))
            trace = write_parsed_trace(body)
        summary = summarize_trace(body)
        chunks = (
            write_chunks(exchange.chunks, call.response_body.chunks)
            if answer is not None and answer.streamed
            else b""
        )
        return StoredTrace(summary, trace, chunks)

    def _redact_call(self, exchange: Exchange) -> _RedactedCall:
        """Redact all parts of a call. What was redacted in one is looked for in those that follow, and a value of the
        body also in the URL and the headers; `RequestKeyer` redacts a live request in the same way.
        """
        head = self._head(exchange.method, exchange.url, exchange.request_headers)
        request_body = read_request(self._redactor, exchange.request_body, head.media_type, head.encodings)
        repeating = self._redactor.with_values(request_body.redactions)
        if repeating is not self._redactor:
            head = self._redact_head(exchange.method, exchange.url, exchange.request_headers, repeating)
        redactor = head.redactor
        response_headers = redactor.redact_headers(exchange.response_headers, is_response=True)
        redactor = redactor.with_values(response_headers.log)
        if exchange.status >= 400 and head.endpoint.dialect == "bedrock":
            redactor = redactor.with_accounts(b"".join(chunk.data for chunk in exchange.chunks).decode("latin-1"))
        response_body = read_response(
            redactor,
            head.endpoint,
            exchange,
            find_header(exchange.response_headers, "content-type"),
            [*head.redactions, *request_body.redactions],
        )
        repeating = redactor.with_values(response_body.redactions)
        if repeating is not head.redactor:
            response_headers = repeating.redact_headers(exchange.response_headers, is_response=True)
        return _RedactedCall(
            exchange, head, request_body, _header_lines(response_headers.value), response_body, repeating
        )

    def _redact_head(
        self, method: str, url: str, headers: Headers, redactor: Redactor | None = None
    ) -> _RedactedHead:
        address = self._address(method, url) if redactor is None else self._redact_address(method, url, redactor)
        values = (redactor or self._redactor).redact_headers(headers, "$.headers")
        redactions = address.redactions + values.log
        secrets = tuple((item.type, item.reveal()) for item in redactions)
        return _RedactedHead(
            address.endpoint,
            address.url,
            address.path,
            _header_lines(values.value),
            find_header(headers, "content-type"),
            find_header(headers, "content-encoding"),
            redactions,
            [self._redaction_entry(item) for item in redactions],
            self._repeating(secrets) if redactor is None else redactor.with_values(redactions),
        )

    def _redact_address(self, method: str, url: str, redactor: Redactor | None = None) -> _RedactedAddress:
        redacted = (redactor or self._redactor).redact_url(url, "$.url")
        endpoint = find_endpoint(method, url)
        path = split_url(redacted.value)[0] or "/"
        if redacted.value.startswith(TOOL_SCHEMES):
            path = f"/{urlsplit(redacted.value).netloc}{path}"
        if endpoint.model and redacted.log and endpoint.model not in unquote(path):
            model = find_endpoint(method, redacted.value).model  # The name was redacted: some of it, or all.
            endpoint = endpoint._replace(model=model if REDACTED in model else REDACTED)
        return _RedactedAddress(endpoint, redacted.value, path, redacted.log)

    def _make_repeating(self, secrets: tuple[tuple[str, str], ...]) -> Redactor:
        """The redactor that also finds these values, each given with its type."""
        return self._redactor.with_values(Redaction("", 0, kind, secret) for kind, secret in secrets)

    def _compose_fields(self, call: _RedactedCall) -> JSONObject:
        exchange, head = call.exchange, call.head
        caller = exchange.caller
        body: JSONObject = {
            "schema_version": SCHEMA_VERSION,
            "id": exchange.id,
            "timestamp": exchange.started_at,
            "endpoint": head.path,
            "request": None,  # `compose` adds both
            "response": None,
            "metadata": self._compose_metadata(call),
        }
        if caller.session_id:
            body["session_id"] = self._redact_label(call, caller.session_id)
        if caller.step_index is not None:
            body["step_index"] = caller.step_index
        if caller.parent_trace_id:
            body["parent_trace_id"] = self._redact_label(call, caller.parent_trace_id)
        if caller.state is not None:
            body["state_snapshot"] = call.redactor.redact_json(caller.state).value
        dialect = head.endpoint.dialect or find_host_dialect(exchange.url)
        body["provider"] = exchange.provider or dialect or OTHER_PROVIDER
        if caller.source:
            body["source"] = self._compose_source(call, caller.source)
        if caller.scope:
            body["scope"] = self._redact_label(call, caller.scope)
        body["provider_request"] = call.request_body.value
        body["provider_response"] = call.response_body.value
        body["wire"] = self._compose_wire(call)
        redacted = self._compose_redacted(head, call.request_body, call.response_body)
        if redacted:
            body["redacted"] = redacted
        return body

    def _compose_metadata(self, call: _RedactedCall) -> JSONObject:
        exchange, answer = call.exchange, call.response_body.answer
        unified = (answer.unified if answer else None) or {}
        failure = self._failure_message(call)
        metadata: JSONObject = {
            "duration_ms": round(exchange.duration_ms, 3),
            "status": "error" if failure else "success",
        }
        _add_token_count(metadata, unified)
        if isinstance(unified.get("model"), str):
            metadata["model"] = unified["model"]
        if failure:
            metadata["error"] = failure
        return metadata

    def _failure_message(self, call: _RedactedCall) -> str:
        """Why the call failed; "" where it succeeded."""
        exchange, answer = call.exchange, call.response_body.answer
        if answer is not None and answer.error is not None and isinstance(answer.error.get("message"), str):
            return str(answer.error["message"]) or f"HTTP status {exchange.status}"
        is_broken = exchange.status == HTTPStatus.SWITCHING_PROTOCOLS and exchange.outcome is CallOutcome.CUT
        if (
            answer is not None
            and answer.ending is ResponseEnding.COMPLETE
            and exchange.status < 400
            and not is_broken
        ):
            return ""  # The response says that it is complete, so a connection that broke afterwards does not matter.
        if exchange.outcome is not CallOutcome.ANSWERED:
            return self._redact_label(call, exchange.error or f"the call was {exchange.outcome}")
        if answer is not None and answer.ending is ResponseEnding.CUT:
            return "the answer ended before it said that it was complete"
        return f"HTTP status {exchange.status}" if exchange.status >= 400 else ""

    def _compose_wire(self, call: _RedactedCall) -> JSONObject:
        exchange, head, response_body = call.exchange, call.head, call.response_body
        answer = response_body.answer
        wire: JSONObject = {
            "method": self._redact_label(call, exchange.method),
            "url": head.url,
            "request_digest": _request_digest(call.request_body),
            "request_headers": head.headers,
            "status": exchange.status,
            "response_headers": call.response_headers,
            "outcome": exchange.outcome.value,
            "ending": answer.ending.value if answer else "none",
        }
        if exchange.headers_filtered:
            wire["request_headers_filtered"] = True
        if exchange.chunks:
            wire["first_byte_ms"] = round(exchange.chunks[0].t_ms, 3)
        if response_body.layout:
            wire["response_layout"] = response_body.layout
        elif response_body.text is not None:
            wire["response_text"] = response_body.text
        if (
            exchange.error and exchange.outcome is CallOutcome.ANSWERED
        ):  # It went well, and yet not all of it is here.
            wire["incomplete"] = self._redact_label(call, exchange.error)
        if response_body.encoding not in (EncodingState.NONE, EncodingState.DECODED):
            wire["encoding"] = response_body.encoding.value
        if answer is not None and answer.unknown_events:
            wire["unknown_events"] = dict(answer.unknown_events)
        if answer is not None and answer.broken_events:
            wire["broken_events"] = answer.broken_events
        return wire

    def _compose_redacted(
        self, head: _RedactedHead, request_body: RedactedBody, response_body: RedactedBody
    ) -> JSONObject:
        """The paths and types of all redactions, without their values."""
        request_redactions = [*head.redactions, *request_body.redactions]
        if not request_redactions and not response_body.redactions:
            return {}
        return {
            "request": [*head.entries, *(self._redaction_entry(item) for item in request_body.redactions)],
            "response": [{"path": item.path, "type": item.type} for item in response_body.redactions],
            "echoes": find_echoes(request_redactions, response_body.markers),
        }

    def _redact_label(self, call: _RedactedCall, text: str) -> str:
        return self._redact_cached(text) if call.redactor is self._redactor else call.redactor.redact_label(text)

    def _compose_source(self, call: _RedactedCall, text: str) -> JSON:
        file, line, function = text.rsplit(":", 2) if text.count(":") >= 2 else (text, "0", "")
        return {
            "file": self._redact_label(call, file),
            "line": int(line) if line.isdecimal() else 0,
            "function": self._redact_label(call, function),
        }

    def _redaction_entry(self, redaction: Redaction) -> JSON:
        entry: JSONObject = {"path": redaction.path, "type": redaction.type}
        if self._match_key is not None:
            entry["fingerprint"] = redaction.fingerprint(self._match_key)
        return entry


def _redact_view(redactor: Redactor, view: JSONObject, body: JSON) -> JSONObject:
    """Redact texts that decoding joined: a secret may be divided in the body and whole in the view."""
    members = body if isinstance(body, dict) else {}
    new = collect_strings([value for name, value in view.items() if value is not members.get(name)])
    joined = new - collect_strings(body) if new else new
    if not joined or not redactor.find_secrets("\0".join(joined)):
        return view
    redacted = redactor.redact_json(view).value
    assert isinstance(redacted, dict)
    return redacted


def _unified_request(endpoint: Endpoint, value: JSON, answer: ParsedResponse | None) -> JSONObject:
    unified = decode_request(endpoint, value) if isinstance(value, dict) and "omitted" not in value else {}
    streamed: JSONObject = {"stream": True} if answer is not None and answer.streamed else {}
    return {"model": endpoint.model, **unified, **streamed}


def _unified_response(answer: ParsedResponse | None) -> JSONObject | None:
    if answer is None:
        return None
    if answer.unified is not None or answer.ending is ResponseEnding.ERROR:
        return answer.unified
    return {"object": "other"}


def _add_token_count(metadata: JSONObject, unified: JSONObject) -> None:
    tokens = as_object(unified.get("usage")).get("total_tokens")
    if is_number(tokens) and cast("float", tokens) >= 0:
        metadata["tokens_used"] = tokens


def _request_digest(body: RedactedBody) -> str:
    if body.is_json:
        return digest_canonical(body.value)
    return digest_bytes(json_bytes(body.value))


def _header_lines(headers: list[tuple[str, str]]) -> list[JSON]:
    """One line for each header, as in HTTP."""
    return [f"{name}: {value}" for name, value in headers]
