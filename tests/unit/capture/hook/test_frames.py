"""The protocol between a child process and its parent, byte by byte."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.capture.hook.frames import FRAME_BYTES_MAX, read_frame, write_frame

TEXTS = st.text(st.characters(codec="utf-8"))


@given(st.dictionaries(TEXTS.filter(lambda name: name != "sizes"), TEXTS), st.lists(st.binary()))
def test_frames_are_read_as_they_were_written(head: dict[str, str], pieces: list[bytes]) -> None:
    """Chunks keep their boundaries, empty ones too; frames follow one another."""
    stream = io.BytesIO(write_frame(dict(head), pieces) + write_frame({"kind": "next"}))

    first, second = read_frame(stream.read), read_frame(stream.read)

    assert first is not None
    assert (pieces, {**head, **({"sizes": [len(piece) for piece in pieces]} if pieces else {})}) == (
        first[1],
        first[0],
    )
    assert ({"kind": "next"}, []) == second
    assert read_frame(stream.read) is None


def test_a_frame_that_breaks_off_is_the_end() -> None:
    """Wherever it breaks off: the process that wrote it has ended."""
    frame = write_frame({"kind": "x"}, [b"12345"])

    assert [None] * len(frame) == [read_frame(io.BytesIO(frame[:cut]).read) for cut in range(len(frame))]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", 3, 1) + b"{}",
        struct.pack(">II", 6, 9) + b"{}" * 9,
        struct.pack(">II", FRAME_BYTES_MAX + 1, 2) + b"{}",
        struct.pack(">II", 6, 2) + b"[]",
        struct.pack(">II", 6, 2) + b"{x",
        write_frame({"kind": "x", "sizes": [9]}),
        write_frame({"kind": "x", "sizes": [-1]}),
    ],
    ids=["short", "head beyond the frame", "too large", "no object", "no JSON", "piece beyond", "negative piece"],
)
def test_invalid_frames_are_refused(data: bytes) -> None:
    """Nothing is read beyond their length."""
    with pytest.raises(ValueError, match=r"frame|JSON|Expecting"):
        read_frame(io.BytesIO(data).read)
