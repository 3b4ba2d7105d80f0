"""The small types that formats are made of, and the names JSON gives to types.

Numbers are doubles here, as in JavaScript: 12.0 is the whole number 12.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from traceforge.canon import DIGEST_PATTERN, JSON
from traceforge.clock import TIMESTAMP_PATTERN

NonEmptyText = Annotated[str, Meta(min_length=1)]
WholeNumber = Annotated[float, Meta(ge=0, multiple_of=1)]
NonNegative = Annotated[float, Meta(ge=0)]
DigestText = Annotated[str, Meta(pattern=DIGEST_PATTERN, description="sha256: and 64 lower-case hex digits")]
Timestamp = Annotated[str, Meta(pattern=TIMESTAMP_PATTERN, description="a timestamp such as 2026-01-09T10:30:00Z")]
OpenObject = dict[str, Any]  # an object whose members belong to another format


class ShapeProblem(Struct, frozen=True):
    """One place where a value differs from its type."""

    path: str
    message: str


def json_type_name(value: JSON) -> str:
    """The JSON name of a value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
