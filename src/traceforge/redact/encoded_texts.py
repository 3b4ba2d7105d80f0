"""Redact texts that a JSON value carries in base64, and says of that they are texts; and addresses with `%xx`.

In: an object with a media type beside data, base64 alone, or an address. Out: the same without secrets. Never:
decodes images, audio, or base64 that nothing calls a text: a key in there stands by chance.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import unquote_to_bytes

from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.redactions import REDACTED
from traceforge.redact.scanner import CHANCE_TYPES, SecretSpan
from traceforge.redact.secret_finder import SecretFinder, decode, encode

TYPE_KEYS = ("mimeType", "mime_type", "media_type")  # beside a text in base64
_DATA_KEYS = ("blob", "data", "bytes")
_TEXT_WORDS = ("text/", "json", "xml", "yaml", "toml", "csv", "javascript", "x-sh", "octet-stream", "rfc822")

_SPACE = LazyPattern(r"\s")
_ENCODED_BYTE = LazyPattern(rb"(?s)%[0-9A-Fa-f]{2}|.")


def find_carried_text(members: dict[str, Any]) -> str | None:
    """The key of a text in base64, as a resource of MCP and a document of a message have it: beside its type."""
    kind = next((members[key] for key in TYPE_KEYS if isinstance(members.get(key), str)), "").lower()
    if not any(word in kind for word in _TEXT_WORDS):
        return None
    return next((key for key in _DATA_KEYS if isinstance(members.get(key), str)), None)


def redact_base64(finder: SecretFinder, encoded: str) -> tuple[str, list[tuple[int, str, str]]]:
    """The same bytes without secrets in base64, and the secrets as (start, type, secret)."""
    try:
        data = base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return encoded, []
    spans = finder.find_secrets_in_bytes(data)
    if spans and not _is_text(data):
        spans = [item for item in spans if item.type not in CHANCE_TYPES]
    if not spans:
        return encoded, []
    cleaned = bytearray(data)
    for item in reversed(spans):
        cleaned[item.start : item.end] = REDACTED.encode()  # No marker: it would not be found in base64 again.
    return base64.b64encode(cleaned).decode(), [_describe(data, item) for item in spans]


def redact_address(finder: SecretFinder, address: str) -> tuple[str, list[tuple[int, str, str]]]:
    """An address without the secrets that only decoding `%xx` shows, and these as (start, type, secret).

    Anything without a space may be an address, also one without a scheme. A text with spaces has its own `%`.
    """
    if _SPACE.search(address):
        return address, []
    data = encode(address)
    plain = unquote_to_bytes(data)
    if plain == data:
        return address, []
    spans = [item for item in finder.find_secrets_in_line(plain) if item.type not in CHANCE_TYPES]
    if not spans:
        return address, []
    places = [*(match.start() for match in _ENCODED_BYTE.finditer(data)), len(data)]  # of each decoded byte
    encoded = [SecretSpan(places[item.start], places[item.end], item.type) for item in spans]
    return decode(finder.replace_secrets(data, encoded)), [_describe(plain, item) for item in spans]


def _is_text(data: bytes) -> bool:
    try:
        return b"\0" not in data and bool(data.decode())
    except UnicodeDecodeError:
        return False


def _describe(data: bytes, item: SecretSpan) -> tuple[int, str, str]:
    return item.start, item.type, data[item.start : item.end].decode(errors="replace")
