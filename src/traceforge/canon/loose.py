"""JSON text that nobody hashes: as fast as can be, every number as it was.

In: values that came from JSON text. Out: UTF-8 text that reads back as the same value. Never: sorts, or promises
bytes that are equal on every machine; for those there are the exact writers.
"""

from __future__ import annotations

import orjson

from traceforge.canon.json_reader import JSON


def json_bytes(value: JSON, *, indent: bool = False) -> bytes:
    """Write a value on one line, or indented by two spaces."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2) if indent else orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):  # an integer beyond 64 bits, or a lone surrogate
        import json

        if indent:
            return json.dumps(value, indent=2).encode()
        return json.dumps(value, separators=(",", ":")).encode()
