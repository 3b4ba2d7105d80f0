"""The error of a provider, in one shape for every dialect.

In: the body of an error response. Out: message, type and code, as far as the body has them; None for a body without
any. Never: invents a message.
"""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.wire.unified import as_object, list_objects


def read_error(body: JSON) -> JSONObject | None:
    """The provider's error: `{message, type?, code?}`.

    OpenAI, Anthropic and Gemini put it under `error`; Ollama and some servers write a bare text there; others put
    `message` or `detail` at the top. Gemini may wrap it in a list of one.
    """
    if isinstance(body, list):
        return read_error(list_objects(body)[0]) if len(list_objects(body)) == 1 == len(body) else None
    top = as_object(body)
    error = top.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return _error(error["message"], error.get("type", error.get("status")), error.get("code"))
    if isinstance(error, str) and not isinstance(top.get("message"), str):
        return _error(error, top.get("type"), top.get("code"))
    for name in ("message", "detail"):
        if isinstance(top.get(name), str):
            return _error(top[name], top.get("type"), top.get("code"))
    return None


def _error(message: JSON, kind: JSON, code: JSON) -> JSONObject:
    optional = {"type": kind, "code": code}
    return {"message": message, **{name: value for name, value in optional.items() if value is not None}}
