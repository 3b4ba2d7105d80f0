"""The same conversation over a WebSocket, held by each client library."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import aiohttp
import websockets.asyncio.client
import websockets.sync.client
from websockets.exceptions import ConnectionClosed, InvalidStatus

Step = int | dict[str, Any] | str | bytes  # so many messages to receive, or one to send


class Closed(Exception):
    """The connection is over before the steps are."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Refused(Exception):
    """The server refused the handshake."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Talk(Protocol):
    """Opens a WebSocket, takes the steps, closes it; gives what was received.

    Raises `Closed` and `Refused`.
    """

    def __call__(self, url: str, steps: Sequence[Step], **options: Any) -> list[str | bytes]: ...


def _to_send(step: Step) -> Any:
    return json.dumps(step) if isinstance(step, dict) else step


def _closed(exc: ConnectionClosed) -> Closed:
    return Closed(1006, "") if exc.rcvd is None else Closed(exc.rcvd.code, exc.rcvd.reason)


async def _talk(connecting: Any, steps: Sequence[Step]) -> list[str | bytes]:
    received: list[str | bytes] = []
    async with connecting as connection:
        for step in steps:
            if isinstance(step, int):
                received += [await connection.recv() for _ in range(step)]
            else:
                await connection.send(_to_send(step))
    return received


def talk_async(url: str, steps: Sequence[Step], **options: Any) -> list[str | bytes]:
    """With the client of `websockets` for asyncio."""

    async def talk() -> list[str | bytes]:
        return await _talk(websockets.asyncio.client.connect(url, **options), steps)

    try:
        return asyncio.run(talk())
    except ConnectionClosed as exc:
        raise _closed(exc) from exc
    except InvalidStatus as exc:
        raise Refused(exc.response.status_code) from exc


def talk_sync(url: str, steps: Sequence[Step], **options: Any) -> list[str | bytes]:
    """With the client of `websockets` for threads."""
    received: list[str | bytes] = []
    try:
        with websockets.sync.client.connect(url, **options) as connection:
            for step in steps:
                if isinstance(step, int):
                    received += [connection.recv() for _ in range(step)]
                else:
                    connection.send(_to_send(step))
    except ConnectionClosed as exc:
        raise _closed(exc) from exc
    except InvalidStatus as exc:
        raise Refused(exc.response.status_code) from exc
    return received


def talk_legacy(url: str, steps: Sequence[Step], **options: Any) -> list[str | bytes]:
    """With the first client of `websockets` for asyncio."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from websockets.legacy.client import connect
        from websockets.legacy.exceptions import InvalidStatusCode

    async def talk() -> list[str | bytes]:
        return await _talk(connect(url, **options), steps)

    try:
        return asyncio.run(talk())
    except ConnectionClosed as exc:
        raise _closed(exc) from exc
    except InvalidStatusCode as exc:
        raise Refused(exc.status_code) from exc


def talk_aiohttp(
    url: str,
    steps: Sequence[Step],
    *,
    additional_headers: dict[str, str] | None = None,
    subprotocols: Sequence[str] = (),
    **options: Any,
) -> list[str | bytes]:
    """With the client of aiohttp."""

    async def talk() -> list[str | bytes]:
        received: list[str | bytes] = []
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, headers=additional_headers, protocols=subprotocols, **options) as connection,
        ):
            for step in steps:
                if isinstance(step, int):
                    received += [await _receive_aiohttp(connection) for _ in range(step)]
                elif isinstance(step, bytes):
                    await connection.send_bytes(step)
                else:
                    await connection.send_str(_to_send(step))
        return received

    try:
        return asyncio.run(talk())
    except aiohttp.WSServerHandshakeError as exc:
        raise Refused(exc.status) from exc


async def _receive_aiohttp(connection: Any) -> str | bytes:
    message = await connection.receive()
    if message.type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
        data: str | bytes = message.data
        return data
    raise Closed(connection.close_code or 1006, message.extra or "")


TALKS: dict[str, Talk] = {"asyncio": talk_async, "sync": talk_sync, "legacy": talk_legacy, "aiohttp": talk_aiohttp}
