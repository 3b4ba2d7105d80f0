"""Which ones are meant?

In: things with ids, and names that a person typed. Out: those that are meant. Never: takes one of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from traceforge.errors import NotFound


class Named(Protocol):
    """Something with an id."""

    @property
    def id(self) -> str:
        """What it is called."""
        ...


NamedT = TypeVar("NamedT", bound=Named)


def choose(known: Iterable[NamedT], names: Sequence[str], *, noun: str, see: str) -> list[NamedT]:
    """Those of these ids, or of what the ids begin with; `see` is the command that lists them.

    Raises:
        NotFound: there is none of that name, or there are several.
    """
    listed = list(known)
    chosen: dict[str, NamedT] = {}
    for name in names:
        found = [one for one in listed if one.id == name] or [one for one in listed if one.id.startswith(name)]
        if len(found) != 1:
            what = f"several {noun}s begin with" if found else f"there is no {noun}"
            raise NotFound(f"{what} {name}", hint=f"See: {see}")
        chosen[found[0].id] = found[0]
    return list(chosen.values())
