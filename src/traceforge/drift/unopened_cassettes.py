"""Cassettes in a folder that no test loads.

In: paths of files. Out: the cassettes among them, each with the number of its interactions, or the reason why it
cannot be read. Never: follows a link, or stops at a broken cassette.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from traceforge.errors import CannotRead, InvalidFile, MissingExtra
from traceforge.findings import IO, Finding
from traceforge.snapshots.record.cassette_import import list_cassette_findings, read_cassette_file


@dataclass(frozen=True)
class UnopenedCassette:
    """A cassette that no test loaded."""

    path: str
    interactions: int = 0
    problem: Finding | None = None  # why it cannot be read


def read_unopened(paths: Iterable[str]) -> Iterator[UnopenedCassette]:
    """The cassettes among these files."""
    for path in paths:
        try:
            interactions = read_cassette_file(path)
        except (InvalidFile, CannotRead) as exc:
            yield UnopenedCassette(path, problem=list_cassette_findings(exc, path)[0])
        except MissingExtra as exc:
            yield UnopenedCassette(path, problem=Finding(path, "", IO, str(exc), exc.hint))
        else:
            if interactions is not None:
                yield UnopenedCassette(path, len(interactions))
