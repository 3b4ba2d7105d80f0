"""Our end of a socket pair, for a peer that may send without reading.

In: bytes to send. Out: what the peer has sent. Never: waits for a peer that does not read: what it does not take
stays in memory while what it sends is received. Otherwise each side could wait for the other for ever.
"""

from __future__ import annotations

import selectors
import socket
import time

_READ_BYTES = 1 << 16
# Not `select`: a process with more than 1,024 open files has descriptors that it cannot take.
_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)


class PeerLeft(Exception):
    """The peer closed its end."""


class DuplexSocket:
    """Sends at once what the peer takes, and the rest while it is received."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._waiting = bytearray()

    def send(self, data: bytes) -> None:
        """Send, or keep for later, bytes.

        Raises:
            OSError: the peer is gone.
        """
        self._waiting += data
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting:
            try:
                sent = self._socket.send(self._waiting)
            except BlockingIOError:
                return
            del self._waiting[:sent]

    def receive(self, wait_s: float) -> bytes:
        """What the peer has sent; nothing, if it sends nothing in this time.

        Raises:
            PeerLeft: it closed its end.
            OSError: it is gone.
        """
        deadline = time.monotonic() + wait_s
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                left_s = deadline - time.monotonic()
                if not self._wait(max(0.0, left_s)) and left_s <= 0:
                    return b""
                self._send_waiting()
                continue
            if not data:
                raise PeerLeft
            return data

    def _wait(self, wait_s: float) -> bool:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._waiting else 0)
        with _Selector() as selector:
            selector.register(self._socket, events)
            return bool(selector.select(wait_s))

    def finish(self, wait_s: float) -> None:
        """Send what waits, then the end; discard what the peer sends until it leaves, or the time is over.

        If we closed while bytes of the peer are unread, it would lose what was sent to it.

        Raises:
            PeerLeft, OSError: it is gone.
        """
        deadline = time.monotonic() + wait_s
        is_ended = False
        while True:
            if not self._waiting and not is_ended:
                self._socket.shutdown(socket.SHUT_WR)
                is_ended = True
            left_s = deadline - time.monotonic()
            if not self.receive(min(0.05, left_s) if self._waiting else left_s) and left_s <= 0:
                return

    def stop(self) -> None:
        """End both directions, from any thread.

        Raises:
            OSError: the peer is gone.
        """
        self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
