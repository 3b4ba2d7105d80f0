"""The part of a WebSocket's client frames that is compared.

In: the frames of a conversation, redacted. Out: the same frames without the ids of events, which a client makes up
and a server only repeats in errors, and with the ids of items that the client made up renumbered. Never: changes its
input, or an id that the server made: the frame that brought it is replayed.
"""

from __future__ import annotations

import re
from typing import cast

from traceforge.canon import JSON, JSONObject

CLIENT_FRAMES = "client_frames"  # as `capture.hook.conversation_body` writes them
CREATE_RESPONSE = "response.create"
_CREATE_ITEM = "conversation.item.create"
_FRAME = re.compile(rf"\A\$\.{CLIENT_FRAMES}\[\d+\]")
_NUMBER = re.compile(r"\[ITEM \d+\]=*\Z")
_EVENT_ID = re.compile(r"[A-Za-z0-9_.:+/=-]{0,512}")
_REFERENCES = ("item_id", "previous_item_id")


def list_client_frames(body: JSON) -> list[JSON] | None:
    """The frames of the client in a body; None where the body is not that of a WebSocket."""
    frames = body.get(CLIENT_FRAMES) if isinstance(body, dict) and len(body) == 1 else None
    return frames if isinstance(frames, list) else None


def name_every_frame(path: str) -> str:
    """A path in a frame as one for all frames."""
    return _FRAME.sub(f"$.{CLIENT_FRAMES}[*]", path)


def compare_frames(frames: list[JSON], item_ids: dict[str, str]) -> list[JSON]:
    """The frames as they are compared.

    `item_ids` holds what replaces each id that the client made in the frames before, and gets those of these frames.
    """
    return [_compare_frame(frame, item_ids) for frame in frames]


def _compare_frame(frame: JSON, item_ids: dict[str, str]) -> JSON:
    event = frame.get("json") if isinstance(frame, dict) else None
    if not isinstance(frame, dict) or not isinstance(event, dict):
        return frame
    compared = {name: value for name, value in event.items() if name != "event_id" or not _is_event_id(value, event)}
    item = compared.get("item")
    if compared.get("type") == _CREATE_ITEM and isinstance(item, dict) and isinstance(item.get("id"), str):
        number = item_ids.setdefault(str(item["id"]), f"[ITEM {len(item_ids) + 1}]")
        compared["item"] = {**item, "id": number}
    for name in _REFERENCES:
        if name in compared:
            compared[name] = _replace_id(compared[name], item_ids)
    response = compared.get("response")
    if isinstance(response, dict) and isinstance(response.get("input"), list):
        items = [_replace_reference(entry, item_ids) for entry in cast("list[JSON]", response["input"])]
        compared["response"] = {**response, "input": items}
    return {**{name: value for name, value in frame.items() if name != "layout"}, "json": compared}


def _is_event_id(value: JSON, event: JSONObject) -> bool:
    """Whether a member is the id that OpenAI's API documents. Any other one says something to a server."""
    kind = event.get("type")
    is_documented = isinstance(kind, str) and "." in kind
    return is_documented and isinstance(value, str) and _EVENT_ID.fullmatch(value) is not None


def _replace_reference(item: JSON, item_ids: dict[str, str]) -> JSON:
    """An item of the input of a response, which may be a reference to one of the conversation."""
    if not isinstance(item, dict) or item.get("type") != "item_reference" or "id" not in item:
        return item
    return {**item, "id": _replace_id(item["id"], item_ids)}


def _replace_id(item_id: JSON, item_ids: dict[str, str]) -> JSON:
    """The number of an item that the client made; another id as it is, told apart from a number."""
    if not isinstance(item_id, str):
        return item_id
    return item_ids.get(item_id) or (f"{item_id}=" if _NUMBER.match(item_id) else item_id)
