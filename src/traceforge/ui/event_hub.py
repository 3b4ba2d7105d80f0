"""Events for live pages: which kinds of things have changed, as server-sent events.

An event says that something is new, and not what: the page asks for it, with its own filter. So a client that reads
slowly costs a name of each kind and not a queue, and no content is sent to a page that did not ask for it.

While a page listens, traces are also made searchable, so that a search need not wait for it.

Never: looks for changes while no page listens. It refuses no client itself: the route asks `is_full` first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from traceforge.errors import TraceForgeError
from traceforge.traces.trace_follower import TraceChanges
from traceforge.traces.trace_store import TraceStore
from traceforge.web.client_disconnect import watch_for_disconnect

CLIENTS_MAX = 32  # A browser opens at most six connections to a server, and pages in the background close theirs.
POLL_SECONDS = 0.5
TEXTS_AT_ONCE = 100  # Traces that are made searchable between two looks: about 50 ms, in which pages wait little.
TEXTS_PAUSE_SECONDS = 0.05
HEARTBEAT_SECONDS = 15.0  # A comment that shows a client, and everything between, that the connection lives.
RETRY_MS = 2000  # How long a browser waits before it connects again.

# The kinds of events.
TRACES = "traces"  # Traces were recorded or removed.
CHANGES = "changes"  # Pending changes were recorded, approved or rejected.
REPORTS = "reports"  # Checks or a live check ended.

ReadStamps = Callable[[], Awaitable[Mapping[str, int]]]  # Of each other kind: a number that differs once it changes.
ReadTraces = Callable[[Callable[[TraceStore], bool]], Awaitable[bool]]


class EventHub:
    """The clients of `/events` of one server. Used from one event loop."""

    def __init__(self, read_traces: ReadTraces, read_stamps: ReadStamps) -> None:
        self._read_traces = read_traces
        self._read_stamps = read_stamps
        self._stamps: dict[str, int] = {}
        self._clients: set[EventClient] = set()
        self._watching: asyncio.Task[None] | None = None
        self._has_looked = asyncio.Event()

    @property
    def client_count(self) -> int:
        return len(self._clients)

    @property
    def is_full(self) -> bool:
        """Whether no further client may listen."""
        return len(self._clients) >= CLIENTS_MAX

    def publish(self, kind: str) -> None:
        """Tell every client that there is something new of this kind."""
        self._tell(kind)
        self._stamps.pop(kind, None)  # So that the next look does not announce the same change again.

    def _tell(self, kind: str) -> None:
        for client in self._clients:
            client.add(kind)

    def end(self) -> None:
        """The server stops: end every stream."""
        for client in self._clients:
            client.end()

    @contextmanager
    def listening(self) -> Iterator[EventClient]:
        """A client, for as long as the block runs."""
        client = EventClient()
        self._clients.add(client)
        if self._watching is None:
            self._has_looked.clear()
            self._watching = asyncio.create_task(self._watch())
        try:
            yield client
        finally:
            self._clients.discard(client)
            if not self._clients and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def wait_for_first_look(self) -> None:
        """Wait until what happens from now on is noticed: the first look only says what was there before."""
        await self._has_looked.wait()

    async def _watch(self) -> None:
        """Look for new traces and pending changes, for as long as there are clients."""
        changes = TraceChanges()
        self._stamps = {}
        while True:
            try:
                if await self._find_changes(changes):
                    self._tell(TRACES)
                for kind in await self._find_other_kinds():
                    self._tell(kind)
            finally:
                self._has_looked.set()
            await asyncio.sleep(TEXTS_PAUSE_SECONDS if await self._add_texts() else POLL_SECONDS)

    async def _add_texts(self) -> bool:
        """Make some traces searchable; whether there were any."""
        with suppress(TraceForgeError):
            return await self._read_traces(lambda store: store.add_texts(TEXTS_AT_ONCE) > 0)
        return False

    async def _find_other_kinds(self) -> list[str]:
        """The kinds whose stamp is another one than at the last look."""
        stamps = await self._read_stamps()
        before, self._stamps = self._stamps, dict(stamps)
        return [kind for kind, stamp in stamps.items() if before.get(kind, stamp) != stamp]

    async def _find_changes(self, changes: TraceChanges) -> bool:
        with suppress(TraceForgeError):  # The folder cannot be read now; the page says so when it is loaded.
            return await self._read_traces(changes.find)
        return False


class EventClient:
    """The kinds of events that a client has not been sent yet."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._arrived = asyncio.Event()
        self.is_ended = False

    def add(self, kind: str) -> None:
        self._kinds.add(kind)
        self._arrived.set()

    def end(self) -> None:
        """End the stream: the client has left, or the server stops."""
        self.is_ended = True
        self._arrived.set()

    async def wait(self) -> list[str]:
        """Wait for new kinds, for as long as a heartbeat; none where none came."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), HEARTBEAT_SECONDS)
        self._arrived.clear()
        kinds, self._kinds = sorted(self._kinds), set()
        return kinds


class EventStreamResponse(Response):
    """The events of a hub for one client, until it leaves or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, hub: EventHub) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})  # Proxies must not buffer it.
        del self.headers["content-length"]
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the end."""
        with self._hub.listening() as client:
            async with watch_for_disconnect(receive, client.end):
                await self._hub.wait_for_first_look()
                start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                await send(start)
                data = b"retry: %d\n\n" % RETRY_MS
                while not client.is_ended:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                    kinds = await client.wait()
                    data = b"".join(b"event: %b\ndata: \n\n" % kind.encode() for kind in kinds) or b": alive\n\n"
                await send({"type": "http.response.body", "body": b"", "more_body": False})
