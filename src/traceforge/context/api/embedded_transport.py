"""A context store in this process, behind the clients.

Needs the packages of the extra `context`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

from traceforge.context.api.http_transport import EventReader
from traceforge.context.api.idempotency import EncodedResponse, make_key, perform_operation
from traceforge.context.api.idempotent_operations import completed_encoder, start_response_once
from traceforge.context.api.operation_types import Operation, OperationArguments
from traceforge.context.api.request_decoding import read_json, to_body
from traceforge.context.model.inputs import NewResponse
from traceforge.context.model.objects import ResponseEvent
from traceforge.context.project_store import Store
from traceforge.context.purge.expired_content import ExpiryWatch
from traceforge.context.responses.response_generation import RunningResponse, start_response
from traceforge.conversion import decode_json
from traceforge.http.thread_pool import ThreadPool

DATABASE_THREADS = 8
MODEL_THREADS = 256  # Calls of models at once; each waits in a thread of its own.


class EmbeddedTransport:
    """Calls of a store in this process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._expiry = ExpiryWatch(store)

    def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        self._expiry.purge_if_due()
        value = None if body is None else read_json(body)
        typed_body = None if operation.fields is None else to_body(operation.fields, value)
        arguments = OperationArguments(ids, typed_body, limit, after)
        if key is None:
            return operation.call(self.store, arguments)
        return decode_json(perform_operation(self.store, operation, arguments, key, value).body, operation.answer)

    def stream(self, operation: Operation, body: bytes, key: str | None) -> Iterator[ResponseEvent]:
        """Ask a model; the events of its response as they arrive."""
        self._expiry.purge_if_due()
        value = read_json(body)
        request = cast("NewResponse", to_body(NewResponse, value))
        if key is None:
            yield from _response_events(start_response(self.store, request))
            return
        idempotency_key = make_key(operation.fill_path(()), key, value)
        running = start_response_once(
            self.store, request, idempotency_key, completed_encoder(operation, stream=True), stream=True
        )
        if isinstance(running, EncodedResponse):
            yield from EventReader().feed(running.body)
        else:
            yield from _response_events(running)

    def close(self) -> None:
        self.store.close()


def _response_events(running: RunningResponse) -> Iterator[ResponseEvent]:
    """The events of a response, as a server sends them. A caller that leaves waits for the end of the answer."""
    try:
        yield ResponseEvent(type="response.created", response=running.running)
        for text in running:
            yield ResponseEvent(type="response.text.delta", delta=text)
    except GeneratorExit:
        running.wait_for_end()
        raise
    yield ResponseEvent(type=f"response.{running.response.status.value}", response=running.response)


class AsyncEmbeddedTransport:
    """The same for an event loop: the database in a few threads, models in others, so that neither waits."""

    def __init__(self, transport: EmbeddedTransport) -> None:
        self._transport = transport
        self._database_threads = ThreadPool(DATABASE_THREADS, "traceforge-context")
        self._model_threads = ThreadPool(MODEL_THREADS, "traceforge-context-model")
        self._streams: set[asyncio.Task[None]] = set()

    async def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        threads = self._model_threads if operation.is_long else self._database_threads
        return await threads.run(lambda: self._transport.call(operation, ids, body, key, limit, after))

    async def stream(self, operation: Operation, body: bytes, key: str | None) -> AsyncIterator[ResponseEvent]:
        """Ask a model; its response is read to the end, also when the caller stops reading."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[ResponseEvent | Exception | None] = asyncio.Queue()

        def read() -> None:
            try:
                for event in self._transport.stream(operation, body, key):
                    loop.call_soon_threadsafe(queue.put_nowait, event)
            except Exception as exc:  # noqa: BLE001 (raised where the events are read)
                loop.call_soon_threadsafe(queue.put_nowait, exc)
            else:
                loop.call_soon_threadsafe(queue.put_nowait, None)

        task = asyncio.create_task(self._model_threads.run(read))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    async def close(self) -> None:
        """Wait for the responses that are still being read, then close the database."""
        await asyncio.gather(*self._streams)
        await asyncio.to_thread(self._database_threads.close)
        await asyncio.to_thread(self._model_threads.close)
        await asyncio.to_thread(self._transport.close)
