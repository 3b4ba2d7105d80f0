"""A WebSocket to a model that is recorded: its frames as one call.

In: what a client library sends and receives, in order. Out: a `GuardedCall` that ends once, with both bodies whole.
Never: changes, delays or keeps back a frame; raises.

The call ends with the connection: ANSWERED where one side closed it, CLIENT_LEFT where the application went without a
word, CUT where the connection broke off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from . import dispatch
from .conversation_body import (
    BODY_END,
    CLIENT_FRAMES,
    FRAMES_MAX,
    SERVER_FRAMES,
    begin_body,
    encode_frame,
    encode_item,
)
from .dispatch import ConnectionMode
from .guarded_call import GuardedCall, call_safely, faults
from .in_flight_call import ANSWERED, CLIENT_LEFT, CUT, HeaderPairs
from .websocket_frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    DEFLATE,
    MESSAGE_BYTES_MAX,
    TEXT,
    Message,
    MessageReader,
    MessageTooLarge,
    read_close,
)

# What a handshake makes up, and what belongs to the connection alone.
_OF_HANDSHAKE = frozenset(
    {
        "connection", "upgrade", "sec-websocket-accept", "sec-websocket-extensions", "sec-websocket-key",
        "sec-websocket-version",
    }
)  # fmt: skip
_PROTOCOL = "sec-websocket-protocol"
# A browser cannot send a header with a WebSocket, so credentials and accounts come as the names of protocols.
_CREDENTIAL = re.compile(r"api-?key|bearer|authorization|token|secret|openai-(?:organization|project)", re.IGNORECASE)


def clean_headers(headers: Iterable[tuple[str, str]]) -> HeaderPairs:
    """The headers of a handshake that are recorded and compared."""
    compared = []
    for name, value in headers:
        if name.lower() == _PROTOCOL:
            protocols = [item.strip() for item in value.split(",")]
            value = ", ".join([item for item in protocols if not _CREDENTIAL.search(item)])  # noqa: PLW2901
            if not value:
                continue
        if name.lower() not in _OF_HANDSHAKE:
            compared.append((name, value))
    return tuple(compared)


def http_url(url: str) -> str:
    """The address of the handshake, which is a request of HTTP."""
    return re.sub(r"\Aws(?=s?://)", "http", url, flags=re.IGNORECASE)


class RecordedConversation:
    """One connection, whose handshake has been sent."""

    def __init__(self, call: GuardedCall) -> None:
        self._call = call
        self._sent = 0
        self._received = 0
        self._is_closing = False
        self._is_broken = False  # Nothing more of it is recorded.
        self._error = "the connection broke off"
        self._fragments: dict[str, tuple[int, bytearray]] = {}  # by side: the message whose fragments come
        call.finish_bodies_with(BODY_END)
        call.add_request_chunk(begin_body(CLIENT_FRAMES))

    def accept(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """The server has answered the handshake."""
        self._call.start_response(status, clean_headers(headers))
        self._call.add_response_chunk(begin_body(SERVER_FRAMES))

    def reject(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """The server has refused the handshake."""
        self.decline()
        self._call.start_response(status, clean_headers(headers))
        self._call.add_response_chunk(body)
        self._call.end(ANSWERED)

    def decline(self) -> None:
        """There will be no frames: the server has refused the handshake, and its response follows."""
        self._call.add_request_chunk(BODY_END)
        self._call.finish_bodies_with(b"")

    def fail(self, exc: BaseException) -> None:
        """There was no answer to the handshake."""
        self._call.end_unanswered(exc)

    def send_fragment(self, opcode: int, data: bytes, is_final: bool) -> None:
        """A frame goes to the server."""
        self._take_safely("sent", opcode, data, is_final)

    def receive_fragment(self, opcode: int, data: bytes, is_final: bool) -> None:
        """A frame came from the server."""
        self._take_safely("received", opcode, data, is_final)

    def _take_safely(self, side: str, opcode: int, data: bytes, is_final: bool) -> None:
        """Without one of its frames, a conversation would be another one: then nothing of it is kept."""
        try:
            self._take(side, opcode, data, is_final)
        except Exception as exc:  # noqa: BLE001 (an error of our own code must not reach the application)
            self._call.fail(exc, "frame")

    def _take(self, side: str, opcode: int, data: bytes, is_final: bool) -> None:
        if self.is_deaf:
            return
        if opcode == CLOSE:
            self._is_closing = True
            if side == "received":
                code, reason = read_close(data)
                self._receive({"close": code, "reason": reason} if reason else {"close": code})
        elif opcode in (TEXT, BINARY, CONTINUATION):
            first, parts = self._fragments.pop(side, (opcode, bytearray()))
            parts += data
            if len(parts) > MESSAGE_BYTES_MAX:
                self.drop()
            elif not is_final:
                self._fragments[side] = first, parts
            else:
                frame = encode_frame(Message(first, bytes(parts)))
                self._send(frame) if side == "sent" else self._receive(frame)

    def _send(self, frame: Any) -> None:
        self._call.add_request_chunk(encode_item(frame, not self._sent))
        self._sent += 1
        self._check_room()

    def _receive(self, frame: Any) -> None:
        self._call.add_response_chunk(encode_item({"after": self._sent, **frame}, not self._received))
        self._received += 1
        self._check_room()

    def _check_room(self) -> None:
        if self._call.is_too_large or self._sent + self._received > FRAMES_MAX:
            self._drop("")  # The call says itself that it is too large.

    @property
    def is_deaf(self) -> bool:
        """Whether nothing that follows is kept: it need not be decompressed either."""
        return self._is_closing or self._is_broken or not self._call.is_open

    def drop(self) -> None:
        """Keep no frame: one of them is too large."""
        self._drop(f"a message of more than {MESSAGE_BYTES_MAX} bytes is not kept")

    def _drop(self, error: str) -> None:
        self._is_broken = True
        self._error = error
        self._fragments.clear()
        self._call.drop_bodies()

    def break_off(self) -> None:
        """The bytes are not a frame, which ends a connection: what follows is not recorded."""
        if not self._is_closing and not self._is_broken:
            call_safely(None, self._receive, {"broken": True})
            self._is_broken = True

    def end(self, *, by_client: bool = False) -> None:
        """The connection is over; `by_client`: the application has left it."""
        if not self._call.is_open:
            return
        if self._is_closing or not self._error:
            self._call.end(ANSWERED)
        elif by_client and not self._is_broken:
            self._call.end(CLIENT_LEFT, "the application left without closing the WebSocket")
        else:
            self.break_off()
            self._call.end(CUT, self._error)


def begin_recording(url: str, headers: Iterable[tuple[str, str]]) -> RecordedConversation | None:
    """A client of this process opens a WebSocket with these headers; None: it is not watched, or not recorded.

    Raises:
        ConnectionRefusedError: nothing may be sent.
    """
    try:
        if dispatch.find_websocket_mode(url) is not ConnectionMode.LIVE:
            return None
        raw_headers = [
            (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
            for name, value in clean_headers(headers)
        ]
        call = dispatch.begin_websocket(http_url(url), raw_headers)
        if call is not None and call.replays_first:
            call.let_upstream()
        return None if call is None else RecordedConversation(call)
    except ConnectionRefusedError:
        raise
    except Exception as exc:  # noqa: BLE001 (no error of the hook may reach the application)
        faults.add(exc)
        return None


class WatchedBytes:
    """The frames in the bytes of both sides, for a conversation. Never raises, and never keeps the bytes back."""

    def __init__(self, conversation: RecordedConversation, headers: Iterable[tuple[str, str]]) -> None:
        """`headers`: of the response to the handshake, which say how messages are compressed."""
        extensions = ",".join([value for name, value in headers if name.lower() == "sec-websocket-extensions"])
        is_deflated = DEFLATE in extensions.lower()
        self._conversation: RecordedConversation | None = conversation
        self._client = MessageReader(is_deflated=is_deflated)
        self._server = MessageReader(is_client=False, is_deflated=is_deflated)

    def send(self, data: bytes) -> None:
        """Bytes go to the server."""
        if self._conversation is not None:
            self._read(self._client, data, self._conversation.send_fragment)

    def receive(self, data: bytes) -> None:
        """Bytes came from the server."""
        if self._conversation is not None:
            self._read(self._server, data, self._conversation.receive_fragment)

    def _read(self, reader: MessageReader, data: bytes, report: Callable[[int, bytes, bool], None]) -> None:
        try:
            reader.buffer += data
            while (message := reader.next_message()) is not None:
                report(message.opcode, message.data, True)
                if self._conversation is not None and self._conversation.is_deaf:
                    self._stop()
                    return
        except MessageTooLarge:
            self._stop().drop()
        except ValueError:
            self._stop().break_off()

    def _stop(self) -> RecordedConversation:
        conversation, self._conversation = self._conversation, None
        self._client.buffer.clear()
        self._server.buffer.clear()
        assert conversation is not None
        return conversation
