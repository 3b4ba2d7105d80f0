"""The model server, made unreliable: it can vary its answers, refuse, hang or cut a stream short."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

from support.model_servers import BadRequest, Handler, ModelServer, Reply, serve_in_thread


class Refusal(NamedTuple):
    """An error status, and the headers sent with it."""

    status: int
    headers: dict[str, str] = {}  # noqa: RUF012  # nobody changes it


class _FlakyHandler(Handler):
    server: FlakyServer  # type: ignore[assignment]  # narrower

    def do_POST(self) -> None:  # noqa: N802  # the name is the base class's
        """Store the headers and the path of the request."""
        self.server.request_headers.append({name.lower(): value for name, value in self.headers.items()})
        self.server.paths.append(self.path)
        super().do_POST()

    def send_response_only(self, code: int, message: str | None = None) -> None:
        """Add the headers of the current refusal."""
        super().send_response_only(code, message)
        if code == self.server.refusal.status:
            for name, value in self.server.refusal.headers.items():
                self.send_header(name, value)


class FlakyServer(ModelServer):
    """Sends its list of refusals first, then answers with each salt in turn."""

    def __init__(self, *salts: str) -> None:
        super().__init__()
        self.RequestHandlerClass = _FlakyHandler
        self.salts = salts or ("",)
        self.refusals: list[Refusal] = []
        self.refusal = Refusal(0)
        self.request_headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.request_count = 0
        self.hangs_after: int | None = None  # how many are answered before the next waits for `released`
        self.released = threading.Event()
        self.interrupts = False  # streams: after some pieces comes `[DONE]`, and no reason
        self._turn = threading.Lock()

    def reply(self, path: str, query: str, data: bytes) -> Reply:
        """Refuse, or answer with the next salt."""
        with self._turn:
            self.request_count += 1
            hangs = self.hangs_after is not None and self.request_count > self.hangs_after
        if hangs:
            self.released.wait(30)
        with self._turn:
            if self.refusals:
                self.refusal = self.refusals.pop(0)
                raise BadRequest("not now", self.refusal.status)
            self.salt = self.salts[self.served % len(self.salts)]
            reply = super().reply(path, query, data)
        if self.interrupts and reply.is_stream:
            return reply._replace(chunks=[*reply.chunks[:4], reply.chunks[-1]])
        return reply


@contextlib.contextmanager
def flaky_server(*salts: str) -> Iterator[FlakyServer]:
    """Run a flaky server in a thread of this process."""
    with serve_in_thread(FlakyServer(*salts)) as server:
        yield server
