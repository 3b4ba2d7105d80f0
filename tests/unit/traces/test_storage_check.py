"""Checking the files next to the trace files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.exchanges import parse_object, plain_trace, streamed_trace
from traceforge.traces import chunk_file, trace_archive
from traceforge.traces.spool import SpoolWriter, encode_frame
from traceforge.traces.spool_drain import DAMAGED_SUFFIX, drain_spool
from traceforge.traces.storage_check import check_trace_storage
from traceforge.traces.trace_store import TraceStore

STORED = [streamed_trace(1), plain_trace(2), streamed_trace(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One file with chunks, two traces in an archive, and one in the spool."""
    writer = SpoolWriter(str(tmp_path))
    for stored in STORED:
        writer.append(stored)
    writer.seal()
    store = TraceStore(str(tmp_path))
    store.update_index()
    store.compress_traces(store.list_rows()[:2])
    store.close()
    (tmp_path / "spool" / "1-a.segment").write_bytes(b"".join(encode_frame(streamed_trace(4))))
    return tmp_path


def _rules(folder: Path) -> list[tuple[str, str]]:
    return [
        (Path(finding.file.partition("#")[0]).name, finding.rule) for finding in check_trace_storage(str(folder))[1]
    ]


def test_a_sound_folder_has_no_findings(folder: Path) -> None:
    """Two in the archive and one in the spool are counted; the files are not."""
    assert (3, []) == check_trace_storage(str(folder))
    assert (0, []) == check_trace_storage(str(folder / "nowhere"))


def test_a_damaged_archive_is_a_finding(folder: Path) -> None:
    """With its path."""
    (path,) = trace_archive.find_archives(str(folder))
    data = bytearray(Path(path).read_bytes())
    data[20] ^= 0xFF
    Path(path).write_bytes(data)

    assert {(Path(path).name, trace_archive.ARCHIVE_RULE)} == set(_rules(folder))


def test_a_trace_in_an_archive_that_breaks_a_rule_is_a_finding(folder: Path) -> None:
    """One of an older version breaks none: it is upgraded whenever it is read."""
    body = parse_object(STORED[1].trace)
    old = json.dumps({name: value for name, value in body.items() if name != "schema_version"}).encode()
    for trace, rules in ((old, []), (b'{"schema_version": "1.0.0"}', ["TR1"]), (b"{", ["PARSE"])):
        path = trace_archive.write_archive(str(folder), [plain_trace(9)._replace(trace=trace)])

        assert set(rules) == {rule for _, rule in _rules(folder)}
        Path(path).unlink()


def test_chunks_without_their_trace_are_a_finding(folder: Path) -> None:
    """Chunks that belong to a file, an archive or the spool are none."""
    (folder / chunk_file.CHUNKS_FOLDER / "stray.jsonl").write_bytes(STORED[0].chunks)
    drain_spool(str(folder))

    assert [("stray.jsonl", chunk_file.CHUNKS_RULE)] == _rules(folder)


def test_invalid_chunks_are_a_finding(folder: Path) -> None:
    """A line that was changed, and a link."""
    path = folder / chunk_file.chunk_file_name(STORED[0].summary.id)
    path.write_bytes(STORED[0].chunks.replace(b'"i":1', b'"i":2'))
    assert [(path.name, chunk_file.CHUNKS_RULE)] == _rules(folder)
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert [(path.name, "IO")] == _rules(folder)


def test_a_damaged_segment_is_a_finding(folder: Path) -> None:
    """Drained or not yet."""
    name = folder / "spool" / "2-b.segment"
    name.write_bytes(b"".join(encode_frame(STORED[0]))[:-9] + b"?" * 30 + b"".join(encode_frame(plain_trace(7))))

    drain_spool(str(folder))

    assert [("2-b.segment" + DAMAGED_SUFFIX, "TR6")] == _rules(folder)
