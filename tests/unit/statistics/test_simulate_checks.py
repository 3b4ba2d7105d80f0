"""Simulated checks end as the engine says, and the page about pass rates shows its figures."""

from __future__ import annotations

import math
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from traceforge.statistics.pass_rate import PassRateTest

ROOT = Path(__file__).parents[3]
CHECKS = 10_000


def _load(path: Path) -> ModuleType:
    specification = spec_from_file_location(path.stem, path)
    assert specification
    assert specification.loader
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


simulate_checks = _load(ROOT / "benchmarks" / "simulate_checks.py")


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0])
def test_ten_thousand_checks_end_as_computed(rate: float) -> None:
    """Shares and mean runs are within five standard deviations of the exact values, for a fixed seed."""
    test = PassRateTest(pass_rate=0.9, runs_max=250)
    expected = test.outcomes_at(rate)
    pairs = [(f"{name} at {rate}", getattr(expected, name)) for name in ("passed", "failed", "undecided")]

    counted = simulate_checks.simulate(test, rate, CHECKS, Random(simulate_checks.SEED))

    for name, share in pairs:
        deviation = math.sqrt(share * (1 - share) / CHECKS)
        assert share == pytest.approx(getattr(counted, name.split()[0]), abs=5 * deviation + 1e-3), name
    # No check takes more than 250 runs, so the standard deviation of one is at most 125.
    assert expected.mean_runs == pytest.approx(counted.mean_runs, abs=5 * 125 / math.sqrt(CHECKS))


def test_the_page_shows_what_the_engine_computes() -> None:
    """Every row of the table of caps stands on the page."""
    page = (ROOT / "docs" / "explanation" / "how-a-pass-rate-is-judged.md").read_text(encoding="utf-8")

    assert [] == [row for row in simulate_checks.cap_rows(0.9, 0.1) if row not in page]
