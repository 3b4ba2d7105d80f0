"""A whole attack by a client without a key, against each server as the command that users start.

The server may open 1,024 files, as many systems set it. While the attack goes on, an honest client asks again and
again, and gets its answer each time.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.chat_servers import write_prompts
from support.command import COMMAND
from support.loopback_models import model_server
from support.raw_sockets import Peer
from support.three_servers import ALL_KINDS, HEALTH, SECONDS_MAX, is_answered
from traceforge.http.server_limits import raise_descriptor_limit

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")]

FILES_MAX = 1024  # That the server may open.
HALF_OPEN = 1200
NEVER_READING = 20  # For each of three paths.
PATIENCE = 120.0  # Seconds of an honest client: the machine that runs the test may be busy, too.
MEMORY_MIB_MAX = 300  # More than it had before the attack; the attack sends several times as much.


class AttackedCommand:
    """A running command, and clients that send exact bytes."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.port = urlsplit(url).port
        self._sockets: list[socket.socket] = []

    def connect(self) -> Peer:
        sock = socket.create_connection(("127.0.0.1", self.port), SECONDS_MAX)
        self._sockets.append(sock)
        peer = Peer(sock)
        sock.settimeout(PATIENCE)
        return peer

    def send(self, data: bytes) -> Peer:
        peer = self.connect()
        with suppress(OSError):
            peer.send(data)
        return peer

    def memory_peak_mib(self) -> int:
        """The most memory that the server had so far."""
        match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert match is not None
        return int(match[1]) >> 10

    def close_clients(self) -> None:
        for sock in self._sockets:
            sock.close()


@contextmanager
def attacked_command(kind: str, folder: Path) -> Iterator[AttackedCommand]:
    """Run the command of a server with a low limit on open files."""
    with ExitStack() as stack:
        words = ["ui", "--no-open", "--allow-host=localhost"] if kind == "ui" else [kind]
        if kind == "chat":
            url = stack.enter_context(model_server()).url
            words = [
                "chat",
                "serve",
                "--upstream",
                f"{url}/v1",
                "--model",
                "m",
                "--prompts",
                str(write_prompts(folder / "p")),
            ]
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                ["sh", "-c", f'ulimit -n {FILES_MAX} && exec "$@"', "sh", str(COMMAND), *words, "--port=0", "--json"],
                cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            command = AttackedCommand(process, json.loads(line)["url"])
            stack.callback(command.close_clients)
            yield command
        finally:
            process.kill()
            process.communicate()


class HonestClient:
    """Asks in a thread, each time over a new connection, until it is stopped."""

    def __init__(self, command: AttackedCommand) -> None:
        self._command = command
        self.answered = 0
        self.failed: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        while not self._is_over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self._command.port), PATIENCE) as sock:
                    peer = Peer(sock)
                    sock.settimeout(PATIENCE)
                    peer.send(HEALTH)
                    assert is_answered(peer)
            except Exception as exc:  # noqa: BLE001 (the test shows it)
                self.failed.append(repr(exc))
            else:
                self.answered += 1

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def half_open_heads(command: AttackedCommand) -> None:
    """More than the server may open files."""
    for _ in range(HALF_OPEN):
        command.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")


def heads_without_end(command: AttackedCommand) -> None:
    """400 MiB of headers, in four connections."""
    for _ in range(4):
        peer = command.connect()
        with suppress(OSError):
            peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            for _ in range(1600):
                peer.send(b"X: " + b"x" * 65531 + b"\r\n")


def slow_bodies(command: AttackedCommand) -> None:
    """Bodies that are announced, begun and not sent."""
    for path in (b"/v2/sessions", b"/chat", b"/openai/v1/chat/completions"):
        for _ in range(100):
            command.send(
                b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 200000\r\n\r\n{" % path
            )


def clients_that_never_read(command: AttackedCommand) -> None:
    """Requests sent ahead, whose responses are not taken."""
    for path in (b"/metrics", b"/v2/openapi.json", b"/chat.js"):
        request = HEALTH.replace(b"/healthz", path)
        for _ in range(NEVER_READING):
            peer = command.connect()
            peer.sock.settimeout(0.2)
            with suppress(OSError):
                for _ in range(100):
                    peer.send(request * 1000)


def bytes_that_are_not_http(command: AttackedCommand) -> None:
    """TLS, HTTP/2, NULs, and requests that can be read in two ways."""
    for data in (b"\x16\x03\x01\x02\0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(100_000), b"\r\n" * 100_000,
                 b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):  # fmt: skip
        for _ in range(30):
            command.send(data)


ATTACKS: list[Callable[[AttackedCommand], None]] = [
    half_open_heads, heads_without_end, slow_bodies, clients_that_never_read, bytes_that_are_not_http,
    half_open_heads,
]  # fmt: skip


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_an_attack_without_a_key_takes_neither_the_server_nor_its_memory(kind: str, tmp_path: Path) -> None:
    """Half-open heads, endless heads, slow bodies, clients that never read, and bytes that are not HTTP."""
    raise_descriptor_limit(HALF_OPEN * len(ATTACKS))
    with attacked_command(kind, tmp_path) as command:
        assert is_answered(command.send(HEALTH))
        before = command.memory_peak_mib()
        honest = HonestClient(command)
        for attack in ATTACKS:
            attack(command)
        honest.stop()

        assert [] == honest.failed
        assert honest.answered > 0
        assert command.memory_peak_mib() - before < MEMORY_MIB_MAX
        command.close_clients()
        assert is_answered(command.send(HEALTH))
        assert command.process.poll() is None
