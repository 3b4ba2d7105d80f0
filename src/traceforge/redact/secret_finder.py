"""Everything that finds: the built-in detectors, the user's expressions, less the user's exceptions.

In: text. Out: places. Never: changes anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

from traceforge.redact.custom_patterns import compile_allow, compile_patterns
from traceforge.redact.redactions import MARKER, REDACTED
from traceforge.redact.scanner import Found, Scanner, merge, scanner
from traceforge.redact.secret_names import FIELD_NAMES, PARAMETER_NAMES, fold, fold_all

NAMES_REMEMBERED_MAX = 10_000  # Names come from a few formats; beyond this many, somebody else chose them.

TEXTS_REMEMBERED_BYTES = 4 << 20  # About what texts without a secret may take; beyond, all are forgotten.
TEXT_BYTES = 100  # What each takes beside its characters.

HEADERS_REMEMBERED_MAX = 2_000  # Some, such as dates and request ids, never come again: then all are forgotten.

_MARKER = re.compile(MARKER)


class NameKind(IntEnum):
    """What a name is."""

    PLAIN = 0
    FIELD = 1  # its value is a secret
    SECRET = 2  # it is itself one, such as an address that a map is keyed by


class Finder:
    """Finds secrets by name and by text. Immutable to its callers, and safe in threads."""

    def __init__(self, fields: Sequence[str], patterns: Sequence[str], allow: Sequence[str]) -> None:
        self._names = tuple(fields)
        self._scanner: Scanner | None = None  # Made when it is first needed: that takes milliseconds.
        self._patterns = compile_patterns(patterns)
        self._allow = compile_allow(allow)
        self._fields = fold_all([*FIELD_NAMES, *fields])
        self._parameters = self._fields | fold_all(PARAMETER_NAMES)
        self.kinds: dict[str, NameKind] = {}  # what is known about names, because names repeat
        self.is_plain = not self._patterns  # Without own expressions, texts may be scanned side by side.
        self.clean_headers: set[tuple[str, str]] = set()  # Most headers of a provider are the same in every answer.
        self.remembers = False  # Are texts without a secret remembered, because they will come again?
        self.clean_texts: set[str] = set()  # A conversation is sent again, as far as it came, with every call.
        self._bytes = 0  # of those
        self.markers: Mapping[str, str] = {}  # Secrets that are to be told apart, with what stands for each.

    def find(self, text: bytes) -> list[Found]:
        """Every secret in `text`, sorted."""
        if self._scanner is None:
            self._scanner = scanner(self._names)
        found = self._scanner.scan(text)
        for pattern in self._patterns:
            own = (match.span() for match in pattern.finditer(text) if match[0])
            found = merge([*found, *(Found(start, end, "CUSTOM") for start, end in own)])
        if found and self._allow is not None:
            found = [item for item in found if not self._allow.fullmatch(text[item.start : item.end])]
        return found

    def remember_clean(self, headers: Iterable[tuple[str, str]]) -> None:
        """These headers hold nothing; they need not be looked at again."""
        if len(self.clean_headers) >= HEADERS_REMEMBERED_MAX:
            self.clean_headers.clear()
        self.clean_headers.update(headers)

    def remember_texts(self, texts: Iterable[str]) -> None:
        """These texts hold nothing, and need not be scanned again."""
        for text in texts:
            size = len(text) + TEXT_BYTES
            if size > TEXTS_REMEMBERED_BYTES >> 4:
                continue
            self._bytes += size
            if self._bytes > TEXTS_REMEMBERED_BYTES:
                self.clean_texts.clear()
                self._bytes = size
            self.clean_texts.add(text)

    def marker(self, secret: str) -> str:
        """What is put in the place of a secret."""
        return self.markers.get(secret, REDACTED) if self.markers else REDACTED

    def replace(self, data: bytes, found: Sequence[Found]) -> bytes:
        """The text with every secret replaced."""
        parts: list[bytes] = []
        last = 0
        for item in found:
            secret = data[item.start : item.end].decode("utf-8", "replace") if self.markers else ""
            parts += (data[last : item.start], self.marker(secret).encode())
            last = item.end
        return b"".join([*parts, data[last:]])

    def name_kind(self, name: str) -> NameKind:
        """What the name of a header or field says about its value, or about itself."""
        kind = self.kinds.get(name)
        if kind is None:
            kind = self._judge_name(name)
            if len(self.kinds) < NAMES_REMEMBERED_MAX:
                self.kinds[name] = kind
        return kind

    def _judge_name(self, name: str) -> NameKind:
        if self.find(encode(name)):
            return NameKind.SECRET
        return NameKind.FIELD if fold(name) in self._fields else NameKind.PLAIN

    def is_parameter(self, name: str) -> bool:
        """Is this the name of a secret parameter of a URL?"""
        return fold(name) in self._parameters

    def is_allowed(self, value: str) -> bool:
        """Is a value under a secret name kept: empty, redacted already, or an exception of the user?"""
        if not value or _MARKER.fullmatch(value):
            return True
        return self._allow is not None and self._allow.fullmatch(encode(value)) is not None


def encode(text: str) -> bytes:
    """UTF-8, with lone surrogates kept as they are."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """The text of `encode`."""
    return data.decode("utf-8", "surrogatepass")
