"""Sockets of other processes.

In: a process of the command, and the number of a socket in it. Out: a file of this process for the same socket.
Never: closes the socket for its process.
"""

from __future__ import annotations

import ctypes
import os
import socket
from functools import cache

from traceforge.capture.run.process_files import find_process

_GET_FILE = 438  # pidfd_getfd, on every architecture


def copy_socket(thread: int, file: int) -> socket.socket:
    """The same socket, in this process.

    Raises:
        OSError: the kernel does not allow it, or this is not a socket.
    """
    process = os.pidfd_open(find_process(thread))
    try:
        copy = _libc().syscall(
            ctypes.c_long(_GET_FILE), ctypes.c_int(process), ctypes.c_int(file & 0xFFFFFFFF), ctypes.c_uint(0)
        )
        if copy < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            return socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            raise
    finally:
        os.close(process)


def connect_socket(connection: socket.socket, address: bytes) -> int:
    """Connect it to the address of a C structure: 0, or the number of the error."""
    number = ctypes.c_int(connection.fileno())
    result = _libc().connect(number, ctypes.c_char_p(address), ctypes.c_uint(len(address)))
    return ctypes.get_errno() if result < 0 else 0


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
