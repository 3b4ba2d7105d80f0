"""Count the context store's test cases by backend, merge strategy, replay lane and purge.

Each test report carries the cells that its test counts for, so that the counts also work with several test processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec

import pytest

COUNTED = "counted"
BACKENDS = ("sqlite", "postgresql")
MERGES = ("checkpoint", "compact", "rebase", "fork")
LANES = ("recorded", "baseline", "candidate")


def required_cells() -> tuple[str, ...]:
    """The cells that each backend needs. Replay lanes are required once the package has replay runs."""
    lanes = LANES if find_spec("traceforge.context.comparison.replay_runs") else ()
    return (*(f"merge {merge}" for merge in MERGES), *(f"lane {lane}" for lane in lanes), "purge")


def find_cells(item: pytest.Item) -> Iterator[str]:
    """The cells that a test counts for, such as `sqlite × purge`."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    backend = parameters.get("backend")
    if backend is None:
        return
    cells = [str(argument) for mark in item.iter_markers(COUNTED) for argument in mark.args]
    if "strategy" in parameters:
        cells.append(f"merge {getattr(parameters['strategy'], 'value', parameters['strategy'])}")
    if "lane" in parameters:
        cells.append(f"lane {getattr(parameters['lane'], 'value', parameters['lane'])}")
    for cell in dict.fromkeys(cells):
        if cell not in (*required_cells(), *(f"lane {lane}" for lane in LANES)):
            raise pytest.UsageError(f"{item.nodeid} counts for {cell}, and nobody asks for that")
        yield f"{backend} × {cell}"


def tally(reports: Iterable[pytest.TestReport]) -> Counter[str]:
    """How many passed tests count for each cell."""
    return Counter(str(value) for report in reports for name, value in report.user_properties if name == COUNTED)


def format_counts(counts: Counter[str]) -> list[str]:
    """One line per cell with its counts."""
    return [
        f"context store, {cell_name}: "
        + ", ".join(f"{counts[f'{backend} × {cell_name}']} on {backend}" for backend in BACKENDS)
        for cell_name in dict.fromkeys((*required_cells(), *(cell.partition(" × ")[2] for cell in counts)))
    ]


def find_missing_cells(counts: Counter[str]) -> list[str]:
    """The required cells without a passed test."""
    return [
        cell
        for cell_name in required_cells()
        for backend in BACKENDS
        if not counts[cell := f"{backend} × {cell_name}"]
    ]
