"""The conversation of a WebSocket, as people read it: what each side said, in order.

In: the bodies of its call, as `capture.hook.conversation_body` writes them; a body may hold anything. Out: its
frames, each with a name; pieces of one text or of one recording of sound are joined. Never: changes what is compared,
or leaves out of a frame what a person could read: people approve what they see here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, json_bytes

CLIENT, SERVER = "client", "server"
_FRAMES = {CLIENT: "client_frames", SERVER: "server_frames"}
# Of each kind of frame. One with others could show one thing, and be another one when it is replayed.
_FRAME_FIELDS = ({"json", "layout", "binary"}, {"text", "binary"}, {"base64"}, {"close", "reason"}, {"broken"})
_PIECES = ("delta", "audio")  # The fields of events that hold a piece of something longer.
# What an event has beside its piece, and nobody reads: ids and places in the response, and padding.
_PLACES = frozenset(
    {
        "call_id", "content_index", "event_id", "item_id", "logprobs", "obfuscation", "output_index", "response_id",
        "sequence_number",
    }
)  # fmt: skip
_PLACE_TEXT = re.compile(r"[A-Za-z0-9_.:+/=-]{0,200}")


class SpokenFrame(NamedTuple):
    """One frame, or several that hold the pieces of one thing."""

    side: str
    name: str  # The type of the event.
    value: JSON = None  # What it holds besides; None: nothing.
    times: int = 1

    @property
    def title(self) -> str:
        """The name, and the number of frames if it is more than one."""
        return f"{self.name} ({self.times} frames)" if self.times > 1 else self.name

    @property
    def text(self) -> str:
        """The title and the value in one line."""
        value = self.value if isinstance(self.value, str) else json_bytes(self.value).decode(errors="replace")
        return self.title if self.value is None else f"{self.title} {value}"


def list_spoken_frames(request: JSON, response: JSON) -> list[SpokenFrame] | None:
    """What both sides said; None: the bodies are not those of a WebSocket, or hold more, which must be seen."""
    client = _list_frames(request, CLIENT)
    server = _list_frames(response, SERVER) if response is not None else []
    if client is None or server is None:
        return None
    spoken = _in_order(client, server)
    return [_join(list(run)) for _, run in groupby(_number_runs(spoken), key=lambda item: item[0])]


def _list_frames(body: JSON, side: str) -> list[JSONObject] | None:
    frames = body.get(_FRAMES[side]) if isinstance(body, dict) and len(body) == 1 else None
    if not isinstance(frames, list):
        return None
    described = [frame for frame in frames if isinstance(frame, dict)]
    return described if len(described) == len(frames) else None


def _in_order(client: list[JSONObject], server: list[JSONObject]) -> Iterator[SpokenFrame]:
    """Each frame of the server after the frame of the client that it followed."""
    position = 0
    for frame in server:
        after = frame.get("after")
        while isinstance(after, int | float) and position < min(after, len(client)):
            yield _describe(CLIENT, client[position])
            position += 1
        yield _describe(SERVER, frame)
    for frame in client[position:]:
        yield _describe(CLIENT, frame)


def _describe(side: str, frame: JSONObject) -> SpokenFrame:
    if not any(frame.keys() - {"after"} <= fields for fields in _FRAME_FIELDS):
        return SpokenFrame(side, "frame", frame)
    event = frame.get("json")
    if isinstance(event, dict):
        return _describe_event(side, event)
    if "json" in frame:
        return SpokenFrame(side, "JSON", event)
    encoded = frame.get("base64")
    if isinstance(encoded, str) and (data := _decode(encoded)) is not None:
        return SpokenFrame(side, "bytes", _find_text(data) or f"{len(data)} bytes")
    if "close" in frame:
        return SpokenFrame(side, "closes the connection", f"{frame['close']} {frame.get('reason', '')}".strip())
    if frame.get("broken") is True:
        return SpokenFrame(side, "the connection broke off")
    if "text" in frame:
        return SpokenFrame(side, "text", frame["text"])
    return SpokenFrame(side, "frame", frame)


def _decode(encoded: str) -> bytes | None:
    """The bytes; None: it is not base64."""
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        return None


def _find_text(data: bytes) -> str:
    """The text that a client may read in bytes, such as JSON in a binary frame; "" for sound and other bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable() else ""


def _describe_event(side: str, event: JSONObject) -> SpokenFrame:
    """An event by its `type`, as those of OpenAI; or by its only field, as the messages of Gemini."""
    if isinstance(event.get("type"), str):
        fields: JSONObject = {name: value for name, value in event.items() if name != "type"}
        if _is_place("event_id", fields.get("event_id")):
            fields.pop("event_id", None)  # It says nothing.
        return SpokenFrame(side, str(event["type"]), fields or None)
    if len(event) == 1:
        ((name, value),) = event.items()
        return SpokenFrame(side, name, None if value == {} else value)
    return SpokenFrame(side, "JSON", event)


def _number_runs(spoken: Iterator[SpokenFrame]) -> Iterator[tuple[int, SpokenFrame]]:
    """Each frame with a number that those share whose pieces belong together."""
    number, before = 0, None
    for frame in spoken:
        piece = _piece_of(frame)
        is_next_piece = before is not None and piece and (*frame[:2], piece) == (*before[:2], _piece_of(before))
        number += not is_next_piece
        before = frame
        yield number, frame


def _piece_of(frame: SpokenFrame) -> str:
    """The field with the piece of something longer; "" where there is none, or the frame holds something else."""
    fields = frame.value
    if not isinstance(fields, dict):
        return ""
    others = [name for name, value in fields.items() if not _is_place(name, value)]
    return others[0] if len(others) == 1 and others[0] in _PIECES and isinstance(fields[others[0]], str) else ""


def _is_place(name: str, value: JSON) -> bool:
    """Whether a field of an event says only where its piece belongs."""
    if name not in _PLACES:
        return False
    if isinstance(value, str):
        return _PLACE_TEXT.fullmatch(value) is not None
    return value in (None, []) or isinstance(value, int | float)


def _join(run: list[tuple[int, SpokenFrame]]) -> SpokenFrame:
    frames = [frame for _, frame in run]
    field = _piece_of(frames[0])
    if not field:
        return frames[0]
    pieces = [str(frame.value.get(field, "")) for frame in frames if isinstance(frame.value, dict)]
    joined = "".join(pieces)
    is_sound = "audio" in frames[0].name and "transcript" not in frames[0].name
    is_sound = is_sound and all(_decode(piece) is not None for piece in pieces)
    return frames[0]._replace(value=f"{len(joined)} characters of sound" if is_sound else joined, times=len(frames))
