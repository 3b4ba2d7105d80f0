"""The proxy, the context server, the chat and the web view, each on its real event loop in a thread, behind one
interface."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from support.chat_servers import RunningChat, write_prompts
from support.operation_store import Store
from support.raw_sockets import Peer, Proxy, Upstream, response
from support.store_servers import run_server
from support.ui_servers import run_ui
from traceforge.canon import JSONObject
from traceforge.http.server_limits import CHAT_LIMITS, PROXY_LIMITS, STORE_LIMITS
from traceforge.traces.trace_store import TraceStore
from traceforge.web.store_service import StoreService

KINDS = ("proxy", "serve", "chat")  # A client without a key can have a call in flight.
ALL_KINDS = (*KINDS, "ui")  # The web view answers a client without its cookie at once.
SECONDS_MAX = 120.0  # Beyond this a test hangs; the machine that runs it may be busy.
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
_JSON = b"Content-Type: application/json\r\n"


class AttackedServer:
    """One of the servers, as its clients see it."""

    def __init__(
        self,
        kind: str,
        port: int,
        post: bytes,
        slow: bytes,
        finish_slow: Callable[[], None],
        count: Callable[[], int],
    ) -> None:
        self.kind = kind
        self.port = port
        self.post_head = post  # Of a request with a body, without its length and its empty line.
        self.slow_request = slow  # Its answer comes when `finish_slow` is called.
        self.finish_slow = finish_slow
        self.count_connections = count
        self._peers: list[Peer] = []

    def connect(self, address: str = "127.0.0.1") -> Peer:
        """A client at an address of this machine that sends exact bytes."""
        self._peers.append(Peer(socket.create_connection(("127.0.0.1", self.port), SECONDS_MAX, (address, 0))))
        self._peers[-1].sock.settimeout(SECONDS_MAX)
        return self._peers[-1]

    def send(self, data: bytes, address: str = "127.0.0.1") -> Peer:
        """Connect a client and send bytes."""
        peer = self.connect(address)
        peer.send(data)
        return peer

    def is_healthy(self) -> bool:
        """Whether an honest client gets an answer."""
        peer = self.send(HEALTH)
        return is_answered(peer)

    def close(self) -> None:
        for peer in self._peers:
            peer.close()


def is_answered(peer: Peer) -> bool:
    """Whether the next response is that of /healthz."""
    return status_of(peer.response()) == 200


def status_of(answer: bytes) -> int:
    """The status of a response, 0 without one."""
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def read_refusal(peer: Peer) -> int:
    """Read until the server closes; the status of its response, 0 without one."""
    received = b""
    try:
        while data := peer.sock.recv(65536):
            received += data
    except ConnectionError:
        pass
    return status_of(received)


@contextmanager
def attacked_server(kind: str, folder: Path, **limits: float) -> Iterator[AttackedServer]:
    """Run one of ALL_KINDS with other limits."""
    with (
        {"proxy": _proxy, "serve": _store, "chat": _chat, "ui": _ui}[kind](folder, limits) as server,
        closing(server),
    ):
        yield server


@contextmanager
def _proxy(_: Path, limits: dict[str, float]) -> Iterator[AttackedServer]:
    upstream = Upstream()
    proxy = Proxy({"up": upstream.url}, sink=False, limits=PROXY_LIMITS._replace(**limits))  # type: ignore[arg-type]

    def finish() -> None:
        model = upstream.accept()
        model.request()
        model.send(response())

    slow = b"POST /up/v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    post = b"POST /up/v1/x HTTP/1.1\r\nHost: localhost\r\n"
    try:
        yield AttackedServer("proxy", proxy.port, post, slow, finish, lambda: len(proxy.state.connections))
    finally:
        proxy.stop()
        upstream.close()


class _SlowDatabase(StoreService):
    """A store whose database answers /readyz when it may."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, requires_key=False)
        self.may_answer = threading.Semaphore(0)

    def ping(self) -> None:
        assert self.may_answer.acquire(timeout=SECONDS_MAX)


@contextmanager
def _store(folder: Path, limits: dict[str, float]) -> Iterator[AttackedServer]:
    with closing(Store.open(str(folder / "context.db"))) as store:
        service = _SlowDatabase(store)
        changed = STORE_LIMITS._replace(**limits)  # type: ignore[arg-type]
        with run_server(store, service=service, limits=changed) as server:
            port = int(server.url.rpartition(":")[2])
            slow = HEALTH.replace(b"/healthz", b"/readyz")
            post = b"POST /v2/sessions HTTP/1.1\r\nHost: localhost\r\n" + _JSON
            count = server.site.connections.__len__
            try:
                yield AttackedServer("serve", port, post, slow, service.may_answer.release, count)
            finally:
                service.may_answer.release(1000)


class _SlowModel:
    """A model that answers when it may."""

    developer_role = "developer"

    def __init__(self) -> None:
        self.may_answer = asyncio.Semaphore(0)

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        await self.may_answer.acquire()
        return "ok"


@contextmanager
def _chat(folder: Path, limits: dict[str, float]) -> Iterator[AttackedServer]:
    model = _SlowModel()
    changed = CHAT_LIMITS._replace(**limits)  # type: ignore[arg-type]
    running = RunningChat(model, write_prompts(folder / "prompts"), limits=changed)
    port = int(running.url.rpartition(":")[2])
    post = b"POST /chat HTTP/1.1\r\nHost: localhost\r\n" + _JSON
    body = json.dumps({"message": "hi", "session_id": "s"}).encode()
    slow = post + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    try:
        yield AttackedServer(
            "chat", port, post, slow, lambda: running.call(model.may_answer.release),
            lambda: len(running.server.connections),
        )  # fmt: skip
    finally:
        running.stop()


@contextmanager
def _ui(folder: Path, limits: dict[str, float]) -> Iterator[AttackedServer]:
    """The web view; its list of traces is slow."""
    with run_ui(folder, signed_in=False, allowed_hosts=("localhost",), **limits) as ui:
        context = ui.server.application.context
        may_answer = threading.Semaphore(0)
        read_traces = context.read_traces

        async def read_when_it_may(work: Callable[[TraceStore], Any]) -> Any:
            await context.in_thread(lambda: may_answer.acquire(timeout=SECONDS_MAX))
            return await read_traces(work)

        context.read_traces = read_when_it_may  # type: ignore[method-assign]
        cookie = b"Cookie: " + ui.server.application.access.cookie_header().partition(";")[0].encode() + b"\r\n"
        post = b"POST /traces/00000001/delete HTTP/1.1\r\nHost: localhost\r\n" + cookie
        slow = b"GET /traces HTTP/1.1\r\nHost: localhost\r\n" + cookie + b"\r\n"
        port = int(ui.origin.rpartition(":")[2])
        try:
            yield AttackedServer(
                "ui", port, post, slow, may_answer.release, ui.server.application.connections.__len__
            )
        finally:
            may_answer.release(1000)
