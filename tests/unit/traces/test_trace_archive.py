"""Old traces in little room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import need_shared
from support.corpus_traffic import interactions
from support.example_counts import RunLength
from support.exchanges import COMPOSER, corpus_exchange, plain_trace, streamed_trace
from support.json_texts import fuzz
from traceforge.errors import InvalidFile
from traceforge.traces import trace_archive
from traceforge.traces.trace_archive import TraceArchive, find_archives, write_archive
from traceforge.traces.trace_summary import StoredTrace

SMALL = [plain_trace(1)._replace(trace=b"one"), streamed_trace(2)._replace(trace=b"two", chunks=b"lines")]


def _contents(path: str) -> list[StoredTrace]:
    opened = TraceArchive(path)
    return [opened.read_entry(number) for number in range(len(opened.entries))]


def _by_name(traces: list[StoredTrace]) -> dict[str, StoredTrace]:
    return {trace.summary.file_name: trace for trace in traces}


def test_the_corpus_is_read_back_from_an_archive_unchanged(tmp_path: Path) -> None:
    """Byte for byte, in an eighth of the space."""
    calls = interactions(need_shared("corpus/llm"))[:: 70 if RunLength.is_short else 7]
    traces = [COMPOSER.compose(corpus_exchange(interaction, number)) for number, interaction in enumerate(calls)]

    path = write_archive(str(tmp_path), traces)

    assert _by_name(traces) == _by_name(_contents(path))
    assert os.path.getsize(path) < sum(len(trace.trace) + len(trace.chunks) for trace in traces) / 8


@fuzz(100)
@given(parts=st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=100)), min_size=1, max_size=40))
def test_any_bytes_come_out_as_they_went_in(
    parts: list[tuple[bytes, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Too few or too strange to train a dictionary on as well."""
    base = plain_trace(0).summary
    fields = {field: getattr(base, field) for field in base.__struct_fields__}
    traces = [
        StoredTrace(type(base)(**{**fields, "id": f"{number:08x}{base.id[8:]}"}), *part)
        for number, part in enumerate(parts)
    ]
    path = write_archive(str(tmp_path_factory.getbasetemp() / "any"), traces)

    by_name = _by_name(_contents(path))
    os.unlink(path)

    assert _by_name(traces) == by_name


def test_blocks_are_small_and_hold_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One trace is read without the others."""
    traces = [plain_trace(number) for number in range(30)]
    monkeypatch.setattr(trace_archive, "BLOCK_BYTES_MAX", 3 * len(traces[0].trace) + 50)

    path = write_archive(str(tmp_path), reversed(traces))

    opened = TraceArchive(path)
    assert [3] * 10 == [sum(entry.block == block for entry in opened.entries) for block in range(10)]
    assert [trace.summary for trace in traces] == [entry.summary for entry in opened.entries]
    assert [traces[number] for number in (29, 0, 17, 18)] == [opened.read_entry(number) for number in (29, 0, 17, 18)]


def test_a_trace_is_found_with_a_hint_or_without(tmp_path: Path) -> None:
    """The hint may be of another archive."""
    traces = [plain_trace(number) for number in range(5)]
    opened = TraceArchive(write_archive(str(tmp_path), traces))

    assert [3, 3, 3, 3] == [opened.find_entry(traces[3].summary, hint) for hint in (3, 0, 4, 99)]
    assert opened.find_entry(plain_trace(9).summary, 0) is None


def test_every_changed_byte_is_detected_or_harmless(tmp_path: Path) -> None:
    """Every change of every byte is found out, or harmless; never another error, never other bytes."""
    path = Path(write_archive(str(tmp_path), SMALL))
    data = path.read_bytes()
    noticed = 0
    for place in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            path.write_bytes(data[:place] + bytes([data[place] ^ change]) + data[place + 1 :])
            try:
                assert SMALL == _contents(str(path)), place
            except InvalidFile:
                noticed += 1

    assert noticed > len(data) * 3 * 0.95


def test_a_truncated_or_extended_archive_is_detected(tmp_path: Path) -> None:
    """A file that was not copied to its end, or that has something behind it."""
    path = Path(write_archive(str(tmp_path), SMALL))
    data = path.read_bytes()
    for broken in [*(data[:size] for size in range(len(data))), data + b"\0", data + data[:-1]]:
        path.write_bytes(broken)

        with pytest.raises(InvalidFile):
            _contents(str(path))


def test_an_archive_is_private_and_has_a_unique_name(tmp_path: Path) -> None:
    """Two of one day are two files."""
    old = os.umask(0)
    try:
        paths = {write_archive(str(tmp_path), SMALL) for _ in range(2)}
    finally:
        os.umask(old)

    assert sorted(paths) == find_archives(str(tmp_path))
    assert {0o600} == {os.stat(path).st_mode & 0o777 for path in paths}
    assert all("2026-11-15-" in path for path in paths)
    assert [] == find_archives(str(tmp_path / "nowhere"))
