"""The spool: safe before it is a file."""

from __future__ import annotations

import os
import resource
import signal
import struct
import threading
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import plain_trace, streamed_trace
from support.json_texts import fuzz
from traceforge.errors import CannotWrite
from traceforge.traces import spool
from traceforge.traces.file_lock import lock_file
from traceforge.traces.spool import (
    SpoolWriter,
    blank_frames,
    encode_frame,
    find_segments,
    parse_segment,
    read_frame,
    read_frames,
    read_segment,
)
from traceforge.traces.spool_drain import drain_spool
from traceforge.traces.trace_summary import StoredTrace

STORED = [plain_trace(number) if number % 2 else streamed_trace(number) for number in range(4)]
FRAMES = [b"".join(encode_frame(stored)) for stored in STORED]


def _read_stored(folder: Path) -> list[StoredTrace]:
    return [StoredTrace(frame.summary, frame.trace, frame.chunks) for frame in read_frames(str(folder))]


def by_id(traces: list[StoredTrace]) -> list[StoredTrace]:
    """In an order of their own."""
    return sorted(traces, key=lambda stored: stored.summary.id)


def test_appended_traces_are_read_back(tmp_path: Path) -> None:
    """In order, with its chunks, while the writer lives and after."""
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED:
        writer.append(stored)

    assert STORED == _read_stored(tmp_path)
    writer.seal()
    assert STORED == _read_stored(tmp_path)


def test_a_segment_has_an_owner_until_it_is_sealed(tmp_path: Path) -> None:
    """A drainer leaves it alone, and takes it afterwards; the next append begins another."""
    writer = SpoolWriter(str(tmp_path), durable=True)
    writer.append(STORED[0])

    assert (0, 1) == (drain_spool(str(tmp_path)).traces, drain_spool(str(tmp_path)).remaining)
    writer.seal()
    assert 1 == drain_spool(str(tmp_path)).traces
    writer.append(STORED[1])
    assert [STORED[1]] == _read_stored(tmp_path)


def test_a_long_segment_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drainer reads a segment whole."""
    monkeypatch.setattr(spool, "SEGMENT_BYTES_MAX", 1)
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED:
        writer.append(stored)

    assert len(STORED) == len(find_segments(str(tmp_path)))
    assert by_id(STORED) == by_id(_read_stored(tmp_path))


def test_a_frame_can_be_read_alone(tmp_path: Path) -> None:
    """From its place, and nothing from any other place."""
    path = tmp_path / "a.segment"
    path.write_bytes(b"".join(FRAMES))
    segment = read_segment(str(path))

    assert segment is not None
    assert segment.frames == [read_frame(str(path), frame.offset) for frame in segment.frames]
    assert [None] * 3 == [read_frame(str(path), place) for place in (1, len(FRAMES[0]) - 1, 10**9)]
    assert read_frame(str(tmp_path / "gone"), 0) is None


def test_reading_continues_from_an_offset() -> None:
    """What was read before is not read again."""
    first = parse_segment(b"".join(FRAMES[:2]))

    assert 2 == len(parse_segment(b"".join(FRAMES), first.end).frames)


@fuzz(150)
@given(st.data())
def test_a_torn_tail_affects_no_other_frame(data: st.DataObject) -> None:
    """Cut anywhere: every complete frame is read, and the tail is reported as torn."""
    all_frames = b"".join(FRAMES)
    size = data.draw(st.integers(0, len(all_frames)))

    segment = parse_segment(all_frames[:size])

    fits = sum(size >= sum(map(len, FRAMES[: number + 1])) for number in range(len(FRAMES)))
    assert STORED[:fits] == [StoredTrace(frame.summary, frame.trace, frame.chunks) for frame in segment.frames]
    assert (0, size - sum(map(len, FRAMES[:fits]))) == (segment.damaged_bytes, segment.torn_bytes)


@fuzz(150)
@given(st.integers(0, sum(map(len, FRAMES)) - 1), st.integers(1, 255))
def test_a_damaged_frame_affects_no_other_frame(place: int, change: int) -> None:
    """Any byte may be wrong: the frame it is in is missing, and every other is there."""
    data = bytearray(b"".join(FRAMES))
    data[place] ^= change

    segment = parse_segment(bytes(data))

    hit = next(number for number in range(len(FRAMES)) if place < sum(map(len, FRAMES[: number + 1])))
    assert [stored.trace for stored in STORED if stored is not STORED[hit]] == [
        frame.trace for frame in segment.frames
    ]
    assert (segment.torn_bytes if hit == len(FRAMES) - 1 else segment.damaged_bytes) == len(FRAMES[hit])


@pytest.mark.parametrize("field", ["id", "timestamp"])
@pytest.mark.parametrize("name", ["/etc/x", "../../x", "", "x\0y"])
def test_a_summary_that_could_name_another_folder_is_damage(field: str, name: str) -> None:
    """A forged segment cannot write into another folder, even with a valid checksum."""
    stored = STORED[1]
    forged = type(stored.summary)(
        **{**{f: getattr(stored.summary, f) for f in stored.summary.__struct_fields__}, field: name}
    )

    assert [] == parse_segment(b"".join(encode_frame(stored._replace(summary=forged)))).frames


def test_the_checksum_covers_the_lengths() -> None:
    """A frame whose parts are divided elsewhere is damage."""
    head, summary, trace, chunks, checksum = struct.unpack_from("<4sIIII", FRAMES[0])
    moved = struct.pack("<4sIIII", head, summary, trace - 1, chunks + 1, checksum) + FRAMES[0][20:]

    assert zlib.crc32(FRAMES[0][4:16] + FRAMES[0][20:]) == checksum
    assert [] == parse_segment(moved).frames


def test_threads_append_side_by_side(tmp_path: Path) -> None:
    """Every trace is whole."""
    writer = SpoolWriter(str(tmp_path))
    traces = [plain_trace(number) for number in range(80)]
    threads = [threading.Thread(target=lambda part=part: [writer.append(stored) for stored in part]) for part in
               (traces[:20], traces[20:40], traces[40:60], traces[60:])]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert by_id(traces) == by_id(_read_stored(tmp_path))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_appends_to_a_segment_of_its_own(tmp_path: Path) -> None:
    """Parent and child never write into one another's frames, and a lock that was held at the fork is free."""
    writer = SpoolWriter(str(tmp_path))
    writer.append(STORED[0])
    with writer._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            writer.append(STORED[1])
            os._exit(0)
    _, status = os.waitpid(child, 0)
    writer.append(STORED[2])

    assert 0 == status
    assert 2 == len(find_segments(str(tmp_path)))
    assert by_id(STORED[:3]) == by_id(_read_stored(tmp_path))


def test_a_segment_is_never_drained_while_it_is_created(tmp_path: Path) -> None:
    """Opening and draining side by side, again and again: every append succeeds and is kept."""
    stop = threading.Event()

    def sweep() -> None:
        while not stop.is_set():
            drain_spool(str(tmp_path))

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for number in range(150):
            writer = SpoolWriter(str(tmp_path))
            writer.append(plain_trace(number))
            writer.seal()
    finally:
        stop.set()
        sweeper.join()
    drain_spool(str(tmp_path))

    assert 150 == len(list(tmp_path.glob("*.json")))
    assert [] == list((tmp_path / "spool").iterdir())


@pytest.mark.parametrize("failing", ["the file", "the folder"])
def test_a_segment_deleted_while_it_is_created_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Several times in a row: no trace is lost over it."""
    times = iter(range(spool.OPEN_ATTEMPTS))

    def delete_before_it_is_owned(descriptor: int, *, wait: bool = False) -> bool:
        if next(times) < 3:
            for path in (tmp_path / "spool").iterdir():
                path.unlink()
            if failing == "the folder":
                (tmp_path / "spool").rmdir()
        return lock_file(descriptor, wait=wait)

    monkeypatch.setattr(spool, "lock_file", delete_before_it_is_owned)
    SpoolWriter(str(tmp_path)).append(STORED[0])

    assert STORED[:1] == _read_stored(tmp_path)


def test_segments_are_private_to_the_user(tmp_path: Path) -> None:
    """Whatever the umask says."""
    old = os.umask(0)
    try:
        SpoolWriter(str(tmp_path / "traces")).append(STORED[0])
    finally:
        os.umask(old)

    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "traces", tmp_path / "traces" / "spool")}
    assert {"traces": 0o700, "spool": 0o700} == modes
    assert [0o600] == [Path(path).stat().st_mode & 0o777 for path in find_segments(str(tmp_path / "traces"))]


def test_a_full_disk_leaves_no_partial_frame(tmp_path: Path) -> None:
    """The append fails, what was kept stays, and the next one that fits succeeds."""
    limit, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = SpoolWriter(str(tmp_path))
    writer.append(STORED[0])
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(FRAMES[0]) + 100, hard))
    try:
        with pytest.raises(CannotWrite):
            writer.append(STORED[1])
        with pytest.raises(CannotWrite):
            writer.append(STORED[2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        signal.signal(signal.SIGXFSZ, old)
    (path,) = find_segments(str(tmp_path))

    assert len(FRAMES[0]) == os.path.getsize(path)
    writer.append(STORED[3])
    assert [STORED[0], STORED[3]] == _read_stored(tmp_path)


def test_a_folder_that_is_not_writable_is_reported(tmp_path: Path) -> None:
    """Here a file is in the folder's place."""
    (tmp_path / "traces").write_text("")

    with pytest.raises(CannotWrite):
        SpoolWriter(str(tmp_path / "traces")).append(STORED[0])


def test_files_that_are_not_segments_are_skipped(tmp_path: Path) -> None:
    """Folders, links and pipes of that name."""
    folder = tmp_path / "spool"
    (folder / "a.segment").mkdir(parents=True)
    (folder / "b.segment").symlink_to("/etc/passwd")
    os.mkfifo(folder / "c.segment")
    (folder / "d.segment").write_bytes(FRAMES[1])

    assert [STORED[1]] == _read_stored(tmp_path)
    assert 1 == drain_spool(str(tmp_path)).traces


def test_a_purged_frame_is_blank_and_skipped(tmp_path: Path) -> None:
    """In its place, while the owner appends behind it; the others are where they were, and nothing is damaged."""
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED[:3]:
        writer.append(stored)
    [path] = find_segments(str(tmp_path))
    size = os.path.getsize(path)
    places = {frame.summary.id: frame.offset for frame in read_frames(str(tmp_path))}

    assert [STORED[1].summary.id] == blank_frames(path, {STORED[1].summary.id, "another"})
    writer.append(STORED[3])

    assert [STORED[0], STORED[2], STORED[3]] == _read_stored(tmp_path)
    assert os.path.getsize(path) == size + len(FRAMES[3])
    assert places[STORED[2].summary.id] == [frame.offset for frame in read_frames(str(tmp_path))][1]
    assert None is read_frame(path, places[STORED[1].summary.id])
    data = Path(path).read_bytes()
    blank = data[len(FRAMES[0]) : len(FRAMES[0]) + len(FRAMES[1])]
    length = len(FRAMES[1]) - 20
    lengths = struct.pack("<III", 0, length, 0)
    assert blank == b"TFS1" + lengths + struct.pack("<I", zlib.crc32(lengths + bytes(length))) + bytes(length)
    assert (0, 0) == (parse_segment(data).damaged_bytes, parse_segment(data).torn_bytes)
    assert [] == blank_frames(path, {STORED[1].summary.id})
    writer.seal()
    assert (3, ()) == (drain_spool(str(tmp_path))[0], drain_spool(str(tmp_path)).damaged)


@pytest.mark.parametrize("place", [0, 4, 8, 12, 16, 30])
def test_a_blank_frame_that_was_changed_is_damage(place: int) -> None:
    """What is not zeros with the right checksum was not written by a purge."""
    blank = bytearray(spool._blank_frame(40))
    blank[place] ^= 1

    assert [STORED[1].summary] == [frame.summary for frame in parse_segment(bytes(blank) + FRAMES[1]).frames]
    assert len(blank) == parse_segment(bytes(blank) + FRAMES[1]).damaged_bytes
