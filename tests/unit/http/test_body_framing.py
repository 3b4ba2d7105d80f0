"""Where a body ends, and what it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.http import body_framing as module
from traceforge.http.body_framing import CHUNKED, UNTIL_CLOSE, ChunkedBody, InvalidBody, MessageBody, open_body


def feed(body: MessageBody, pieces: list[bytes]) -> tuple[bytes, bytes, bytes]:
    """The raw bytes, the payload, and the bytes beyond the body."""
    raw, payload, beyond = b"", b"", b""
    for chunk in pieces:
        if body.is_complete:
            beyond += chunk
            continue
        beyond += body.feed(chunk)
        raw += body.raw
        payload += b"".join(body.payload)
    return raw, payload, beyond


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """The same bytes in pieces."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a != b]


cuts = st.lists(st.integers(0, 10_000), max_size=12)


@given(st.binary(max_size=200), st.binary(max_size=20), cuts)
def test_a_sized_body_ends_after_its_length_however_it_is_split(
    body: bytes, beyond: bytes, places: list[int]
) -> None:
    """The bytes beyond belong to the next message."""
    assert (body, body, beyond) == feed(open_body(len(body)), split(body + beyond, places))


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.sampled_from([b"", b";name=value", b';q="a;b"']),
    st.sampled_from([b"", b"X-Sum: 1\r\n", b"A: b\r\nC:\r\n"]),
    st.binary(max_size=20),
    cuts,
)
def test_a_chunked_body_is_the_same_however_it_is_split(
    chunks: list[bytes], extension: bytes, trailers: bytes, beyond: bytes, places: list[int]
) -> None:
    """Its bytes are forwarded unchanged, with extensions and trailers; its payload has no framing."""
    wire = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    wire += b"0" + extension + b"\r\n" + trailers + b"\r\n"

    assert (wire, b"".join(chunks), beyond) == feed(open_body(CHUNKED), split(wire + beyond, places))


def test_each_chunk_is_its_own_payload() -> None:
    """Chunks that arrived in one read stay separate, as the upstream divided them."""
    body = ChunkedBody()
    body.feed(b"1\r\na\r\n2\r\nbc\r\n")

    assert [b"a", b"bc"] == body.payload


@pytest.mark.parametrize(
    "wire",
    [
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b" 1\r\n",
        b"1 \r\n",
        b"1\n",
        b"1;a\nb\r\n",
        b"1;a\rb\r\n",
        b"1;\0\r\n",
        b"1" * 16 + b"\r\n",
        b"1\r\nab\r\n",
        b"1\r\na\n",
        b"0\r\nno colon\r\n",
        b"0\r\n folded: x\r\n",
        b"0\r\nA: b\n",
        b"0\r\n\n",
    ],
)
def test_ambiguous_framing_is_refused(wire: bytes) -> None:
    """Requests are smuggled through ambiguous framing."""
    for pieces in ([wire], [bytes([byte]) for byte in wire]):
        with pytest.raises(InvalidBody):
            feed(open_body(CHUNKED), pieces)


def test_an_upstream_may_pad_a_chunk_size_with_spaces() -> None:
    """Old servers do, and clients accept it."""
    assert b"a" == feed(open_body(CHUNKED, allow_padding=True), [b"1  \r\na\r\n0\r\n\r\n"])[1]


def test_lines_and_trailers_have_a_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer cannot make us keep more than that."""
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 10)
    monkeypatch.setattr(module, "TRAILERS_BYTES_MAX", 20)

    for pieces in ([b"1;" + b"x" * 10], [b"1;" + b"x" * 10 + b"\r\n"], [b"0\r\n", *[b"A: bcde\r\n"] * 3]):
        with pytest.raises(InvalidBody, match="too long"):
            feed(open_body(CHUNKED), pieces)


def test_a_body_without_a_length_is_never_complete() -> None:
    """Only the end of its connection ends it."""
    body = open_body(UNTIL_CLOSE)

    assert (b"abc", b"abc", b"") == feed(body, [b"a", b"bc"])
    assert not body.is_complete
