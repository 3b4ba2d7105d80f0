"""What a server writes into a WebSocket, and a model into the arguments of a tool: it harms no application.

The bytes are those of others, the process is the application's: it must do what it would do without TraceForge.
"""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

import traceforge
from traceforge.capture.hook import in_flight_call, recorded_conversation
from traceforge.capture.hook.conversation_body import decode_frame, encode_frame
from traceforge.capture.hook.guarded_call import faults
from traceforge.capture.hook.redacted_json import can_be_same_json
from traceforge.capture.hook.tool_messages import NotJson, encode_error, encode_request, encode_result
from traceforge.capture.hook.websocket_frames import TEXT, Message
from traceforge.capture.recorder import MemoryRecorder
from traceforge.tools.framework_tools import _ArgumentsTool

DEPTH = 300
WIDTH = 20_000
DEEP = "[" * DEPTH + ",".join(["1"] * WIDTH) + "]" * DEPTH
INDENTED = json.dumps([[1, {"a": []}]], indent=2)
MEMORY_FACTOR_MAX = 50  # of the text: a parsed value takes more than its text, but not hundreds of times as much


def _nest(depth: int) -> Any:
    value: Any = "soup"
    for _ in range(depth):
        value = [value]
    return value


class _Unwritable:
    """An argument as a framework makes it, which its own library cannot write."""

    def model_dump(self, mode: str) -> Any:
        raise RuntimeError(f"no {mode}")


class _Refusal(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _holds_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


HOSTILE_ARGUMENTS = [_nest(5_000), _holds_itself(), _Unwritable(), {"key": _Unwritable()}, "\ud800", float("nan")]


@pytest.mark.parametrize(
    "text", [f"{DEEP} ", f"[\n  {DEEP}\n]", f"[\n  1,\n  {DEEP}\n]", DEEP.replace(",", ", ") + "\n"]
)
def test_a_frame_takes_no_more_memory_than_its_value(text: str) -> None:
    """Indented, a list at depth 300 is 600 spaces for each of its items: 12 MB of this one."""
    tracemalloc.start()
    try:
        frame = encode_frame(Message(TEXT, text.encode()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert ({"text": text}, True) == (frame, peak < MEMORY_FACTOR_MAX * len(text)), peak


@pytest.mark.parametrize("end", ["", "\n"])
def test_an_indented_frame_is_still_readable(end: str) -> None:
    frame = encode_frame(Message(TEXT, f"{INDENTED}{end}".encode()))

    assert json.loads(INDENTED) == frame["json"]
    assert Message(TEXT, f"{INDENTED}{end}".encode()) == decode_frame(frame)


def test_a_recorded_frame_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of a pull request says how its frames are indented."""
    monkeypatch.setattr("traceforge.capture.hook.conversation_body.MESSAGE_BYTES_MAX", 1 << 20)

    with pytest.raises(ValueError, match="too large"):
        decode_frame({"json": json.loads(DEEP), "layout": "indented"})


def test_a_frame_that_cannot_be_kept_takes_its_conversation_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording without one of its frames would replay another conversation."""
    recorder = MemoryRecorder()
    with traceforge.capture(sink=recorder):
        url, headers = "wss://api.openai.com/v1/realtime", [("Host", "api.openai.com")]
        conversation = recorded_conversation.begin_recording(url, headers)
        assert conversation is not None
        conversation.accept(101, [])
        conversation.receive_fragment(TEXT, b'{"type":"session.created"}', True)
        monkeypatch.setattr(recorded_conversation, "encode_frame", _fail)
        conversation.receive_fragment(TEXT, b"[[[]]]", True)
        monkeypatch.undo()
        conversation.receive_fragment(TEXT, b'{"type":"response.done"}', True)
        conversation.end()

    assert [] == recorder.exchanges
    assert "RecursionError" in faults.first
    faults.count, faults.first = 0, ""


def _compress(data: bytes, count: int) -> bytes:
    """So many compressed messages of a server."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = [(packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4] for _ in range(count)]
    return b"".join(b"\xc1\x7e" + struct.pack(">H", len(message)) + message for message in packed)


@pytest.mark.parametrize("are_at_once", [True, False])
@pytest.mark.parametrize("text", [b"\0", b"a", b"["])
def test_what_is_not_kept_is_not_decompressed(
    text: bytes, are_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen megabytes come in sixteen kilobytes, and would take the proxy from its other clients each time."""
    monkeypatch.setattr(in_flight_call, "BODY_BYTES_MAX", 3 << 20)
    read: list[Message] = []

    def keep(message: Message) -> Any:
        read.append(message)
        return {"text": "x" * (1 << 20)}

    monkeypatch.setattr(recorded_conversation, "encode_frame", keep)
    recorder = MemoryRecorder()
    with traceforge.capture(sink=recorder):
        conversation = recorded_conversation.begin_recording("wss://api.openai.com/v1/realtime", [])
        assert conversation is not None
        headers = [("Sec-WebSocket-Extensions", "permessage-deflate")]
        conversation.accept(101, headers)
        watched = recorded_conversation.WatchedBytes(conversation, headers)
        data = _compress(text * (1 << 20), 20)
        for piece in [data] if are_at_once else [data[start : start + 100] for start in range(0, len(data), 100)]:
            watched.receive(piece)
        conversation.end()

    (exchange,) = recorder.exchanges
    assert (3, True) == (len(read), "is not kept" in (exchange.error or "")), exchange.error


def _fail(message: Message) -> Any:
    raise RecursionError(len(message.data))


@pytest.mark.parametrize("argument", HOSTILE_ARGUMENTS, ids=range(len(HOSTILE_ARGUMENTS)))
def test_no_argument_keeps_a_tool_from_running(
    argument: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model chose it; the function runs, and gives back what it gets, as it does where nothing watches."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    ran: list[str] = []

    @traceforge.tool
    def echo(value: Any) -> Any:
        ran.append("echo")
        return value

    with traceforge.capture() as captured:
        assert echo(argument) is argument

    assert (["echo"], 0) == (ran, captured.exchanges)


@pytest.mark.parametrize("argument", HOSTILE_ARGUMENTS, ids=range(len(HOSTILE_ARGUMENTS)))
def test_what_no_json_holds_is_named(argument: Any) -> None:
    with pytest.raises(NotJson):
        encode_request("echo", {"value": argument})
    with pytest.raises(NotJson):
        encode_result(argument, lambda fields: fields)


def test_an_error_without_a_text_is_no_error_of_ours() -> None:
    with pytest.raises(NotJson):
        encode_error(_Refusal())


def test_arguments_that_are_no_json_are_a_text() -> None:
    """Agents of OpenAI hand the model's own text to a tool."""

    async def invoke(context: Any, arguments: str) -> None: ...

    deep = "[" * 200_000
    assert {"arguments": deep} == _ArgumentsTool("echo", invoke, ()).find_arguments((None, deep), {})


@pytest.mark.parametrize(
    ("recorded", "now", "is_same"),
    [
        (", ".join(["[REDACTED]"] * 40) + "!", ", ".join(["a@example.com"] * 200), False),
        (", ".join(["[REDACTED]"] * 40), ", ".join(["a@example.com"] * 40), True),
        ("[REDACTED" * 20_000, "x", False),
        ("from [REDACTED] to [REDACTED].", "from a to to b.", True),
        ("from [REDACTED] to [REDACTED].", "from a to.", False),
        ("ab[REDACTED]bc", "abc", False),
        ("a[REDACTED]", "ba", False),
    ],
)
def test_redacted_answers_are_compared_in_one_pass(recorded: str, now: str, is_same: bool) -> None:
    """A regular expression with forty gaps would try them all."""
    assert is_same is can_be_same_json({"result": recorded}, {"result": now})
