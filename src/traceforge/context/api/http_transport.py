"""A context store on a server, called by threads that wait; and what an asynchronous caller does the same way.

Errors are those of a store in this process: the server sends them as JSON, and they are raised here again.
"""

from __future__ import annotations

import http.client
import shlex
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from traceforge.addresses import is_host, keeps_keys_private
from traceforge.context.api.error_responses import read_error
from traceforge.context.api.operation_types import LIMIT_DEFAULT, Operation
from traceforge.context.api.operations import OPERATIONS_BY_NAME
from traceforge.context.model.objects import ResponseEvent
from traceforge.conversion import decode_json
from traceforge.errors import InvalidStoreAddress, StoreUnavailable
from traceforge.http.event_stream import EventStreamParser, ServerSentEvent

# The server closed a kept connection before it read the request, so it did nothing.
STALE_CONNECTION = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
HTTP_HOSTS_VARIABLE = "TRACEFORGE_CONTEXT_HTTP_HOSTS"
_URL_HINT = "Write it as http://127.0.0.1:3080."


class ServerAddress:
    """A server: how its requests are spelled, and which error a failed one becomes.

    Redirects are not followed, so the API key reaches no other server.

    Raises:
        StoreUnavailable: the URL or the API key cannot be used; or `allow_http` is false, and the key would travel
            unencrypted to another machine.
    """

    def __init__(self, url: str, api_key: str | None, *, allow_http: bool = False) -> None:
        try:
            parts = urlsplit(url)
            self.host, self.port = parts.hostname or "", parts.port
        except ValueError:  # It would quote a part of the URL, which may be one of the password.
            raise InvalidStoreAddress("the URL of the server cannot be read", hint=_URL_HINT) from None
        if parts.scheme not in ("http", "https") or not self.host:
            raise InvalidStoreAddress("the URL of a server needs a scheme and a host", hint=_URL_HINT)
        if not is_host(self.host) or self.port == 0:
            raise InvalidStoreAddress("the URL of the server names no host and port", hint=_URL_HINT)
        if api_key and not (api_key.isascii() and api_key.isprintable()):
            raise StoreUnavailable("the API key holds characters that an HTTP header cannot hold")
        if api_key and not allow_http and not keeps_keys_private(url):
            raise StoreUnavailable(
                f"the API key would be sent unencrypted to {self.host}, where every machine on the way can read it",
                hint=f"Use https://, or allow it for this host: {HTTP_HOSTS_VARIABLE}={shlex.quote(self.host)} "
                "(in Python: allow_http=True).",
            )
        self.tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._path_prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~") + "/v2"
        self._headers = {"Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def path(
        self, operation: Operation, ids: tuple[str, ...], limit: int = LIMIT_DEFAULT, after: str | None = None
    ) -> str:
        """The path and query of a request."""
        path = self._path_prefix + operation.fill_path(tuple(quote(value, safe="") or "%20" for value in ids))
        if operation.is_list:
            path += "?" + urlencode({"limit": limit, **({} if after is None else {"after": after})})
        return path

    def path_and_body(
        self, operation: Operation, ids: tuple[str, ...], fields: bytes | None, limit: int, after: str | None
    ) -> tuple[str, bytes | None]:
        """The path and query of a request, and its body; `fields` go into the one or the other."""
        path = self.path(operation, ids, limit, after)
        if operation.query is None or fields is None:
            return path, fields
        values = decode_json(fields, dict[str, str | None])
        return f"{path}?{urlencode({name: value for name, value in values.items() if value is not None})}", None

    def headers(self, body: bytes | None, key: str | None) -> dict[str, str]:
        """The headers of a request."""
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        return headers

    def no_answer(self, exc: Exception, method: str) -> StoreUnavailable:
        """The error for a request without a complete response."""
        reason = (getattr(exc, "strerror", None) or str(exc) or type(exc).__name__).lower()
        was_sent = method != "GET" and not isinstance(exc, ConnectionRefusedError)
        hint = (
            "The server may have done it: look before you try again, or send an idempotency key."
            if was_sent
            else "Check that `traceforge serve` runs there."
        )
        where = f"{self.host}:{self.port}" if self.port else self.host
        message = f"the server at {where} gave no answer: {reason}"
        return StoreUnavailable(message, hint=hint, outcome_unknown=was_sent)


def decode_answer(operation: Operation, status: int, data: bytes) -> Any:  # noqa: ANN401 (the operation's answer)
    """The object that a server answered with.

    Raises:
        TraceForgeError: the error that the server answered with.
        StoreUnavailable: the response is not one of a context store.
    """
    if status != operation.status:
        raise read_error(status, data)
    try:
        return decode_json(data, operation.answer)
    except msgspec.DecodeError as exc:
        raise StoreUnavailable(f"the server's response is not one to {operation.name}") from exc


def can_send_twice(operation: Operation, key: str | None) -> bool:
    """Whether a second request would have no second effect."""
    return operation.method == "GET" or key is not None


class EventReader:
    """Turns the body of a streamed response into events, and remembers how far it came."""

    def __init__(self) -> None:
        self._parser = EventStreamParser()
        self.response_id: str | None = None
        self.has_ended = False

    def feed(self, data: bytes) -> Iterator[ResponseEvent]:
        """The events that `data` completes.

        Raises:
            ContentPurged: what the response is about was purged meanwhile.
            StoreUnavailable: the body is not a stream of a context store.
        """
        for server_event in self._parser.feed(data):
            if not server_event.name:
                continue
            event = _read_event(server_event)
            if event.response is not None:
                self.response_id = event.response.id
                self.has_ended = event.type != "response.created"
            yield event


def _read_event(event: ServerSentEvent) -> ResponseEvent:
    if event.name == "error":
        raise read_error(500, event.data)
    try:
        if event.name == "response.text.delta":
            return ResponseEvent(type=event.name, delta=decode_json(event.data, dict[str, str])["delta"])
        response = decode_json(event.data, OPERATIONS_BY_NAME["create_response"].answer)
        return ResponseEvent(type=event.name, response=response)
    except (msgspec.DecodeError, KeyError) as exc:
        raise StoreUnavailable("the server's response is not one to create_response") from exc


def name_response(error: StoreUnavailable, response_id: str) -> StoreUnavailable:
    """Say in the error of a broken stream where its answer will be."""
    error.hint = f"The server finishes the answer: read response {response_id}."
    return error


class HTTPTransport:
    """Requests to a server; each thread keeps a connection of its own."""

    store = None

    def __init__(self, address: ServerAddress, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._thread_local = threading.local()
        self._connections: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()

    def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        """Send a request and read its response."""
        path, body = self._address.path_and_body(operation, ids, body, limit, after)
        headers = self._address.headers(body, key)
        status, data = self._send(operation.method, path, body, headers, can_send_twice(operation, key))
        return decode_answer(operation, status, data)

    def stream(self, operation: Operation, body: bytes, key: str | None) -> Iterator[ResponseEvent]:
        """Send a request on a connection of its own and read the events as they arrive."""
        connection = self._connect()
        events = EventReader()
        try:
            path = self._address.path(operation, ())
            connection.request(operation.method, path, body, self._address.headers(body, key))
            response = connection.getresponse()
            if response.status != operation.status:
                raise read_error(response.status, response.read())
            for line in response:
                yield from events.feed(line)
        except (http.client.HTTPException, OSError) as exc:
            raise self._broken_stream(exc, operation.method, events.response_id) from None
        finally:
            connection.close()
        if not events.has_ended:
            broken = http.client.RemoteDisconnected("the stream broke off")
            raise self._broken_stream(broken, operation.method, events.response_id)

    def close(self) -> None:
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.close()

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], can_retry: bool
    ) -> tuple[int, bytes]:
        connection, was_used = self._connection()
        try:
            return _exchange(connection, method, path, body, headers)
        except (http.client.HTTPException, OSError) as exc:
            self._drop(connection)
            if not can_retry and not (was_used and isinstance(exc, STALE_CONNECTION)):
                raise self._address.no_answer(exc, method) from None
        connection, _ = self._connection()
        try:
            return _exchange(connection, method, path, body, headers)
        except (http.client.HTTPException, OSError) as exc:
            self._drop(connection)
            raise self._address.no_answer(exc, method) from None

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """This thread's connection, and whether it was used before."""
        connection: http.client.HTTPConnection | None = getattr(self._thread_local, "connection", None)
        if connection is not None and connection in self._connections:
            return connection, True
        connection = self._connect()
        self._thread_local.connection = connection
        with self._lock:
            self._connections.add(connection)
        return connection, False

    def _connect(self) -> http.client.HTTPConnection:
        address = self._address
        if address.tls is None:
            return http.client.HTTPConnection(address.host, address.port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(address.host, address.port, timeout=self._timeout_s, context=address.tls)

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        with self._lock:
            self._connections.discard(connection)

    def _broken_stream(self, exc: Exception, method: str, response_id: str | None) -> StoreUnavailable:
        """The error for a stream without an end.

        Raises:
            ContentPurged: what the response is about was purged meanwhile.
        """
        error = self._address.no_answer(exc, method)
        if response_id is None:
            return error
        with suppress(StoreUnavailable):
            self.call(OPERATIONS_BY_NAME["get_response"], (response_id,), None, None, LIMIT_DEFAULT, None)
        return name_response(error, response_id)


def _exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes]:
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.read()
