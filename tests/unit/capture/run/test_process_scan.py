"""The scan of the programs that a command starts, with real processes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from traceforge.capture.run import process_scan
from traceforge.capture.run.process_files import StartedProgram, read_program

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


def test_a_program_that_hides_its_words_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel may let a program empty its command line: only while it is being started may it have none."""

    def read_without_words(pid: int) -> StartedProgram:
        return read_program(pid)._replace(words=())

    monkeypatch.setattr(process_scan, "SCAN_INTERVAL_S", 0)
    monkeypatch.setattr(process_scan, "read_program", read_without_words)
    scan = process_scan.ProcessScan()
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as hidden:
        deadline = time.monotonic() + 60
        while not scan.uninstrumented_pythons(()) and time.monotonic() < deadline:
            time.sleep(0.01)
        hidden.communicate(b"\n")
    scan.close()

    assert 1 == scan.uninstrumented_pythons(()).total()
