"""The body of `POST /chat`.

Never: guesses. A field that is missing, empty, unknown, repeated or of another type is refused by its name.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, find_repeated_name, parse_json
from traceforge.chat.chat_errors import NAME_CHARACTERS_MAX, ChatError, ChatErrorCode
from traceforge.errors import NotJSON
from traceforge.shape.field_types import json_type_name

FIELDS = ("message", "session_id", "trace")
_HINT = 'Send {"message": "…", "session_id": "…"} and, for an explanation, "trace": true.'


class ChatRequest(NamedTuple):
    """One message of a user."""

    message: str
    session_id: str
    trace: bool  # Whether an execution trace is wanted.


def read_chat_request(data: bytes) -> ChatRequest:
    """Read a body.

    Raises:
        ChatError: the body is not JSON, or a field is wrong; the first one is named.
    """
    try:
        value = parse_json(data)
    except NotJSON as exc:
        raise _error(ChatErrorCode.NOT_JSON, f"the body is not JSON: {exc.message}") from None
    if not isinstance(value, dict):
        raise _error(ChatErrorCode.NOT_AN_OBJECT, f"the body must be an object, got {_type_phrase(value)}")
    for name in value:
        if name not in FIELDS:
            short_name = name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}…"
            raise _error(ChatErrorCode.UNKNOWN_FIELD, f"there is no field {short_name}", name)
    if repeated := find_repeated_name(data, nested=False):
        raise _error(ChatErrorCode.DUPLICATE_FIELD, f"{repeated} is given twice", repeated)
    message, session_id = _read_text(value, "message"), _read_text(value, "session_id")
    trace = value.get("trace", False)
    if not isinstance(trace, bool):
        raise _error(ChatErrorCode.WRONG_TYPE, f"trace must be true or false, got {_type_phrase(trace)}", "trace")
    return ChatRequest(message, session_id, trace)


def _read_text(value: JSONObject, name: str) -> str:
    if name not in value:
        raise _error(ChatErrorCode.MISSING_FIELD, f"{name} is missing", name)
    text = value[name]
    if not isinstance(text, str):
        raise _error(ChatErrorCode.WRONG_TYPE, f"{name} must be a string, got {_type_phrase(text)}", name)
    if not text:
        raise _error(ChatErrorCode.EMPTY_FIELD, f"{name} is empty", name)
    return text


def _error(code: ChatErrorCode, message: str, field: str = "") -> ChatError:
    return ChatError(code, message, hint=_HINT, field=field)


def _type_phrase(value: JSON) -> str:
    kind = json_type_name(value)
    return kind if kind == "null" else f"{'an' if kind[0] in 'ao' else 'a'} {kind}"
