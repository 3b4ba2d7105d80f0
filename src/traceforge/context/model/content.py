"""Content and metadata as bytes, and back.

In: a text, a JSON value or bytes. Out: the bytes that are sealed, their kind and their digest. Never: a changed
value; a value that JSON cannot hold is refused.

A row with metadata and content has them in one sealed column:

    <length of the metadata in bytes, decimal> LF <metadata as JSON> <content>
"""

from __future__ import annotations

from typing import NamedTuple, cast

from traceforge.canon import JSON, canonical_bytes, digest_bytes, is_deeper_than, json_bytes, parse_json
from traceforge.context.model.block_source import kind_of, type_of
from traceforge.context.model.objects import Content, Metadata
from traceforge.errors import NotCanonical, NotJSON, StoreRefused, StoreUnavailable

_NO_METADATA = b"2\n{}"


class ContentBlock(NamedTuple):
    """One block of a manifest with its content: a text, a JSON value or bytes."""

    block_id: str
    role: str
    kind: str
    content: JSON | bytes
    media_type: str = ""  # Of bytes.
    hidden: str = ""  # The digest of a pinned content that was deleted: it cannot be read.

    @property
    def type(self) -> str:
        """The type of its artifact or event."""
        return type_of(self.kind)

    @property
    def text(self) -> str | None:
        """Its text, or the canonical JSON of its value; None where it is bytes or hidden."""
        if self.hidden or isinstance(self.content, bytes):
            return None
        return self.content if isinstance(self.content, str) else canonical_bytes(self.content).decode()


class PackedContent(NamedTuple):
    """A content as bytes, with its kind and its digest."""

    data: bytes
    kind: str
    digest: str


def pack(type_name: str, content: Content | bytes, param: str) -> PackedContent:
    """The bytes of a content, its kind and its digest.

    Raises:
        StoreRefused: it is not Unicode, nests too deep, or is not JSON.
    """
    kind = kind_of(type_name, cast("JSON | bytes", content))
    if isinstance(content, str):
        try:
            data = content.encode()
        except UnicodeEncodeError:
            raise _invalid_content("unpaired surrogate", param) from None
        return PackedContent(data, kind, digest_bytes(data))
    if isinstance(content, bytes):
        return PackedContent(content, kind, digest_bytes(content))
    exact = _canonical(cast("JSON", content), param)
    return PackedContent(json_bytes(cast("JSON", content)), kind, digest_bytes(exact))


def unpack(kind: str, data: bytes) -> Content | bytes:
    """The content that `pack` made these bytes of.

    Raises:
        StoreUnavailable: the bytes are not of this kind.
    """
    try:
        if kind.endswith("+json"):
            return cast("Content", parse_json(data))
        return data if kind.endswith("+binary") else data.decode()
    except (NotJSON, UnicodeDecodeError):
        raise StoreUnavailable(
            f"stored content does not match its kind, {kind}", hint="Restore the database from a backup."
        ) from None


def pack_metadata(metadata: Metadata, param: str = "metadata") -> bytes:
    """Metadata as JSON.

    Raises:
        StoreRefused: it is not JSON, or nests too deep.
    """
    if not metadata:
        return b"{}"
    _canonical(metadata, param)
    return json_bytes(metadata)


def unpack_metadata(data: bytes) -> Metadata:
    """The metadata that `pack_metadata` made these bytes of."""
    return cast("Metadata", parse_json(data))


def join_metadata(metadata: bytes, content: bytes) -> bytes:
    """Join metadata and content in one piece."""
    return _NO_METADATA + content if metadata == b"{}" else b"%d\n%b%b" % (len(metadata), metadata, content)


def split_metadata(data: bytes) -> tuple[Metadata, bytes]:
    """The metadata and the content that `join_metadata` joined."""
    if data.startswith(_NO_METADATA):
        return {}, data[len(_NO_METADATA) :]
    length, _, body = data.partition(b"\n")
    end = int(length)
    return unpack_metadata(body[:end]), body[end:]


def _canonical(value: JSON, param: str) -> bytes:
    if is_deeper_than(value):
        raise _invalid_content("nested too deeply", param)
    try:
        return canonical_bytes(value)
    except NotCanonical as exc:
        raise _invalid_content(exc.message, param) from None


def _invalid_content(why: str, param: str) -> StoreRefused:
    return StoreRefused(f"{param} cannot be stored: {why}", reason="invalid_content", param=param)
