"""Which ones are meant?

In: things with ids, and names that a person typed. Out: those that are meant. Never: takes one of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from traceforge.errors import NotFound


class HasId(Protocol):
    """Something with an id."""

    @property
    def id(self) -> str:
        """What it is called."""
        ...


HasIdT = TypeVar("HasIdT", bound=HasId)


def select_by_id_prefix(items: Iterable[HasIdT], names: Sequence[str], *, noun: str, see: str) -> list[HasIdT]:
    """Those of these ids, or of what the ids begin with; `see` is the command that lists them.

    Raises:
        NotFound: there is none of that name, or there are several.
    """
    all_items = list(items)
    selected: dict[str, HasIdT] = {}
    for name in names:
        matches = [item for item in all_items if item.id == name] or [
            item for item in all_items if item.id.startswith(name)
        ]
        if len(matches) != 1:
            problem = f"several {noun}s begin with" if matches else f"there is no {noun}"
            raise NotFound(f"{problem} {name}", hint=f"See: {see}")
        selected[matches[0].id] = matches[0]
    return list(selected.values())
