"""Revisions of released functions (compilers, renderers), which are chosen by name and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from traceforge.errors import StoreRefused


class HasRevision(Protocol):
    """A compiler or a renderer."""

    revision: str


RevisionT = TypeVar("RevisionT", bound=HasRevision)


def select_revision(choices: Sequence[RevisionT], name: str, noun: str, *, reason: str, param: str) -> RevisionT:
    """The choice with this name. `reason` and `param` are those of the error, `noun` is what its message calls them.

    Raises:
        StoreRefused: this version of TraceForge does not have the revision.
    """
    for choice in choices:
        if choice.revision == name:
            return choice
    names = ", ".join(choice.revision for choice in choices)
    raise StoreRefused(
        f"there is no {noun} revision {name}: this version knows {names}",
        reason=reason,
        param=param,
        hint="Name one of them, or install a version that knows it.",
    )
