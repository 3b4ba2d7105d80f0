"""What a provider says when it refuses: one shape for every dialect.

In: the body of an error answer. Out: message, type and code, as far as they are there. Never: makes one up; a body
that says nothing gives None.
"""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.wire.unified import obj, objects


def read_error(body: JSON) -> JSONObject | None:
    """The provider's error: `{message, type?, code?}`.

    OpenAI, Anthropic and Gemini put it under `error`; Ollama and some servers write a bare text there; others put
    `message` or `detail` at the top. Gemini may wrap it in a list of one.
    """
    if isinstance(body, list):
        return read_error(objects(body)[0]) if len(objects(body)) == 1 == len(body) else None
    top = obj(body)
    said = top.get("error")
    if isinstance(said, dict) and isinstance(said.get("message"), str):
        return _error(said["message"], said.get("type", said.get("status")), said.get("code"))
    if isinstance(said, str) and not isinstance(top.get("message"), str):
        return _error(said, top.get("type"), top.get("code"))
    for name in ("message", "detail"):
        if isinstance(top.get(name), str):
            return _error(top[name], top.get("type"), top.get("code"))
    return None


def _error(message: JSON, kind: JSON, code: JSON) -> JSONObject:
    named = {"type": kind, "code": code}
    return {"message": message, **{name: value for name, value in named.items() if value is not None}}
