"""The chat's HTTP server: `POST /chat`, and the page at `/`.

Never: listens on another address than loopback, or logs anything of a request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from traceforge.chat.chat_connection import ChatConnection
from traceforge.chat.conversation import Chat
from traceforge.http.accept_loop import listen
from traceforge.http.access import AccessPolicy
from traceforge.http.plain_response import JSON_TYPE, PlainResponse
from traceforge.http.server_limits import CHAT_LIMITS, ClientConnections, ServerLimits, raise_descriptor_limit
from traceforge.http.serving import run_event_loop, set_on_signals

HOST = "127.0.0.1"
DRAIN_SECONDS = 10.0

_FRONTEND = Path(__file__).parent / "frontend"
_PAGES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/chat.css": ("chat.css", "text/css; charset=utf-8"),
    "/chat.js": ("chat.js", "text/javascript; charset=utf-8"),
}
# The page loads its own script and style and calls its own server; no other page may frame it.
_PAGE_HEADERS = (
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
)


class ChatServer:
    """The pages, the access rules and the connections of one server."""

    def __init__(
        self, chat: Chat, write_log: Callable[[str], None], limits: ServerLimits = CHAT_LIMITS, token: str = ""
    ) -> None:
        """With a `token`, every request for an answer must have it; the page has nothing to hide."""
        self._chat = chat
        self._limits = limits
        self._token = token
        self._write_log = write_log
        self._access = AccessPolicy(HOST, same_origin=True)
        self._pages = {path: ((_FRONTEND / name).read_bytes(), kind) for path, (name, kind) in _PAGES.items()}
        self.connections: ClientConnections[ChatConnection] = ClientConnections(limits)

    def open_connection(self) -> asyncio.Protocol:
        """The protocol for the next client."""
        return ChatConnection(
            self._serve, self._access, self.connections, self._log_failure, self._limits, self._token
        )

    async def _serve(self, path: str, body: bytes) -> PlainResponse:
        if path == "/chat":
            return PlainResponse(200, JSON_TYPE, await self._chat.answer(body))
        if path == "/healthz":
            return PlainResponse(200, JSON_TYPE, b'{"status":"ok"}')
        page, kind = self._pages[path]
        return PlainResponse(200, kind, page, _PAGE_HEADERS)

    def _log_failure(self, exc: BaseException | None) -> None:
        self._write_log(f"internal error: {type(exc).__name__}")  # Its message may quote a user.

    def handle_loop_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception of the event loop without its message, which the loop would print."""
        self._log_failure(context.get("exception"))


def serve(
    chat: Chat, sock: socket.socket, ready: Callable[[], None], write_log: Callable[[str], None], token: str = ""
) -> None:
    """Serve until a signal comes. Turns in flight may end; a second signal stops at once."""
    run_event_loop(_serve(sock, ChatServer(chat, write_log, token=token), ready))


async def _serve(sock: socket.socket, chat_server: ChatServer, ready: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()
    set_on_signals(stop, hurry)
    raise_descriptor_limit(CHAT_LIMITS.connections)
    loop.set_exception_handler(chat_server.handle_loop_exception)
    server = await listen(sock, chat_server.open_connection, chat_server.connections.connections_max)
    ready()
    with suppress(asyncio.CancelledError):  # Ctrl-C on Windows.
        await stop.wait()
    server.close()
    for connection in list(chat_server.connections):
        connection.close_when_idle()
    deadline = loop.time() + DRAIN_SECONDS
    while chat_server.connections and loop.time() < deadline and not hurry.is_set():
        await asyncio.sleep(0.01)
    for connection in list(chat_server.connections):
        connection.transport.abort()
    await asyncio.sleep(0)
