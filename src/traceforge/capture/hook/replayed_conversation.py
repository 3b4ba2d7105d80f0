"""A WebSocket to a model that is replayed: the client's own library at one end of a socket pair, we at the other.

In: the client's handshake and frames. Out: the recorded frames of the server, each after the frame of the client that
it followed. Never: a connection; a frame of the server after the client has sent something else than was recorded.

What the client has sent so far is looked up whenever it may have an answer. When the conversation ends, the whole of
it is looked up: only then it counts as replayed, and one that ended early is unmatched.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from . import dispatch
from .conversation_body import (
    CLIENT_FRAMES,
    SERVER_FRAMES,
    Frame,
    decode_frame,
    decode_frames,
    encode_frame,
    encode_frames,
)
from .dispatch import ConnectionMode
from .duplex_socket import DuplexSocket, PeerLeft
from .guarded_call import UNLIKE_RECORDING, GuardedCall, call_safely, describe_error, faults, open_conversations
from .mcp_messages import read_refusal
from .recorded_conversation import clean_headers, http_url
from .replayed_response import (
    REFUSED_STATUS,
    SAME_RECORDING_STATUS,
    SEND_ALL_STATUS,
    ReplayedResponse,
    http1_chunks,
)
from .websocket_frames import (
    CLOSE,
    PING,
    PONG,
    SWITCHING,
    MessageReader,
    accept_handshake,
    read_close,
    read_handshake,
    write_close,
    write_frame,
)

QUIET_S = 0.2  # After so long without a frame, what the client has sent is looked up, so that it is refused at once.
HOLD_S = (
    30.0  # How long a client may be silent where nothing is left to tell it. Longer, and a red test takes longer.
)
STOP_S = 5.0  # How long a conversation that is stopped may take to look up what was sent.
LINGER_S = 2.0  # How long a client may take to leave after its connection was closed.
REFUSED_CODE = 1011
_ADDRESS = ("127.0.0.1", 0)  # of both ends, which have none
# Not a normal end, which no server has sent: an application that waits for more would take it for the answer's.
SILENT = "TraceForge replay: the recording ends here, and the client sent nothing more"


class _ClientSocket(socket.socket):
    """The end that a client library gets, which takes it for a connection over TCP."""

    def getpeername(self) -> tuple[str, int]:
        """Return an address as TCP has it: an application may take the host and the port out of it."""
        return _ADDRESS

    def getsockname(self) -> tuple[str, int]:
        return _ADDRESS

    def setsockopt(self, level: int, *arguments: Any) -> None:
        """Set an option; one of TCP has no meaning here, and the system would refuse it."""
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *arguments)


class ReplayedConversation:
    """One connection, which a thread of its own answers."""

    def __init__(self, call: GuardedCall) -> None:
        self._call = call
        client_socket, own_socket = socket.socketpair()
        self.client_socket = _ClientSocket(fileno=client_socket.detach())
        self._socket = DuplexSocket(own_socket)
        self._reader = MessageReader()
        self._id = os.urandom(8).hex()
        self._frames: list[Frame] = []  # of the client
        self._looked_up = 0  # of these
        self._recorded: list[Frame] = []  # of the server
        self._delivered = 0  # of these
        self._is_over = False  # and looked up as a whole
        self._reason = ""  # why it was refused
        self._deadline = 0.0
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="traceforge-websocket", daemon=True)

    def start(self) -> socket.socket:
        """Begin to answer; returns the socket for the client."""
        open_conversations.add(self)
        self._thread.start()
        return self.client_socket

    def is_of(self, watcher: Any) -> bool:
        """Whether this watcher answers it, in this process."""
        return self._pid == os.getpid() and self._call.is_replayed_by(watcher)

    def stop(self) -> None:
        """Answer no more: what the client has sent by now is the whole conversation."""
        with suppress(OSError):
            self._socket.stop()
        self._thread.join(STOP_S)
        self.finish()

    def finish(self) -> None:
        """Look up the conversation as a whole, once."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            open_conversations.discard(self)
            response = ReplayedResponse(*self._call.replay(encode_frames(CLIENT_FRAMES, self._frames)))
            if response.status == REFUSED_STATUS:
                self._refuse(response)
            elif not self._is_continued_in(_read_recorded(response)):
                self._refuse_unlike()

    def _run(self) -> None:
        try:
            if self._open_connection():
                self._converse()
        except (OSError, PeerLeft):
            call_safely(None, self._drain)
        except Exception as exc:  # noqa: BLE001 (nothing that a client sends may end its process)
            with self._lock:
                self._refuse(self._call.refuse(exc))
            with suppress(OSError):
                self._socket.send(write_close(REFUSED_CODE, self._reason))
        finally:
            call_safely(None, self.finish)
            self._linger()
            self._socket.close()

    def _open_connection(self) -> bool:
        """Answer the handshake; whether the WebSocket is open."""
        self._deadline = time.monotonic() + HOLD_S
        while (handshake := read_handshake(self._reader.buffer)) is None:
            if not self._receive(HOLD_S):
                raise PeerLeft
        self._call.set_headers(clean_headers(handshake.headers))
        response = self._look_up()
        if response.status == SWITCHING:
            self._socket.send(accept_handshake(handshake, response.headers))
            return True
        for _, data in http1_chunks("GET", response):
            self._socket.send(data)
        return False

    def _converse(self) -> None:
        while self._deliver():
            is_verified = self._looked_up == len(self._frames)
            left_s = self._deadline - time.monotonic()
            if left_s <= 0 and is_verified:
                self._close(REFUSED_CODE, SILENT)
                return
            has_more = self._receive(max(0.0, left_s) if is_verified else QUIET_S)
            close = self._read_messages()
            if close is not None:
                self._close(close)
                return
            if self._has_next() or not (has_more or is_verified):
                self._look_up()

    def _read_messages(self) -> int | None:
        """Take what has come; the code with which the client closes the connection, or None."""
        while (message := self._reader.next_message()) is not None:
            if message.opcode == CLOSE:
                return read_close(message.data)[0]
            if message.opcode == PING:
                self._socket.send(write_frame(PONG, message.data))
            elif message.opcode != PONG:
                self._frames.append(encode_frame(message))
                self._deadline = time.monotonic() + HOLD_S
        return None

    def _drain(self) -> None:
        """Take what the client had sent before it left."""
        with suppress(OSError, PeerLeft):
            while self._receive(0.0):
                pass
        self._read_messages()

    def _linger(self) -> None:
        """Let the client take what was sent to it."""
        with suppress(OSError, PeerLeft):
            self._socket.finish(LINGER_S)

    def _close(self, code: int, reason: str = "") -> None:
        """Look up the whole conversation, and close the connection; why it was refused goes before the reason."""
        self.finish()
        self._socket.send(write_close(REFUSED_CODE, self._reason) if self._reason else write_close(code, reason))

    def _receive(self, wait_s: float) -> bool:
        """Whether more came from the client in time.

        Raises:
            PeerLeft: it is gone.
        """
        data = self._socket.receive(wait_s)
        self._reader.buffer += data
        return bool(data)

    def _has_next(self) -> bool:
        """Whether the recording that was found last has a frame for what the client has sent since."""
        return (
            self._looked_up < len(self._frames)
            and self._delivered < len(self._recorded)
            and int(self._recorded[self._delivered]["after"]) <= len(self._frames)
        )

    def _look_up(self) -> ReplayedResponse:
        """Find the recording that begins with what was sent so far."""
        with self._lock:
            if self._is_over:
                raise PeerLeft
            start, self._looked_up = self._looked_up, len(self._frames)
            response = self._look_up_from(start)
            if start and response.status == SAME_RECORDING_STATUS:
                return response
            if start and response.status == SEND_ALL_STATUS:
                response = self._look_up_from(0)
            if response.status == REFUSED_STATUS:
                self._refuse(response)
                return response
            recorded = _read_recorded(response)
            if self._is_continued_in(recorded):
                self._recorded = recorded
            else:
                self._refuse_unlike()
            return response

    def _look_up_from(self, start: int) -> ReplayedResponse:
        """Look up the frames from the `start`-th on: a conversation has thousands, each of which is sent once."""
        body = encode_frames(CLIENT_FRAMES, self._frames[start:])
        return ReplayedResponse(*self._call.replay_part(body, self._id, start))

    def _refuse(self, response: ReplayedResponse) -> None:
        self._is_over = True
        open_conversations.discard(self)
        self._reason = read_refusal(response.chunks)

    def _is_continued_in(self, recorded: list[Frame]) -> bool:
        """Whether this recording begins with the frames that the client has got."""
        return recorded[: self._delivered] == self._recorded[: self._delivered]

    def _refuse_unlike(self) -> None:
        self._call.count_unlike_recording()
        self._reason = f"TraceForge replay: {UNLIKE_RECORDING}"

    def _deliver(self) -> bool:
        """Send the frames that are due; whether the conversation goes on."""
        while not self._reason and self._delivered < len(self._recorded):
            frame = self._recorded[self._delivered]
            if int(frame["after"]) > self._looked_up:
                break
            self._delivered += 1
            if "broken" in frame:
                return False
            if "close" in frame:
                self.finish()
                reason = self._reason or str(frame.get("reason", ""))
                self._socket.send(write_close(REFUSED_CODE if self._reason else int(frame["close"]), reason))
                return False
            message = decode_frame(frame)
            self._socket.send(write_frame(message.opcode, message.data))
        if self._reason:
            self._close(REFUSED_CODE)
        return not self._reason


def open_replayed(url: str) -> socket.socket | None:
    """The socket on which a recording answers a WebSocket that is opened now; None: it is opened as ever.

    Raises:
        ConnectionRefusedError: nothing may be sent, and no recording can answer.
    """
    if dispatch.find_websocket_mode(url) is not ConnectionMode.OFFLINE:
        return None
    try:
        call = dispatch.begin_websocket(http_url(url), ())
        return None if call is None else ReplayedConversation(call).start()
    except Exception as exc:
        faults.add(exc)
        raise ConnectionRefusedError(f"TraceForge replay: {describe_error(exc)}") from exc


def _read_recorded(response: ReplayedResponse) -> list[Frame]:
    if response.status != SWITCHING:
        return []
    return decode_frames(SERVER_FRAMES, b"".join([data for _, data in response.chunks]))
