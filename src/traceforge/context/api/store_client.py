"""The context store for a program: in this process, or on a server, with the same names.

In: a path or URL of a database, or the URL of a server. Out: a client. Never: two ways to fail; what a server refuses
is the same error here as what a store in this process refuses.

    with Client.open(".ai-tests/context.db") as client:
        session = client.create_session()
    with Client.connect("http://127.0.0.1:3080", api_key="tf_live_…") as client:
        session = client.create_session()

A client may be used from many threads.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from traceforge.context.api._generated.client_methods import AsyncClientMethods, ClientMethods
from traceforge.context.api.error_responses import read_error
from traceforge.context.api.operations import LIMIT_DEFAULT, OPERATIONS_BY_NAME, Operation, OperationArguments
from traceforge.context.api.request_decoding import check_key, check_page, read_json, to_body, to_json
from traceforge.context.model.inputs import NewResponse
from traceforge.context.model.objects import Response, ResponseEvent
from traceforge.conversion import decode_json
from traceforge.errors import MissingExtra, StoreUnavailable

if TYPE_CHECKING:
    from traceforge.context.api.context_store import Store
    from traceforge.context.responses.response_generation import RunningResponse

TIMEOUT_S = 120.0  # A response of a model may take as long.

T = TypeVar("T")


class Transport(Protocol):
    """How an operation gets to its store."""

    def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        """Do it."""

    def stream(
        self, operation: Operation, ids: tuple[str, ...], body: bytes, key: str | None
    ) -> Iterator[ResponseEvent]:
        """Do it, and tell of it as it comes."""

    def close(self) -> None:
        """Let go of what it holds."""


class EmbeddedTransport:
    """A store in this process."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        """Do it here."""
        value = None if body is None else read_json(body)
        typed = None if operation.body is None else to_body(operation.body, value)
        call = OperationArguments(ids, typed, limit, after)
        if key is None:
            return operation.call(self.store, call)
        from traceforge.context.api.idempotency import perform_operation

        return decode_json(perform_operation(self.store, operation, call, key, value).body, operation.answer)

    def stream(
        self, operation: Operation, ids: tuple[str, ...], body: bytes, key: str | None
    ) -> Iterator[ResponseEvent]:
        """Do it here."""
        value = read_json(body)
        request = cast("NewResponse", to_body(NewResponse, value))
        if key is None:
            yield from _response_events(self.store.begin_response(request))
            return
        from traceforge.context.api.idempotency import EncodedResponse, make_key
        from traceforge.context.api.idempotent_operations import completed_encoder, start_response_once

        idempotency_key = make_key(operation.fill_path(ids), key, value)
        running = start_response_once(
            self.store, request, idempotency_key, completed_encoder(operation, stream=True), stream=True
        )
        if isinstance(running, EncodedResponse):
            yield from read_events(running.body.splitlines())
        else:
            yield from _response_events(running)

    def close(self) -> None:
        """Close the database."""
        self.store.close()


def _response_events(responding: RunningResponse) -> Iterator[ResponseEvent]:
    """What a server says of a response. Whoever leaves changes nothing: it comes to its end first."""
    try:
        yield ResponseEvent(type="response.created", response=responding.running)
        for text in responding:
            yield ResponseEvent(type="response.text.delta", delta=text)
    except GeneratorExit:
        responding.wait_for_end()
        raise
    yield _final_response_event(responding.response)


def _final_response_event(response: Response) -> ResponseEvent:
    return ResponseEvent(type=f"response.{response.status.value}", response=response)


class HTTPTransport:
    """A server; every thread has a connection of its own, which is kept."""

    def __init__(self, url: str, api_key: str | None, timeout_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StoreUnavailable("a server is named by a URL with a host, such as http://127.0.0.1:3080")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/") + "/v2"
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._thread_local = threading.local()
        self._connections: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()

    def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        """Send it, and read what comes back."""
        path = self._path(operation, ids)
        if operation.is_list:
            path += "?" + urlencode({"limit": limit, **({} if after is None else {"after": after})})
        headers = self._request_headers(body, key)
        can_retry = (
            operation.method == "GET" or key is not None
        )  # What has no second effect may be sent a second time.
        status, data = self._send(operation.method, path, body, headers, can_retry)
        if status != operation.status:
            raise read_error(status, data)
        try:
            return decode_json(data, operation.answer)
        except msgspec.DecodeError as exc:
            raise StoreUnavailable(f"the server answered with something else than {operation.name} does") from exc

    def stream(
        self, operation: Operation, ids: tuple[str, ...], body: bytes, key: str | None
    ) -> Iterator[ResponseEvent]:
        """Send it, and read what comes as it comes, on a connection of its own."""
        connection = self._connect()
        named, ended = None, False
        try:
            connection.request(operation.method, self._path(operation, ids), body, self._request_headers(body, key))
            answer = connection.getresponse()
            if answer.status != operation.status:
                raise read_error(answer.status, answer.read())
            for event in read_events(answer):
                named = event.response.id if event.response is not None else named
                ended = event.response is not None and event.type != "response.created"
                yield event
        except (http.client.HTTPException, OSError) as exc:
            raise self._broken_stream_error(exc, operation.method, named) from None
        finally:
            connection.close()
        if not ended:
            raise self._broken_stream_error(http.client.RemoteDisconnected("it broke off"), operation.method, named)

    def close(self) -> None:
        """Close every connection."""
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
            if not can_retry and not (was_used and isinstance(exc, _STALE)):
                raise self._no_answer_error(exc, method) from None
        connection, _ = self._connection()
        try:
            return _exchange(connection, method, path, body, headers)
        except (http.client.HTTPException, OSError) as exc:
            self._drop(connection)
            raise self._no_answer_error(exc, method) from None

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
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=self._tls)

    def _path(self, operation: Operation, ids: tuple[str, ...]) -> str:
        return self._base + operation.fill_path(tuple(quote(object_id, safe="") or "%20" for object_id in ids))

    def _request_headers(self, body: bytes | None, key: str | None) -> dict[str, str]:
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        return headers

    def _broken_stream_error(self, exc: Exception, method: str, response_id: str | None) -> StoreUnavailable:
        """Why a stream has no end. The response has one: whoever was told its id can ask for it.

        Raises:
            ContentPurged: what was asked about was purged meanwhile.
        """
        error = self._no_answer_error(exc, method)
        if response_id is not None:
            with suppress(StoreUnavailable):
                self.call(OPERATIONS_BY_NAME["get_response"], (response_id,), None, None, LIMIT_DEFAULT, None)
            error.hint = f"The answer comes to its end there: see response {response_id}."
        return error

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        with self._lock:
            self._connections.discard(connection)

    def _no_answer_error(self, exc: Exception, method: str) -> StoreUnavailable:
        reason = (getattr(exc, "strerror", None) or str(exc) or type(exc).__name__).lower()
        sent = method != "GET" and not isinstance(exc, ConnectionRefusedError)
        hint = (
            "It may have been done: look before you try again, or send it with an idempotency key."
            if sent
            else "See that `traceforge serve` runs there."
        )
        where = f"{self._host}:{self._port}" if self._port else self._host
        return StoreUnavailable(f"the server at {where} gave no answer: {reason}", hint=hint, outcome_unknown=sent)


# A server that closed a kept connection before it read the request: it did nothing.
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


def read_events(lines: Iterable[bytes]) -> Iterator[ResponseEvent]:
    """The events of a stream, each when its last line is there.

    Raises:
        ContentPurged: what was asked about was purged meanwhile.
        StoreUnavailable: it is something else.
    """
    name, data = "", b""
    for line in lines:
        field, _, value = line.rstrip(b"\r\n").partition(b": ")
        if field == b"event":
            name = value.decode()
        elif field == b"data":
            data += value
        elif not field and name:
            yield _event(name, data)
            name, data = "", b""


def _event(name: str, data: bytes) -> ResponseEvent:
    if name == "error":
        raise read_error(500, data)
    try:
        if name == "response.text.delta":
            return ResponseEvent(type=name, delta=decode_json(data, dict[str, str])["delta"])
        return ResponseEvent(type=name, response=decode_json(data, OPERATIONS_BY_NAME["create_response"].answer))
    except (msgspec.DecodeError, KeyError) as exc:
        raise StoreUnavailable("the server answered with something else than create_response does") from exc


def _exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes]:
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


class Client(ClientMethods):
    """A context store; every operation is a method that waits for its answer."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @classmethod
    def open(
        cls, target: str, *, keys: str | None = None, project_id: str | None = None, traces_dir: str | None = None
    ) -> Self:
        """A store in this process: a path (SQLite) or the URL of a database. It is made where it is not there.

        `traces_dir` is where the calls of its responses are recorded, for a purge to remove them.

        Raises:
            MissingExtra: the packages that a store needs are not installed.
            StoreUnavailable: the database or its keys cannot be used.
            StoreRefused: there is no such project.
        """
        try:
            from traceforge.context.api.context_store import Store
        except ImportError as exc:
            raise MissingExtra(f"the context store cannot run here: {exc.name} is not installed", "context") from None
        return cls(EmbeddedTransport(Store.open(target, keys=keys, project_id=project_id, traces_dir=traces_dir)))

    @classmethod
    def connect(cls, url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> Self:
        """A store on a server, which is asked when the first operation is.

        Raises:
            StoreUnavailable: it is no URL of a server.
        """
        return cls(HTTPTransport(url, api_key, timeout_s))

    def close(self) -> None:
        """Close the database, or the connections."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(
        self, name: str, ids: tuple[str, ...] = (), fields: dict[str, Any] | None = None, *, key: str | None = None,
        limit: int = LIMIT_DEFAULT, after: str | None = None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        operation = OPERATIONS_BY_NAME[name]
        if key is not None:
            check_key(key)
        check_page(limit, after)
        body = None if operation.body is None else to_json(fields or {})
        return self.transport.call(operation, ids, body, key, limit, after)

    def _stream(self, name: str, fields: dict[str, Any], key: str | None) -> Iterator[ResponseEvent]:
        if key is not None:
            check_key(key)
        return self.transport.stream(OPERATIONS_BY_NAME[name], (), to_json({**fields, "stream": True}), key)


class AsyncClient(AsyncClientMethods):
    """The same, awaited: the work is done in threads."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._reading: set[threading.Thread] = set()

    @classmethod
    async def open(
        cls, target: str, *, keys: str | None = None, project_id: str | None = None, traces_dir: str | None = None
    ) -> Self:
        """As `Client.open`."""
        opening = {"keys": keys, "project_id": project_id, "traces_dir": traces_dir}
        return cls(await asyncio.to_thread(Client.open, target, **opening))

    @classmethod
    async def connect(cls, url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> Self:
        """As `Client.connect`."""
        return cls(Client.connect(url, api_key=api_key, timeout_s=timeout_s))

    async def close(self) -> None:
        """As `Client.close`; responses that somebody stopped reading come to their end first."""
        for thread in tuple(self._reading):
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(self.client.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(
        self, name: str, ids: tuple[str, ...] = (), fields: dict[str, Any] | None = None, *, key: str | None = None,
        limit: int = LIMIT_DEFAULT, after: str | None = None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        work: Callable[[], Any] = lambda: self.client._call(  # noqa: E731 (typed)
            name, ids, fields, key=key, limit=limit, after=after
        )
        return await asyncio.to_thread(work)

    async def _stream(self, name: str, fields: dict[str, Any], key: str | None) -> AsyncIterator[ResponseEvent]:
        """One thread reads to the end, also where nobody listens any more."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[ResponseEvent | BaseException | None] = asyncio.Queue()
        events = self.client._stream(name, fields, key)

        def put(item: ResponseEvent | BaseException | None) -> None:
            with suppress(RuntimeError):  # The loop is closed, and nobody listens.
                loop.call_soon_threadsafe(queue.put_nowait, item)

        def read() -> None:
            try:
                for event in events:
                    put(event)
                put(None)
            except BaseException as exc:  # noqa: BLE001 (it is raised where it is awaited)
                put(exc)
            finally:
                self._reading.discard(thread)

        thread = threading.Thread(target=read, name="traceforge-stream")
        self._reading.add(thread)
        thread.start()
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
