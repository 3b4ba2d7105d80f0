"""Streams with a time in every chunk: an origin that sends them, and a client that says how late they came.

`python benchmarks/streams.py PORT` is the origin: each request gets CHUNKS server-sent events, one every PAUSE
seconds, each holding the monotonic time at which it was written.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

import uvloop

CHUNKS = 150
PAUSE = 0.004
STREAMS = 16
_STAMP = re.compile(rb"data: (\d+)\n")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_ASK = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


async def _origin(port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n{}"):
                writer.write(_HEAD)
                for _ in range(CHUNKS):
                    event = b"data: %d\n\n" % time.monotonic_ns()
                    writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                    await asyncio.sleep(PAUSE)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


def delays(port: int, path: str) -> list[float]:
    """Seconds from writing to reading of every chunk of STREAMS streams at once."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_all(port, path))


async def _all(port: int, path: str) -> list[float]:
    found = await asyncio.gather(*(_one(port, path) for _ in range(STREAMS)))
    return [delay for one in found for delay in one]


async def _one(port: int, path: str) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_ASK % path.encode())
    found: list[float] = []
    while data := await reader.read(65536):
        now = time.monotonic_ns()
        found += [(now - int(stamp)) / 1e9 for stamp in _STAMP.findall(data)]
        if data.endswith(b"0\r\n\r\n"):
            break
    writer.close()
    if len(found) != CHUNKS:
        raise RuntimeError(f"{len(found)} of {CHUNKS} chunks came through port {port}")
    return found


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_origin(int(sys.argv[1])))
