"""A provider on loopback that answers every request with what follows from it, and remembers nothing."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support.soak.numbered_calls import answer_pieces

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _Answering(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer as soon as a request is complete; a client that is killed within one never gets here."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        if found and len(body) >= size:
            self._received = body[size:]
            self._transport.write(_response(body[:size]))


def _response(request: bytes) -> bytes:
    pieces = answer_pieces(request)
    if not json.loads(request).get("stream"):
        head = b"Content-Type: application/json\r\nContent-Length: %d" % len(pieces[0])
        return b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + pieces[0]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    head = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked"
    return b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + chunks + b"0\r\n\r\n"


@contextmanager
def answering_provider() -> Iterator[str]:
    """Run it in a thread; its URL."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(_Answering, "127.0.0.1", 0, backlog=256))
    thread = threading.Thread(target=loop.run_forever, name="provider")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
