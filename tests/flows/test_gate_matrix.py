"""The matrix of the gate: every way to change behaviour is red or unchecked, every harmless difference is green.

The cases are data, in `gate_cases/`: an edit of the approved support desk of `tests/apps/desk`, the ways in which it
is judged (`traceforge test`, plain pytest, two workers, the proxy in replay), and the verdict. The desk is green
without the edit, in the same way and with the same tests. A provider with other answers is listening, and must never
be asked. `make test` runs one case of each class, `make test-all` every case, and `make soak` the ways that are left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from flows.gate_cases import (
    addresses,
    builds,
    checkouts,
    counts,
    machines,
    own_recordings,
    policy,
    processes,
    pytest_files,
    redacted,
    request_changes,
    same_requests,
    sdks,
    skipped_tests,
)
from support.desk_project import Desk, approved_desk, check_unedited, check_verdict
from support.gate_case import PROXY, Case

MODULES = (
    request_changes, same_requests, addresses, sdks, counts, skipped_tests, policy, builds, checkouts, redacted,
    processes, machines, own_recordings, pytest_files,
)  # fmt: skip
GREEN_SAMPLE = (same_requests.__name__, counts.__name__, machines.__name__)
BY_PROXY = (request_changes.__name__, same_requests.__name__)  # whose sample has a case in the proxy too
CASES = {(module.__name__, name): cases for module in MODULES for name, cases in module.CASES.items()}


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The approved desk: recorded once in a run, for all its workers, and never changed."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with approved_desk(shared / "desk") as approved:
        yield approved


def params() -> Iterator[object]:
    """Each case in the first of its ways, and every second one in another, in turn, so that a class meets them all.

    All of these are slow but the first case that is not green in a module, and the first green one of those in
    GREEN_SAMPLE. SDKs take a second to import, so theirs are slow too. The ways that are left are for `make soak`.
    """
    sampled = {(module, "green") for module, _ in CASES if module not in GREEN_SAMPLE} | {
        (sdks.__name__, "not green")
    }
    turn = count()
    for (module, name), cases in CASES.items():
        for number, case in enumerate(cases):
            first, *others = case.ways
            second = others[next(turn) % len(others)] if others and number % 2 == 0 else first
            for way in case.ways:
                verdict = "green" if case.verdict == "green" else "not green"
                kind = (module, verdict, way) if module in BY_PROXY and way == PROXY else (module, verdict)
                if way not in (first, second):
                    marks = [pytest.mark.soak]
                elif kind in sampled:
                    marks = [pytest.mark.slow]
                else:
                    marks = []
                    sampled.add(kind)
                if reason := case.pending_in(way):
                    marks.append(pytest.mark.xfail(reason=reason, strict=True))
                yield pytest.param(way, case, id=f"{name}: {case.name}, by-{way}", marks=marks)


@pytest.mark.parametrize(("way", "case"), list(params()))
def test_the_gate(desk: Desk, tmp_path: Path, way: str, case: Case) -> None:
    """The verdict of one case in one way."""
    check_unedited(desk, tmp_path / "unedited", way, case)
    checkout = desk.at(tmp_path / "desk")
    for step in case.steps:
        step(checkout)

    before = checkout.read_committed()

    check_verdict(case, way, checkout.judge(way, case))

    assert before == checkout.read_committed(), "the gate wrote what a person approves"


def test_there_are_a_hundred_and_fifty_different_cases_of_each_kind() -> None:
    cases = [case for group in CASES.values() for case in group]
    harmless = [case for case in cases if case.verdict == "green"]

    assert len({case.name for case in cases}) == len(cases)
    assert 150 <= len(harmless)
    assert 150 <= len(cases) - len(harmless)
