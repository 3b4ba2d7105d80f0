"""The context store for a program: in this process, or on a server, with the same methods and errors.

    with Client.open(".ai-tests/context.db") as client:
        session = client.create_session()
    async with await AsyncClient.connect("http://127.0.0.1:3080", api_key="tf_live_…") as client:
        session = await client.create_session()

A `Client` may be used from many threads, an `AsyncClient` from one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple, Protocol, Self

from traceforge.context.api._generated.client_methods import AsyncClientMethods, ClientMethods
from traceforge.context.api.async_http_transport import AsyncHTTPTransport
from traceforge.context.api.embedded_transport import AsyncEmbeddedTransport, EmbeddedTransport
from traceforge.context.api.http_transport import HTTPTransport, ServerAddress
from traceforge.context.api.open_store import open_store
from traceforge.context.api.operation_types import LIMIT_DEFAULT, Operation
from traceforge.context.api.operations import OPERATIONS_BY_NAME
from traceforge.context.api.request_decoding import check_key, check_page, to_json
from traceforge.context.model.objects import ResponseEvent
from traceforge.context.project_store import Store

TIMEOUT_S = 120.0  # Without a byte from the server: a model may think that long.


class Transport(Protocol):
    """How the operations of a client reach their store."""

    @property
    def store(self) -> Store | None:
        """The store, where it is in this process."""

    def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        """Run one operation and return its result; `key` is the idempotency key."""

    def stream(self, operation: Operation, body: bytes, key: str | None) -> Iterator[ResponseEvent]:
        """Do an operation; its events as they arrive."""

    def close(self) -> None:
        """Close the database or the connections."""


class AsyncTransport(Protocol):
    """A `Transport` whose calls are awaited."""

    async def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        ...

    def stream(self, operation: Operation, body: bytes, key: str | None) -> AsyncIterator[ResponseEvent]:
        """Do an operation; its events as they arrive."""

    async def close(self) -> None:
        """Close the database or the connections."""


class Client(ClientMethods):
    """A context store; every operation is a method that waits for its answer."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @classmethod
    def open(
        cls, target: str, *, keys: str | None = None, project_id: str | None = None, traces_dir: str | None = None
    ) -> Self:
        """Open a store in this process: a path (SQLite) or the URL of a database. It is created if it is missing.

        The calls of its responses are recorded in `traces_dir`, where a purge removes them.

        Raises:
            StoreUnavailable: the database or its keys cannot be used.
            StoreRefused: the project does not exist.
        """
        return cls(_open_transport(target, keys, project_id, traces_dir))

    @classmethod
    def connect(
        cls, url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S, allow_http: bool = False
    ) -> Self:
        """Use a store on a server. The first operation opens the first connection.

        An API key is sent over `http://` to this machine only; `allow_http` allows it to another one.

        Raises:
            StoreUnavailable: the URL or the API key cannot be used.
        """
        return cls(HTTPTransport(ServerAddress(url, api_key, allow_http=allow_http), timeout_s))

    @property
    def store(self) -> Store | None:
        """The store, where it is in this process."""
        return self.transport.store

    def close(self) -> None:
        """Close the database or the connections."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(
        self, name: str, ids: tuple[str, ...] = (), fields: dict[str, Any] | None = None, *, key: str | None = None,
        limit: int = LIMIT_DEFAULT, after: str | None = None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        request = _check_request(name, fields, key, limit, after)
        return self.transport.call(request.operation, ids, request.body, key, limit, after)

    def _stream(self, name: str, fields: dict[str, Any], key: str | None) -> Iterator[ResponseEvent]:
        return self.transport.stream(*_check_stream_request(name, fields, key), key)


class AsyncClient(AsyncClientMethods):
    """A context store; every operation is a coroutine. Calls that wait for a model hold up no other call."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.transport = transport

    @classmethod
    async def open(
        cls, target: str, *, keys: str | None = None, project_id: str | None = None, traces_dir: str | None = None
    ) -> Self:
        """Open a database in this process, as `Client.open` does."""
        transport = await asyncio.to_thread(_open_transport, target, keys, project_id, traces_dir)
        return cls(AsyncEmbeddedTransport(transport))

    @classmethod
    async def connect(
        cls, url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S, allow_http: bool = False
    ) -> Self:
        """Connect to a server, as `Client.connect` does."""
        return cls(AsyncHTTPTransport(ServerAddress(url, api_key, allow_http=allow_http), timeout_s))

    async def close(self) -> None:
        """As `Client.close`; a store in this process first finishes responses whose caller stopped reading."""
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(
        self, name: str, ids: tuple[str, ...] = (), fields: dict[str, Any] | None = None, *, key: str | None = None,
        limit: int = LIMIT_DEFAULT, after: str | None = None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        request = _check_request(name, fields, key, limit, after)
        return await self.transport.call(request.operation, ids, request.body, key, limit, after)

    def _stream(self, name: str, fields: dict[str, Any], key: str | None) -> AsyncIterator[ResponseEvent]:
        return self.transport.stream(*_check_stream_request(name, fields, key), key)


class _CheckedRequest(NamedTuple):
    operation: Operation
    body: bytes | None


def _check_request(
    name: str, fields: dict[str, Any] | None, key: str | None, limit: int, after: str | None
) -> _CheckedRequest:
    if key is not None:
        check_key(key)
    check_page(limit, after)
    operation = OPERATIONS_BY_NAME[name]
    return _CheckedRequest(operation, None if operation.fields is None else to_json(fields or {}))


def _check_stream_request(name: str, fields: dict[str, Any], key: str | None) -> tuple[Operation, bytes]:
    if key is not None:
        check_key(key)
    return OPERATIONS_BY_NAME[name], to_json({**fields, "stream": True})


def _open_transport(
    target: str, keys: str | None, project_id: str | None, traces_dir: str | None
) -> EmbeddedTransport:
    return EmbeddedTransport(open_store(target, keys=keys, project_id=project_id, traces_dir=traces_dir))
