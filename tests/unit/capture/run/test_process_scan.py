"""The scan of the programs that a command starts, with real processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from traceforge.capture.run import process_scan

PROGRAMS = 300


@pytest.mark.slow
def test_a_program_that_is_being_started_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between loading the file and laying out its stack, the kernel shows it without words, or at another address."""
    monkeypatch.setattr(process_scan, "SCAN_INTERVAL_S", 0)
    scan = process_scan.ProcessScan()
    try:
        for _ in range(PROGRAMS):
            subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)
    finally:
        scan.close()

    pythons = scan.uninstrumented_pythons(())

    assert {f"{sys.executable.rpartition('/')[2]} -S -c …"} == set(pythons)
    assert 0 < pythons.total() <= PROGRAMS
