"""Whether a value fits its type, and where it does not.

In: a JSON value and the msgspec type that defines a format. Out: every place where they differ, with a sentence.
Never: converts a value, fills a default, or prints a string from the value (it could be a secret).

msgspec accepts a valid value in microseconds. It names only one place of an invalid value, so `difference_walk` finds
them all.
"""

from __future__ import annotations

from typing import Any

import msgspec

from traceforge.canon import JSON
from traceforge.clock import find_instant, is_timestamp
from traceforge.conversion import convert
from traceforge.shape.difference_walk import list_shape_differences
from traceforge.shape.field_types import (
    DigestText,
    NonEmptyText,
    NonNegative,
    OpenObject,
    ShapeProblem,
    Timestamp,
    WholeNumber,
    json_type_name,
)

__all__ = [
    "DigestText",
    "NonEmptyText",
    "NonNegative",
    "OpenObject",
    "ShapeProblem",
    "Timestamp",
    "WholeNumber",
    "find_problems",
    "find_timestamp_problems",
    "json_type_name",
]


def find_problems(value: JSON, shape: Any) -> list[ShapeProblem]:  # noqa: ANN401 (a type, or an Annotated one)
    """List every place where `value` differs from `shape`; empty if it fits."""
    try:
        convert(value, shape)
    except msgspec.ValidationError as exc:
        return list(list_shape_differences(value, shape)) or [ShapeProblem("$", str(exc))]
    except (UnicodeError, OverflowError):  # msgspec cannot look at a lone surrogate; the walk can.
        return list(list_shape_differences(value, shape))
    return []


def find_timestamp_problems(value: JSON, path: str) -> list[ShapeProblem]:
    """Check that a timestamp names a day and time that exist, which no pattern can do."""
    if not isinstance(value, str) or find_instant(value) or not is_timestamp(value):
        return []
    return [ShapeProblem(path, "names a day or time that does not exist")]
