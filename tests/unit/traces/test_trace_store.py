"""Every trace of a project, whether in the spool, in files or in an archive."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import PROJECT
from support.exchanges import list_files, parse_object, plain_trace, streamed_trace, timestamp, trace_id
from support.json_texts import fuzz
from traceforge.errors import NotFound
from traceforge.exchange import Caller
from traceforge.files import write_atomic
from traceforge.traces import index_update, trace_archive, trace_index, trace_store
from traceforge.traces.spool import SpoolWriter, encode_frame, find_segments
from traceforge.traces.spool_drain import drain_spool
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import StoredTrace

STORED = [plain_trace(n) if n % 2 else streamed_trace(n) for n in range(1, 9)]
BY_NAME = {stored.summary.file_name: stored for stored in STORED}


@pytest.fixture
def traces(tmp_path: Path) -> Iterator[TraceStore]:
    """A store of an empty folder."""
    opened = TraceStore(str(tmp_path))
    yield opened
    opened.close()


def spool_orphan(folder: Path, *stored: StoredTrace, name: str = "1-a") -> None:
    """Leave a segment behind, as a process that is gone does."""
    (folder / "spool").mkdir(exist_ok=True)
    data = b"".join(b"".join(encode_frame(trace)) for trace in stored)
    (folder / "spool" / f"{name}.segment").write_bytes(data)


def put_files(folder: Path, *stored: StoredTrace) -> None:
    """Traces as files."""
    spool_orphan(folder, *stored, name="9-z")
    drain_spool(str(folder))


def names(trace_store: TraceStore) -> list[str]:
    """What is listed, once the store has looked."""
    trace_store.update_index()
    return [row.summary.file_name for row in trace_store.list_rows()]


def check_all(trace_store: TraceStore, expected: list[StoredTrace]) -> None:
    """Exactly these, newest first, and each reads as it was kept."""
    assert sorted((stored.summary.file_name for stored in expected), reverse=True) == names(trace_store)
    for row in trace_store.list_rows():
        stored = trace_store.read_stored(row)
        assert BY_NAME[row.summary.file_name] == stored
        assert trace_store.load_trace(row).id == row.summary.id
        assert bool(stored.chunks) == bool(trace_store.load_chunks(row))


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
    assert [] == names(traces)
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


# ---------------------------------------------------------------------------------------------
# The index can be thrown away


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
    assert 9 == len(names(traces))
    assert 9 == len(traces.list_rows())
    locker.close()
    assert inode == path.stat().st_ino


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
    assert 4 == len(names(traces))


def test_an_archive_added_and_removed_by_hand_is_noticed(tmp_path: Path, traces: TraceStore) -> None:
    """Moved away, its traces are gone; back again, they are there."""
    put_files(tmp_path, *STORED)
    traces.update_index()
    traces.compress_traces(traces.list_rows())
    (path,) = trace_archive.find_archives(str(tmp_path))
    os.rename(path, tmp_path / "aside")
    assert [] == names(traces)
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
# Finding


def test_an_id_is_found_by_its_beginning(tmp_path: Path, traces: TraceStore) -> None:
    """In any case, if it is long enough and only one begins so; a file name, with folders or without, as well."""
    first, other, loud = (plain_trace(n)._replace() for n in (0xABCD1, 0xABCD2, 0xABCE1))
    loud_trace = parse_object(loud.trace) | {"id": loud.summary.id.upper()}
    put_files(tmp_path, first, other)
    (tmp_path / loud.summary.file_name.replace(loud.summary.id, loud.summary.id.upper())).write_text(
        json.dumps(loud_trace)
    )
    traces.update_index()

    for wanted in (
        first.summary.id,
        first.summary.id[:8],
        first.summary.id[:8].upper(),
        f"x/y/{first.summary.file_name}",
    ):
        assert first.summary == traces.load_row(wanted).summary
    for wanted in (loud.summary.id, loud.summary.id[:8], loud.summary.id[:8].upper()):
        assert loud.summary.id.upper() == traces.load_row(wanted).summary.id
    for wanted in (
        "000abcd",
        "000",
        "",
        "zzzz",
        "*",
        "000abc%",
        "a\0bc",
        "\udcff\udcff\udcff\udcff",
        "x.json",
        "é" * 9,
    ):
        with pytest.raises(NotFound):
            traces.load_row(wanted)


def _filled(folder: Path) -> TraceStore:
    texts = ["Paris in spring", "déjà vu", "日本語のテキスト", "a piñata party", "42 answers", "İstanbul ΣΟΦΟΣ"]
    put_files(folder, *(plain_trace(n, text) for n, text in enumerate(texts)))
    opened = TraceStore(str(folder))
    opened.update_index()
    return opened


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("paris", [0]), ("PARIS spring", [0]), ("spring paris", [0]), ('"in spring"', [0]), ('"spring in"', []),
        ("par*", [0, 3]), ("deja", [1]), ("DÉJÀ", [1]), ("日本", [2]), ("本語", [2]), ("語本", []), ("テキ", [2]),
        ("pinata", [3]), ("p*", [0, 3]), ("42", [4]), ("answer", range(6)), ("nothing", []), ("", []), ("*", []),
        ('"', []), ("istanbul", [5]), ("σοφος", [5]),
    ],
)  # fmt: skip
def test_words_phrases_and_beginnings_are_found(tmp_path: Path, query: str, expected: list[int]) -> None:
    """In any case, with accents or without, in scripts without spaces as well; newest first."""
    opened = _filled(tmp_path)

    hits = [hit.summary.id for hit in opened.search(query, TraceFilter(), 9)]

    assert [trace_id(n) for n in sorted(expected, reverse=True)] == hits
    opened.close()


def test_a_snippet_shows_the_words_around(tmp_path: Path) -> None:
    """The match stands between marks, and text without spaces reads as it was written."""
    opened = _filled(tmp_path)

    (spaced,), (unspaced,) = (opened.search(query, TraceFilter(), 1) for query in ("spring", "本語"))

    assert "Paris in \x02spring\x03" in spaced.snippet
    assert "日\x02本語\x03のテキスト" in unspaced.snippet.replace("\x03\x02", "")
    opened.close()


@fuzz(400)
@given(query=st.text(max_size=40) | st.text(st.sampled_from('"*()^:+-{}.,\0\\ANDORNEAR日é\ud800 '), max_size=30))
def test_every_query_is_valid(query: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "queries"
    if not folder.exists():
        folder.mkdir()
        _filled(folder).close()
    opened = TraceStore(str(folder))
    before = (folder / "index" / "traces.sqlite").stat().st_ino

    assert len(opened.search(query, TraceFilter(), 9)) <= 9
    assert before == (folder / "index" / "traces.sqlite").stat().st_ino  # and nobody took it for a broken index
    opened.close()


def test_a_query_of_very_many_words_is_answered(tmp_path: Path) -> None:
    """For example a pasted book."""
    opened = _filled(tmp_path)

    assert [] == opened.search("spring " * 20_000, TraceFilter(), 9)[1:]
    assert [] == opened.search(" ".join(map(str, range(20_000))), TraceFilter(), 9)
    opened.close()


def test_a_filter_narrows_lists_counts_and_searches(tmp_path: Path, traces: TraceStore) -> None:
    """By each of its fields, and by several."""
    caller = Caller(session_id="s-1", step_index=2)
    failed = plain_trace(20, status=500)
    put_files(tmp_path, plain_trace(1), plain_trace(2, caller=caller), failed, plain_trace(30))
    traces.update_index()
    cases = {
        TraceFilter(): 4,
        TraceFilter(provider="openai"): 4,
        TraceFilter(provider="anthropic"): 0,
        TraceFilter(model="gpt-*"): 4,
        TraceFilter(model="gpt-4o-min?"): 0,
        TraceFilter(model="gpt-[4]*"): 0,
        TraceFilter(model="claude*"): 0,
        TraceFilter(status="error"): 1,
        TraceFilter(session_id="s-1"): 1,
        TraceFilter(endpoint="/v1/chat/completions"): 4,
        TraceFilter(since=timestamp(2)): 3,
        TraceFilter(until=timestamp(2)): 1,
        TraceFilter(since=timestamp(2), until=timestamp(21)): 2,
        TraceFilter(since="yesterday"): 4,
        TraceFilter(session_id="\udcff"): 0,
        TraceFilter(model="\udcff"): 0,
        TraceFilter(status="success", until=timestamp(3)): 2,
        TraceFilter(before=failed.summary.file_name): 2,
    }
    for narrowed, expected in cases.items():
        assert (expected, expected) == (len(traces.list_rows(narrowed)), traces.count_traces(narrowed)), narrowed
        assert expected == len(traces.search("hello", narrowed, 99)), narrowed


@pytest.mark.parametrize("size", [1, 3, 7])
def test_paging_visits_everything_once(tmp_path: Path, traces: TraceStore, size: int) -> None:
    """Also traces of the same millisecond whose ids begin alike."""
    all_stored = [plain_trace(n, started_at=timestamp(n // 5)) for n in range(20)]
    put_files(tmp_path, *all_stored)
    traces.update_index()
    listed: list[str] = []
    before = ""
    while page := traces.list_rows(TraceFilter(before=before), size):
        listed += [row.summary.file_name for row in page]
        before = listed[-1]

    assert sorted(stored.summary.file_name for stored in all_stored) == sorted(listed)
    assert all(first[:24] >= second[:24] for first, second in pairwise(listed))


def test_sessions_are_listed_newest_first_and_their_steps_in_order(tmp_path: Path, traces: TraceStore) -> None:
    """Steps by their numbers, not by when they came."""

    def step(number: int, session: str, at: int | None, **more: object) -> StoredTrace:
        return plain_trace(number, caller=Caller(session_id=session, step_index=at), **more)

    put_files(tmp_path, step(1, "old", 0), step(2, "new, er", 1), step(3, "new, er", 0, status=500), plain_trace(4))
    traces.update_index()

    newer, older = traces.list_sessions()

    assert ("new, er", 2, timestamp(2), timestamp(3), 1) == newer[:5]
    assert ("old", 1, 7.0, ("gpt-4o-mini",)) == (older.session_id, older.steps, older.tokens, older.models)
    assert [0, 1] == [row.summary.step_index for row in traces.session_rows("new, er")]
    assert [] == traces.session_rows("nobody")
    assert [newer] == traces.list_sessions(1)


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
    assert 3 == len(names(traces))


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


def test_a_session_is_loaded_by_its_id_or_the_beginning_of_it(tmp_path: Path, traces: TraceStore) -> None:
    """A whole id wins over a longer one; too few characters, or several sessions, name none."""
    callers = [Caller(session_id=name, step_index=0) for name in ("agent", "agent-2", "other-1")]
    put_files(tmp_path, *(plain_trace(number, caller=caller) for number, caller in enumerate(callers, 1)))
    traces.update_index()

    assert ("agent", 1) == (traces.load_session("agent")[0], len(traces.load_session("agent")[1]))
    assert "other-1" == traces.load_session("othe")[0]
    for reference, message in (
        ("agen", "several sessions begin with agen: "),
        ("oth", "there is no session oth"),
        ("", "there is no session"),
    ):
        with pytest.raises(NotFound, match=message):
            traces.load_session(reference)
