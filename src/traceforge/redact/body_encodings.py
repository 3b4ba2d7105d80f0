"""Bodies that are not one UTF-8 text: UTF-16 and UTF-32, and multipart bodies.

In: the bytes of a body and its media type. Out: the texts in it and how to put them together again. Never: leaves
bytes unexamined because they are malformed: what cannot be put together again is not stored.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import quopri
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.wire.content_encoding import EncodingState, decode_chunks

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSET = LazyPattern(r"(?i)charset\s*=\s*[\"']?(utf-?(?:16|32)(?:-?[lb]e)?|ucs-?[24])")
# Text of ASCII characters in two or four bytes each, inside of other bytes.
_WIDE_RUN = LazyPattern(
    rb"(?:[\x01-\x7f]\x00){8,}|(?:\x00[\x01-\x7f]){8,}|(?:[\x01-\x7f]\x00{3}){8,}|(?:\x00{3}[\x01-\x7f]){8,}"
)


class WideText(NamedTuple):
    """A text in UTF-16 or UTF-32: codec, byte order mark, text, and an incomplete character at the end."""

    codec: str
    mark: bytes
    text: str
    rest: bytes

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding."""
        return self.mark + text.encode(self.codec, "surrogatepass") + self.rest


def read_wide_text(data: bytes, media_type: str = "") -> WideText | None:
    """The text of a body in UTF-16 or UTF-32, by its mark, its charset or its zero bytes; None for others."""
    mark, codec = next(((mark, codec) for mark, codec in _MARKS if data.startswith(mark)), (b"", ""))
    codec = codec or _codec_of_zeros(data[:4]) or _codec_of_charset(media_type)
    if not codec or len(data) < 4:
        return None
    width = 4 if "32" in codec else 2
    body = data[len(mark) :]
    rest = body[len(body) // width * width :]
    try:
        return WideText(codec, mark, body[: len(body) - len(rest)].decode(codec, "surrogatepass"), rest)
    except UnicodeDecodeError:
        return WideText(codec, mark, body.decode(codec, "replace"), b"")


def _codec_of_zeros(start: bytes) -> str:
    """The encoding in which the first characters are ASCII."""
    zeros = [byte == 0 for byte in start]
    patterns = {
        (False, True, True, True): "utf-32-le",
        (True, True, True, False): "utf-32-be",
        (False, True, False, True): "utf-16-le",
        (True, False, True, False): "utf-16-be",
    }
    return patterns.get(tuple(zeros), "") if len(start) == 4 else ""  # type: ignore[arg-type]


def _codec_of_charset(media_type: str) -> str:
    match = _CHARSET.search(media_type)
    if match is None:
        return ""
    name = match[1].lower().replace("-", "").replace("ucs2", "utf16").replace("ucs4", "utf32")
    return f"utf-{name[3:5]}-{name[5:] or 'be'}"  # Without a mark, the standard says big-endian.


def find_wide_runs(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Texts in two or four bytes a character inside of other bytes: where, how wide, and the text."""
    if b"\0" not in data:
        return
    for match in _WIDE_RUN.finditer(data):
        run = match[0]
        width = 4 if b"\0\0" in run else 2
        yield match.start(), width, run.replace(b"\0", b"")


_COMPRESSIONS = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    *((b"\x78" + level, "deflate") for level in (b"\x01", b"\x5e", b"\x9c", b"\xda")),
)


def find_compression(data: bytes) -> str:
    """How bytes are compressed, by the first of them; "" where they do not say so."""
    return next((name for start, name in _COMPRESSIONS if data.startswith(start)), "")


_PROBE_BYTES = 4_096  # of a body are decoded to see whether it is compressed
_PROBE_BYTES_MAX = 1 << 20  # of what they decode to
_CONTROL = LazyPattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def guess_compression(data: bytes) -> str:
    """How bytes are compressed whose first do not say so, as in brotli and deflate: they decode to text."""
    if data.isascii():
        return ""
    for name in ("deflate", "br"):
        decoded = decode_chunks([data[:_PROBE_BYTES]], name, bytes_max=_PROBE_BYTES_MAX)
        if decoded.state is EncodingState.STALE:
            return ""
        if decoded.state is EncodingState.TOO_LARGE or (
            decoded.state in (EncodingState.DECODED, EncodingState.CUT) and _is_content(decoded.chunks[0])
        ):
            return name
    return ""


def _is_content(data: bytes) -> bool:
    """Whether a decoded body is text as far as it came, or compressed once more."""
    if len(data) < 6:  # No secret is shorter.
        return False
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return find_compression(data) != ""
    return _CONTROL.search(text) is None or find_compression(data) != ""


_BOUNDARY = LazyPattern(r'(?i)boundary\s*=\s*(?:"([^"]{1,200})"|([^\s;,"]{1,200}))')
_FIRST_LINE = LazyPattern(rb"\s*--([^\r\n]{1,200}?)[ \t]*\r?\n")
_PART_NAME = LazyPattern(rb"(?i)content-disposition[^\r\n]*?[;\s]name(\*?)\s*=\s*(?:\"([^\"\r\n]*)\"|([^\s;]*))")
_PART_TYPE = LazyPattern(rb"(?i)(?:^|\n)content-type\s*:\s*([^\r\n]*)")
_PART_ENCODING = LazyPattern(rb"(?i)(?:^|\n)content-transfer-encoding\s*:\s*(base64|quoted-printable)")
_ENCODED_WORD = LazyPattern(rb"[^\s;\"'=%]*%[^\s;\"']*")
_CONTINUED = LazyPattern(
    rb"(?P<name>[A-Za-z-]+)\*[0-9]{1,3}\*?\s*=\s*(?:\"(?P<quoted>[^\"\r\n]*)\"|(?P<bare>[^\s;]*))"
)
_HEAD_END = LazyPattern(rb"\r?\n\r?\n|\A\r?\n")


class Part(NamedTuple):
    """One part of a multipart body: where its head and its body are, its name, its media type and its encoding."""

    head: tuple[int, int]
    body: tuple[int, int]
    name: str
    media_type: str
    encoding: str


def find_parts(data: bytes, boundary: bytes) -> list[Part]:
    """The parts of a multipart body."""
    borders = [match.span() for match in re.finditer(rb"(?:\A|\r?\n)--" + re.escape(boundary), data)]
    ends = [start for start, _ in borders[1:]] + [len(data)]
    return [_read_part(data, first, end) for (_, first), end in zip(borders, ends, strict=True)]


def find_boundary(data: bytes, media_type: str) -> bytes:
    """What divides a multipart body, by its media type or its first line; empty where nothing does."""
    match = _BOUNDARY.search(media_type)
    if match is not None:
        boundary = (match[1] or match[2]).encode("latin-1", "replace")
        if b"--" + boundary in data:
            return boundary
    first_line = _FIRST_LINE.match(data[:256])
    return first_line[1] if first_line else b""


def _read_part(data: bytes, start: int, end: int) -> Part:
    match = _HEAD_END.search(data, start, end)
    head_end, body_start = match.span() if match else (end, end)
    head = data[start:head_end]
    name, kind, encoding = _PART_NAME.search(head), _PART_TYPE.search(head), _PART_ENCODING.search(head)
    return Part(
        (start, head_end),
        (body_start, end),
        _read_name(name) if name else "",
        kind[1].decode("latin-1").strip() if kind else "",
        encoding[1].decode().lower() if encoding else "",
    )


def _read_name(match: re.Match[bytes]) -> str:
    text = (match[2] if match[2] is not None else match[3]).decode("utf-8", "replace")
    return unquote(text.rpartition("'")[2]) if match[1] else unquote(text)


def find_encoded_words(head: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The words with `%xx` in the head of a part, such as a file name: where, and what they mean."""
    for match in _ENCODED_WORD.finditer(head):
        yield *match.span(), unquote_to_bytes(match[0])


def find_continued_values(head: bytes) -> list[list[tuple[int, int]]]:
    """Where the pieces of a parameter stand that is divided over several: `filename*0=…; filename*1=…`."""
    values: dict[bytes, list[tuple[int, int]]] = {}
    for match in _CONTINUED.finditer(head):
        group = "bare" if match["quoted"] is None else "quoted"
        values.setdefault(match["name"].lower(), []).append(match.span(group))
    return list(values.values())


def decode_part(body: bytes, encoding: str) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The content of a part without its transfer encoding, and how to encode another content."""
    if encoding == "base64":
        try:
            return base64.b64decode(body, validate=False), base64.encodebytes
        except (binascii.Error, ValueError):
            return body, bytes
    if encoding == "quoted-printable":
        return quopri.decodestring(body), quopri.encodestring
    return body, bytes
