"""Streams with a timestamp in every chunk: an origin that sends them, and a client that measures their delay.

`python benchmarks/streams.py PORT` is the origin: each request gets CHUNKS events as OpenAI sends them, one every
PAUSE seconds, each with the monotonic time at which it was written.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import NamedTuple

import uvloop

from load import HEADERS, NotRunning, Target

CHUNKS = 100
PAUSE = 0.004
STREAMS = 16
SECONDS_MAX = 30
_STAMP = re.compile(rb'"content": ?"(\d{9,})"')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_DELTA = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[%s]}'
_EVENT = "data: " + _DELTA % '{"index":0,"delta":{"content":"%d"},"finish_reason":null}' + "\n\n"
_LAST = "data: " + _DELTA % '{"index":0,"delta":{},"finish_reason":"stop"}' + "\n\ndata: [DONE]\n\n"


class StreamTimes(NamedTuple):
    """The times of some streams, in seconds."""

    first: list[float]  # from the request to the first chunk, of each stream
    delays: list[float]  # from writing to reading, of each chunk


async def _origin(port: int) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(_HEAD)
                for _ in range(CHUNKS):
                    writer.write(_chunk((_EVENT % time.monotonic_ns()).encode()))
                    await asyncio.sleep(PAUSE)
                writer.write(_chunk(_LAST.encode()) + b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def watch(target: Target, number: int) -> StreamTimes:
    """Request STREAMS streams at once; `number` is different for every call.

    Raises:
        NotRunning: a stream was incomplete.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            results = runner.run(asyncio.wait_for(_read_streams(target, number), SECONDS_MAX))
        except (OSError, TimeoutError) as exc:
            raise NotRunning(f"{target.name} did not stream: {type(exc).__name__} {exc}") from None
    if any(len(delays) != CHUNKS for _, delays in results):
        raise NotRunning(f"{target.name} did not stream: {sorted(len(delays) for _, delays in results)} chunks")
    return StreamTimes([first for first, _ in results], [delay for _, delays in results for delay in delays])


async def _read_streams(target: Target, number: int) -> list[tuple[float, list[float]]]:
    return await asyncio.gather(*(_read_stream(target, number * STREAMS + place) for place in range(STREAMS)))


async def _read_stream(target: Target, number: int) -> tuple[float, list[float]]:
    body = json.dumps(
        {"messages": [{"role": "user", "content": f"stream {number}"}], "model": "gpt-4o", "stream": True}
    ).encode()
    plain = {"Accept-Encoding": "identity", "Content-Length": str(len(body)), "Connection": "close"}
    headers = {"Host": "127.0.0.1", **HEADERS, **target.headers, **plain}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    sent_at = time.monotonic_ns()
    writer.write(f"POST {target.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    first, delays, tail = 0.0, [], b""
    while data := await reader.read(65536):
        now = time.monotonic_ns()
        data = tail + data
        end = 0
        for stamp in _STAMP.finditer(data):
            delays.append((now - int(stamp[1])) / 1e9)
            end = stamp.end()
        if delays and not first:
            first = (now - sent_at) / 1e9
        tail = data[end:][-200:]
        if len(delays) >= CHUNKS and b"[DONE]" in tail:
            break
    writer.close()
    return first, delays


if __name__ == "__main__":
    uvloop.run(_origin(int(sys.argv[1])))
