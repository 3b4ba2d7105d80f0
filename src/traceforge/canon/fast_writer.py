"""JSON text that is not hashed, written as fast as possible.

In: values that came from JSON text. Out: UTF-8 text that reads back as the same value. Never: sorts keys, or promises
equal bytes on every machine; the exact writers do that.
"""

from __future__ import annotations

import json

import orjson

from traceforge.canon.json_types import JSON


def json_bytes(value: JSON, *, indent: bool = False) -> bytes:
    """Write a value on one line, or indented by two spaces."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2) if indent else orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):  # an integer beyond 64 bits, or a lone surrogate
        if indent:
            return json.dumps(value, indent=2).encode()
        return json.dumps(value, separators=(",", ":")).encode()


def ascii_json(value: JSON) -> str:
    r"""Write a value on one line with spaces, everything beyond ASCII escaped: `é` is `\u00e9`."""
    return json.dumps(value)
