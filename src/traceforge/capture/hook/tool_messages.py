"""Calls of functions that a model calls (`traceforge.tool`), as the bytes of a request and of an answer.

In: the name, arguments, result or error of a call. Out: JSON; and the result or error again. Never: does I/O, runs a
function, or imports a module that an answer names.

    address      tool://<name>/call
    request      {"tool": …, "arguments": {…}}
    answer       {"result": …}                               JSON, as it is
                 {"result": …, "kind": "tuple" | "object"}   to be made again as a tuple, or as what the function says
                                                             that it returns
                 {"error": {"type": "module.Class", "args": […], "message": …}}     and "state", its attributes
                 {"runs": true}                              it calls models or tools itself, which are replayed: it
                                                             runs in tests, too
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, NamedTuple
from uuid import UUID

ADDRESS_SCHEME = "tool"
RUNS_ANSWER = b'{"runs":true}'
_TEXT_TYPES = (date, time, Decimal, PurePath, UUID)  # whose text says all; `datetime` is a `date`


class NotJson(TypeError):
    """A value that JSON cannot hold."""


class RecordedAnswer(NamedTuple):
    """How a recorded call ended: with a result, or with an error, or unknown because the function has to run."""

    result: Any = None
    error: Exception | None = None
    has_to_run: bool = False


def tool_url(name: str) -> str:
    """The URL of the calls of a tool."""
    return f"{ADDRESS_SCHEME}://{name}/call"


def encode_request(name: str, arguments: dict[str, Any]) -> bytes:
    """The request of a call.

    Raises:
        NotJson: an argument has no JSON form.
    """
    return _encode({"tool": name, "arguments": {name: _to_json(value) for name, value in arguments.items()}})


def encode_result(result: Any, restore: Callable[[Any], Any]) -> bytes:
    """The answer of a call that returned.

    Raises:
        NotJson: a replay could not make the same result.
    """
    plain = _to_json(result)
    if is_identical(plain, result):
        return _encode({"result": plain})
    if type(result) is tuple and is_identical(plain, list(result)):
        return _encode({"result": plain, "kind": "tuple"})
    encoded = _encode({"result": plain, "kind": "object"})
    try:
        is_same = is_identical(decode_answer(encoded, restore).result, result)
    except Exception as exc:
        raise NotJson(f"a {_name(type(result))} that cannot be made again ({_find_cause(exc)})") from exc
    if not is_same:
        raise NotJson(f"a {_name(type(result))}, for which a replay would return another value")
    return encoded


def encode_error(error: Exception) -> bytes:
    """The answer of a call that raised.

    Raises:
        NotJson: a replay could not raise the same error.
    """
    name = _name(type(error))
    try:
        answer = {"type": name, **_take_apart(error), "message": str(error)}
        encoded = _encode({"error": answer})
        same = decode_answer(encoded, lambda fields: fields).error
        is_same = type(same) is type(error) and is_identical(_take_apart(same), _take_apart(error))
    except Exception as exc:
        raise NotJson(f"a {name} that cannot be made again ({_find_cause(exc)})") from exc
    if not is_same:
        raise NotJson(f"a {name}, for which a replay would raise another error")
    return encoded


def _take_apart(error: Any) -> dict[str, Any]:
    """The arguments of which an error is made, and its other attributes, as a copy of it would have them.

    Raises:
        NotJson: JSON cannot hold one of them.
    """
    made_by, args, *more = error.__reduce__()
    state = more[0] if more else None
    if made_by is not type(error) or not (is_identical(_to_json(list(args)), list(args))):
        raise NotJson("its arguments cannot be written as JSON")
    if state and not is_identical(_to_json(state), state):
        raise NotJson("its attributes cannot be written as JSON")
    return {"args": list(args), **({"state": state} if state else {})}


def decode_answer(answer: bytes, restore: Callable[[Any], Any]) -> RecordedAnswer:
    """How a recorded call ended.

    Raises:
        ValueError: it is not the answer of a tool, or its result or error cannot be made here.
    """
    try:
        message = json.loads(answer)
        if message.get("runs") is True:
            return RecordedAnswer(has_to_run=True)
        if "error" in message:
            return RecordedAnswer(error=_make_error(message["error"]))
        kind, result = message.get("kind"), message["result"]
        return RecordedAnswer(tuple(result) if kind == "tuple" else restore(result) if kind == "object" else result)
    except Exception as exc:
        raise ValueError(f"the recorded result of the tool cannot be used: {exc}") from exc


def _make_error(fields: dict[str, Any]) -> Exception:
    module, _, name = fields["type"].rpartition(".")
    error_type: Any = getattr(sys.modules[module], name)
    if not (isinstance(error_type, type) and issubclass(error_type, Exception)):
        raise ValueError(f"{fields['type']} is no error")
    error = error_type(*fields["args"])
    if fields.get("state"):
        error.__setstate__(fields["state"])
    if str(error) != fields["message"]:
        raise ValueError(f"another message of {fields['type']}")
    return error


def is_identical(value: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types, at every depth: `==` takes a text for an enum of texts, and
    leaves out what a class does not compare.
    """
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return list(value) == list(other) and all(is_identical(value[name], other[name]) for name in value)
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(map(is_identical, value, other))
    if is_dataclass(value):
        pairs = [(getattr(value, field.name), getattr(other, field.name)) for field in fields(value)]
        return all(is_identical(*pair) for pair in pairs)
    if hasattr(type(value), "model_dump") and not is_identical(vars(value), vars(other)):
        return False
    return bool(value == other) and repr(value) == repr(other)  # -0.0 and 0.0 are equal


def _to_json(value: Any) -> Any:
    """A value as JSON. Lists and tuples are alike, and so are objects and their fields: the code has their types."""
    try:
        return _find_json(value)
    except NotJson:
        raise
    except Exception as exc:  # of a class that fails to say what it holds, or of a value that holds itself
        raise NotJson(f"a {_name(type(value))}, which cannot be written as JSON ({_find_cause(exc)})") from exc


def _find_json(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Enum):
        return _find_json(value.value)
    if isinstance(value, (int, float, str)):
        return _find_plain(value)
    if isinstance(value, dict):
        if not all(type(name) is str for name in value):
            raise NotJson("a dictionary with a key that is not a string")
        return {name: _find_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_find_json(item) for item in value]
    if isinstance(value, _TEXT_TYPES):
        return str(value)
    if hasattr(type(value), "model_dump"):
        return _find_json(value.model_dump(mode="json"))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _find_json(getattr(value, field.name)) for field in fields(value)}
    raise NotJson(f"a {_name(type(value))}, which cannot be written as JSON")


def _find_plain(value: int | float | str) -> int | float | str:
    """A value of a subclass, such as numpy's `float64`, without what the class adds: a replay makes none of it."""
    if isinstance(value, str):
        return str.__str__(value)
    return float.__float__(value) if isinstance(value, float) else int.__int__(value)


def _encode(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8")
    except (ValueError, RecursionError) as exc:  # NaN, half of a surrogate pair, or a list that holds itself
        raise NotJson(f"a value that JSON cannot hold ({exc})") from exc


def _name(of: type) -> str:
    return f"{of.__module__}.{of.__qualname__}"


def _find_cause(exc: BaseException) -> str:
    """Why something failed. Errors of other classes may quote a value, which may hold a secret."""
    while exc.__cause__ is not None:
        exc = exc.__cause__
    return str(exc) if isinstance(exc, NotJson) else type(exc).__name__
