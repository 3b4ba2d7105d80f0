"""Select items by their id, or by a prefix of it that the user typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from traceforge.errors import NotFound


class HasId(Protocol):
    """An object that can be selected by its id."""

    @property
    def id(self) -> str: ...


HasIdT = TypeVar("HasIdT", bound=HasId)


def select_by_id_prefix(items: Iterable[HasIdT], names: Sequence[str], *, noun: str, see: str) -> list[HasIdT]:
    """The items of these ids or id prefixes; `see` is the command that lists all of them.

    Raises:
        NotFound: no item matches a name, or several match a prefix.
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
