"""Many files on many cores give what one core gives."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

import pytest

from traceforge.audit import parallel_map
from traceforge.audit.parallel_map import map_in_parallel


def with_process(number: int) -> tuple[int, int]:
    """The result of a check, and the process that ran it."""
    return number * number, os.getpid()


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ten tasks be worth forking for, on two cores; threads that other tests have left do not count."""
    count, before = threading.active_count, threading.active_count() - 1
    monkeypatch.setattr(threading, "active_count", lambda: count() - before)
    monkeypatch.setattr(parallel_map, "WORTH_FORKING", 10)
    monkeypatch.setattr(parallel_map, "_count_cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("count", [10, 11, 1000])
def test_outcomes_come_in_order_from_two_processes(count: int) -> None:
    """Whichever process is faster; and a second process really works."""
    outcomes = list(map_in_parallel(with_process, range(count)))

    assert [number * number for number in range(count)] == [outcome for outcome, _ in outcomes]
    assert 2 == len({process for _, process in outcomes})


@pytest.mark.usefixtures("two_cores")
def test_a_worker_that_dies_loses_nothing() -> None:
    """The share of a dead worker is done again by the process that started it."""
    parent = os.getpid()

    def check(number: int) -> int:
        if number == 15 and os.getpid() != parent:
            os._exit(9)
        return number

    assert list(range(20)) == list(map_in_parallel(check, range(20)))


@pytest.mark.usefixtures("two_cores")
def test_a_process_with_threads_is_not_forked() -> None:
    """A fork copies locks that other threads hold; then everything runs in place."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        outcomes = list(map_in_parallel(with_process, range(20)))
    finally:
        stop.set()
        thread.join()

    assert {os.getpid()} == {process for _, process in outcomes}


def test_progress_sees_every_outcome_and_the_total() -> None:
    """A bar can be drawn: the total is known first, then each outcome passes."""
    outcomes_seen: list[object] = []

    def progress(outcomes: Iterable[int], total: int) -> Iterable[int]:
        outcomes_seen.append(total)
        for outcome in outcomes:
            outcomes_seen.append(outcome)
            yield outcome

    assert [0, 1, 2] == list(map_in_parallel(int, ["0", "1", "2"], progress))  # type: ignore[arg-type]  # int for any Outcome
    assert [3, 0, 1, 2] == outcomes_seen
