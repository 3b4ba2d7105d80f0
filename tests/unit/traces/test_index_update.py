"""Keeping the index true."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.exchanges import plain_trace
from traceforge.traces import index_update, spool, trace_archive
from traceforge.traces.index_update import read_any_version, update_index
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.spool_drain import drain_spool
from traceforge.traces.trace_index import TraceFilter, TraceIndex, TraceLocation
from traceforge.traces.trace_store import ignore_progress

STORED = [plain_trace(number) for number in range(1, 4)]
NAMES = [stored.summary.file_name for stored in STORED]


def _look(index: TraceIndex, folder: Path) -> dict[str, str]:
    update_index(index, str(folder), ignore_progress)
    return {row.summary.file_name: row.location.container.partition("/")[0] for row in index.list_rows(TraceFilter())}


def _files(folder: Path) -> None:
    for stored in STORED:
        (folder / stored.summary.file_name).write_bytes(stored.trace)


def _age(folder: Path) -> None:
    """Make the folder old enough to be believed."""
    os.utime(folder, (1_000_000_000, 1_000_000_000))


def test_a_folder_that_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand files are not listed for nothing; one that is too young is not believed."""
    _files(tmp_path)
    index = TraceIndex(str(tmp_path))
    looks: list[str] = []
    real = index_update._list_inodes
    monkeypatch.setattr(index_update, "_list_inodes", lambda folder: looks.append(folder) or real(folder))

    os.utime(tmp_path, (4_000_000_000, 4_000_000_000))  # Too young, however long this test takes.
    for _ in range(2):
        assert NAMES == sorted(_look(index, tmp_path))
    assert 2 == len(looks)
    _age(tmp_path)
    for _ in range(3):
        assert NAMES == sorted(_look(index, tmp_path))
    assert 3 == len(looks)
    index.close()


def test_no_trace_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither after its segment was drained, nor once it is indexed; an invalid file only after it changes."""
    reads: list[bytes] = []
    monkeypatch.setattr(index_update, "read_any_version", lambda data: reads.append(data) or read_any_version(data))
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED:
        writer.append(stored)
    (tmp_path / "none.json").write_text("{}")
    index = TraceIndex(str(tmp_path))

    assert dict.fromkeys(NAMES, "spool") == _look(index, tmp_path)
    writer.seal()
    drain_spool(str(tmp_path))
    for _ in range(2):
        assert dict.fromkeys(NAMES, "") == _look(index, tmp_path)
    assert [b"{}"] == reads
    index.close()


def test_a_segment_that_is_drained_meanwhile_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traces are found as files."""
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED:
        writer.append(stored)
    writer.seal()
    real = spool.find_segments

    def slow(folder: str) -> list[str]:
        names = real(folder)
        drain_spool(folder)
        return names

    monkeypatch.setattr(spool, "find_segments", slow)
    index = TraceIndex(str(tmp_path))

    assert dict.fromkeys(NAMES, "") == _look(index, tmp_path)
    index.close()


def test_a_trace_added_meanwhile_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists and indexes a file after we listed the folder and before we compare."""
    _files(tmp_path)
    late = plain_trace(9)
    index, other = TraceIndex(str(tmp_path)), TraceIndex(str(tmp_path))
    real = index_update._list_inodes

    def overtaken(folder: str) -> object:
        names = list(real(folder))
        monkeypatch.undo()
        (tmp_path / late.summary.file_name).write_bytes(late.trace)
        _look(other, tmp_path)
        return iter(names)

    monkeypatch.setattr(index_update, "_list_inodes", overtaken)

    assert {*NAMES, late.summary.file_name} == set(_look(index, tmp_path))
    index.close()
    other.close()


def test_a_row_that_another_process_moved_back_is_found_again(tmp_path: Path) -> None:
    """It had read a segment that was drained and compressed before it wrote down what it had read."""
    index = TraceIndex(str(tmp_path))
    trace_archive.write_archive(str(tmp_path), STORED)
    assert dict.fromkeys(NAMES, "archive") == _look(index, tmp_path)
    for place in (TraceLocation("spool/1-gone.segment", 5), TraceLocation("", 7)):
        with index.transaction():
            for name in NAMES:
                index.move_trace(name, place)

        _age(tmp_path)
        os.utime(tmp_path)
        assert dict.fromkeys(NAMES, "archive") == _look(index, tmp_path)
    index.close()


def test_the_row_of_a_missing_trace_is_removed(tmp_path: Path) -> None:
    """Its file, its segment and its archive are gone."""
    _files(tmp_path)
    index = TraceIndex(str(tmp_path))
    _look(index, tmp_path)
    for name in NAMES:
        (tmp_path / name).unlink()

    assert {} == _look(index, tmp_path)
    index.close()
