"""A requirement of a specification, and the documents that it accepts or refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from flows.requirements.product import Product


class SnapshotCase(NamedTuple):
    """A document of 000; `refused` is the rule and the place of the finding, or "" if it is valid."""

    document: dict[str, Any]
    refused: str = ""


class TraceCase(NamedTuple):
    """A trace of 002; as above."""

    document: dict[str, Any]
    refused: str = ""


class RecordingCase(NamedTuple):
    """A recording of 003; as above."""

    document: Any
    refused: str = ""


class Requirement(NamedTuple):
    """One line of a specification."""

    specification: str
    place: str
    text: str
    check: SnapshotCase | TraceCase | RecordingCase | Callable[[Product], None]
    is_slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.specification} {self.place}: {self.text}"
