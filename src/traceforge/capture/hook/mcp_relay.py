"""Between an MCP client and its server over stdio: passes on their bytes, and answers what is recorded.

In: the files from which the client and the server are read, and those to which they are written. Out: the same bytes,
unchanged and in order; the calls that they make. Never: changes, joins or delays what the server writes; writes into
the middle of one of its lines; sends a request whose answer is approved; fails because of what either side wrote.

    recording      what the client writes is passed on as soon as its requests are noted
    `record`       line by line: an approved request is answered from its recording, and its server is not asked
    offline        without a server: each request is answered from its recording, or refused

Two threads read: this one the client, the other one the server. A third one writes what recordings have for the
client, if they have anything. The lock of the traffic is never held while either side is written to, and what a
client writes is read even if it does not read itself: a side that waits would hold up the other one.
"""

from __future__ import annotations

import json
import math
import os
import queue
import select
import threading
from contextlib import suppress
from typing import NamedTuple

from . import dispatch
from .guarded_call import call_safely
from .mcp_lines import MessageLines, Piece
from .mcp_messages import encode_line, encode_request, is_request, looks_like_message, make_error, parse_messages
from .mcp_traffic import McpTraffic

READ_BYTES = 1 << 16
UNREADABLE = "a message to a tool server that is not one JSON-RPC message"
TOO_LONG = "a message of more than 64 MiB from a tool server"
UNREADABLE_ANSWER = "a message of a tool server that cannot be read"


class Ends(NamedTuple):
    """The files of one side."""

    reads: int  # what it writes comes out here
    writes: int  # what is written here, it reads


class Relay:
    """One session of a client. `server` is None where nothing may be sent."""

    def __init__(self, address: str, client: Ends, server: Ends | None) -> None:
        self._traffic = McpTraffic(address)
        self._lock = threading.Lock()  # of the traffic
        self._client = client
        self._server = server
        self._output = _ClientOutput(client.writes)

    def run(self) -> bool:
        """Relay until the session ends. Whether the client has ended it."""
        server = self._server
        if server is None:
            is_ended_by_client = self._read_client(None)
            self._output.finish()
            return is_ended_by_client
        reading = threading.Thread(target=self._read_server, args=(server,), name="traceforge", daemon=True)
        reading.start()
        is_ended_by_client = self._read_client(server)
        _close(server.writes)
        if not is_ended_by_client:
            _stop_reading(self._client.reads)
        if not self._traffic.has_ended:
            reading.join()
        self._output.finish()
        is_ended_by_client = is_ended_by_client or self._output.is_broken
        with self._lock:
            call_safely(None, self._traffic.close if is_ended_by_client else self._traffic.close_by_server)
        return is_ended_by_client

    def _read_client(self, server: Ends | None) -> bool:
        """Whether the client has ended the session; else the server has, or the recorded one."""
        lines = MessageLines()
        replays = dispatch.is_replaying()
        poll = select.poll()
        poll.register(self._client.reads, select.POLLIN)
        if server is not None:
            poll.register(server.writes, 0)  # which reports when the server has closed its input
        while not self._traffic.has_ended:
            files = [file for file, _ in poll.poll(self._find_timeout_ms())]
            if files and self._client.reads not in files:
                return False
            data = _read(self._client.reads) if files else b""
            if data is None:
                continue
            pieces = lines.flush() if files and not data else lines.feed(data)
            if replays:
                for piece in pieces:
                    if self._goes_to_server(piece) and server is not None:
                        _write(server.writes, piece.data)
                    self._send_replayed()
            else:
                for piece in pieces:
                    self._goes_to_server(piece)
                if server is not None:
                    _write(server.writes, data)
            self._send_replayed()
            if files and not data:
                return True
        return False

    def _find_timeout_ms(self) -> float | None:
        with self._lock:
            left_s = self._traffic.seconds_to_hold()
        return None if left_s == math.inf else max(0.0, left_s * 1000)

    def _send_replayed(self) -> None:
        """Send the client the messages that recordings have for it."""
        while True:
            with self._lock:
                message = call_safely(None, self._traffic.next_replayed)
            if message is None:
                return
            self._output.insert(encode_line(message))

    def _goes_to_server(self, piece: Piece) -> bool:
        """Note what the client wrote, or answer it; whether it has to be written to the server."""
        return bool(call_safely(self._server is not None, self._take_piece, piece))

    def _take_piece(self, piece: Piece) -> bool:
        if not piece.data.strip():
            return True
        message = parse_messages(piece.data) if piece.is_line else None
        if message is None or isinstance(message, list):
            return self._take_unreadable(piece)
        if not is_request(message):
            with self._lock:
                return self._traffic.take_client_message(message)
        call = self._traffic.begin(message)
        response = call.replay(encode_request(message)) if call is not None and call.replays_first else None
        with self._lock:
            return self._traffic.settle(message, call, response, _always, is_offline=self._server is None)

    def _take_unreadable(self, piece: Piece) -> bool:
        """Pass on what cannot be compared; without a server, refuse and count it."""
        if self._server is not None:
            dispatch.note_unseen(UNREADABLE)
            return True
        reason = f"{UNREADABLE} cannot be replayed"
        dispatch.refuse_tool_message(reason)
        self._output.insert(_make_errors(piece.data, f"TraceForge replay: {reason}"))
        return False

    def _read_server(self, server: Ends) -> None:
        lines = MessageLines()
        while (data := _read(server.reads)) != b"":
            if data is None:
                select.select([server.reads], [], [])
                continue
            if not self._output.pass_on(data):
                break
            for piece in lines.feed(data):
                call_safely(None, self._watch_server, piece)
        for piece in lines.flush():
            call_safely(None, self._watch_server, piece)
        _close(server.reads)  # so that the server is told where the client does not read any more

    def _watch_server(self, piece: Piece) -> None:
        messages = parse_messages(piece.data) if piece.is_line else None
        if messages is None:
            if not piece.is_line:
                self._lose_track(TOO_LONG)
            elif looks_like_message(piece.data):
                self._lose_track(UNREADABLE_ANSWER)
            return
        with self._lock:
            for message in messages if isinstance(messages, list) else filter(None, [messages]):
                self._traffic.take_server_message(message)

    def _lose_track(self, reason: str) -> None:
        dispatch.note_unseen(reason)
        with self._lock:
            self._traffic.lose_track(reason)


class _ClientOutput:
    """The output that the client reads: the bytes of its server, and between its lines messages from recordings."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._is_mid_line = False
        self._waiting: list[bytes] = []  # until the server has ended its line
        self._inserted: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None  # of what is inserted; None: nothing was
        self.is_broken = False  # the client does not read any more

    def pass_on(self, data: bytes) -> bool:
        """Write what the server wrote. False: the client does not read any more."""
        with self._lock:
            if self._waiting and b"\n" in data:
                lines, end, next_line = data.rpartition(b"\n")
                data = b"".join([lines, end, *self._waiting, next_line])
                self._waiting.clear()
            self._write(data)
            self._is_mid_line = not data.endswith(b"\n")
            return not self.is_broken

    def insert(self, line: bytes) -> None:
        """Write a line of our own as soon as the client reads it, and it does not cut a line of the server."""
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_inserted, name="traceforge", daemon=True)
            self._writer.start()
        self._inserted.put(line)

    def finish(self) -> None:
        """Wait until what was inserted is written."""
        if self._writer is not None:
            self._inserted.put(None)
            self._writer.join()

    def _write_inserted(self) -> None:
        while (line := self._inserted.get()) is not None:
            with self._lock:
                if self._is_mid_line:
                    self._waiting.append(line)
                else:
                    self._write(line)

    def _write(self, data: bytes) -> None:
        self.is_broken = self.is_broken or not _write(self._file, data)


def _always() -> bool:
    return True


def _make_errors(data: bytes, reason: str) -> bytes:
    """The responses to the requests in what the client wrote, so that it does not wait for them; b"" without any."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return b""
    items = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    errors = [make_error(item, reason) for item in items if "method" in item and "id" in item]
    return encode_line(errors if isinstance(value, list) else errors[0]) if errors else b""


def _read(file: int) -> bytes | None:
    """What there is to read; b"" at the end, None where nothing is there yet."""
    try:
        return os.read(file, READ_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write(file: int, data: bytes) -> bool:
    """Write all bytes. False: the other side has closed its end."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(file, view) :]
        except BlockingIOError:
            select.select([], [file], [])
        except OSError:
            return False
    return True


def _stop_reading(file: int) -> None:
    """Put an empty file in its place: its writer gets an error, and no other file gets its number."""
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, file)
        os.close(nothing)


def _close(file: int) -> None:
    with suppress(OSError):
        os.close(file)
