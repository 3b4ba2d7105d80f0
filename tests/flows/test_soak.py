"""Proxy, context server, chat and applications under mixed load while processes are killed, the disk is full, the
database restarts and the clock jumps: nothing is lost, nothing is there twice, memory stays flat, nothing crashes.

`support/soak` has the parts. `SEED=N` repeats the choices of a run, though not the moments at which they fall.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.example_counts import SEED, lengthen
from support.soak.soak_run import run_soak

TWO_MINUTES = 120
SOAK_SECONDS = 36  # An hour with the usual factor.

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for processes in /proc")


@pytest.mark.slow(seconds=TWO_MINUTES)
def test_nothing_is_lost_or_doubled_in_two_minutes_of_faults(tmp_path: Path, record_property: Any) -> None:
    """Every acknowledged write is there once, byte for byte."""
    _soak(tmp_path, TWO_MINUTES, record_property)


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_in_an_hour_of_faults(tmp_path: Path, record_property: Any) -> None:
    """Every acknowledged write is there once, byte for byte."""
    _soak(tmp_path, lengthen(SOAK_SECONDS), record_property)


def _soak(folder: Path, seconds: float, record_property: Any) -> None:
    print(f"SEED={SEED}")  # noqa: T201 (to repeat a failed run)
    report = run_soak(folder, SEED, seconds)
    for line in report.lines:
        record_property("summary", f"soak, {line}")
    record_property("summary", f"soak, SEED={SEED}, {seconds} s: {dict(report.faults)}")
