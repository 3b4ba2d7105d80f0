"""Accepting: many clients in a turn, and none after the end."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack
from typing import Any, cast

import pytest

from support.raw_sockets import LOOPS
from traceforge.http import accept_loop
from traceforge.http.accept_loop import listen
from traceforge.http.bound_socket import bind_socket

CLIENTS = 100


class Greeting(asyncio.Protocol):
    """Greets a client and leaves."""

    def __init__(self, peers: list[Any]) -> None:
        self._peers = peers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._peers.append(transport.get_extra_info("peername"))
        cast("asyncio.Transport", transport).write(b"hello")
        transport.close()


def play(loop: str, scenario: Any) -> None:
    """Run a scenario with a bound socket on an event loop."""

    async def run(sock: socket.socket) -> None:
        await scenario(sock)
        await asyncio.sleep(0.01)  # The last connections end.

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner, bind_socket("127.0.0.1", 0) as bound:
        runner.run(run(bound))


@pytest.mark.parametrize("loop", LOOPS)
def test_all_clients_that_wait_are_accepted_in_few_turns(loop: str) -> None:
    """However many there are: a busy turn would otherwise be between each of them and the next."""

    async def scenario(sock: socket.socket) -> None:
        peers: list[Any] = []
        listening = await listen(sock, lambda: Greeting(peers), 1024)
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(sock.getsockname())) for _ in range(CLIENTS)]
            turns = 0
            while len(peers) < CLIENTS:
                turns += 1
                assert turns < CLIENTS // 2
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
            assert {b"hello"} == {client.recv(9) for client in clients}
            assert {client.getsockname() for client in clients} == set(peers)
        listening.close()
        await listening.wait_closed()

    play(loop, scenario)


def test_nobody_is_accepted_after_the_end() -> None:
    """A closed listener refuses; a second close changes nothing."""

    async def scenario(sock: socket.socket) -> None:
        address = sock.getsockname()
        listening = await listen(sock, lambda: Greeting([]), 1024)
        listening.close()
        listening.close()
        await listening.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

    play("uvloop", scenario)


def test_accepting_goes_on_when_a_file_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no file left for a client neither stops nor tries without a pause."""
    monkeypatch.setattr(accept_loop, "RETRY_SECONDS", 0.01)

    class FullSocket(socket.socket):
        failures = 0

        def accept(self) -> Any:
            if FullSocket.failures < 2:
                FullSocket.failures += 1
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

    async def scenario(sock: socket.socket) -> None:
        peers: list[Any] = []
        listening = await listen(FullSocket(fileno=sock.detach()), lambda: Greeting(peers), 1024)
        with socket.create_connection(listening._socket.getsockname()):  # type: ignore[attr-defined]
            while not peers:
                await asyncio.sleep(0.001)
        listening.close()

    play("uvloop", scenario)
    assert 2 == FullSocket.failures


def test_a_turn_accepts_an_eighth_of_the_connections() -> None:
    """So that no newcomer pushes out another one whose head was not read yet."""
    opened: list[int] = []
    turn = 0

    def open_connection() -> asyncio.Protocol:
        opened.append(turn)
        return Greeting([])

    async def scenario(sock: socket.socket) -> None:
        nonlocal turn
        listening = await listen(sock, open_connection, 80)
        with ExitStack() as stack:
            for _ in range(30):
                stack.enter_context(socket.create_connection(sock.getsockname()))
            while len(opened) < 30:
                turn += 1
                await asyncio.sleep(0)
        listening.close()

    play("uvloop", scenario)
    assert 10 == max(opened.count(number) for number in opened)
