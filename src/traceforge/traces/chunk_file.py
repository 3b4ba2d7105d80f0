"""The chunks of a streamed response: `chunks/<trace id>.jsonl`.

One line for each chunk, in the order they arrived: `{"i": 0, "t_ms": 12.5, "data": "…"}`, or `"b64"` instead of
`data` where the bytes are not UTF-8. `t_ms` is the time since the request was sent. Chunks are never joined or
divided.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.canon import json_bytes
from traceforge.conversion import decode_json
from traceforge.errors import InvalidFile
from traceforge.exchange import Chunk
from traceforge.findings import Finding

CHUNKS_RULE = "TR4"
CHUNKS_FOLDER = "chunks"


class _ChunkLine(Struct, forbid_unknown_fields=True):
    i: Annotated[int, Meta(ge=0)]
    t_ms: Annotated[float, Meta(ge=0)]
    data: str | UnsetType = UNSET
    b64: str | UnsetType = UNSET


def chunk_file_name(trace_id: str) -> str:
    """The file with the chunks of a trace, relative to the traces folder."""
    return f"{CHUNKS_FOLDER}/{trace_id}.jsonl"


def write_chunks(chunks: Sequence[Chunk], redacted: Sequence[bytes]) -> bytes:
    """The lines, with the times of `chunks` and the bytes of `redacted`."""
    return b"".join(
        json_bytes({"i": number, "t_ms": round(chunk.t_ms, 3), **_encode_data(data)}) + b"\n"
        for number, (chunk, data) in enumerate(zip(chunks, redacted, strict=True))
    )


def _encode_data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def read_chunks(lines: bytes) -> list[Chunk]:
    """Read the lines of a chunk file.

    Raises:
        InvalidFile: a line is not a chunk, or not the next one.
    """
    chunks: list[Chunk] = []
    for number, line in enumerate(lines.splitlines()):
        try:
            chunks.append(_read_line(line, number))
        except (msgspec.DecodeError, ValueError, binascii.Error):
            message = f"line {number + 1} is not chunk {number} of a stream"
            raise InvalidFile((Finding("", "$", CHUNKS_RULE, message, "Record the call again."),)) from None
    return chunks


def _read_line(line: bytes, number: int) -> Chunk:
    chunk_line = decode_json(line, _ChunkLine)
    if chunk_line.i != number or (chunk_line.data is UNSET) == (chunk_line.b64 is UNSET):
        raise ValueError(number)
    if isinstance(chunk_line.data, str):
        return Chunk(chunk_line.t_ms, chunk_line.data.encode())
    return Chunk(chunk_line.t_ms, base64.b64decode(str(chunk_line.b64), validate=True))
