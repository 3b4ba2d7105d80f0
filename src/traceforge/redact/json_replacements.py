"""Putting replacements into a JSON value.

In: a value, and what goes in the place of some of its parts. Out: a copy with these, and the path of each part.
Never: changes the value, or drops a member.
"""

from __future__ import annotations

from typing import NamedTuple

from traceforge.canon import JSON, json_path

PATH_LENGTH_MAX = 500  # A model chooses the names above its secrets, and each of the secrets repeats them.
REST_OF_PATH = '["..."]'

Node = tuple["Node | None", str | int]  # The way from the root: the parent's way, and the key below it.


class Replacement(NamedTuple):
    """What is put in the place of a value, and the secrets that were there as (start, type, secret)."""

    value: JSON
    secrets: list[tuple[int, str, str]]


def apply_replacements(
    value: JSON, node: Node | None, changes: dict[Node | None, Replacement], renamed: dict[Node | None, Replacement]
) -> JSON:
    """Copy the value, with each changed node and each secret name replaced."""
    if node in changes:
        return changes[node].value
    if isinstance(value, dict):
        copy: dict[str, JSON] = {}
        for key, child in value.items():
            name = str(renamed[node, key].value) if (node, key) in renamed else key
            while name in copy:  # Two secrets as names of one object: both members are kept.
                name += "'"
            copy[name] = apply_replacements(child, (node, key), changes, renamed)
        return copy
    if isinstance(value, list):
        return [apply_replacements(child, (node, place), changes, renamed) for place, child in enumerate(value)]
    return value


def describe_path(node: Node | None, root: str, renamed: dict[Node | None, Replacement]) -> str:
    """Where a secret stood; a name that is itself a secret is written as it is stored."""
    keys: list[str | int] = []
    while node is not None:
        keys.append(str(renamed[node].value) if node in renamed else node[1])
        node = node[0]
    for key in reversed(keys):
        if len(root) + (len(key) if isinstance(key, str) else 0) > PATH_LENGTH_MAX:
            return root + REST_OF_PATH
        root = json_path(root, key)
    return root
