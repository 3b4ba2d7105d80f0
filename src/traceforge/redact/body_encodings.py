"""Bodies that are not one UTF-8 text: UTF-16 and UTF-32, and multipart bodies.

In: the bytes of a body and its media type. Out: the texts in it and how to put them together again. Never: leaves
bytes unexamined because they are malformed: what cannot be put together again is not stored.
"""

from __future__ import annotations

import base64
import codecs
import quopri
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from traceforge.redact.lazy_pattern import LazyPattern

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
    incomplete: bytes

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding."""
        return self.mark + text.encode(self.codec, "surrogatepass") + self.incomplete


def read_wide_text(data: bytes, media_type: str = "") -> WideText | None:
    """The text of a body in UTF-16 or UTF-32, by its mark, its charset or its zero bytes; None for others."""
    mark, codec = b"", ""
    if data[:1] in (b"\xff", b"\xfe", b"\0"):  # with which all marks begin
        mark, codec = next(((mark, codec) for mark, codec in _MARKS if data.startswith(mark)), (b"", ""))
    codec = codec or _codec_of_zeros(data[:4]) or _codec_of_charset(media_type)
    if not codec or len(data) < 4:
        return None
    width = 4 if "32" in codec else 2
    body = data[len(mark) :]
    incomplete = body[len(body) // width * width :]
    try:
        return WideText(codec, mark, body[: len(body) - len(incomplete)].decode(codec, "surrogatepass"), incomplete)
    except UnicodeDecodeError:
        return WideText(codec, mark, body.decode(codec, "replace"), b"")


def _codec_of_zeros(start: bytes) -> str:
    """The encoding in which the first characters are ASCII."""
    if b"\0" not in start:
        return ""
    zeros = [byte == 0 for byte in start]
    patterns = {
        (False, True, True, True): "utf-32-le",
        (True, True, True, False): "utf-32-be",
        (False, True, False, True): "utf-16-le",
        (True, False, True, False): "utf-16-be",
    }
    return patterns.get(tuple(zeros), "") if len(start) == 4 else ""  # type: ignore[arg-type]


def _codec_of_charset(media_type: str) -> str:
    match = _CHARSET.search(media_type) if "=" in media_type else None
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


_BOUNDARY = LazyPattern(r'(?i)boundary\s*=\s*(?:"([^"]{1,200})"|([^\s;,"]{1,200}))')
_FIRST_LINE = LazyPattern(rb"\s*--([^\r\n]{1,200}?)[ \t]*\r?\n")
_FIRST_HEAD = LazyPattern(rb"(?i)(?:\A|\n)--([^\r\n]{1,200}?)[ \t]*\r?\ncontent-[a-z-]{4,32}[ \t]*:")
_PART_NAME = LazyPattern(rb"(?i)content-disposition[^\r\n]*?[;\s]name(\*?)\s*=\s*(?:\"([^\"\r\n]*)\"|([^\s;]*))")
_PART_TYPE = LazyPattern(rb"(?i)(?:^|\n)content-type\s*:\s*([^\r\n]*)")
_PART_ENCODING = LazyPattern(rb"(?i)(?:^|\n)content-transfer-encoding\s*:\s*([^\r\n;]*)")
_PLAIN_ENCODINGS = frozenset({"", "7bit", "8bit", "binary"})
_NOT_BASE64 = LazyPattern(rb"[^A-Za-z0-9+/]")
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
    first_line = _FIRST_LINE.match(data[:256]) or _FIRST_HEAD.search(data)
    return first_line[1] if first_line else b""


def begins_with_part(data: bytes) -> bool:
    """Whether bytes begin as a multipart body does: a border, and a header of its first part."""
    return data[:2] == b"--" and _FIRST_HEAD.match(data[:512]) is not None


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
        encoding[1].decode("latin-1").strip().lower() if encoding else "",
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


def decode_part(body: bytes, encoding: str) -> tuple[bytes, Callable[[bytes], bytes]] | None:
    """The content of a part without its transfer encoding, and how to encode another; None if it is unknown."""
    if encoding == "base64":
        return _decode_base64(body), base64.encodebytes
    if encoding == "quoted-printable":
        return quopri.decodestring(body), quopri.encodestring
    return (body, bytes) if encoding in _PLAIN_ENCODINGS else None


def _decode_base64(body: bytes) -> bytes:
    """Every piece between padding, as far as it can be decoded; other characters in it are passed over."""
    pieces = [_NOT_BASE64.sub(b"", piece) for piece in body.split(b"=")]
    return b"".join(base64.b64decode(piece[: len(piece) - (len(piece) % 4 == 1)] + b"==") for piece in pieces)
