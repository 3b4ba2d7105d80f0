"""A flood of connections from many addresses of this machine, in a process of its own.

In the process of the test, its threads would take the interpreter from the server, which no attacker can.
"""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

FLOOD_MAX = 500_000  # Connections, if nobody ends the flood before.
OPEN_MAX = 512  # Of a thread, so that the process stays below its limit on open files.
THREADS = 3
CONNECT_SECONDS_MAX = 30.0


def attacker_address(number: int) -> str:
    """Every local user may use any of these addresses."""
    return f"127.9.{number // 250}.{1 + number % 250}"


@contextmanager
def flood_of(data: bytes, port: int) -> Iterator[Callable[[], int]]:
    """Connect from many addresses as fast as three threads can, and send `data`; the number of connections so far."""
    context = multiprocessing.get_context("spawn")
    is_over, count = context.Event(), context.Value("q", 0)
    attacker = context.Process(target=_flood, args=(data, port, is_over, count), daemon=True)
    attacker.start()
    try:
        yield lambda: count.value
    finally:
        is_over.set()
        attacker.join()


def _flood(data: bytes, port: int, is_over: Event, count: Synchronized[int]) -> None:
    opened = itertools.count(1)

    def connect() -> None:
        with ExitStack() as stack:
            numbers = itertools.takewhile(lambda number: number < FLOOD_MAX and not is_over.is_set(), opened)
            for own_count, number in enumerate(numbers):
                count.value = number
                with suppress(OSError):
                    address = attacker_address(number % 1000)
                    sock = socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS_MAX, (address, 0))
                    stack.enter_context(sock).settimeout(0.1)
                    sock.sendall(data)
                if not own_count % OPEN_MAX:
                    stack.close()

    attackers = [threading.Thread(target=connect) for _ in range(THREADS)]
    for attacker in attackers:
        attacker.start()
    for attacker in attackers:
        attacker.join()
