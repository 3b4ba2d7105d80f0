"""The web view over a project: in a thread of this process, with a client that is signed in."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from traceforge.config import load_config
from traceforge.http.bound_socket import socket_url
from traceforge.http.server_limits import UI_LIMITS
from traceforge.ui.page_context import DEFAULT_OPTIONS, UiOptions
from traceforge.ui.ui_server import UiAddress, UiServer
from traceforge.web.uvicorn_server import UvicornServer

SECONDS_MAX = 30.0
TOKEN = "a-token-of-the-tests"
FORM_TOKEN = re.compile(r'<meta name="form-token" content="([0-9a-f]+)">')


class RunningUi:
    """A running server, and a client with its cookie."""

    def __init__(self, server: UiServer, failures: list[BaseException]) -> None:
        self.server = server
        self.failures = failures  # Unexpected errors; the test should end with none.
        self.origin = socket_url(server.socket)
        self.sign_in_url = server.url
        self.http = httpx.Client(base_url=self.origin, timeout=SECONDS_MAX, trust_env=False, verify=False)

    def sign_in_at(self, path: str) -> str:
        """The address that signs in and opens this page."""
        return f"{self.origin}{path}?token={TOKEN}"

    def sign_in(self) -> None:
        assert 303 == self.http.get(f"/?token={TOKEN}").status_code

    def page(self, path: str, status: int = 200, **options: Any) -> str:
        """The HTML of a page."""
        response = self.http.get(path, **options)
        assert status == response.status_code, (path, response.status_code, response.text[:2000])
        return response.text

    def links(self, path: str) -> list[str]:
        """The addresses that a page links to."""
        return [unescape(link) for link in re.findall(r'href="([^"]*)"', self.page(path))]

    def post(self, path: str, **fields: str | Sequence[str]) -> httpx.Response:
        """Send a form as a page of this server does."""
        match = FORM_TOKEN.search(self.page("/traces"))
        assert match
        data = {"form_token": match[1], **fields}
        return self.http.post(path, data=data, headers={"Origin": self.origin, "Sec-Fetch-Site": "same-origin"})


@contextmanager
def run_ui(
    project: Path, *, signed_in: bool = True, host: str = "127.0.0.1", allowed_hosts: tuple[str, ...] = (),
    options: UiOptions = DEFAULT_OPTIONS, **limits: float,
) -> Iterator[RunningUi]:  # fmt: skip
    """Serve a project in a thread; `limits` replace those of the server."""
    failures: list[BaseException] = []
    address = UiAddress(host, 0, TOKEN, allowed_hosts)
    server = UiServer(
        load_config(str(project)),
        address,
        options,
        failures.append,
        UI_LIMITS._replace(**limits),  # type: ignore[arg-type]
    )
    application = server.application
    ready = threading.Event()
    uvicorn = UvicornServer(application, ready.set)
    thread = threading.Thread(target=lambda: asyncio.run(uvicorn.serve(sockets=[server.socket])), daemon=True)
    thread.start()
    assert ready.wait(SECONDS_MAX)
    running = RunningUi(server, failures)
    try:
        if signed_in:
            running.sign_in()
        yield running
    finally:
        running.http.close()
        uvicorn.should_exit = True
        thread.join(SECONDS_MAX)
        application.close()
        server.socket.close()
    assert not thread.is_alive()
    assert [] == failures
