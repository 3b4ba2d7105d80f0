"""Mutations of JSON values: each changes one place of a valid value, which may or may not become invalid.

A mutation is drawn as three small numbers (place, kind, choice), so that an example is cheap to draw and shrinks to
the fewest changes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

SECRET = "hunter2"  # In every string that a mutation brings along; no message may print it.

# What a wrong value looks like: every type, and numbers and texts close to the borders of every range.
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -0.0, 1, 1.0, -1, 0.5, -2, 2, 2.0000000001, 3, 10_000.0, 2**53 + 1, 2**63, 2**64, -(2**63),
    1e300, -1e300, 5e-324, "", SECRET, f"{SECRET}\n", "\ud800" + SECRET, [], {}, [None], [[]], [{}], [SECRET],
    [0, SECRET], {SECRET: SECRET}, {"role": SECRET}, {"role": "user"}, {"bundle_id": SECRET}, {"0": {"a": [1]}},
    "1.0.0", "record", "2026-02-30T10:00:00Z", "2026-01-09T10:30:00Z", "2026-01-09T10:30:00", "sha256:" + "a" * 64,
    "sha256:" + "A" * 64, "a" * 64, "abc", "blk_" + "0" * 26, "pc_1", "snapshot", "REFUSE", "success", "0", "٣",
)  # fmt: skip
NEW_KEYS = (
    SECRET, "", "0", "__proto__", "name", "content", "tool_calls", "messages", "prompt", "seed", "wire", "hash",
    "session_id", "step_index", "usage", "choices", "text", "bundle", "model_io_hash", "stats", "latency_ms", "error",
    "parent_trace_id", "state_snapshot", "stop", "stream", "declared", "gate", "tools",
)  # fmt: skip


class Mutation(NamedTuple):
    """One change: its place, its kind, and a number to choose a value with."""

    place: int
    kind: int
    choice: int


mutations = st.lists(
    st.builds(Mutation, st.integers(0, 199), st.integers(0, 19), st.integers(0, 10_000)), min_size=1, max_size=4
)


def mutate(value: Any, changes: list[Mutation]) -> Any:
    """Apply changes to a copy of `value`, one after the other."""
    root = {"": copy.deepcopy(value)}
    for change in changes:
        places = list(_places(root))
        parent, key = places[change.place % len(places)]
        _KINDS[change.kind % len(_KINDS)](root, parent, key, change.choice)
    return root.get("")


def _places(node: Any) -> Any:
    for key, child in list(node.items() if isinstance(node, dict) else enumerate(node)):
        yield node, key
        if isinstance(child, dict | list):
            yield from _places(child)


def _replace(root: Any, parent: Any, key: Any, choice: int) -> None:
    parent[key] = copy.deepcopy(JUNK[choice % len(JUNK)])


def _delete(root: Any, parent: Any, key: Any, choice: int) -> None:
    if parent is not root:
        del parent[key]


def _add(root: Any, parent: Any, key: Any, choice: int) -> None:
    target = parent[key] if isinstance(parent[key], dict | list) else parent
    junk = copy.deepcopy(JUNK[choice // 100 % len(JUNK)])
    if isinstance(target, list):
        target.insert(choice % (len(target) + 1), junk)
    elif target is not root:
        target[NEW_KEYS[choice % len(NEW_KEYS)]] = junk


def _copy_from_elsewhere(root: Any, parent: Any, key: Any, choice: int) -> None:
    places = list(_places(root))
    other, name = places[choice % len(places)]
    parent[key] = copy.deepcopy(other[name])


def _edit(root: Any, parent: Any, key: Any, choice: int) -> None:
    value = parent[key]
    if isinstance(value, str):
        parent[key] = _TEXT_EDITS[choice % len(_TEXT_EDITS)](value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = _NUMBER_EDITS[choice % len(_NUMBER_EDITS)](value)
    elif isinstance(value, list):
        parent[key] = value * 2
    else:
        _replace(root, parent, key, choice)


_KINDS: tuple[Callable[[Any, Any, Any, int], None], ...] = (
    _replace, _replace, _delete, _add, _add, _copy_from_elsewhere, _edit, _edit
)  # fmt: skip
_TEXT_EDITS: tuple[Callable[[str], Any], ...] = (
    lambda text: text + "\n",
    lambda text: "\n" + text,
    lambda text: text[:-1],
    lambda text: text[1:],
    str.upper,
    lambda text: text + SECRET,
    lambda text: text.replace("1", "١").replace("0", "０"),
    lambda text: text.replace("Z", "+23:59").replace(".", ","),
    lambda text: text.replace("-01-", "-02-").replace("-09T", "-30T"),
    lambda text: [text],
    lambda text: text.encode("utf-16-le", "surrogatepass").decode("latin-1"),
)
_NUMBER_EDITS: tuple[Callable[[float], Any], ...] = (
    lambda number: -number,
    lambda number: number + 0.5,
    float,
    lambda number: number * (1e20 if abs(number) < 1e280 else 1e-20),
    str,
    lambda number: [number],
    lambda number: -number - 1,
    bool,
)
