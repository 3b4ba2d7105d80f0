"""`support.closed_listener`: the servers of tests end with their threads."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

import pytest

from support.closed_listener import close_listener


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux repeats the call with the same number")
def test_the_thread_of_a_closed_server_takes_no_connection_of_the_next_one() -> None:
    """Although the next server has the number of its socket, and the end of a child wakes a thread."""
    taken: list[socket.socket] = []
    first = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        try:
            while True:
                taken.append(first.accept()[0])
        except OSError:
            pass

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    with socket.create_connection(first.getsockname()):
        pass
    while not taken:
        pass
    close_listener(first, thread)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        with socket.create_server(("127.0.0.1", 0)) as second:
            os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
            with socket.create_connection(second.getsockname()), second.accept()[0]:
                pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for connection in taken:
            connection.close()

    assert not thread.is_alive()
    assert 1 == len(taken)
