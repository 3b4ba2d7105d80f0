"""Differences of two JSON values, read from a JSON report of the command line. A report may come from anywhere."""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.compare.json_diff import ABSENT, ValueChange
from traceforge.wire.unified import as_object, as_text, list_objects

_SIDES = ("before", "after")


def read_row(row: JSONObject) -> ValueChange:
    """A difference; of two texts, the report has the segments of both."""
    path = as_text(row.get("path"))
    if as_object(row.get("text")).get("stretches"):
        return read_text_row(path, row.get("text"))
    return ValueChange(path, *(row.get(side, ABSENT) for side in _SIDES))


def read_text_row(path: str, text: JSON) -> ValueChange:
    """A difference of two texts."""
    segments = list_objects(as_object(text).get("stretches"))
    return ValueChange(path, *("".join(_segment_text(segment, side) for segment in segments) for side in _SIDES))


def _segment_text(segment: JSONObject, side: str) -> str:
    return as_text(segment.get("same")) or as_text(segment.get(side))
