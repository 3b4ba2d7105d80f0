"""A provider with faults: what it sends, where it stops, and what a client and a trace have of it."""

from __future__ import annotations

import gzip
import json
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

import brotli
import zstandard

from support.raw_sockets import Peer

KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
SECONDS_MAX = 4.0
STALL_S = 0.4  # after which a client gives up on a provider that stalls
PATIENT_S = 30.0  # in all other tests, however busy the machine is
PATH = "/v1/chat/completions"
FULL_BODY = json.dumps(
    {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()  # fmt: skip
JSON = b"content-type: application/json\r\n"
SSE = b"content-type: text/event-stream\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


FIRST, SECOND, LAST = event({"role": "assistant", "content": "Pa"}), event({"content": "ris"}), event({}, "stop")
DONE_EVENT = b"data: [DONE]\n\n"


def chunk(data: bytes) -> bytes:
    """An HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def head(status: bytes, *lines: bytes, body: bytes | None = None) -> bytes:
    """A response head, with a body where one is given."""
    length = b"" if body is None else b"content-length: %d\r\n" % len(body)
    return b"HTTP/1.1 " + status + b"\r\n" + b"".join(lines) + length + b"\r\n" + (body or b"")


class Steps:
    """The steps of a provider after a request: bytes to send, `await` the client, close, reset, stall until the test
    is over, `listen` until the client hangs up.
    """

    def __init__(self, *steps: bytes | str) -> None:
        self.steps = steps


class Fault(NamedTuple):
    """One fault, and what its trace says."""

    name: str
    steps: Steps
    status: int
    outcome: str
    ending: str
    succeeded: bool = False
    streaming: bool = False
    recorded: bytes | None = None  # of a stream


def error(message: str, **more: object) -> bytes:
    """An error as a provider writes it."""
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}}).encode()


def _halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


STREAM = head(b"200 OK", SSE, CHUNKED)
BROKEN = b"data: " + error("broke down") + b"\n\n"
FAULTS = [
    Fault("reset-before-head", Steps("reset"), 0, "failed", "none"),
    Fault("close-before-head", Steps("close"), 0, "failed", "none"),
    Fault("reset-mid-head", Steps(b"HTTP/1.1 200 OK\r\ncontent-", "pause", "reset"), 0, "failed", "none"),
    Fault("close-mid-head", Steps(b"HTTP/1.1 200 OK\r\ncontent-", "pause", "close"), 0, "failed", "none"),
    Fault("reset-mid-body",
          Steps(head(b"200 OK", JSON, b"content-length: 999\r\n") + FULL_BODY[:40], "await", "reset"),
          200, "cut", "raw"),
    Fault("close-mid-body",
          Steps(head(b"200 OK", JSON, b"content-length: 999\r\n") + FULL_BODY[:40], "await", "close"),
          200, "cut", "raw"),
    Fault("reset-mid-stream", Steps(STREAM + chunk(FIRST), "await", chunk(SECOND), "await", "reset"),
          200, "cut", "cut", streaming=True, recorded=FIRST + SECOND),
    Fault("close-mid-stream", Steps(STREAM + chunk(FIRST), "await", chunk(SECOND), "await", "close"),
          200, "cut", "cut", streaming=True, recorded=FIRST + SECOND),
    Fault("close-mid-chunk", Steps(STREAM + chunk(FIRST), "await", chunk(SECOND)[:20], "pause", "close"),
          200, "cut", "cut", streaming=True),
    Fault("no-end-of-stream", Steps(STREAM + chunk(FIRST) + chunk(SECOND) + b"0\r\n\r\n"),
          200, "answered", "cut", streaming=True, recorded=FIRST + SECOND),
    Fault("stall-before-head", Steps("stall"), 0, "timed_out", "none"),
    Fault("stall-mid-stream", Steps(STREAM + chunk(FIRST), "await", "stall"),
          200, "cut", "cut", streaming=True, recorded=FIRST),
    Fault("not-http", Steps(b"SSH-2.0-OpenSSH_9.2\r\n", "pause", "close"), 0, "failed", "none"),
    Fault("no-status", Steps(b"HTTP/1.1 OK\r\n\r\n", "pause", "close"), 0, "failed", "none"),
    Fault("bad-header", Steps(b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n", "pause", "close"), 0, "failed", "none"),
    Fault("bad-chunk", Steps(STREAM + chunk(FIRST), "await", b"zz\r\n", "pause", "close"),
          200, "cut", "cut", streaming=True, recorded=FIRST),
    *(Fault(f"status-{code}", Steps(head(b"%d No" % code, JSON, body=error(f"no {code}", code=str(code)))),
            code, "answered", "error") for code in (400, 401, 404, 429, 500, 503)),
    Fault("status-500-text", Steps(head(b"500 No", b"content-type: text/html\r\n", body=b"<h1>oops</h1>")),
          500, "answered", "error"),
    Fault("error-as-stream", Steps(head(b"400 No", SSE, body=error("not as a stream"))),
          400, "answered", "error", streaming=True),
    Fault("error-in-stream", Steps(STREAM + chunk(FIRST) + chunk(BROKEN) + b"0\r\n\r\n"),
          200, "answered", "error", streaming=True),
    Fault("empty", Steps(head(b"200 OK", JSON, body=b"")), 200, "answered", "raw", succeeded=True),
    Fault("not-json", Steps(head(b"200 OK", JSON, body=b"{oops")), 200, "answered", "raw", succeeded=True),
    Fault("until-close", Steps(head(b"200 OK", JSON, b"connection: close\r\n") + FULL_BODY, "close"),
          200, "answered", "complete", succeeded=True),
    *(Fault(coding, Steps(head(b"200 OK", JSON, b"content-encoding: %b\r\n" % coding.encode(), body=pack(FULL_BODY))),
            200, "answered", "complete", succeeded=True)
      for coding, pack in (("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress))),
    *(Fault(f"{coding}-stream",
            Steps(STREAM[:-2] + b"content-encoding: %b\r\n\r\n" % coding.encode()
                   + b"".join(map(chunk, pieces(FIRST + SECOND + LAST + DONE_EVENT))) + b"0\r\n\r\n"),
            200, "answered", "complete", succeeded=True, streaming=True, recorded=FIRST + SECOND + LAST + DONE_EVENT)
      for coding, pieces in (("gzip", lambda data: _halves(gzip.compress(data))),
                             ("br", lambda data: _halves(brotli.compress(data))))),
    Fault("labelled-gzip", Steps(head(b"200 OK", JSON, b"content-encoding: gzip\r\n", body=FULL_BODY)),
          200, "answered", "complete", succeeded=True),
    Fault("gzip-cut", Steps(head(b"200 OK", JSON, b"content-encoding: gzip\r\n", body=gzip.compress(FULL_BODY)[:60])),
          200, "answered", "raw", succeeded=True),
]  # fmt: skip


class FaultyProvider:
    """A provider that plays the fault named in the header `x-act`; for the step `await` it waits for `seen`."""

    def __init__(self) -> None:
        self.acts: dict[str, Steps] = {fault.name: fault.steps for fault in FAULTS}
        self.seen = threading.Semaphore(0)  # released when a client has received a piece
        self.bodies: list[bytes] = []  # as received
        self.over = threading.Event()  # the test is over: stalled connections may end

    def serve(self, connection: Any, request: bytes) -> bool:
        """Answer; False where the connection is closed."""
        act = next(line[7:] for line in request.decode("latin-1").split("\r\n") if line.lower().startswith("x-act: "))
        for step in self.acts[act].steps:
            if isinstance(step, bytes):
                connection.sendall(step)
            elif step == "await":
                self.seen.acquire(timeout=SECONDS_MAX)
            elif step == "pause":
                time.sleep(0.05)  # so that the client reads it before the connection breaks
            elif step == "stall":
                self.over.wait(SECONDS_MAX)
                return False
            elif step == "listen":
                connection.settimeout(SECONDS_MAX)
                with suppress(OSError):
                    connection.recv(1)
                return False
            elif step == "reset":
                Peer(connection).reset()
                return False
            else:
                return False
        return True
