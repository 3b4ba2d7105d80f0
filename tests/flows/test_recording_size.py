"""The largest session that the format allows: recorded in little memory, verified, replayed fast."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from traceforge.canon import parse_json
from traceforge.modelio import ReplayAdapter, ValidRecording, verify_session

CALLS, BYTES = 10_000, 10_000  # 100,000,000 bytes: exactly what the limits allow
GROWTH_KB_MAX = 8_000  # What the numbers of 10,000 calls need; the session itself is 100 MB.
PROGRAM = """
import re, sys
from traceforge.modelio import CallableAdapter, RecordingSession

calls, size = int(sys.argv[1]), int(sys.argv[2])
words = ("The quick brown fox é jumps over the lazy dog. " * (size // 40)).encode()

def answer(prompt, context):
    start = int(prompt) % 997
    return words[start : start + size].decode(errors="ignore").ljust(1).encode()[:size].decode(errors="ignore")

with RecordingSession("r.json", CallableAdapter(answer)) as session:
    for number in range(calls):
        session.adapter.complete(str(number))
print(re.search(r"VmHWM:\\s+([0-9]+) kB", open("/proc/self/status").read())[1])
"""


def _record(folder: Path, calls: int) -> int:
    """Record; the peak memory in kB of the process alone."""
    folder.mkdir()
    words = [sys.executable, "-c", PROGRAM, str(calls), str(BYTES - 5)]
    completed = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return int(completed.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_session_of_a_hundred_megabytes_needs_little_memory(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Every rule holds, and 10,000 calls replay."""
    small, large = _record(tmp_path / "small", 100), _record(tmp_path / "large", CALLS)
    file = tmp_path / "large" / "r.json"
    result = verify_session(parse_json(file.read_bytes()))
    replay = ReplayAdapter.load(file, all_used=True)
    for number in range(CALLS):
        replay.complete(str(number))
    replay.check_used()
    megabytes = file.stat().st_size / 1e6
    record_property("summary", f"a recording of 1 MB and of {megabytes:.0f} MB: {small} kB, {large} kB of memory")

    assert isinstance(result, ValidRecording)
    assert CALLS == result.interactions_count
    assert large - small < GROWTH_KB_MAX
