"""The chunks of a streamed answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.errors import InvalidFile
from traceforge.exchange import Chunk
from traceforge.traces.chunk_file import chunk_file_name, read_chunks, write_chunks

times = st.floats(0, 1e9).map(lambda value: round(value, 3))
pieces = st.binary(max_size=30) | st.text(max_size=10).map(str.encode)


@given(st.lists(st.builds(Chunk, times, pieces), max_size=8))
def test_chunks_read_back_as_they_were(chunks: list[Chunk]) -> None:
    """Any bytes, empty ones and halves of characters too; none joined, none divided."""
    assert chunks == read_chunks(write_chunks(chunks, [chunk.data for chunk in chunks]))


def test_text_is_written_as_text() -> None:
    """And anything else in base64, a line a chunk."""
    timed = [Chunk(1.23456, b"?"), Chunk(2, b"?")]

    lines = write_chunks(timed, ["é\u2028\x85".encode(), b"\xff"])

    assert [{"i": 0, "t_ms": 1.235, "data": "é\u2028\x85"}, {"i": 1, "t_ms": 2, "b64": "/w=="}] == [
        json.loads(line) for line in lines.split(b"\n") if line
    ]
    assert ["é\u2028\x85".encode(), b"\xff"] == [chunk.data for chunk in read_chunks(lines)]


@pytest.mark.parametrize(
    "line",
    [
        "", "{}", "[]", '{"i":1,"t_ms":1,"data":""}', '{"i":0,"t_ms":-1,"data":""}', '{"i":0,"t_ms":1}',
        '{"i":0,"t_ms":1,"data":"","b64":""}', '{"i":0,"t_ms":1,"b64":"!"}', '{"i":0,"t_ms":1,"b64":"é"}',
        '{"i":0,"t_ms":1,"data":7}', '{"i":0,"t_ms":1,"data":"","more":1}', '{"i":0,"t_ms":1,"data":"\\ud800"}',
    ],
)  # fmt: skip
def test_a_line_that_is_not_a_chunk_is_refused(line: str) -> None:
    """With the number of the line."""
    with pytest.raises(InvalidFile, match="line 1 is not chunk 0"):
        read_chunks(line.encode() + b"\n")


def test_a_missing_chunk_is_noticed() -> None:
    """Their numbers follow one another."""
    lines = write_chunks([Chunk(1, b"")] * 3, [b"a", b"b", b"c"]).splitlines(keepends=True)

    with pytest.raises(InvalidFile, match="line 2 is not chunk 1"):
        read_chunks(lines[0] + lines[2])


def test_there_must_be_one_redacted_piece_for_each_chunk() -> None:
    """Any other number is a bug of TraceForge."""
    with pytest.raises(ValueError, match="zip"):
        write_chunks([Chunk(1, b"")], [b"a", b"b"])


def test_the_file_is_named_after_the_trace() -> None:
    """In a folder of its own."""
    assert "chunks/abc.jsonl" == chunk_file_name("abc")
