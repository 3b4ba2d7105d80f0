"""One interface to every hooked HTTP client, so that one test can cover them all.

`DRIVERS` has one driver each for httpx, httpx2, requests, urllib3 and aiohttp, sync and async. All are called from
sync code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import aiohttp
import httpx
import httpx2
import requests
import urllib3

ChunkCallback = Callable[[bytes], bool | None]  # is told each piece; returns True to leave the response there


class ClientResponse(NamedTuple):
    """The response as the application received it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


JSON_TYPE = {"Content-Type": "application/json"}  # Clients have different defaults.


class Driver(Protocol):
    """One HTTP client."""

    name: str
    error: type[Exception]  # what its errors have in common

    def post(self, url: str, body: Any, headers: dict[str, str] | None = None) -> ClientResponse:
        """Send a request and read the whole response."""
        ...

    def stream(self, url: str, body: Any, on_chunk: ChunkCallback) -> ClientResponse:
        """Send a request and pass each chunk of the response to `on_chunk` as it arrives."""
        ...


class Httpx:
    """httpx or httpx2, sync."""

    def __init__(self, module: ModuleType) -> None:
        self.module: Any = module
        self.name = module.__name__
        self.error = self.module.HTTPError

    def post(self, url: str, body: Any, headers: dict[str, str] | None = None) -> ClientResponse:
        with self.module.Client() as client:
            response = client.post(url, content=body, headers={**JSON_TYPE, **(headers or {})})
            return ClientResponse(
                response.status_code, _lower_names(response.headers.multi_items()), response.content
            )

    def stream(self, url: str, body: Any, on_chunk: ChunkCallback) -> ClientResponse:
        pieces = []
        with self.module.Client() as client, client.stream("POST", url, content=body, headers=JSON_TYPE) as response:
            for piece in response.iter_raw():
                pieces.append(piece)
                if on_chunk(piece):
                    break
            return ClientResponse(
                response.status_code, _lower_names(response.headers.multi_items()), b"".join(pieces)
            )


class HttpxAsync(Httpx):
    """httpx or httpx2, async."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module)
        self.name = f"{module.__name__}-async"

    def post(self, url: str, body: Any, headers: dict[str, str] | None = None) -> ClientResponse:
        async def ask() -> ClientResponse:
            async with self.module.AsyncClient() as client:
                response = await client.post(url, content=_async_body(body), headers={**JSON_TYPE, **(headers or {})})
                return ClientResponse(
                    response.status_code, _lower_names(response.headers.multi_items()), response.content
                )

        return asyncio.run(ask())

    def stream(self, url: str, body: Any, on_chunk: ChunkCallback) -> ClientResponse:
        async def ask() -> ClientResponse:
            pieces = []
            async with (
                self.module.AsyncClient() as client,
                client.stream("POST", url, content=_async_body(body), headers=JSON_TYPE) as response,
            ):
                async for piece in response.aiter_raw():
                    pieces.append(piece)
                    if on_chunk(piece):
                        break
                return ClientResponse(
                    response.status_code, _lower_names(response.headers.multi_items()), b"".join(pieces)
                )

        return asyncio.run(ask())


class Requests:
    """requests."""

    name = "requests"
    error = requests.RequestException

    def post(self, url: str, body: Any, headers: dict[str, str] | None = None) -> ClientResponse:
        with requests.Session() as session:
            response = session.post(url, data=body, headers={**JSON_TYPE, **(headers or {})})
            return ClientResponse(response.status_code, _lower_names(response.headers.items()), response.content)

    def stream(self, url: str, body: Any, on_chunk: ChunkCallback) -> ClientResponse:
        pieces = []
        with requests.Session() as session, session.post(url, data=body, stream=True, headers=JSON_TYPE) as response:
            for piece in response.iter_content(chunk_size=None):
                pieces.append(piece)
                if on_chunk(piece):
                    break
            return ClientResponse(response.status_code, _lower_names(response.headers.items()), b"".join(pieces))


class Urllib3:
    """urllib3, used directly."""

    name = "urllib3"
    error = urllib3.exceptions.HTTPError

    def post(self, url: str, body: Any, headers: dict[str, str] | None = None) -> ClientResponse:
        with urllib3.PoolManager() as pool:
            response = pool.request(
                "POST", url, body=body, headers={**JSON_TYPE, **(headers or {})}, retries=False, redirect=False
            )
            return ClientResponse(response.status, _lower_names(response.headers.items()), response.data)

    def stream(self, url: str, body: Any, on_chunk: ChunkCallback) -> ClientResponse:
        pieces = []
        with urllib3.PoolManager() as pool:
            response = pool.request("POST", url, body=body, headers=JSON_TYPE, preload_content=False, retries=False)
            for piece in response.stream(None):
                pieces.append(piece)
                if on_chunk(piece):
                    response.close()
                    break
            return ClientResponse(response.status, _lower_names(response.headers.items()), b"".join(pieces))


class Aiohttp:
    """aiohttp."""

    name = "aiohttp"
    error = aiohttp.ClientError

    def post(self, url: str, body: Any, headers: dict[str, str] | None = None) -> ClientResponse:
        async def ask() -> ClientResponse:
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, data=_async_body(body), headers={**JSON_TYPE, **(headers or {})}) as response,
            ):
                return ClientResponse(response.status, _lower_names(response.headers.items()), await response.read())

        return asyncio.run(ask())

    def stream(self, url: str, body: Any, on_chunk: ChunkCallback) -> ClientResponse:
        async def ask() -> ClientResponse:
            pieces = []
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, data=_async_body(body), headers=JSON_TYPE) as response,
            ):
                async for piece in response.content.iter_any():
                    pieces.append(piece)
                    if on_chunk(piece):
                        break
                return ClientResponse(response.status, _lower_names(response.headers.items()), b"".join(pieces))

        return asyncio.run(ask())


def _async_body(body: Any) -> Any:
    if isinstance(body, bytes):
        return body

    async def pieces() -> Any:
        for piece in body:
            yield piece

    return pieces()


def _lower_names(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers]


DRIVERS: list[Driver] = [
    Httpx(httpx), HttpxAsync(httpx), Httpx(httpx2), HttpxAsync(httpx2), Requests(), Urllib3(), Aiohttp(),
]  # fmt: skip
