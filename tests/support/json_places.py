"""Change one place of a JSON value, and name it."""

from __future__ import annotations

import copy
from typing import Any

Place = tuple[str | int, ...]


def replace_at(value: Any, place: Place, new: Any) -> Any:
    """A copy of `value` with another value at this place."""
    changed = copy.deepcopy(value)
    _parent(changed, place)[place[-1]] = new
    return changed


def remove_at(value: Any, place: Place) -> Any:
    """A copy of `value` without the member or item at this place."""
    changed = copy.deepcopy(value)
    del _parent(changed, place)[place[-1]]
    return changed


def _parent(value: Any, place: Place) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


def json_path_of(place: Place) -> str:
    """The place as findings name it, such as `$.snapshots[0].request`."""
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
