"""The client of the context store: where it sends its key."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.closed_listener import close_listener
from support.command import traceforge
from traceforge.context import AsyncClient, Client
from traceforge.errors import StoreUnavailable

API_KEY = "tf_live_" + "k" * 43


class TestClient:
    """The API key is sent to no other machine in the clear."""

    REMOTE = ("http://store.example:3080", "http://192.0.2.7", "HTTP://[2001:db8::1]:3080/base", "http://0.0.0.0:1",
              "http://127.0.0.1.example", "http://localhost.example:3080", "http://store.localhost:3080",
              "http://localhost.:3080", "http://a.b.localhost.", "http://[::ffff:192.0.2.7]:1")  # fmt: skip

    @pytest.mark.parametrize("url", REMOTE)
    def test_a_key_over_http_to_another_host_is_refused(self, url: str) -> None:
        """Before a name is resolved or a connection is opened, by both clients."""
        with pytest.raises(StoreUnavailable, match="unencrypted") as waited:
            Client.connect(url, api_key=API_KEY)
        with pytest.raises(StoreUnavailable, match="unencrypted"):
            asyncio.run(AsyncClient.connect(url, api_key=API_KEY))

        assert API_KEY not in f"{waited.value} {waited.value.hint}"
        assert "https://" in waited.value.hint

    @pytest.mark.parametrize(
        "url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://store.example"]
    )
    def test_a_key_to_this_machine_or_over_https_is_not_refused(self, url: str) -> None:
        Client.connect(url, api_key=API_KEY).close()

    def test_a_host_without_a_key_is_not_refused(self) -> None:
        """There is nothing to protect, and the server may ask for none."""
        Client.connect("http://store.example:3080").close()

    def test_python_can_allow_it(self) -> None:
        Client.connect("http://store.example:3080", api_key=API_KEY, allow_http=True).close()
        asyncio.run(_connect_and_close("http://store.example:3080"))

    @pytest.mark.parametrize("variable", ["--db", "TRACEFORGE_CONTEXT_DB"])
    def test_the_command_refuses_it_wherever_the_address_comes_from(self, tmp_path: Path, variable: str) -> None:
        """And says how to allow it; nothing is sent."""
        url = "http://192.0.2.7:3080"
        options = [variable, url] if variable.startswith("--") else []
        settings = {} if options else {variable: url}

        ran = traceforge(
            "context", "session", "list", *options, cwd=tmp_path, TRACEFORGE_CONTEXT_API_KEY=API_KEY, **settings
        )

        assert 3 == ran.code, ran
        assert "TF804" in ran.err
        assert "TRACEFORGE_CONTEXT_HTTP_HOSTS=192.0.2.7" in ran.err
        assert API_KEY not in ran.err + ran.out

    def test_the_environment_allows_one_host_and_no_other(self, tmp_path: Path) -> None:
        """The name must be the whole host. The connection itself goes to an address that nobody listens on."""
        variables = {
            "TRACEFORGE_CONTEXT_API_KEY": API_KEY,
            "TRACEFORGE_CONTEXT_HTTP_HOSTS": "allowed.invalid, 192.0.2.7",
        }

        def list_sessions(url: str) -> str:
            return traceforge("context", "session", "list", "--db", url, cwd=tmp_path, **variables).err

        assert "gave no answer" in list_sessions("http://Allowed.INVALID:3080")
        assert "unencrypted" in list_sessions("http://not-allowed.invalid:3080")

    @pytest.mark.parametrize("way", ["waiting", "awaited", "streamed"])
    @pytest.mark.parametrize("status", [302, 308])
    def test_a_redirect_does_not_carry_the_key_to_another_server(self, way: str, status: int) -> None:
        """It is an error of the first server; the second hears nothing."""
        with _listening() as elsewhere, _listening() as server:
            answer = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere.url}/v2/sessions\r\nContent-Length: 0\r\n\r\n"
            server.answer_with(answer.encode())

            with pytest.raises(StoreUnavailable):
                _ask(server.url, way)

            assert f"Bearer {API_KEY}".encode() in server.received
            assert b"" == elsewhere.received


async def _connect_and_close(url: str) -> None:
    await (await AsyncClient.connect(url, api_key=API_KEY, allow_http=True)).close()


def _ask(url: str, way: str) -> None:
    if way == "awaited":
        asyncio.run(_list_sessions(url))
        return
    with Client.connect(url, api_key=API_KEY) as client:
        if way == "streamed":
            list(client.stream_response(model="bot", input="Is it?"))
        else:
            client.list_sessions()


async def _list_sessions(url: str) -> None:
    async with await AsyncClient.connect(url, api_key=API_KEY) as client:
        await client.list_sessions()


class _Listener:
    """A socket that gives one answer to every connection, and remembers what it was sent."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.received = b""
        self._answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def answer_with(self, answer: bytes) -> None:
        self._answer = answer

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.received += connection.recv(65536)
                connection.sendall(self._answer)

    def close(self) -> None:
        close_listener(self._socket, self._thread)


@contextmanager
def _listening() -> Iterator[_Listener]:
    listener = _Listener()
    try:
        yield listener
    finally:
        listener.close()
