"""Content encodings: the decoded body, and never more than the allowed size."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from support.work_counts import count_lines
from traceforge.wire.content_encoding import (
    DecodeBudget,
    DecodedBody,
    EncodingState,
    decode_body,
    decode_body_within,
    decode_chunks,
)

BODY = b'data: {"text": "Paris \xe2\x80\x94 \xf0\x9f\x98\x80"}\n\n' * 50
MIB = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    """Deflate without the zlib header, as some servers send it."""
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(data) + coder.flush()


Encode = Callable[[bytes], bytes]
ENCODINGS: list[tuple[str, str, Encode]] = [
    ("gzip", "gzip", gzip.compress),
    ("x-gzip", "x-gzip", gzip.compress),
    ("deflate", "deflate", zlib.compress),
    ("raw deflate", "deflate", raw_deflate),
    ("br", "br", brotli.compress),
    ("zstd", "zstd", zstandard.compress),
]
each_encoding = pytest.mark.parametrize(
    ("name", "encode"), [pytest.param(name, encode, id=test_id) for test_id, name, encode in ENCODINGS]
)


@each_encoding
def test_every_encoding_is_decoded(name: str, encode: Encode) -> None:
    assert DecodedBody(BODY, EncodingState.DECODED) == decode_body(encode(BODY), name)


@each_encoding
def test_an_encoded_empty_body_is_decoded(name: str, encode: Encode) -> None:
    assert DecodedBody(b"", EncodingState.DECODED) == decode_body(encode(b""), name)


@pytest.mark.parametrize("name", ["", "identity", " , ", "Identity"])
def test_a_body_without_an_encoding_is_unchanged(name: str) -> None:
    """No header, or `identity`."""
    assert DecodedBody(BODY, EncodingState.NONE) == decode_body(BODY, name)


def test_encoding_names_are_case_insensitive() -> None:
    assert EncodingState.DECODED is decode_body(gzip.compress(BODY), " GZip ").state


def test_several_encodings_are_decoded_from_the_last() -> None:
    """The header lists them in the order in which they were applied."""
    body = brotli.compress(gzip.compress(BODY))

    assert DecodedBody(BODY, EncodingState.DECODED) == decode_body(body, "gzip, br")
    assert EncodingState.FAILED is decode_body(body, "br, gzip").state


@pytest.mark.parametrize(("name", "encode"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_concatenated_members_are_one_body(name: str, encode: Encode) -> None:
    """Gzip and zstd allow it, and a proxy that flushes sends it."""
    body = encode(BODY[:100]) + encode(b"") + encode(BODY[100:])

    assert DecodedBody(BODY, EncodingState.DECODED) == decode_body(body, name)


@each_encoding
def test_a_truncated_body_is_returned_undecoded(name: str, encode: Encode) -> None:
    """Half a body is never taken for the whole."""
    encoded = encode(BODY)
    for size in (len(encoded) - 1, len(encoded) // 2, 5):
        assert DecodedBody(encoded[:size], EncodingState.FAILED) == decode_body(encoded[:size], name), size


@each_encoding
def test_a_plain_body_under_an_encoding_header_is_recognised(name: str, encode: Encode) -> None:
    """Recorders decode bodies and keep the header."""
    for plain in (BODY, b'{"a": 1}', b"{}", b"[]", "é".encode(), b'{"error": {"message": "no"}}\r\n'):
        assert DecodedBody(plain, EncodingState.STALE) == decode_body(plain, name)


@fuzz(500)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=2), st.sampled_from(ENCODINGS))
def test_no_text_is_taken_for_a_compressed_body(text: str, encoding: tuple[str, str, Encode]) -> None:
    """A bare deflate decoder would take some. (A single byte can be all of an empty brotli stream.)"""
    assert DecodedBody(text.encode(), EncodingState.STALE) == decode_body(text.encode(), encoding[1])


@fuzz(300)
@given(st.binary(min_size=1, max_size=200), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br", "what"]))
def test_no_bytes_raise(body: bytes, name: str) -> None:
    assert decode_body(body, name).state in EncodingState


def test_a_body_of_an_unknown_encoding_is_returned_undecoded() -> None:
    body = gzip.compress(BODY)

    assert DecodedBody(body, EncodingState.FAILED) == decode_body(body, "compress")


@each_encoding
def test_a_body_of_exactly_the_limit_is_decoded(name: str, encode: Encode) -> None:
    """One byte more is refused."""
    body = encode(b"x" * 5000)

    assert EncodingState.DECODED is decode_body(body, name, bytes_max=5000).state
    assert DecodedBody(body, EncodingState.TOO_LARGE) == decode_body(body, name, bytes_max=4999)


BOMBS: list[tuple[str, str, Callable[[], bytes]]] = [
    ("gzip", "gzip", lambda: gzip.compress(bytes(64 * MIB))),
    ("deflate", "deflate", lambda: zlib.compress(bytes(64 * MIB))),
    ("raw deflate", "deflate", lambda: raw_deflate(bytes(64 * MIB))),
    ("br", "br", lambda: brotli.compress(bytes(64 * MIB), quality=5)),
    ("zstd", "zstd", lambda: zstandard.compress(bytes(64 * MIB))),
    ("in two layers", "gzip, gzip", lambda: gzip.compress(gzip.compress(bytes(64 * MIB)))),
    ("many empty members", "gzip", lambda: gzip.compress(b"\xff") + gzip.compress(b"") * 400_000),
    ("many empty frames", "zstd", lambda: zstandard.compress(b"\xff") + zstandard.compress(b"") * 400_000),
]


@pytest.mark.parametrize(("name", "make"), [pytest.param(name, make, id=test_id) for test_id, name, make in BOMBS])
def test_a_decompression_bomb_is_refused_with_little_work_and_memory(name: str, make: Callable[[], bytes]) -> None:
    """64 MiB in a few bytes are not decompressed first."""
    bomb = make()
    tracemalloc.start()
    state = decode_body(bomb, name, bytes_max=MIB).state
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert EncodingState.TOO_LARGE is state
    assert peak < 16 * MIB
    assert count_lines(lambda: decode_body(bomb, name, bytes_max=MIB)) < 50_000 + 0.5 * len(bomb)


def test_a_zstd_frame_that_asks_for_a_huge_window_is_refused() -> None:
    """A few bytes must not make us reserve a gigabyte."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
    coder = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = coder.compress(b"small") + coder.flush()

    assert EncodingState.FAILED is decode_body(body, "zstd").state


# ---------------------------------------------------------------------------------------------
# In chunks


def cut_at(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """The bytes in pieces; two equal cuts leave an empty one."""
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[first:second] for first, second in pairwise(borders)]


@each_encoding
@fuzz(60)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_as_many_chunks_come_out_as_went_in(name: str, encode: Encode, cuts: list[int]) -> None:
    """Cut anywhere, inside the header as well: the chunks join to the body."""
    sent = cut_at(encode(BODY), cuts)

    decoded = decode_chunks(sent, name)

    assert (len(sent), BODY) == (len(decoded.chunks), b"".join(decoded.chunks))
    assert EncodingState.DECODED is decoded.state


@each_encoding
def test_a_flushed_chunk_is_decoded_in_its_place(name: str, encode: Encode) -> None:
    """Each event of a stream is in the chunk in which it was sent."""
    events = [b"data: %d\n\n" % number * 20 for number in range(5)]
    coders = {
        "gzip": lambda: zlib.compressobj(wbits=31), "x-gzip": lambda: zlib.compressobj(wbits=31),
        "deflate": zlib.compressobj, "br": brotli.Compressor, "zstd": zstandard.ZstdCompressor().compressobj,
    }  # fmt: skip
    coder = coders[name]()
    how = {"br": (), "zstd": (zstandard.COMPRESSOBJ_FLUSH_BLOCK,)}.get(name, (zlib.Z_SYNC_FLUSH,))
    step = coder.process if name == "br" else coder.compress
    sent = [step(event) + coder.flush(*how) for event in events]
    last = coder.finish() if name == "br" else coder.flush()

    assert [*events, b""] == decode_chunks([*sent, last], name).chunks
    assert EncodingState.CUT is decode_chunks(sent, name).state


@each_encoding
def test_truncated_chunks_are_decoded_as_far_as_they_go(name: str, encode: Encode) -> None:
    """And the state says that the body is truncated."""
    encoded = encode(random_text(4_000))
    for size in (len(encoded) - 1, len(encoded) // 2, len(encoded) // 3):
        decoded = decode_chunks(cut_at(encoded[:size], [7, 100]), name)

        assert EncodingState.CUT is decoded.state, size
        assert 3 == len(decoded.chunks)
        assert random_text(4_000).startswith(b"".join(decoded.chunks))
    assert name == "zstd" or b"".join(
        decode_chunks([encoded[: len(encoded) // 2]], name).chunks
    )  # zstd has one block here


def random_text(size: int) -> bytes:
    """Text that compresses badly, so that half of the bytes hold half of the text."""
    return bytes(Random(5).choices(range(32, 127), k=size))


@each_encoding
def test_chunks_broken_in_the_middle_are_returned_undecoded(name: str, encode: Encode) -> None:
    encoded = bytearray(encode(random_text(4_000)))
    encoded[len(encoded) // 2 : len(encoded) // 2 + 40] = b"\xff" * 40
    sent = cut_at(bytes(encoded), [100, 2_000])

    decoded = decode_chunks(sent, name)

    assert decoded.state in (EncodingState.FAILED, EncodingState.DECODED, EncodingState.CUT)
    assert sent == decoded.chunks or decoded.state is not EncodingState.FAILED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make"), [pytest.param(name, make, id=test_id) for test_id, name, make in BOMBS[:5]]
)
def test_a_decompression_bomb_in_chunks_is_refused(name: str, make: Callable[[], bytes]) -> None:
    """The limit holds for all chunks together."""
    sent = cut_at(make(), range(0, 60_000, 500))

    assert (sent, EncodingState.TOO_LARGE) == decode_chunks(sent, name, bytes_max=MIB)


@each_encoding
def test_plain_chunks_under_an_encoding_header_are_recognised(name: str, encode: Encode) -> None:
    sent = [BODY[:11], b"", BODY[11:]]

    assert (sent, EncodingState.STALE) == decode_chunks(sent, name)
    assert (sent, EncodingState.NONE) == decode_chunks(sent, "")
    assert ([], EncodingState.NONE) == decode_chunks([], name)
    assert ([b"", b""], EncodingState.NONE) == decode_chunks([b"", b""], name)


@fuzz(200)
@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br"]))
def test_no_chunks_raise(sent: list[bytes], name: str) -> None:
    """And as many come back."""
    assert len(sent) == len(decode_chunks(sent, name).chunks)


DAMAGES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("whole", lambda body: body),
    ("cut", lambda body: body[:-1]),
    ("followed", lambda body: body + b"\xff" * 64),
    ("damaged", lambda body: body[:-16] + b"\xff" * 16),
]


@each_encoding
@pytest.mark.parametrize("damage", [pytest.param(damage, id=test_id) for test_id, damage in DAMAGES])
def test_bodies_that_share_a_budget_use_it_up(name: str, encode: Encode, damage: Callable[[bytes], bytes]) -> None:
    """Also where their ends are damaged: what was decoded until then was work."""
    body = damage(encode(bytes(MIB) + Random(1).randbytes(1000)))
    budget = DecodeBudget(8 * MIB)
    states = [decode_body_within(body, name, budget).state for _ in range(20)]

    assert EncodingState.TOO_LARGE is states[-1]


def test_what_was_never_encoded_uses_up_no_budget() -> None:
    """A recorder may keep the header of a picture that it has decoded."""
    budget = DecodeBudget(MIB)
    for _ in range(100):
        assert EncodingState.FAILED is decode_body_within(b"\x89PNG\r\n\x1a\n" + bytes(99), "gzip", budget).state

    assert MIB == budget.bytes_left


def test_a_body_in_many_encodings_is_not_decoded() -> None:
    """Each decodes a whole body, and a name takes three bytes."""
    body = gzip.compress(BODY)
    for _ in range(5):
        body = gzip.compress(body)

    assert DecodedBody(body, EncodingState.TOO_LARGE) == decode_body(body, "gzip," * 6)
    assert EncodingState.DECODED is decode_body(body, "gzip," * 5).state
