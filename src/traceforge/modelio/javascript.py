"""What JavaScript would say about a JSON value: `typeof` and string conversion.

The verifier's messages were first printed by JavaScript and are part of the contract. `ABSENT` stands
for `undefined`, which JSON does not have.
"""

from __future__ import annotations

from typing import Final

from traceforge.canon import JSON, number_text


class Absent:
    """The type of `ABSENT`."""


ABSENT: Final = Absent()


def type_of(value: JSON | Absent) -> str:
    """`typeof value`: null and arrays are objects."""
    if isinstance(value, Absent):
        return "undefined"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "object"


def is_number(value: JSON | Absent) -> bool:
    """Is it a number to JavaScript? `true` is not."""
    return type(value) is int or type(value) is float


def to_string(value: JSON | Absent) -> str:
    """`String(value)`."""
    if isinstance(value, str):
        return value
    if isinstance(value, Absent):
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(float(value))
    if isinstance(value, list):
        return ",".join("" if item is None else to_string(item) for item in value)
    return "[object Object]"
