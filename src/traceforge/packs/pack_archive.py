"""A pack as one file: `.tar.zst`, with the same bytes for the same pack.

One zstd frame with a checksum around a plain tar (ustar). Its members are `pack.sig.json`, where the pack is signed,
and `pack/<name>` for each file, sorted, without duplicates. Each header has mode 0644, no owner, time 0 and type `0`;
zeros fill each file to a multiple of 512 bytes, and 1,024 zeros end the tar. It has no folders, links or extended
headers.

An archive is read in memory and never unpacked to disk. Refused are headers that differ from those written here, a
second frame, and archives that expand too much.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from traceforge.errors import CannotRead
from traceforge.files import FILE_BYTES_MAX
from traceforge.modelio import Violation
from traceforge.packs.pack_contents import PackContents, read_folder
from traceforge.packs.pack_format import ALL_FILES, SIGNATURE_SUFFIX

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MEMBER_FOLDER = "pack/"
SIGNATURE_MEMBER = f"pack{SIGNATURE_SUFFIX}"
BLOCK = 512
END = bytes(2 * BLOCK)
LEVEL = 10  # A higher level makes recordings a few percent smaller and takes several times as long.
WINDOW_BYTES_MAX = 128 << 20  # the most memory that a frame may require
UNCHECKED_EXPANSION_BYTES = 64 << 20  # Below this size, the expansion is not checked.
EXPANSION_MAX = 1000  # Real recordings shrink 3 to 50 times, a bomb 10,000 times.
PIECE_BYTES = 1 << 18
TOTAL_BYTES_MAX = FILE_BYTES_MAX  # the same limit as for every file


class InvalidArchive(Exception):
    """The archive breaks a rule. `read_archive` turns it into a violation."""

    def __init__(self, message: str, rule: str = "PK13", path: str = "") -> None:
        super().__init__(message)
        self.violation = (rule, path, message)


def read_pack(pack: str) -> PackContents:
    """Read a pack: a folder, or an archive of one.

    Raises:
        CannotRead: the pack is missing or not readable, or neither a folder nor an archive.
    """
    if not os.path.isfile(pack):
        return read_folder(pack)
    if not _is_archive(pack):
        hint = "Name the folder of a pack, or an archive that `traceforge pack export` wrote."
        raise CannotRead(pack, "neither the folder nor an archive of a pack", hint=hint)
    return read_archive(pack)


def _is_archive(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC
    except OSError:
        return False


def write_archive(files: dict[str, bytes], signature: bytes | None) -> bytes:
    """The archive of a pack."""
    members = {f"{MEMBER_FOLDER}{name}": data for name, data in files.items()}
    if signature is not None:
        members[SIGNATURE_MEMBER] = signature
    parts = [part for name in sorted(members) for part in _member_parts(name, members[name])]
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True).compress(
        b"".join([*parts, END])
    )


def _member_parts(name: str, data: bytes) -> Iterator[bytes]:
    yield member_header(name, len(data))
    yield data
    yield bytes(-len(data) % BLOCK)


def member_header(name: str, size: int) -> bytes:
    """The only valid header of a member with this name and size."""
    fields = [
        name.encode().ljust(100, b"\0"),
        b"0000644\0" + b"0000000\0" * 2,
        b"%011o\0" % size,
        b"%011o\0" % 0,
        b" " * 8,  # the checksum, filled in below
        b"0" + bytes(100),
        b"ustar\x0000" + bytes(247),
    ]
    block = b"".join(fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def read_archive(path: str) -> PackContents:
    """Read an archive in memory. An invalid one has a single violation and no files.

    Raises:
        CannotRead: the file is not readable.
    """
    try:
        with open(path, "rb") as file:
            return read_archive_stream(file, path)
    except OSError as exc:
        raise CannotRead(path, (exc.strerror or str(exc)).lower()) from None


def read_archive_stream(file: BinaryIO, path: str) -> PackContents:
    """As `read_archive`, for an open file, or for bytes in memory; `path` is its name in the result.

    Raises:
        CannotRead: the file is too large.
    """
    contents = PackContents(path, signature_name=SIGNATURE_MEMBER)
    try:
        for name, data in _read_members(_FrameReader(file, path)):
            if name == SIGNATURE_MEMBER:
                contents.signature = data
            else:
                contents.files[name.removeprefix(MEMBER_FOLDER)] = data
    except InvalidArchive as exc:
        rule, where, message = exc.violation
        violation = Violation(rule, where or os.path.basename(path), message)
        return PackContents(path, violations=[violation], is_broken=True)
    contents.names = tuple(contents.files)
    return contents


def _read_members(source: _FrameReader) -> Iterator[tuple[str, bytes]]:
    previous_name = ""
    while True:
        block = source.read_exactly(BLOCK)
        if not block.strip(b"\0"):
            if source.read_exactly(BLOCK).strip(b"\0"):
                raise InvalidArchive("unexpected bytes after the end of the archive")
            source.check_end()
            return
        name, size = _read_member_header(block)
        if name <= previous_name:
            raise InvalidArchive(
                f"members are not sorted, or one is duplicated: {_shorten_name(name)}", path=_shorten_name(name)
            )
        previous_name = name
        data = source.read_exactly(size)
        if source.read_exactly(-size % BLOCK).strip(b"\0"):
            raise InvalidArchive(
                f"unexpected bytes between members: after {_shorten_name(name)}", path=_shorten_name(name)
            )
        yield name, data


def _read_member_header(block: bytes) -> tuple[str, int]:
    """The name and size of a member; the error names what is wrong with the header."""
    name = block[:100].rstrip(b"\0").decode(errors="backslashreplace")
    inner = name.removeprefix(MEMBER_FOLDER)
    short_name = _shorten_name(name)
    kind = block[156:157]
    if kind in (b"1", b"2"):
        raise InvalidArchive(f"a member is a link: {short_name}", "PK6", short_name)
    if kind != b"0":
        raise InvalidArchive(f"a member is not a regular file: {short_name}", "PK12", short_name)
    if name.startswith("/") or "\\" in name or ".." in name.split("/"):
        raise InvalidArchive(f"a member's name leads outside the pack: {short_name}", "PK7", short_name)
    if name != SIGNATURE_MEMBER and (inner == name or inner not in ALL_FILES):
        raise InvalidArchive(f"unknown file in pack: {short_name}", "PK2", short_name)
    try:
        size = int(block[124:135], 8)
    except ValueError:
        raise InvalidArchive(f"a member has no size: {short_name}", path=short_name) from None
    if size < 0 or block != member_header(name, size):
        raise InvalidArchive(f"a member's head is not as `pack export` writes it: {short_name}", path=short_name)
    return name, size


def _shorten_name(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:60]}…"


class _FrameReader:
    """Decompresses a zstd frame as far as it is read."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX).decompressobj()
        self._error = zstandard.ZstdError
        self._buffer = bytearray()
        self._compressed_bytes = 0
        self._taken_bytes = 0
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size > FILE_BYTES_MAX:
            raise CannotRead(path, f"more than the limit of {FILE_BYTES_MAX} bytes")

    def read_exactly(self, size: int) -> bytes:
        """Return exactly so many bytes."""
        if self._taken_bytes + size > TOTAL_BYTES_MAX:
            raise InvalidArchive(f"it holds more than {TOTAL_BYTES_MAX} bytes")
        while len(self._buffer) < size:
            if not self._read_more():
                raise InvalidArchive("it ends too early")
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._taken_bytes += size
        return data

    def check_end(self) -> None:
        """Check that nothing follows, neither in the frame nor after it."""
        while not self._buffer and self._read_more():
            pass
        if self._buffer or self._frame.unused_data or self._file.read(1):
            raise InvalidArchive("unexpected bytes after the end of the archive")
        if not self._frame.eof:
            raise InvalidArchive("it ends too early")

    def _read_more(self) -> bool:
        if self._frame.eof:
            return False
        data = self._file.read(PIECE_BYTES if self._compressed_bytes else 1 << 10)
        self._compressed_bytes += len(data)
        if not data:
            return False
        try:
            for start in range(0, len(data), 1 << 10):  # In small steps, so that a bomb is noticed early.
                if self._frame.eof:
                    raise InvalidArchive("unexpected bytes after the end of the archive")
                self._buffer += self._frame.decompress(data[start : start + (1 << 10)])
                self._check_expansion()
        except self._error:
            raise InvalidArchive("it is not one zstd frame, or is damaged") from None
        return True

    def _check_expansion(self) -> None:
        expanded = self._taken_bytes + len(self._buffer)
        if (
            expanded > UNCHECKED_EXPANSION_BYTES and expanded > EXPANSION_MAX * self._compressed_bytes
        ) or expanded > TOTAL_BYTES_MAX:
            raise InvalidArchive(f"it expands to more than {EXPANSION_MAX} times its size")
