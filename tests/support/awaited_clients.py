"""An asynchronous client of the context store, called as if it waited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.operation_store import Store
from support.store_servers import new_api_key, run_server
from traceforge.context import AsyncClient
from traceforge.context.api.embedded_transport import AsyncEmbeddedTransport, EmbeddedTransport
from traceforge.context.model.inputs import NewEvent
from traceforge.context.model.objects import EventType


class AwaitedClient:
    """An AsyncClient, called as if it waited."""

    def __init__(self, client: AsyncClient, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop

    def step_by_step(self, **named: Any) -> AwaitedEvents:
        """A response as it comes."""
        return AwaitedEvents(self._client.stream_response(**named), self._loop)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            return self._loop.run_until_complete(gather_items(result) if hasattr(result, "__aiter__") else result)

        return call


class AwaitedEvents:
    """An async iterator, read as if it waited."""

    def __init__(self, events: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._events = events
        self._loop = loop

    def __iter__(self) -> AwaitedEvents:
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.run_until_complete(anext(self._events))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Read no further."""
        self._loop.run_until_complete(self._events.aclose())


def step_by_step(client: Any, **named: Any) -> Any:
    """A response as it comes, from any client."""
    return client.step_by_step(**named) if isinstance(client, AwaitedClient) else client.stream_response(**named)


async def gather_items(items: Any) -> list[Any]:
    return [item async for item in items]


@contextmanager
def open_async_client(way: str, store: Store, runner: asyncio.Runner, **options: Any) -> Iterator[AsyncClient]:
    """A client of the store; `options` are those of the server, where there is one."""
    if way == "async embedded":
        transport = AsyncEmbeddedTransport(OpenTransport(store))
        yield AsyncClient(transport)
        runner.run(transport.close())
        return
    with run_server(store, required=True, **options) as site:
        client = runner.run(AsyncClient.connect(site.url, api_key=new_api_key(store, "admin")))
        yield client
        runner.run(client.close())


class OpenTransport(EmbeddedTransport):
    """A store that other tests use too."""

    def close(self) -> None:
        """Leave it open."""


def text_event(text: str, kind: EventType = EventType.USER_MESSAGE) -> NewEvent:
    """An event."""
    return NewEvent(event_type=kind, content=text)
