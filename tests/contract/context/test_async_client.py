"""The asynchronous client: many calls at once, its connections, and calls that are cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from support.awaited_clients import gather_items, open_async_client, text_event
from support.loopback_models import chat_answer, connect_models, scripted_provider, streamed_response
from support.operation_store import Store
from support.store_servers import run_server
from support.upstream import ScriptedResponse, Upstream
from traceforge.context import AsyncClient
from traceforge.errors import StoreUnavailable


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A scripted provider."""
    with scripted_provider() as provider:
        yield provider


@pytest.fixture
def store(store: Store, upstream: Upstream) -> Store:
    """A new project, which asks that provider."""
    return connect_models(store, upstream.url)


@pytest.mark.parametrize("way", ["async embedded", "async remote"])
@pytest.mark.parametrize("is_streamed", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("calls", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_calls_that_wait_for_a_model_hold_up_no_other_call(
    store: Store, upstream: Upstream, way: str, is_streamed: bool, calls: int
) -> None:
    """Many calls wait for a model, more than a pool has connections; an append is answered before any of them."""
    permits = threading.Semaphore(0)
    answer = chat_answer("Yes.")
    response = (
        streamed_response("Yes.", permits=permits)
        if is_streamed
        else ScriptedResponse([answer[:9], answer[9:]], permits=permits, chunked=True)
    )
    response.wait_s = 600  # Until the test lets it go on, however long the calls take to begin.
    upstream.respond_with(*[response] * calls)

    async def work(client: AsyncClient) -> None:
        sessions = [await client.create_session() for _ in range(calls)]
        bodies: list[Any] = [{"model": "openai/m", "session_id": session.id, "input": "Hi"} for session in sessions]
        waiting: list[asyncio.Task[Any]] = [
            asyncio.create_task(
                gather_items(client.stream_response(**body)) if is_streamed else client.create_response(**body)
            )
            for body in bodies
        ]
        while len(upstream.received) < calls and not any(task.done() for task in waiting):
            await asyncio.sleep(0.01)

        session = await client.create_session()
        event = await client.append_event(
            session.id, session.default_branch_id, expected_version=0, expected_head_event_id=None,
            event=text_event("at once"),
        )  # fmt: skip
        assert [event] == (await client.list_events(session.id, session.default_branch_id)).data
        assert calls + 1 == len([session async for session in client.iterate_sessions()])
        assert (calls, []) == (len(upstream.received), [task for task in waiting if task.done()])
        permits.release(2 * calls)
        for answer in await asyncio.gather(*waiting):
            assert "completed" == (answer[-1].response if is_streamed else answer).status

    with (
        asyncio.Runner() as runner,
        open_async_client(way, store, runner, model_calls_max=calls) as client,  # Of the project: it has them all.
    ):
        runner.run(work(client))


def test_an_async_connection_that_the_server_closed_is_opened_again(store: Store) -> None:
    """Also after `close`, and in another event loop."""
    with run_server(store) as site, asyncio.Runner() as runner:
        client = runner.run(AsyncClient.connect(site.url))
        session = runner.run(client.create_session())
        for connection in client.transport._idle:
            connection._writer.transport.get_extra_info("socket").shutdown(2)
        assert [session] == runner.run(client.list_sessions()).data
        runner.run(client.close())
        assert [session] == runner.run(client.list_sessions()).data
        runner.run(client.close())


def test_the_connection_of_a_cancelled_call_is_not_used_again(store: Store, upstream: Upstream) -> None:
    """The response to a cancelled call is never read as that of the next one."""
    permits = threading.Semaphore(0)
    upstream.respond_with(streamed_response("Yes.", permits=permits))

    async def work(url: str) -> None:
        async with await AsyncClient.connect(url) as client:
            session = await client.create_session()
            call = asyncio.create_task(client.create_response(model="openai/m", session_id=session.id, input="Hi"))
            while not upstream.received:
                await asyncio.sleep(0.01)
            call.cancel()
            permits.release(2)
            assert session == await client.get_session(session.id)

    with run_server(store) as site:
        asyncio.run(work(site.url))


def test_an_unreachable_server_is_named_in_the_error_of_an_async_call() -> None:
    """The error names the server; nothing was sent."""

    async def work() -> None:
        async with await AsyncClient.connect("http://127.0.0.1:9") as client:
            await client.create_session()

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9") as error:
        asyncio.run(work())
    assert not error.value.outcome_unknown
