"""The type of a JSON value, and how a place inside one is written: `$.snapshots[0].request["top-p"]`."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from typing import TypeAlias

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
JSONObject: TypeAlias = "dict[str, JSON]"

PATHS_LENGTH_MAX = 64 << 20  # Of `measure_paths`, where the paths of all parts are built.
DEPTH_MAX = 200  # Deeper text is hostile or broken; every walk over a value may rely on this.


def json_path(parent: str, key: str | int) -> str:
    """Name the child `key` of `parent`."""
    if isinstance(key, int):
        return f"{parent}[{key}]"
    if key.isascii() and key.isidentifier():
        return f"{parent}.{key}"
    return f"{parent}[{encode_basestring_ascii(key)}]"


def measure_paths(value: JSON) -> int:
    """How many characters the keys in the paths of all parts have, without building a path.

    Each path repeats the keys above its part: a small document of long keys can have paths of gigabytes.
    """
    total, pending = 0, [(0, value)]
    while pending:
        length, parent = pending.pop()
        if isinstance(parent, dict):
            pending += [(length + len(key), member) for key, member in parent.items()]
            total += length * len(parent) + sum(map(len, parent))
        elif isinstance(parent, list):
            pending += [(length + 1, member) for member in parent]
            total += (length + 1) * len(parent)
    return total
