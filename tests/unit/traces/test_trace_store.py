"""Every trace of a project, whether in the spool, in files or in an archive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from support.corpus import PROJECT
from support.exchanges import list_files, parse_object, plain_trace, timestamp, trace_id
from support.trace_folders import BY_NAME, STORED, check_all, list_names, put_files, spool_orphan
from traceforge.errors import NotFound
from traceforge.files import write_atomic
from traceforge.traces import index_update, trace_archive, trace_store
from traceforge.traces.spool import SpoolWriter, find_segments
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import StoredTrace

# ---------------------------------------------------------------------------------------------
# One list of everything


def test_a_trace_is_listed_once_through_every_move(tmp_path: Path, traces: TraceStore) -> None:
    """In a segment that is written, in one that was left, as a file, in an archive: the same list, the same bytes."""
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED:
        writer.append(stored)
    check_all(traces, STORED)
    writer.seal()
    check_all(traces, STORED)
    assert 8 == len(list(tmp_path.glob("*.json")))
    traces.compress_traces(traces.list_rows()[:5])
    check_all(traces, STORED)
    assert 3 == len(list(tmp_path.glob("*.json")))
    traces.compress_traces(traces.list_rows())
    check_all(traces, STORED)
    assert [] == list(tmp_path.glob("*.json")) + list(tmp_path.glob("chunks/*"))
    anew = TraceStore(str(tmp_path))
    anew.reindex()
    check_all(anew, STORED)
    anew.close()


def test_traces_of_spool_files_and_archives_are_one_list(tmp_path: Path, traces: TraceStore) -> None:
    """Two in an archive, two files, two of an ended process, two of a writing process."""
    put_files(tmp_path, *STORED[:2])
    traces.update_index()
    traces.compress_traces(traces.list_rows())
    put_files(tmp_path, *STORED[2:4])
    spool_orphan(tmp_path, *STORED[4:6])
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED[6:]:
        writer.append(stored)

    check_all(traces, STORED)
    assert 8 == traces.count_traces(TraceFilter())


def test_a_trace_that_moved_is_read_by_its_old_row(tmp_path: Path, traces: TraceStore) -> None:
    """The trace moved since: from a segment to a file, from there to an archive, and to another archive."""
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED:
        writer.append(stored)
    traces.update_index()
    rows = traces.list_rows()
    writer.seal()
    other = TraceStore(str(tmp_path))

    other.update_index()
    assert [BY_NAME[row.summary.file_name] for row in rows] == [traces.read_stored(row) for row in rows]
    as_files = other.list_rows()
    other.compress_traces(as_files)
    assert [BY_NAME[row.summary.file_name] for row in rows] == [traces.read_stored(row) for row in rows]
    other.update_index()
    archived = other.list_rows()
    other.remove_traces(archived[:1])
    for old in (rows, as_files, archived):
        assert [BY_NAME[row.summary.file_name] for row in old[1:]] == [traces.read_stored(row) for row in old[1:]]
        with pytest.raises(NotFound):
            traces.read_stored(old[0])
    assert [row.summary for row in rows[1:]] == [row.summary for row in _list_rows(traces)]
    other.close()


def _list_rows(trace_store: TraceStore) -> list[TraceRow]:
    trace_store.update_index()
    return trace_store.list_rows()


def test_a_file_that_is_also_in_an_archive_is_listed_once(
    tmp_path: Path, traces: TraceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between writing an archive and removing the files loses nothing, and removing removes both."""
    put_files(tmp_path, *STORED)
    traces.update_index()
    unlinked = []

    def crash(path: str) -> None:
        if len(unlinked) == 2:
            raise KeyboardInterrupt
        unlinked.append(path)
        os.unlink(path)

    monkeypatch.setattr(TraceStore, "_unlink", staticmethod(crash))
    with pytest.raises(KeyboardInterrupt):
        traces.compress_traces(traces.list_rows())
    monkeypatch.undo()

    for opened in (traces, TraceStore(str(tmp_path))):
        check_all(opened, STORED)
    traces.remove_traces(traces.list_rows()[:3])
    check_all(traces, STORED[:5])
    assert 5 == TraceStore(str(tmp_path)).reindex()


def test_a_removed_trace_is_gone_from_everywhere(tmp_path: Path, traces: TraceStore) -> None:
    """Its file, its chunks, its archive, its row and its words."""
    put_files(tmp_path, *STORED)
    traces.update_index()
    traces.compress_traces(traces.list_rows()[:4])
    traces.update_index()
    assert 4 == len(traces.search("hi", TraceFilter(), 99))

    rows = [row for row in traces.list_rows() if row.summary.id in (STORED[0].summary.id, STORED[-1].summary.id)]
    traces.remove_traces(rows)

    check_all(traces, STORED[1:-1])
    assert 6 == traces.reindex()
    for stored in (STORED[0], STORED[-1]):
        assert not any(stored.summary.id in str(path) for path in list_files(tmp_path))
    assert 3 == len(traces.search("hi", TraceFilter(), 99))
    traces.remove_traces(traces.list_rows())
    assert [] == list_names(traces)
    assert [] == trace_archive.find_archives(str(tmp_path))


MOVER = """
import sys, time, random
sys.path.insert(0, "tests")
from support.exchanges import plain_trace, streamed_trace
from traceforge.traces.spool_drain import drain_spool
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore
role, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
until, number, source = time.monotonic() + seconds, 0, random.Random(1)
found = TraceStore(folder)
writer = SpoolWriter(folder)
while time.monotonic() < until:
    if role == "write":
        number += 1
        writer.append(plain_trace(number) if number % 3 else streamed_trace(number))
        print(number, flush=True)
        if source.random() < 0.1:
            writer.seal()
        time.sleep(0.002)
    elif role == "drain":
        drain_spool(folder)
        time.sleep(0.003)
    elif role == "compress":
        found.update_index()
        found.compress_traces([row for row in found.list_rows() if source.random() < 0.5])
        time.sleep(0.05)
    elif role == "search":
        found.update_index()
        found.search("hello", TraceFilter(), 5)
"""


def _mover(role: str, folder: Path, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MOVER, role, str(folder), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT)


@pytest.mark.slow
def test_a_reader_sees_every_trace_once_while_others_move_them(tmp_path: Path) -> None:
    """A writer, a drainer, a compressor and a searcher run at once: nothing is missed, doubled or torn."""
    seconds = 3.0
    movers = [_mover(role, tmp_path, seconds) for role in ("write", "drain", "compress", "search")]
    written: list[int] = []
    output = movers[0].stdout
    assert output is not None
    listener = threading.Thread(target=lambda: written.extend(int(line) for line in output))
    listener.start()
    opened = TraceStore(str(tmp_path))
    looks = 0
    until = time.monotonic() + seconds + 0.5
    while time.monotonic() < until:
        before = len(written)
        opened.update_index()
        listed = Counter(row.summary.id for row in opened.list_rows())
        missing = [n for n in written[:before] if not listed[trace_id(n)]]
        assert ([], [], looks) == (missing, [name for name, count in listed.items() if count > 1], looks)
        for row in opened.list_rows()[:: max(1, len(listed) // 5)]:
            stored = opened.read_stored(row)
            assert parse_object(stored.trace)["id"] == row.summary.id
            assert bool(stored.chunks) == row.summary.streamed
        assert {} == opened.unreadable_files()
        looks += 1
    errors = [mover.communicate()[1] if mover is not movers[0] else "" for mover in movers]
    listener.join()
    assert movers[0].stderr is not None
    assert [""] * 4 == [*errors[1:], movers[0].stderr.read()]
    movers[0].stdout.close() if movers[0].stdout else None
    movers[0].stderr.close()
    movers[0].wait()

    assert [0] * 4 == [mover.returncode for mover in movers]
    assert len(written) > 50
    assert looks > 3
    assert sorted(map(trace_id, written)) == sorted(row.summary.id for row in _list_rows(opened))
    assert len(written) == TraceStore(str(tmp_path)).reindex()


def test_a_missing_folder_is_empty_and_is_not_created(tmp_path: Path) -> None:
    """To look makes nothing."""
    opened = TraceStore(str(tmp_path / "nowhere"))
    opened.update_index()

    assert ([], 0, [], {}) == (
        opened.list_rows(),
        opened.count_traces(TraceFilter()),
        opened.list_sessions(),
        opened.unreadable_files(),
    )
    assert [] == opened.search("x", TraceFilter(), 5)
    opened.close()
    assert not (tmp_path / "nowhere").exists()


def test_all_files_are_private_to_the_user(tmp_path: Path) -> None:
    """Index, archives, chunks and files, whatever the umask says."""
    old = os.umask(0)
    try:
        writer = SpoolWriter(str(tmp_path / "t"))
        for stored in STORED:
            writer.append(stored)
        writer.seal()
        opened = TraceStore(str(tmp_path / "t"))
        opened.update_index()
        opened.compress_traces(opened.list_rows()[:4])
        opened.search("x", TraceFilter(), 1)
        files = {path.name: path.stat().st_mode & 0o777 for path in list_files(tmp_path)}
        folders = {Path(root).name: Path(root).stat().st_mode & 0o777 for root, *_ in os.walk(tmp_path / "t")}
        opened.close()
    finally:
        os.umask(old)

    assert {0o600} == set(files.values())
    assert {0o700} == set(folders.values())
    assert {"t", "spool", "index", "archive", "chunks"} == set(folders)


# ---------------------------------------------------------------------------------------------
# What people do to the folder


def test_files_added_and_removed_by_hand_are_noticed(tmp_path: Path, traces: TraceStore) -> None:
    """Also when the times of the folder are too coarse to tell."""
    put_files(tmp_path, *STORED[:4])
    check_all(traces, STORED[:4])
    (tmp_path / STORED[0].summary.file_name).unlink()
    check_all(traces, STORED[1:4])
    (tmp_path / STORED[0].summary.file_name).write_bytes(STORED[0].trace)
    assert 4 == len(list_names(traces))


def test_an_archive_added_and_removed_by_hand_is_noticed(tmp_path: Path, traces: TraceStore) -> None:
    """Moved away, its traces are gone; back again, they are there."""
    put_files(tmp_path, *STORED)
    traces.update_index()
    traces.compress_traces(traces.list_rows())
    (path,) = trace_archive.find_archives(str(tmp_path))
    os.rename(path, tmp_path / "aside")
    assert [] == list_names(traces)
    os.rename(tmp_path / "aside", path)
    check_all(traces, STORED)


def test_a_file_that_was_changed_is_read_again(tmp_path: Path, traces: TraceStore) -> None:
    """Its row, and its words."""
    put_files(tmp_path, *STORED[:3])
    traces.update_index()
    assert 0 == len(traces.search("marzipan", TraceFilter(), 9))
    body = parse_object(STORED[0].trace)
    body["request"]["messages"][0]["content"] = "marzipan"
    body["metadata"]["model"] = "other-model"
    write_atomic(str(tmp_path / STORED[0].summary.file_name), json.dumps(body).encode())

    traces.update_index()

    assert [STORED[0].summary.id] == [hit.summary.id for hit in traces.search("marzipan", TraceFilter(), 9)]
    assert [STORED[0].summary.id] == [row.summary.id for row in traces.list_rows(TraceFilter(model="other-model"))]
    assert 3 == len(traces.list_rows())


def test_a_damaged_file_is_listed_as_unreadable(tmp_path: Path, traces: TraceStore) -> None:
    """It is listed again once it is repaired."""
    put_files(tmp_path, *STORED[:3])
    traces.update_index()
    path = tmp_path / STORED[0].summary.file_name
    write_atomic(str(path), b"{")
    check_all(traces, STORED[1:3])
    assert [path.name] == list(traces.unreadable_files())
    write_atomic(str(path), STORED[0].trace)
    check_all(traces, STORED[:3])
    assert {} == traces.unreadable_files()


def test_files_that_are_not_traces_are_reported_and_break_nothing(tmp_path: Path, traces: TraceStore) -> None:
    """Folders, links, pipes, invalid names, other JSON, and a trace under another name."""
    put_files(tmp_path, *STORED)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "dangling.json").symlink_to("nowhere")
    (tmp_path / "link.json").symlink_to(STORED[0].summary.file_name)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "empty.json").touch()
    (tmp_path / "other.json").write_text('{"name": "package", "version": "1.0.0"}')
    (tmp_path / "wrong-name.json").write_bytes(STORED[0].trace)
    (tmp_path / "newer.json").write_bytes(STORED[0].trace.replace(b'"1.0.0"', b'"2.0.0"', 1))
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.json")).write_text("x")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "x.tfz").write_bytes(b"TFZ1 or not")
    (tmp_path / "archive" / "folder.tfz").mkdir()
    (tmp_path / "spool" / "x.segment").mkdir(parents=True)

    for _ in range(2):
        check_all(traces, STORED)
        assert 10 == len(traces.unreadable_files())
        assert all(traces.unreadable_files().values())
    assert "2.0.0" in traces.unreadable_files()["newer.json"]


def test_traces_with_extreme_times_are_listed(tmp_path: Path, traces: TraceStore) -> None:
    """In order, as far as the index can tell them apart."""
    times = [
        "0001-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "2026-11-15T12:00:00+14:00",
        "9999-12-31T23:59:59.9Z",
    ]
    put_files(tmp_path, *(plain_trace(n, started_at=at) for n, at in enumerate(times)))

    traces.update_index()

    assert times == [row.summary.timestamp for row in traces.list_rows(oldest_first=True)]
    assert times[2:] == [
        row.summary.timestamp for row in traces.list_rows(TraceFilter(since=times[2]), oldest_first=True)
    ]


# ---------------------------------------------------------------------------------------------
# Older versions


def _unversioned(stored: StoredTrace) -> bytes:
    body = parse_object(stored.trace)
    del body["schema_version"]
    return json.dumps(body).encode()


def test_a_trace_of_the_first_version_is_read_and_counted_and_rewritten(tmp_path: Path, traces: TraceStore) -> None:
    """It is listed like any other; migrating rewrites its file, once."""
    put_files(tmp_path, *STORED[1:3])
    path = tmp_path / STORED[0].summary.file_name
    path.write_bytes(_unversioned(STORED[0]))
    traces.update_index()
    rows = traces.list_rows()
    loaded = [traces.load_trace(row) for row in rows]

    assert (3, 1, {}) == (len(loaded), traces.old_version_count, traces.unreadable_files())
    ((summary, result),) = traces.migrate_traces(rows)
    assert (STORED[0].summary.id, "0.0.0", "1.0.0", ("1.0.0",)) == (summary.id, *result)
    assert "1.0.0" == parse_object(path.read_bytes())["schema_version"]
    assert [] == traces.migrate_traces(rows)
    assert 3 == len(list_names(traces))


def test_an_old_trace_in_an_archive_is_upgraded_whenever_it_is_read(tmp_path: Path, traces: TraceStore) -> None:
    """The archive keeps the bytes that were put in."""
    (tmp_path / STORED[0].summary.file_name).write_bytes(_unversioned(STORED[0]))
    traces.update_index()
    traces.compress_traces(traces.list_rows())
    traces.update_index()
    (row,) = traces.list_rows()

    assert _unversioned(STORED[0]) == traces.read_stored(row).trace
    assert "1.0.0" == traces.load_trace(row).body["schema_version"]
    assert [] == traces.migrate_traces([row])


def test_a_newer_minor_version_is_read_and_a_newer_major_is_not(tmp_path: Path, traces: TraceStore) -> None:
    """Minor versions only add fields."""
    body = parse_object(STORED[1].trace)
    for number, version in ((1, "1.7.0"), (3, "2.0.0")):
        changed = {
            **body,
            "schema_version": version,
            "id": trace_id(number),
            "timestamp": timestamp(number),
            "new": 1,
        }
        name = f"{timestamp(number).replace(':', '-').replace('.', '-')}_{trace_id(number)}.json"
        (tmp_path / name).write_text(json.dumps(changed))

    traces.update_index()

    (row,) = traces.list_rows()
    assert "1.7.0" == traces.load_trace(row).body["schema_version"]
    assert 1 == traces.load_trace(row).body["new"]
    assert 0 == traces.old_version_count
    assert 1 == len(traces.unreadable_files())


def test_progress_is_reported(tmp_path: Path, traces: TraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every batch."""
    monkeypatch.setattr(index_update, "BATCH", 3)
    monkeypatch.setattr(trace_store, "TEXTS_BATCH", 4)
    put_files(tmp_path, *STORED)
    read: list[int] = []
    searched: list[int] = []

    traces.update_index(read.append)
    traces.search("hello", TraceFilter(), 1, searched.append)

    assert ([3, 6, 8], [4, 8]) == (read, searched)
    assert [] == find_segments(str(tmp_path))


def test_traces_become_searchable_bit_by_bit(tmp_path: Path, traces: TraceStore) -> None:
    """As many as were asked for, the newest first, and none twice; a search adds the rest."""
    put_files(tmp_path, *STORED[:4])
    traces.update_index()

    assert [2, 1] == [traces.add_texts(limit) for limit in (2, 1)]
    assert 2 == len(traces.search("hi", TraceFilter(), 9))
    assert 0 == traces.add_texts(2)
