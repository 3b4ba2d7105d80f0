"""The end of a server that accepts connections in a thread."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

STOP_S = 5.0  # longer than a thread takes that was woken


def close_listener(listener: socket.socket, accepting: threading.Thread) -> None:
    """Wake the thread, wait for its end, and only then close the socket.

    Closing alone does not wake it. Linux repeats its call after a signal that nobody handles, with the same number,
    which is another socket's by then: the thread of a server that is long gone takes a connection of another test.
    """
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    accepting.join(STOP_S)
    listener.close()
