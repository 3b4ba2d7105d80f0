"""A crash at any moment: what was kept is there, once, and nobody who reads fails."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support.corpus import PROJECT
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
    """End it hard; the numbers it had printed."""
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    lines = process.stdout.read().split("\n")[:-1]  # A line that was cut is none.
    process.stdout.close()
    process.wait()
    return [int(line) for line in lines]


def _check(store: TraceStore, expected: set[str], may_be: set[str]) -> None:
    """Everything that is expected is there, once and whole."""
    store.update_index()
    rows = store.list_rows()
    listed = Counter(row.summary.id for row in rows)
    assert set() == expected - set(listed)
    assert set() == set(listed) - expected - may_be
    assert [] == [name for name, count in listed.items() if count > 1]
    assert {} == store.unreadable_files()


def _check_whole(store: TraceStore) -> None:
    for row in store.list_rows():
        kept = store.read_stored(row)
        assert row.summary.id == read_trace(kept.trace).id
        assert row.summary.streamed == bool(read_chunks(kept.chunks))


def _tear(folder: Path, source: random.Random) -> tuple[int, str]:
    """Take a few bytes off the newest segment, as a torn write would: how many were torn, and which trace."""
    path = max(find_segments(str(folder)), key=os.path.getmtime, default="")
    segment = read_segment(path) if path else None
    if segment is None or not segment.frames or segment.torn_bytes:
        return 0, ""
    size = os.path.getsize(path)
    os.truncate(path, size - source.randint(1, min(40, size - segment.frames[-1].offset - 1)))
    return 1, segment.frames[-1].summary.id


def _crash_writers(folder: Path, times: int) -> None:
    source = random.Random(times)
    expected: set[str] = set()
    may_be: set[str] = set()
    torn = 0
    store = TraceStore(str(folder))
    for turn in range(times):
        first = turn * 800
        process = _start(WRITER, str(folder), str(first), "800")
        if turn % 4 == 0:
            store.update_index()  # A reader in the middle of it.
        written = _kill(process, source.random() * 0.004)
        expected |= {spread_id(number) for number in written}
        may_be |= {spread_id(number) for number in range(first, first + len(written) + 1)}
        if turn % 3 == 1:
            count, gone = _tear(folder, source)
            torn += count
            expected.discard(gone)
        before = store.drain_result.torn
        _check(store, expected, may_be)
        assert torn <= store.drain_result.torn
        torn = store.drain_result.torn
        assert before <= torn
        assert [] == find_segments(str(folder))
    _check_whole(store)
    assert () == store.drain_result.damaged
    assert [] == list(folder.glob("**/.*"))
    assert len(expected) <= TraceStore(str(folder)).reindex()
    store.close()


def test_a_writer_that_is_killed_loses_nothing_that_it_had_kept(tmp_path: Path) -> None:
    """Every trace whose append had returned is listed once, whole, and a torn one is told."""
    _crash_writers(tmp_path, 8)


@pytest.mark.slow
def test_a_writer_that_is_killed_two_hundred_times_loses_nothing(tmp_path: Path) -> None:
    """The same, at two hundred random moments."""
    _crash_writers(tmp_path, 200)


def _crash_drainers(folder: Path, times: int) -> None:
    source = random.Random(times)
    expected: set[str] = set()
    store = TraceStore(str(folder))
    for turn in range(times):
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
    _check_whole(store)
    assert [] == find_segments(str(folder))
    assert [] == list(folder.glob(".*.tmp")) + list(folder.glob("chunks/.*.tmp"))
    assert len(expected) == times * 200 == len(list(folder.glob("*.json")))
    store.close()


def test_a_drainer_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """None is lost, none is there twice, and nothing half-written is left."""
    _crash_drainers(tmp_path, 5)


@pytest.mark.slow
def test_a_drainer_that_is_killed_thirty_times_loses_nothing(tmp_path: Path) -> None:
    """The same, at thirty random moments."""
    _crash_drainers(tmp_path, 30)


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
    """Write until there is no more room; what was kept."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-c", FILLER, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, preexec_fn=limited, check=False)
    assert (7, "") == (done.returncode, done.stderr)
    return [int(line) for line in done.stdout.split()[1:]]


def _check_full(folder: Path, written: list[int]) -> None:
    """Every append that returned is there, nothing is torn, and readers get by without room."""
    segments = [read_segment(path) for path in find_segments(str(folder))]
    assert [(0, 0)] * len(segments) == [(one.torn_bytes, one.damaged_bytes) for one in segments if one]
    assert [trace_id(number) for number in written] == [frame.summary.id for frame in read_frames(str(folder))]
    assert all(parse_object(frame.trace) for frame in read_frames(str(folder)))
    store = TraceStore(str(folder))
    store.update_index()
    assert sorted(trace_id(number) for number in written) == sorted(row.summary.id for row in store.list_rows())
    assert (0, ()) == (store.drain_result.torn, store.drain_result.damaged)
    store.close()


def test_a_limit_on_files_tears_nothing(tmp_path: Path) -> None:
    """Appends fail, and everything before them is whole."""
    written = _fill(tmp_path, 200_000)

    assert written
    _check_full(tmp_path, written)


def test_a_full_disk_tears_nothing_and_can_be_read(tmp_path: Path) -> None:
    """On a file system of one megabyte: the spool is full, and the list is there all the same."""
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
