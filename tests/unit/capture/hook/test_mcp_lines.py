"""Lines of a stream of messages, however its bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.capture.hook import mcp_lines
from traceforge.capture.hook.mcp_lines import MessageLines, Piece


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"\n", b"a\nb", b"{}\n"]), max_size=20))
def test_no_byte_is_lost_and_each_line_is_one_piece(reads: list[bytes]) -> None:
    """The same lines come out as if all had been read at once."""
    lines = MessageLines()

    pieces = [piece for data in reads for piece in lines.feed(data)]
    pieces += lines.flush()

    assert b"".join(reads).splitlines(keepends=True) == [piece.data for piece in pieces] or b"\r" in b"".join(reads)
    assert b"".join(reads) == b"".join(piece.data for piece in pieces)


def test_a_line_that_is_too_long_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than its limit is kept of it, and the next line is a line again."""
    monkeypatch.setattr(mcp_lines, "LINE_BYTES_MAX", 4)
    lines = MessageLines()

    pieces = [piece for data in (b"12", b"345", b"6", b"7\n", b"ab\n") for piece in lines.feed(data)]

    assert [Piece(b"12345", False), Piece(b"6", False), Piece(b"7\n", False), Piece(b"ab\n", True)] == pieces
