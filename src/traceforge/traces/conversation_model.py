"""The model that a WebSocket was opened for.

In: the address of its handshake and the frames of its client, both redacted. Out: the name of the model. Never: takes
a name from what the server says, or from any place where none of the providers has it.
"""

from __future__ import annotations

from itertools import islice
from urllib.parse import parse_qsl

from traceforge.canon import JSON
from traceforge.redact.conversations import CLIENT_FRAMES
from traceforge.wire.endpoints import split_url

_PARAMETERS = ("model", "deployment")  # OpenAI, and its realtime API on Azure
_HOLDERS = ("session", "setup")  # of `session.update` (OpenAI) and of the first frame of the Live API (Google)
FRAMES_MAX = 100  # A model is named before it is asked; a conversation may have 100,000 frames.


def is_conversation(body: JSON) -> bool:
    """Whether a request has the frames of a WebSocket."""
    return isinstance(body, dict) and len(body) == 1 and isinstance(body.get(CLIENT_FRAMES), list)


def find_conversation_model(url: str, body: JSON) -> str:
    """The model in the address, or else in the first frame that names one; "" where none does."""
    parameters = dict(parse_qsl(split_url(url)[1]))
    named = next((parameters[name] for name in _PARAMETERS if parameters.get(name)), "")
    frames = body.get(CLIENT_FRAMES) if isinstance(body, dict) else None
    if named or not isinstance(frames, list):
        return named
    return next(filter(None, map(_find_in_frame, islice(frames, FRAMES_MAX))), "")


def _find_in_frame(frame: JSON) -> str:
    event = frame.get("json") if isinstance(frame, dict) else None
    if not isinstance(event, dict):
        return ""
    for holder in (event, *(event.get(name) for name in _HOLDERS)):
        model = holder.get("model") if isinstance(holder, dict) else None
        if isinstance(model, str) and model:
            return model.rpartition("/")[2]  # Google: models/gemini-…, or with a project before it
    return ""
