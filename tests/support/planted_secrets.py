"""Record calls with a secret in them as a recorder does, and look for it in every byte that was stored."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import brotli
import zstandard

from support.exchanges import COMPOSER
from traceforge.exchange import Exchange
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_store import TraceStore

PROMPT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
BOUNDARY = "9f86d081884c7d65"
DEPTH_MAX = 8  # of encodings inside of each other that are looked into

_DECODERS: tuple[Callable[[bytes], bytes], ...] = (
    lambda data: zlib.decompressobj(47).decompress(data),  # gzip and zlib
    lambda data: zlib.decompressobj(-15).decompress(data),
    lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
    lambda data: brotli.Decompressor().process(data),
)


def record(folder: Path, exchanges: Sequence[Exchange]) -> None:
    """Store calls as a recorder does: the spool, the files of the traces, the index."""
    writer = SpoolWriter(str(folder))
    for exchange in exchanges:
        writer.append(COMPOSER.compose(exchange))
    writer.seal()
    store = TraceStore(str(folder))
    store.update_index()
    store.close()


def read_disk(folder: Path) -> bytes:
    """Every byte under the folder, and what is base64 in it decoded, also from UTF-16."""
    data = b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return data + b"".join(_decode_bodies(data))


def _decode_bodies(data: bytes) -> Iterator[bytes]:
    for match in re.finditer(rb'"b64": ?"([A-Za-z0-9+/=]+)"', data):
        inner = base64.b64decode(match[1])
        yield inner + inner.replace(b"\0", b"")


def is_stored(secret: str, disk: bytes) -> bool:
    """Whether the secret is on the disk, plain, escaped or encoded; and of a long one no end may be left either."""
    forms = {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), secret.replace("\n", " ")}
    if len(secret) >= 20 and "PRIVATE KEY" not in secret:
        forms.add(secret[-12:])
    return any(form.encode() in disk for form in forms)


def decode_everything(data: bytes, depth: int = 0) -> Iterator[bytes]:
    """The data, and all that can be decoded in it: base64, hexadecimal digits and compressed bytes, at any depth."""
    yield data
    if depth > DEPTH_MAX:
        return
    for match in re.finditer(rb"[A-Za-z0-9+/_-]{16,}", data):
        text = match[0].translate(bytes.maketrans(b"-_", b"+/"))
        text = text[: len(text) - (len(text) % 4 == 1)]
        yield from decode_everything(base64.b64decode(text + b"=" * (-len(text) % 4)), depth + 1)
    for match in re.finditer(rb"(?:[0-9a-fA-F]{2}){16,}", data):
        yield bytes.fromhex(match[0].decode())
    for place in _list_starts(data) if depth else ():
        for decode in _DECODERS:
            with suppress(zlib.error, zstandard.ZstdError, brotli.error):
                inner = decode(data[place:])
                if len(inner) > 20:
                    yield from decode_everything(inner, depth + 1)


def _list_starts(data: bytes) -> list[int]:
    """Where a body may begin: at the start, and after the head of each part."""
    return [0, *(match.end() for match in re.finditer(rb"\r\n\r\n", data))]


def make_multipart(*parts: tuple[str, bytes], boundary: str = BOUNDARY) -> bytes:
    """A multipart body of parts with these heads and contents."""
    lines = [f"--{boundary}\r\n{head}\r\n\r\n".encode() + content for head, content in parts]
    return b"\r\n".join([*lines, f"--{boundary}--\r\n".encode()])
