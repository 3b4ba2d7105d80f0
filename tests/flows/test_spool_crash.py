"""A crash at any moment: every stored trace is found, once, and no reader fails."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.corpus import PROJECT
from support.example_counts import lengthen, seeded_rounds
from support.exchanges import parse_object, spread_id, trace_id
from traceforge.traces.chunk_file import read_chunks
from traceforge.traces.spool import find_segments, read_frames, read_segment
from traceforge.traces.trace_format import read_trace
from traceforge.traces.trace_store import TraceStore

WRITER = """
import itertools, sys
sys.path.insert(0, "tests")
import msgspec
from support.exchanges import plain_trace, spread_id, streamed_trace, trace_id
from traceforge.traces.spool import SpoolWriter
folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
writer = SpoolWriter(folder)
models = plain_trace(1), plain_trace(1, "long " * 4_000), streamed_trace(1)
old = trace_id(1).encode()
print("ready", flush=True)
for number in itertools.islice(itertools.count(first), count):
    summary, trace, chunks = models[number % 3]
    name = spread_id(number)
    kept = type(models[0])(msgspec.structs.replace(summary, id=name), trace.replace(old, name.encode()), chunks)
    writer.append(kept)
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""
DRAINER = """
import sys
from traceforge.traces.spool_drain import drain_spool
print("ready", flush=True)
drain_spool(sys.argv[1])
"""


def _start(script: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    return process


def _kill(process: subprocess.Popen[str], seconds: float) -> list[int]:
    """Kill the process; the numbers it had printed."""
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    lines = process.stdout.read().split("\n")[:-1]  # without an incomplete last line
    process.stdout.close()
    process.wait()
    return [int(line) for line in lines]


def _check(store: TraceStore, expected: set[str], may_be: set[str]) -> None:
    """Every expected trace is found, once and complete."""
    store.update_index()
    rows = store.list_rows()
    listed = Counter(row.summary.id for row in rows)
    assert set() == expected - set(listed)
    assert set() == set(listed) - expected - may_be
    assert [] == [name for name, count in listed.items() if count > 1]
    assert {} == store.unreadable_files()


def _check_complete(store: TraceStore) -> None:
    for row in store.list_rows():
        stored = store.read_stored(row)
        assert row.summary.id == read_trace(stored.trace).id
        assert row.summary.streamed == bool(read_chunks(stored.chunks))


def _tear(folder: Path, source: random.Random) -> tuple[int, str]:
    """Truncate the newest segment by a few bytes, as a torn write would: the number of torn frames, and the trace."""
    path = max(find_segments(str(folder)), key=os.path.getmtime, default="")
    segment = read_segment(path) if path else None
    if segment is None or not segment.frames or segment.torn_bytes:
        return 0, ""
    size = os.path.getsize(path)
    os.truncate(path, size - source.randint(1, min(40, size - segment.frames[-1].offset - 1)))
    return 1, segment.frames[-1].summary.id


def _crash_writers(folder: Path, times: int, first_round: int = 0) -> int:
    """Kill so many writers, one after the other; how many traces they had kept."""
    expected: set[str] = set()
    may_be: set[str] = set()
    torn = 0
    store = TraceStore(str(folder))
    for turn, source in seeded_rounds(times, first_round):
        first = turn * 800
        process = _start(WRITER, str(folder), str(first), "800")
        if turn % 4 == 0:
            store.update_index()  # a reader at the same time
        written = _kill(process, source.random() * 0.004)
        expected |= {spread_id(number) for number in written}
        may_be |= {spread_id(number) for number in range(first, first + len(written) + 1)}
        if turn % 3 == 1:
            count, torn_id = _tear(folder, source)
            torn += count
            expected.discard(torn_id)
        before = store.drain_result.torn
        _check(store, expected, may_be)
        assert torn <= store.drain_result.torn
        torn = store.drain_result.torn
        assert before <= torn
        assert [] == find_segments(str(folder))
    _check_complete(store)
    assert () == store.drain_result.damaged
    assert [] == list(folder.glob("**/.*"))
    assert len(expected) <= TraceStore(str(folder)).reindex()
    store.close()
    return len(expected)


def _crash_writers_apart(folder: Path, times: int, each: int) -> int:
    """Give so many writers each a folder of their own: every check reads all that its folder has kept."""
    count = 0
    for first_round in range(0, times, each):
        count += _crash_writers(folder / str(first_round), each, first_round)
        shutil.rmtree(folder / str(first_round))
    return count


@pytest.mark.slow
def test_a_killed_writer_loses_no_appended_trace(tmp_path: Path) -> None:
    """Each is listed once and complete; a torn one is reported."""
    _crash_writers(tmp_path, 4)


@pytest.mark.slow(seconds=60)
def test_a_writer_killed_two_hundred_times_loses_no_appended_trace(tmp_path: Path) -> None:
    """At random moments."""
    _crash_writers_apart(tmp_path, 200, 10)


@pytest.mark.soak
def test_writers_that_are_killed_in_a_soak_lose_nothing(tmp_path: Path, record_property: Any) -> None:
    """The same, at two thousand moments."""
    times = lengthen(20)
    count = _crash_writers_apart(tmp_path, times, 20)

    record_property("summary", f"spool: {times} writers killed, {count} traces kept")


def _crash_drainers(folder: Path, times: int, first_round: int = 0) -> None:
    expected: set[str] = set()
    store = TraceStore(str(folder))
    for turn, source in seeded_rounds(times, first_round):
        writer = _start(WRITER, str(folder), str(turn * 200), "200")
        assert writer.stdout is not None
        numbers = [int(line) for line in writer.stdout]
        writer.stdout.close()
        writer.wait()
        expected |= {spread_id(number) for number in numbers}
        _kill(_start(DRAINER, str(folder)), source.random() * 0.05)
        if turn % 2:
            _check(store, expected, set())
    _check(store, expected, set())
    _check_complete(store)
    assert [] == find_segments(str(folder))
    assert [] == list(folder.glob(".*.tmp")) + list(folder.glob("chunks/.*.tmp"))
    assert len(expected) == times * 200 == len(list(folder.glob("*.json")))
    store.close()


@pytest.mark.slow
def test_a_killed_drainer_loses_no_trace(tmp_path: Path) -> None:
    """None is duplicated, and no incomplete file is left."""
    _crash_drainers(tmp_path, 3)


@pytest.mark.slow
def test_a_drainer_killed_thirty_times_loses_no_trace(tmp_path: Path) -> None:
    """At random moments."""
    _crash_drainers(tmp_path, 30)


@pytest.mark.soak
def test_drainers_that_are_killed_in_a_soak_lose_nothing(tmp_path: Path, record_property: Any) -> None:
    """The same, at five hundred moments; every five have a folder of their own."""
    times = lengthen(5)
    for first_round in range(0, times, 5):
        folder = tmp_path / str(first_round)
        _crash_drainers(folder, 5, first_round)
        shutil.rmtree(folder)

    record_property("summary", f"spool: {times} drainers killed, {times * 200} traces kept")


FILLER = """
import sys
sys.path.insert(0, "tests")
from support.exchanges import plain_trace
from traceforge.errors import CannotWrite
from traceforge.traces.spool import SpoolWriter
writer = SpoolWriter(sys.argv[1])
failed = 0
print("ready", flush=True)
for number in range(2_000):
    try:
        writer.append(plain_trace(number, "x" * (number * 37 % 2_000)))
        print(number, flush=True)
    except CannotWrite:
        failed += 1
        if failed == 20:
            break
sys.exit(7 if failed == 20 else 0)
"""


def _fill(folder: Path, limit: int | None) -> list[int]:
    """Append until the disk is full; the appended numbers."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-c", FILLER, str(folder)]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, preexec_fn=limited, check=False)
    assert (7, "") == (completed.returncode, completed.stderr)
    return [int(line) for line in completed.stdout.split()[1:]]


def _check_full(folder: Path, written: list[int]) -> None:
    """Every appended trace is found, nothing is torn, and readers work on a full disk."""
    segments = [read_segment(path) for path in find_segments(str(folder))]
    assert [(0, 0)] * len(segments) == [
        (segment.torn_bytes, segment.damaged_bytes) for segment in segments if segment
    ]
    assert [trace_id(number) for number in written] == [frame.summary.id for frame in read_frames(str(folder))]
    assert all(parse_object(frame.trace) for frame in read_frames(str(folder)))
    store = TraceStore(str(folder))
    store.update_index()
    assert sorted(trace_id(number) for number in written) == sorted(row.summary.id for row in store.list_rows())
    assert (0, ()) == (store.drain_result.torn, store.drain_result.damaged)
    store.close()


def test_a_file_size_limit_tears_no_frame(tmp_path: Path) -> None:
    """Appends fail, and every earlier frame is complete."""
    written = _fill(tmp_path, 200_000)

    assert written
    _check_full(tmp_path, written)


def test_a_full_disk_tears_no_frame_and_can_be_read(tmp_path: Path) -> None:
    """On a file system of one megabyte."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a tmpfs here")
    try:
        written = _fill(tmp_path / "traces", None)
        assert written
        _check_full(tmp_path / "traces", written)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=False)
