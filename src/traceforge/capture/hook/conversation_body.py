"""The frames of a WebSocket as the two bodies of one call.

In: messages of both sides. Out: JSON that people can read and compare, from which the same bytes can be made again.
Never: loses a byte of a frame, or does I/O.

    request     {"client_frames": [frame, …]}
    response    {"server_frames": [{"after": 2, frame}, …]}     it came after the client's second frame

    frame       {"json": …}, with "layout" where it is not compact; {"text": "…"}; {"base64": "…"}
                with `"binary": true` where JSON or text came in a binary frame,
                with `"text_frame": true` where the bytes of a text frame are not UTF-8
    at the end  {"after": 2, "close": 1000, "reason": "…"}      the server closed the connection
                {"after": 2, "broken": true}                       it broke off
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from .websocket_frames import BINARY, MESSAGE_BYTES_MAX, TEXT, Message

CLIENT_FRAMES, SERVER_FRAMES = "client_frames", "server_frames"
FRAMES_MAX = 100_000  # of both sides of one conversation: beyond, it is not kept
# How JSON is written: the separators, the indent, and what ends it. The first is that of most servers.
_LAYOUTS: dict[str, tuple[tuple[str, str], Optional[int], str]] = {
    "": ((",", ":"), None, ""),
    "spaced": ((", ", ": "), None, ""),
    "indented": ((",", ": "), 2, ""),
    "indented-lf": ((",", ": "), 2, "\n"),
}
# The same with every character beyond ASCII as `\u` and four digits, which is how Python's `json` writes by default.
_ESCAPED = {"escaped": "", **{f"{name}-escaped": name for name in _LAYOUTS if name}}
Frame = dict[str, Any]


def encode_frame(message: Message) -> Frame:
    """A message as a frame of a body."""
    try:
        text = message.data.decode()
    except UnicodeDecodeError:
        frame = {"base64": base64.b64encode(message.data).decode()}
        return {**frame, "text_frame": True} if message.opcode == TEXT else frame
    if message.opcode == BINARY and not text.lstrip().startswith(("{", "[")):
        return {"base64": base64.b64encode(message.data).decode()}  # such as audio that happens to be text
    frame = _encode_text(text)
    return {**frame, "binary": True} if message.opcode == BINARY else frame


def _encode_text(text: str) -> Frame:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        layout = _find_layout(value, text) if isinstance(value, (dict, list)) else None
    except (ValueError, RecursionError):
        layout = None
    if layout is None:
        return {"text": text}
    return {"layout": layout, "json": value} if layout else {"json": value}


def _refuse_constant(name: str) -> None:
    """Refuse `NaN` and `Infinity`: JSON has neither, so with them the whole body would not be JSON."""
    raise ValueError(name)


def _find_layout(value: Any, text: str) -> str | None:
    layouts = [*_LAYOUTS, *_ESCAPED] if "\\u" in text else _LAYOUTS
    layout = next((layout for layout in layouts if _is_written(value, layout, text)), None)
    if layout in _ESCAPED:
        _write_json(value, "").encode()  # Half of a surrogate pair can be escaped, and not be a part of a body.
    return layout


def _is_written(value: Any, layout: str, text: str) -> bool:
    """Whether a text is a value in this layout. It ends at the first difference: deep values grow when indented."""
    place = 0
    for part in _write_parts(value, layout):
        if not text.startswith(part, place):
            return False
        place += len(part)
    return place == len(text)


def _write_parts(value: Any, layout: str) -> Iterator[str]:
    """JSON in a layout, in parts where it is indented."""
    is_escaped = layout in _ESCAPED
    separators, indent, end = _LAYOUTS[_ESCAPED.get(layout, layout)]
    if indent is None:
        yield json.dumps(value, ensure_ascii=is_escaped, separators=separators)
    else:
        yield from json.JSONEncoder(ensure_ascii=is_escaped, separators=separators, indent=indent).iterencode(value)
    yield end


def _write_json(value: Any, layout: str) -> str:
    parts: list[str] = []
    size = 0
    for part in _write_parts(value, layout):
        size += len(part)
        if size > MESSAGE_BYTES_MAX:
            raise ValueError("a frame that is too large")
        parts.append(part)
    return "".join(parts)


def decode_frame(frame: Frame) -> Message:
    """The message that a frame was made of.

    Raises:
        ValueError, KeyError, TypeError: `frame` is not one that `encode_frame` writes.
    """
    if "base64" in frame:
        return Message(TEXT if frame.get("text_frame") else BINARY, base64.b64decode(frame["base64"]))
    text = _write_json(frame["json"], frame.get("layout", "")) if "json" in frame else frame["text"]
    return Message(BINARY if frame.get("binary") else TEXT, text.encode())


def encode_frames(name: str, frames: Sequence[Frame]) -> bytes:
    """The body with these frames."""
    return _encode({name: list(frames)})


def decode_frames(name: str, body: bytes) -> list[Frame]:
    """The frames of a body.

    Raises:
        ValueError: it has none.
    """
    value = json.loads(body)
    frames = value.get(name) if isinstance(value, dict) else None
    if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
        raise ValueError("a body without frames")
    return frames


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def encode_item(value: Frame, is_first: bool) -> bytes:
    """A frame as the next item of a body that is written as it comes: see `BODY_END`."""
    return (b"" if is_first else b",") + _encode(value)


def begin_body(name: str) -> bytes:
    """The beginning of a body that is written as it comes."""
    return b'{"%b":[' % name.encode()


BODY_END = b"]}"
