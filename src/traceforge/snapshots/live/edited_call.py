"""Send the request of a trace again, as a person edited it, and record the call as a child of that trace.

In: a trace, the edited body, the environment of the user. Out: where the request would go and whose key it would get,
then the id of the new trace. Never: sends to an address that only a file of the project or the trace itself names, or
to another upstream than the trace's own; a trace may come from anywhere. Never: shows or stores a key.

The address is the one that `check-live` would use: `--target`, else the variables that SDKs read, else the provider's
own. The new call belongs to no session: the run of the original is what it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote_plus, urlsplit

from traceforge.addresses import keeps_keys_private
from traceforge.canon import JSONObject, json_bytes
from traceforge.capture.http_client import CallControl, HttpClient
from traceforge.capture.proxy.effective_upstreams import find_run_upstreams
from traceforge.capture.trace_writer import RecorderSettings, TraceWriter
from traceforge.config import DEFAULT_UPSTREAMS, UPSTREAM_VARIABLE, LoadedConfig
from traceforge.errors import InternalError
from traceforge.exchange import Caller, Headers
from traceforge.redact.redactions import REDACTED
from traceforge.replay.logical_upstream import UpstreamNames
from traceforge.snapshots.live.live_address import (
    ANTHROPIC_VERSION,
    ProviderAddresses,
    find_key,
    find_key_header,
    is_plain_path,
    join_url,
    make_key_headers,
    needs_key,
)
from traceforge.snapshots.live.live_sender import OutgoingRequest, send_once
from traceforge.traces.body_reader import looks_like_another_body
from traceforge.wire.dialect_declaration import KeyHeader
from traceforge.wire.endpoints import Dialect, Endpoint, find_endpoint, find_prefix, split_url
from traceforge.wire.unified import as_object, as_text

SECONDS_MAX = 300.0  # Of one call: a model that thinks takes minutes.
AGENT = "traceforge-ui"

# Headers that change what a provider answers; the others describe the client that sent them.
ANSWER_HEADER = re.compile(r"anthropic-(?:version|beta)|openai-beta", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{1,400}\Z")


class CallTarget(NamedTuple):
    """Where the request of a trace can be sent again."""

    trace_id: str
    provider: str
    endpoint: Endpoint
    url: str
    headers: Headers  # Without the key.
    key_header: KeyHeader
    key_variable: str  # That has the key; "" if the request gets none.

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc


class UnsendableTrace(NamedTuple):
    """Why the request of a trace cannot be sent again, and what to do."""

    message: str
    hint: str = ""


def find_target(
    trace: JSONObject, loaded: LoadedConfig, environ: Mapping[str, str], targets: Mapping[str, str]
) -> CallTarget | UnsendableTrace:
    """Where to send the request of a trace (`Trace.body`); `targets` are those of an option, by provider."""
    wire, provider = as_object(trace.get("wire")), as_text(trace.get("provider"))
    recorded_url = as_text(wire.get("url"))
    path, query = split_url(recorded_url)
    endpoint = find_endpoint(as_text(wire.get("method")), recorded_url)
    body = trace.get("provider_request")
    if endpoint.dialect is None:
        return UnsendableTrace("its request is of no known model API")
    if not isinstance(body, dict) or looks_like_another_body(body):
        return UnsendableTrace("its request is not JSON")
    if not is_plain_path(path):
        return UnsendableTrace("its path cannot be sent as it is")
    upstreams = find_run_upstreams(loaded, environ, targets)
    hint = _address_hint(provider)
    addresses = ProviderAddresses(upstreams.urls)
    base, key_provider = addresses.find(provider, path), addresses.resolve_provider(provider, path)
    if not base:
        return UnsendableTrace(f"the address of {provider} is unknown", hint)
    if key_provider in upstreams.declared:
        return UnsendableTrace(f"only a file of the project names the address of {provider}", hint)
    url = join_url(base, path, _plain_query(query), endpoint.dialect)
    if not _is_same_upstream(recorded_url, url, provider):
        return UnsendableTrace(f"this call went to another address than {provider} has here", hint)
    key_header = find_key_header(key_provider, endpoint, path)
    has_key = bool(find_key(key_header, environ))
    if needs_key(key_provider, url) and not has_key:
        variable = key_header.variables[0]
        return UnsendableTrace(f"{variable} is not set where this server runs", f"Set {variable} and start it again.")
    variable = next((name for name in key_header.variables if environ.get(name, "").strip()), "")
    return CallTarget(
        as_text(trace.get("id")),
        provider,
        endpoint,
        url,
        _answer_headers(wire, endpoint),
        key_header,
        variable if has_key and keeps_keys_private(url) else "",
    )


def send_edited_call(loaded: LoadedConfig, target: CallTarget, body: JSONObject, environ: Mapping[str, str]) -> str:
    """Send a request once, record the call, and return the id of its trace. An error of the provider is an answer.

    Raises:
        InternalError: the call was made and could not be recorded.
    """
    key_headers = make_key_headers(target.key_header, target.url, environ)
    headers = (("content-type", "application/json"), *target.headers, *key_headers.items())
    request = OutgoingRequest(target.provider, target.url, headers, json_bytes(body))
    caller = Caller(parent_trace_id=target.trace_id)
    exchange, _ = send_once(HttpClient(AGENT), request, caller, CallControl(SECONDS_MAX))
    writer = TraceWriter(RecorderSettings.from_project(loaded))
    writer.write(exchange)
    writer.seal()
    if not writer.written:
        raise InternalError(f"the call was made and not recorded: {', '.join(writer.counts.failed)}")
    return exchange.id


def _plain_query(query: str) -> str:
    """The query without a redacted API key, which is sent as a header."""
    parameters = (text for text in query.split("&") if REDACTED not in unquote_plus(text.partition("=")[2]))
    return "&".join(text for text in parameters if text.isascii() and text.isprintable() and " " not in text)


def _is_same_upstream(recorded: str, target: str, provider: str) -> bool:
    """Whether a call would go where the recorded one went, or where the user has its provider now."""
    before, after = (_name_upstream(url) for url in (recorded, target))
    is_own_address = DEFAULT_UPSTREAMS.get(provider, "") != "/".join(target.split("/", 3)[:3])
    return before == after or (is_own_address and before.partition("/")[0] == provider)


def _name_upstream(url: str) -> str:
    path = split_url(url)[0]
    return UpstreamNames().name_upstream(url, path, find_prefix(path))


def _answer_headers(wire: JSONObject, endpoint: Endpoint) -> Headers:
    lines = wire.get("request_headers")
    pairs = [line.partition(":") for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    sent = [
        (name, value)
        for name, value in headers
        if ANSWER_HEADER.fullmatch(name) and _HEADER_VALUE.match(value) and REDACTED not in value
    ]
    if endpoint.dialect is Dialect.ANTHROPIC and "anthropic-version" not in dict(sent):
        sent.append(("anthropic-version", ANTHROPIC_VERSION))
    return tuple(sent)


def _address_hint(provider: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]", "_", provider).upper()
    return f"Name it where you start this server: --target {provider}=URL, or {UPSTREAM_VARIABLE}{name}."
