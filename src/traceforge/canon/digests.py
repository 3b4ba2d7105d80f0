"""Digests: what a value is called by its content.

In: bytes, text or JSON values, already redacted. Out: `sha256:` and 64 hex digits. Never:
touches disk, knows a provider, repairs bad input.

A *composite* digest names several fields at once. Its bytes are, for each field in order,

    <tag> ":" <length of the value in bytes, decimal> ":" <value, UTF-8> LF
    <tag> ":-" LF                                            for a field that is null

behind a first line `<domain> LF`. The length in front keeps ("ab", "c") and ("a", "bc") apart, the
tag keeps equal values in different fields apart, the domain keeps two kinds of key apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NewType

from traceforge.canon.json_types import JSON
from traceforge.canon.json_writer import canonical_bytes, ecmascript_bytes
from traceforge.canon.slow_writer import utf8_replaced

Digest = NewType("Digest", str)

DIGEST_TAG = "sha256"  # Named in every stored digest, so that another algorithm could be added.
DIGEST_PATTERN = r"^sha256:[a-f0-9]{64}$(?!\n)"  # `$` alone would let a final newline through.


def digest_bytes(data: bytes) -> Digest:
    """Name `data` by its content."""
    return Digest(f"{DIGEST_TAG}:{hashlib.sha256(data).hexdigest()}")


def digest_text(text: str) -> Digest:
    """Name a string by its UTF-8 bytes, a lone surrogate counting as U+FFFD."""
    return digest_bytes(encode_utf8(text))


def digest_canonical(value: JSON, *, may_modify: bool = False) -> Digest:
    """Name a value by its canonical text, without a trailing newline."""
    return digest_bytes(canonical_bytes(value, may_modify=may_modify))


def digest_canonical_line(value: JSON) -> Digest:
    """Name a value by its canonical text and one LF: what packs and bundles refer to."""
    return digest_bytes(canonical_bytes(value) + b"\n")


def digest_ecmascript(value: JSON, *, may_modify: bool = False) -> Digest:
    """Name a value by its `JSON.stringify` text."""
    return digest_bytes(ecmascript_bytes(value, may_modify=may_modify))


def digest_fields(domain: str, fields: Iterable[tuple[str, str | None]]) -> Digest:
    """Name several fields at once; see the layout at the top of this module."""
    return digest_bytes(_layout(domain, fields))


class FieldsDigest:
    """Names several fields at once of which all but the last are the same again and again."""

    __slots__ = ("_begun", "_tag")

    def __init__(self, domain: str, fields: Iterable[tuple[str, str | None]], last: str) -> None:
        self._begun = hashlib.sha256(_layout(domain, fields))
        self._tag = last.encode()

    def digest(self, data: bytes) -> Digest:
        """The same as `digest_fields`, the last field being this UTF-8 text."""
        begun = self._begun.copy()
        begun.update(b"%b:%d:%b\n" % (self._tag, len(data), data))
        return Digest(f"{DIGEST_TAG}:{begun.hexdigest()}")


def _layout(domain: str, fields: Iterable[tuple[str, str | None]]) -> bytes:
    assert "\n" not in domain
    parts = [domain.encode(), b"\n"]
    for tag, value in fields:
        assert tag.isidentifier(), f"not a tag: {tag!r}"
        if value is None:
            parts.append(f"{tag}:-\n".encode())
            continue
        data = encode_utf8(value)
        parts += (f"{tag}:{len(data)}:".encode(), data, b"\n")
    return b"".join(parts)


def encode_utf8(text: str) -> bytes:
    """Encode as JavaScript does: a lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return utf8_replaced(text)
