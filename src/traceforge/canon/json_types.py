"""The type of a JSON value, and how a place inside one is written: `$.snapshots[0].request["top-p"]`."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
JSONObject: TypeAlias = "dict[str, JSON]"

DEPTH_MAX = 200  # Deeper text is hostile or broken; every walk over a value may rely on this.


def json_path(parent: str, key: str | int) -> str:
    """Name the child `key` of `parent`."""
    if isinstance(key, int):
        return f"{parent}[{key}]"
    if key.isascii() and key.isidentifier():
        return f"{parent}.{key}"
    return f"{parent}[{encode_basestring_ascii(key)}]"
