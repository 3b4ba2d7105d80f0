"""JavaScript's `typeof` and string conversion of JSON values.

The verifier's messages were first printed by JavaScript and are part of the contract. `UNDEFINED` is JavaScript's
`undefined`, which JSON does not have.
"""

from __future__ import annotations

from typing import Final

from traceforge.canon import JSON, number_text


class Undefined:
    """JavaScript's undefined: a member that an object does not have."""


UNDEFINED: Final = Undefined()


def js_typeof(value: JSON | Undefined) -> str:
    """`typeof value`: null and arrays are objects."""
    if isinstance(value, Undefined):
        return "undefined"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "object"


def is_js_number(value: JSON | Undefined) -> bool:
    """Whether JavaScript takes it for a number; `true` does not count."""
    return type(value) is int or type(value) is float


def js_string(value: JSON | Undefined) -> str:
    """Convert a value as JavaScript's `String(value)` does."""
    if isinstance(value, str):
        return value
    if isinstance(value, Undefined):
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(float(value))
    if isinstance(value, list):
        return ",".join("" if item is None else js_string(item) for item in value)
    return "[object Object]"
