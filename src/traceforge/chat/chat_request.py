"""What a person asks: the body of `POST /chat`.

In: bytes. Out: a message, its session, and whether a trace is wanted. Never: guesses: a field that is missing, empty,
unknown, there twice or of another type is refused by its name.
"""

from __future__ import annotations

import json
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.chat.chat_errors import NAME_CHARACTERS_MAX, Code, Refusal
from traceforge.errors import NotJSON
from traceforge.shape.field_types import json_type_name

FIELDS = ("message", "session_id", "trace")
_HINT = 'Send {"message": "…", "session_id": "…"} and, for an explanation, "trace": true.'


class Ask(NamedTuple):
    """One request."""

    message: str
    session_id: str
    trace: bool


def read_ask(data: bytes) -> Ask:
    """Read a body.

    Raises:
        Refusal: it is not JSON, or a field is not as it must be; the first in the order of the request is named.
    """
    try:
        value = parse_json(data)
    except NotJSON as exc:
        raise Refusal(Code.NOT_JSON, f"the body is not JSON: {exc.message}", hint=_HINT) from None
    if not isinstance(value, dict):
        raise Refusal(Code.NOT_AN_OBJECT, f"the body is {_a(value)}, not an object", hint=_HINT)
    for name in value:
        if name not in FIELDS:
            shown = name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}…"
            raise Refusal(Code.UNKNOWN_FIELD, f"there is no field {shown}", hint=_HINT, field=name)
    if twice := _find_twice(data):
        raise Refusal(Code.DUPLICATE_FIELD, f"{twice} stands there twice", hint=_HINT, field=twice)
    message, session_id = _text(value, "message"), _text(value, "session_id")
    trace = value.get("trace", False)
    if not isinstance(trace, bool):
        told = f"trace must be true or false, got {_a(trace)}"
        raise Refusal(Code.WRONG_TYPE, told, hint=_HINT, field="trace")
    return Ask(message, session_id, trace)


def _text(value: JSONObject, name: str) -> str:
    if name not in value:
        raise Refusal(Code.MISSING_FIELD, f"{name} is missing", hint=_HINT, field=name)
    found = value[name]
    if not isinstance(found, str):
        raise Refusal(Code.WRONG_TYPE, f"{name} must be a string, got {_a(found)}", hint=_HINT, field=name)
    if not found:
        raise Refusal(Code.EMPTY_FIELD, f"{name} is empty", hint=_HINT, field=name)
    return found


def _a(value: JSON) -> str:
    kind = json_type_name(value)
    return kind if kind == "null" else f"{'an' if kind[0] in 'ao' else 'a'} {kind}"


def _find_twice(data: bytes) -> str:
    """The first name that the object has twice; the reader has let the last one win. "" where there is none."""
    pairs = json.loads(data, object_pairs_hook=list, parse_int=str, parse_float=str)
    seen: set[str] = set()
    for name, _ in cast("list[tuple[str, object]]", pairs):
        if name in seen:
            return name
        seen.add(name)
    return ""
