"""Draining the segments of ended processes into trace files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.exchanges import list_files, plain_trace, streamed_trace
from traceforge.errors import CannotWrite
from traceforge.traces import chunk_file
from traceforge.traces.spool import encode_frame, find_segments
from traceforge.traces.spool_drain import DAMAGED_SUFFIX, DrainResult, drain_spool
from traceforge.traces.trace_summary import StoredTrace

STORED = [plain_trace(1), streamed_trace(2), plain_trace(3)]


def _orphan(folder: Path, *parts: bytes | StoredTrace, name: str = "1-a") -> Path:
    """A segment whose owner is gone."""
    (folder / "spool").mkdir(parents=True, exist_ok=True)
    path = folder / "spool" / f"{name}.segment"
    path.write_bytes(b"".join(part if isinstance(part, bytes) else b"".join(encode_frame(part)) for part in parts))
    return path


def _is_complete(folder: Path, stored: StoredTrace) -> bool:
    pieces = folder / chunk_file.chunk_file_name(stored.summary.id)
    return (folder / stored.summary.file_name).read_bytes() == stored.trace and (
        pieces.read_bytes() == stored.chunks if stored.chunks else not pieces.exists()
    )


def test_every_trace_becomes_a_file_with_a_file_of_its_chunks(tmp_path: Path) -> None:
    """The segment is removed."""
    _orphan(tmp_path, *STORED)

    assert DrainResult(traces=3) == drain_spool(str(tmp_path))
    assert all(_is_complete(tmp_path, stored) for stored in STORED)
    assert [] == find_segments(str(tmp_path))


def test_a_folder_without_a_spool_needs_no_draining(tmp_path: Path) -> None:
    """Not even a folder."""
    assert DrainResult() == drain_spool(str(tmp_path / "nowhere"))


def test_a_torn_tail_is_reported_and_other_frames_are_saved(tmp_path: Path) -> None:
    """A crash cut the last frame."""
    frame = b"".join(encode_frame(STORED[1]))
    _orphan(tmp_path, STORED[0], frame[:-3])

    assert DrainResult(traces=1, torn=1) == drain_spool(str(tmp_path))
    assert _is_complete(tmp_path, STORED[0])
    assert [] == find_segments(str(tmp_path))


def test_a_damaged_segment_is_kept_and_not_read_again(tmp_path: Path) -> None:
    """Its readable frames become files; the rest is left for inspection."""
    path = _orphan(tmp_path, STORED[0], b"?" * 50, STORED[2])

    drained = drain_spool(str(tmp_path))

    assert DrainResult(traces=2, damaged=(str(path) + DAMAGED_SUFFIX,)) == drained
    assert Path(str(path) + DAMAGED_SUFFIX).exists()
    assert DrainResult() == drain_spool(str(tmp_path))


def test_draining_stops_when_time_is_up(tmp_path: Path) -> None:
    """The next reader goes on."""
    _orphan(tmp_path, STORED[0])

    assert DrainResult(remaining=1, late=1) == drain_spool(str(tmp_path), seconds=0)
    assert DrainResult(traces=1) == drain_spool(str(tmp_path))


def test_draining_twice_changes_nothing(tmp_path: Path) -> None:
    """As after a crash between the files and the end of the segment; nothing is left over either."""
    _orphan(tmp_path, *STORED)
    drain_spool(str(tmp_path))
    (tmp_path / ".2-b.segment.tmp").write_bytes(STORED[0].trace[:10])
    (tmp_path / chunk_file.CHUNKS_FOLDER / ".2-b.segment.tmp").write_bytes(STORED[1].chunks[:10])
    before = {path: path.read_bytes() for path in list_files(tmp_path) if not path.name.startswith(".")}
    _orphan(tmp_path, *STORED, name="2-b")

    assert 3 == drain_spool(str(tmp_path)).traces
    assert before == {path: path.read_bytes() for path in list_files(tmp_path)}


def test_a_full_disk_keeps_the_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, no half-written file is left, and the next time it succeeds."""
    _orphan(tmp_path, *STORED)
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:99])

    monkeypatch.setattr(os, "write", full)

    with pytest.raises(CannotWrite):
        drain_spool(str(tmp_path))
    monkeypatch.undo()
    assert [path.name for path in list_files(tmp_path)] == [Path(find_segments(str(tmp_path))[0]).name]
    assert 3 == drain_spool(str(tmp_path)).traces
    assert all(_is_complete(tmp_path, stored) for stored in STORED)


def test_files_are_private_to_the_user(tmp_path: Path) -> None:
    """Whatever the umask says."""
    _orphan(tmp_path, *STORED)
    old = os.umask(0)
    try:
        drain_spool(str(tmp_path))
    finally:
        os.umask(old)

    assert {0o600} == {path.stat().st_mode & 0o777 for path in list_files(tmp_path)}
    assert 0o700 == (tmp_path / "chunks").stat().st_mode & 0o777


def test_an_empty_segment_left_by_a_crash_is_removed(tmp_path: Path) -> None:
    """Once it is old; a young one may be about to be locked by its writer."""
    old, young = (tmp_path / "spool" / name for name in ("1-a.new", "2-b.new"))
    old.parent.mkdir()
    old.touch()
    young.touch()
    long_ago = time.time() - 61
    os.utime(old, (long_ago, long_ago))

    drain_spool(str(tmp_path))

    assert [young] == list(old.parent.iterdir())
