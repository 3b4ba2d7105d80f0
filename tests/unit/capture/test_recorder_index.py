"""Recorders add their traces to the index, and never wait for it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from support.recorded_exchanges import exchange, ids
from support.work_counts import run_with_deadline
from traceforge.capture.recorder import ProcessRecorder
from traceforge.capture.trace_writer import RecorderSettings, TraceWriter
from traceforge.traces import index_update, trace_index
from traceforge.traces.spool_drain import drain_spool
from traceforge.traces.trace_index import TraceFilter, TraceIndex
from traceforge.traces.trace_store import TraceStore


def forbid_reading_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an update of the index fail where it reads a trace."""

    def read(data: bytes) -> object:
        pytest.fail("a trace was read")

    monkeypatch.setattr(index_update, "read_any_version", read)


def test_a_process_adds_traces_to_the_index_as_they_become_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first command after a run reads none of them, as the second."""
    forbid_reading_traces(monkeypatch)
    recorder = ProcessRecorder(RecorderSettings(str(tmp_path)))
    for number in range(5):
        recorder.take(exchange(number))
    counts = recorder.close(20)
    with closing(TraceStore(str(tmp_path))) as store:
        store.update_index()
        indexed = [row.summary.id for row in store.list_rows(oldest_first=True)]

    assert (5, 0) == (counts.recorded, counts.in_spool)
    assert ids(tmp_path) == indexed


def test_the_first_command_after_a_run_lists_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the second: the recorder has compared the index with the folder at its end."""
    recorder = ProcessRecorder(RecorderSettings(str(tmp_path)))
    recorder.take(exchange(1))
    recorder.close(20)
    with closing(TraceStore(str(tmp_path))) as store, monkeypatch.context() as patch:
        patch.setattr(index_update, "_list_inodes", lambda _: pytest.fail("the files were listed"))
        store.update_index()

        assert 1 == store.count_traces(TraceFilter())


@pytest.mark.parametrize("change", ["added", "removed", "replaced"])
def test_an_index_without_all_files_is_not_confirmed(tmp_path: Path, change: str) -> None:
    """What somebody else changed meanwhile is found by the next command."""
    recorder = ProcessRecorder(RecorderSettings(str(tmp_path)))
    for number in range(2):
        recorder.take(exchange(number))
    recorder.close(20)
    first, second = sorted(tmp_path.glob("*.json"))
    if change == "removed":
        first.unlink()
    else:
        (tmp_path / "new").write_bytes(first.read_bytes().replace(b"-000000000000", b"-000000000009"))
        (tmp_path / "new").rename(tmp_path / first.name.replace("-000000000000", "-000000000009"))
    if change == "replaced":
        second.rename(tmp_path / "old")
        (tmp_path / second.name).write_bytes((tmp_path / "old").read_bytes())
    index_update.try_confirm_files(str(tmp_path), 1000)
    with closing(TraceStore(str(tmp_path))) as store:
        store.update_index()
        indexed = sorted(row.summary.id for row in store.list_rows())

    assert ids(tmp_path) == indexed


@pytest.mark.parametrize("is_listed_before", [False, True])
def test_a_command_that_empties_the_spool_reads_no_trace_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_listed_before: bool
) -> None:
    """Also where it had listed the traces in their segment before; a file that is replaced is read again."""
    writer = TraceWriter(RecorderSettings(str(tmp_path)))
    for number in range(3):
        writer.write(exchange(number))
    with closing(TraceStore(str(tmp_path))) as store:
        if is_listed_before:
            store.update_index()
        in_segment = [row.location.container != "" for row in store.list_rows()]
        writer.seal()
        with monkeypatch.context() as patch:
            forbid_reading_traces(patch)
            store.update_index()
        files = [row.location.container == "" for row in store.list_rows()]
        (replaced, *_) = sorted(tmp_path.glob("*.json"))
        copy = tmp_path / "copy"
        copy.write_bytes(replaced.read_bytes().replace(b'"hello"', b'"other"'))
        copy.replace(replaced)
        store.update_index()
        (trace_id,) = [row.summary.id for row in store.list_rows() if row.summary.file_name == replaced.name]

    assert ([True, True, True] if is_listed_before else []) == in_segment
    assert [True, True, True] == files
    assert json.loads(replaced.read_bytes())["id"] == trace_id


def test_a_broken_index_does_not_stop_a_recorder(tmp_path: Path) -> None:
    """The next command makes another."""
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "traces.sqlite").write_bytes(b"not a database" * 1000)
    writer = TraceWriter(RecorderSettings(str(tmp_path)), keeps_index=True)
    writer.write(exchange())
    writer.write_files()

    assert (1, 0, {}) == (writer.counts.recorded, writer.counts.in_spool, writer.counts.troubles)
    assert [exchange().id] == ids(tmp_path)


def test_a_recorder_does_not_wait_for_a_command_that_holds_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may be stopped while it writes: calls would wait in memory, and then be lost."""
    monkeypatch.setattr(trace_index, "BUSY_MS", 3_600_000)  # How long a command would wait, and here for ever.
    writer = TraceWriter(RecorderSettings(str(tmp_path)), keeps_index=True)
    writer.write(exchange(1))
    with closing(TraceIndex(str(tmp_path))) as index, index.transaction():
        run_with_deadline(writer.write_files)
    with closing(TraceStore(str(tmp_path))) as store:
        store.update_index()
        indexed = [row.summary.id for row in store.list_rows()]

    assert (0, {}) == (writer.counts.in_spool, writer.counts.troubles)
    assert ids(tmp_path) == indexed


def test_traces_in_the_spool_are_counted(tmp_path: Path) -> None:
    """For the metrics and the summary of a proxy: how far the files are behind."""
    writer = TraceWriter(RecorderSettings(str(tmp_path)))
    writer.write(exchange(1))
    writer.write(exchange(2))
    before = writer.counts.by_result()
    writer.write_files()

    assert (2, 2) == (before["recorded"], before["in_spool"])
    assert (2, 0) == (writer.counts.recorded, writer.counts.in_spool)


def test_traces_that_another_command_drains_are_no_longer_in_the_spool(tmp_path: Path) -> None:
    """Nor do traces of another process, of which this one makes files, make up for its own."""
    writer, other = (TraceWriter(RecorderSettings(str(tmp_path))) for _ in range(2))
    for number, target in enumerate((writer, writer, other)):
        target.write(exchange(number))
    other.seal()
    writer.drain_spool(20)
    before = writer.counts.in_spool, other.counts.in_spool
    writer.seal()
    drain_spool(str(tmp_path))

    assert (2, 0) == before
    assert (0, 0) == (writer.counts.in_spool, other.counts.in_spool)
