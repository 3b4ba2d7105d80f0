"""The index of a trace store can be lost, damaged or locked: it is built again."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from support.exchanges import plain_trace
from support.trace_folders import STORED, check_all, list_names, put_files, spool_orphan
from traceforge.traces import trace_index
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore


def _spoil(path: Path, how: str) -> None:
    if how == "thrown away":
        path.unlink()
    elif how == "garbage":
        path.write_bytes(os.urandom(5_000))
    elif how == "garbage in the middle":
        data = bytearray(path.read_bytes())
        data[3_000:20_000] = os.urandom(17_000)
        path.write_bytes(data)
    elif how == "truncated":
        os.truncate(path, path.stat().st_size // 2)
    elif how == "empty":
        os.truncate(path, 0)
    elif how == "other version":
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    elif how == "names that are no text":
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_master SET name = CAST(x'a3' AS TEXT), sql = CAST(x'a3a3' AS TEXT)")
        connection.close()
    elif how == "without tables":
        with sqlite3.connect(path) as connection:
            connection.execute("DROP TABLE stamps")
            connection.execute("DROP TABLE texts")
        connection.close()
    else:
        path.unlink()
        path.mkdir()


SPOILT = ("thrown away", "garbage", "names that are no text", "garbage in the middle", "truncated", "empty",
          "other version", "without tables", "a folder")  # fmt: skip


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("worded", [False, True])
def test_a_broken_index_is_rebuilt(tmp_path: Path, how: str, worded: bool) -> None:
    """Or kept in memory: the answers are the same."""
    put_files(tmp_path, *STORED[:4])
    opened = TraceStore(str(tmp_path))
    opened.update_index()
    opened.compress_traces(opened.list_rows()[:2])
    if worded:
        opened.search("hello", TraceFilter(), 9)
    opened.close()
    spool_orphan(tmp_path, *STORED[4:])
    for suffix in ("-wal", "-shm"):
        (tmp_path / "index" / f"traces.sqlite{suffix}").unlink(missing_ok=True)
    _spoil(tmp_path / "index" / "traces.sqlite", how)

    anew = TraceStore(str(tmp_path))
    check_all(anew, STORED)
    assert 4 == len(anew.search("hi", TraceFilter(), 9))
    anew.close()


def test_an_index_that_breaks_while_open_is_rebuilt(tmp_path: Path, traces: TraceStore) -> None:
    """For any error of SQLite."""
    put_files(tmp_path, *STORED)
    traces.update_index()
    with sqlite3.connect(tmp_path / "index" / "traces.sqlite") as connection:
        connection.execute("DROP TABLE traces")
    connection.close()

    assert 8 == traces.count_traces(TraceFilter())
    check_all(traces, STORED)


def test_a_locked_index_is_replaced_by_one_in_memory(
    tmp_path: Path, traces: TraceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is made in memory, and their index is left alone."""
    put_files(tmp_path, *STORED)
    traces.update_index()
    traces.close()
    monkeypatch.setattr(trace_index, "BUSY_MS", 50)
    path = tmp_path / "index" / "traces.sqlite"
    inode = path.stat().st_ino
    locker = sqlite3.connect(path, isolation_level=None)
    locker.execute("BEGIN IMMEDIATE")

    spool_orphan(tmp_path, plain_trace(99))
    assert 9 == len(list_names(traces))
    assert 9 == len(traces.list_rows())
    locker.close()
    assert inode == path.stat().st_ino


def test_an_index_that_was_removed_while_open_is_read_no_more(tmp_path: Path) -> None:
    """A folder that is deleted is empty, and shows new traces once there is one again."""
    folder = tmp_path / "traces"
    folder.mkdir()
    put_files(folder, *STORED)
    store = TraceStore(str(folder))
    store.update_index()
    assert 8 == len(store.list_rows())

    shutil.rmtree(folder)
    store.update_index()
    assert [] == store.list_rows()
    assert not folder.exists()

    folder.mkdir()
    put_files(folder, STORED[0])
    store.update_index()
    assert 1 == len(store.list_rows())
    store.close()


def test_an_index_that_another_process_rebuilt_is_opened_again(tmp_path: Path, traces: TraceStore) -> None:
    """Not the old file, which has no name any more."""
    put_files(tmp_path, *STORED[:4])
    traces.update_index()
    other = TraceStore(str(tmp_path))
    other.reindex()
    put_files(tmp_path, *STORED[4:])
    other.update_index()
    other.close()

    traces.update_index()

    check_all(traces, STORED)
    with sqlite3.connect(tmp_path / "index" / "traces.sqlite") as connection:
        assert 8 == connection.execute("SELECT count(*) FROM traces").fetchone()[0]
    connection.close()
