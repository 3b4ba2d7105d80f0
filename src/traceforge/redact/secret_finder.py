"""Find secrets with the built-in detectors and the user's expressions, without the user's exceptions.

In: text. Out: byte ranges of secrets. Never: changes the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from enum import IntEnum
from typing import TYPE_CHECKING

from traceforge.redact.body_encodings import find_wide_runs
from traceforge.redact.custom_patterns import compile_allow, compile_patterns
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.redactions import MARKER_PATTERN, REDACTED
from traceforge.redact.scanner import Scanner, SecretSpan, get_scanner, merge_spans
from traceforge.redact.secret_names import (
    COLLECTION_NAMES,
    FIELD_NAMES,
    LOGIN_NAMES,
    PARAMETER_NAMES,
    fold_name,
    fold_names,
    is_account_header_name,
    is_account_response_header_name,
    is_secret_header_name,
)

if TYPE_CHECKING:
    from traceforge.redact.repeated_values import RepeatedValues

NAMES_REMEMBERED_MAX = 10_000  # Formats have few names; more than this come from hostile input.

TEXTS_REMEMBERED_BYTES = 4 << 20  # About what texts without a secret may take; beyond, all are forgotten.
TEXT_OVERHEAD_BYTES = 100  # Memory of each text beyond its characters.

HEADER_SEPARATOR = ": "  # Between the name and the value of a header, where both are scanned together.
HEADERS_REMEMBERED_MAX = 2_000  # Some, such as dates and request ids, never come again: then all are forgotten.

_MARKER = LazyPattern(MARKER_PATTERN)
_COLLECTIONS = fold_names(COLLECTION_NAMES)
_JOINED_KEY = LazyPattern(
    rb"[-_.](?=sk-|[spr]k_(?:live|test)_|gh[pousr]_|github_pat_|gl(?:pat|dt|rt)-|A(?:KIA|SIA|Iza)|xox[a-z]-|hf_|gsk_"
    rb"|xai-|tf_live_)|[-_](?=eyJ)"
)  # the mark before a key of one of the issuers that most requests go to
_PLAIN_VALUE = LazyPattern(r"(?i)\s*(?:-?[0-9]{1,9}(?:\.[0-9]*)?|true|false|none|null)?\s*")


class HeaderKind(IntEnum):
    """What the name of a header says about its value."""

    PLAIN = 0
    SECRET = 1  # the whole name is secret
    SECRET_ENDING = 2  # its last word is, so a number or a boolean is no secret
    ACCOUNT = 3  # the caller's account
    RESPONSE_ACCOUNT = 4  # the caller's account, in a response only


class NameKind(IntEnum):
    """Whether a header or field name marks its value as secret, or is a secret."""

    PLAIN = 0
    FIELD = 1  # its value is a secret
    SECRET = 2  # it is itself one, such as an address that a map is keyed by
    COLLECTION = 3  # the members of its value are secrets


class SecretFinder:
    """Finds secrets by name and by text. Immutable to its callers, and safe in threads."""

    def __init__(self, fields: Sequence[str], patterns: Sequence[str], allow: Sequence[str]) -> None:
        self._names = tuple(fields)
        self._scanner: Scanner | None = None  # Made when it is first needed: that takes milliseconds.
        self._patterns = compile_patterns(patterns)
        self._allow = compile_allow(allow)
        self._fields = fold_names([*FIELD_NAMES, *fields])
        self._parameters = self._fields | fold_names([*PARAMETER_NAMES, *LOGIN_NAMES])
        self._name_kinds: dict[str, NameKind] = {}  # what is known about names, because names repeat
        self.plain_names: dict[str, str] = {}  # those of them that are PLAIN, most, with what precedes a text there
        self._header_kinds: dict[str, HeaderKind] = {}
        self.has_only_built_ins = not self._patterns  # Without own expressions, texts may be scanned side by side.
        self.clean_headers: set[tuple[str, str]] = set()  # Most headers of a provider are the same in every answer.
        self.remembers_clean_texts = (
            False  # Whether texts without a secret are remembered, because they will come again.
        )
        self.clean_texts: set[str] = set()  # A conversation is sent again, as far as it came, with every call.
        self._remembered_bytes = 0  # of those
        self.markers: Mapping[str, str] = {}  # The marker of each secret that has one.
        self.repeated_values: RepeatedValues | None = None  # Values that are secrets wherever they stand.
        self._without_values: SecretFinder | None = None  # The finder that knows none of those, or fewer.

    def with_repeated_values(self, values: RepeatedValues) -> SecretFinder:
        """The same finder, which also finds these values.

        What it remembers starts anew, because a name or a header may hold a value. Those that are too short for one
        are looked up in this finder: most calls bring a value of their own, such as a cookie, and the same names.
        """
        finder = copy(self)
        finder.repeated_values = values
        finder._without_values = self
        finder._name_kinds, finder.plain_names, finder._header_kinds = {}, {}, {}
        finder.clean_headers, finder.clean_texts, finder._remembered_bytes = set(), set(), 0
        return finder

    def find_secrets(self, text: bytes) -> list[SecretSpan]:
        """Every secret in `text`, sorted."""
        if self._scanner is None:
            self._scanner = get_scanner(self._names)
        spans = self._scanner.scan(text)
        for pattern in self._patterns:
            matches = (match.span() for match in pattern.finditer(text) if match[0])
            spans = merge_spans([*spans, *(SecretSpan(start, end, "CUSTOM") for start, end in matches)])
        if self.repeated_values is not None:
            repeated = self.repeated_values.find_values(text)
            spans = merge_spans([*spans, *repeated]) if repeated else spans
        if spans and self._allow is not None:
            spans = [item for item in spans if not self._allow.fullmatch(text[item.start : item.end])]
        return spans

    def find_secrets_in_line(self, text: bytes) -> list[SecretSpan]:
        """Every secret in a name, a header or a part of a URL, also where it is joined to an id: `00-sk-…`.

        In longer text, this would find the middle of ids and of base64.
        """
        spans = self.find_secrets(text)
        divided = _JOINED_KEY.sub(b" ", text)
        return merge_spans([*spans, *self.find_secrets(divided)]) if divided != text else spans

    def holds_joined_key(self, line: str) -> bool:
        """Whether a key may be joined to what precedes it, so that `find_secrets_in_line` may find more."""
        return _JOINED_KEY.search(encode(line)) is not None

    def find_secrets_in_bytes(self, data: bytes) -> list[SecretSpan]:
        """Every secret in bytes that may be no text: also in pieces of UTF-16 and UTF-32, sorted."""
        spans = self.find_secrets(data)
        wide = [
            SecretSpan(start + item.start * width, start + item.end * width, item.type)
            for start, width, text in find_wide_runs(data)
            for item in self.find_secrets(text)
        ]
        return merge_spans([*spans, *wide]) if wide else spans

    def is_clean_header(self, header: tuple[str, str]) -> bool:
        """Whether this header is known to hold nothing."""
        if header in self.clean_headers:
            return True
        base_finder = self._find_base_finder(len(header[0]) + len(HEADER_SEPARATOR) + len(header[1]))
        return base_finder is not None and base_finder.is_clean_header(header)

    def _find_base_finder(self, length: int) -> SecretFinder | None:
        """The finder without the repeated values, if none of them fits into a text of so many characters."""
        if self.repeated_values is None or length >= self.repeated_values.length_min:
            return None
        return self._without_values

    def remember_clean_headers(self, headers: Iterable[tuple[str, str]]) -> None:
        """These headers hold nothing; they need not be looked at again."""
        if len(self.clean_headers) >= HEADERS_REMEMBERED_MAX:
            self.clean_headers.clear()
        self.clean_headers.update(headers)

    def remember_clean_texts(self, texts: Iterable[str]) -> None:
        """These texts hold nothing, and need not be scanned again."""
        for text in texts:
            size = len(text) + TEXT_OVERHEAD_BYTES
            if size > TEXTS_REMEMBERED_BYTES >> 4:
                continue
            self._remembered_bytes += size
            if self._remembered_bytes > TEXTS_REMEMBERED_BYTES:
                self.clean_texts.clear()
                self._remembered_bytes = size
            self.clean_texts.add(text)

    def marker_for(self, secret: str) -> str:
        """What is put in the place of a secret."""
        return self.markers.get(secret, REDACTED) if self.markers else REDACTED

    def replace_secrets(self, data: bytes, spans: Sequence[SecretSpan]) -> bytes:
        """The text with every secret replaced."""
        parts: list[bytes] = []
        last = 0
        for item in spans:
            secret = data[item.start : item.end].decode("utf-8", "replace") if self.markers else ""
            parts += (data[last : item.start], self.marker_for(secret).encode())
            last = item.end
        return b"".join([*parts, data[last:]])

    def find_name_kind(self, name: str) -> NameKind:
        """Whether the name of a header or field makes its value a secret, or is itself one."""
        kind = self._name_kinds.get(name)
        if kind is None:
            kind = self._classify_name(name)
            if len(self._name_kinds) < NAMES_REMEMBERED_MAX:
                self._name_kinds[name] = kind
                if kind == NameKind.PLAIN:
                    self.plain_names[name] = f'{name}": "'
        return kind

    def _classify_name(self, name: str) -> NameKind:
        base_finder = self._find_base_finder(len(name))
        if base_finder is not None:
            return base_finder.find_name_kind(name)
        if self.find_secrets_in_line(encode(name)):
            return NameKind.SECRET
        folded = fold_name(name)
        if folded in self._fields:
            return NameKind.FIELD
        return NameKind.COLLECTION if folded in _COLLECTIONS else NameKind.PLAIN

    def find_header_kind(self, name: str) -> HeaderKind:
        """What the name of a header says about its value."""
        kind = self._header_kinds.get(name)
        if kind is None:
            kind = self._classify_header(name)
            if len(self._header_kinds) < NAMES_REMEMBERED_MAX:
                self._header_kinds[name] = kind
        return kind

    def _classify_header(self, name: str) -> HeaderKind:
        base_finder = self._find_base_finder(len(name))
        if base_finder is not None:
            return base_finder.find_header_kind(name)
        if self.find_name_kind(name) == NameKind.SECRET:
            return HeaderKind.PLAIN  # It is scanned with its value.
        if fold_name(name) in self._fields:
            return HeaderKind.SECRET
        if is_secret_header_name(name):
            return HeaderKind.SECRET_ENDING
        if is_account_header_name(name):
            return HeaderKind.ACCOUNT
        return HeaderKind.RESPONSE_ACCOUNT if is_account_response_header_name(name) else HeaderKind.PLAIN

    def is_secret_header(self, name: str, value: str, *, is_response: bool) -> bool:
        """Whether the value of a header is redacted because of the header's name."""
        kind = self.find_header_kind(name)
        if kind == HeaderKind.PLAIN or (kind == HeaderKind.RESPONSE_ACCOUNT and not is_response):
            return False
        if kind == HeaderKind.SECRET_ENDING and is_plain_value(value):
            return False
        return not self.is_allowed(value)

    def is_secret_parameter(self, name: str) -> bool:
        """Whether this is the name of a secret URL parameter."""
        return fold_name(name) in self._parameters

    def is_secret_part(self, name: str) -> bool:
        """Whether this is the name of a secret part of a multipart body."""
        return self.is_secret_parameter(name) or is_secret_header_name(name)

    def is_allowed(self, value: str) -> bool:
        """Whether a value under a secret name is kept: it is empty, redacted already, or an exception of the user."""
        if not value or _MARKER.fullmatch(value):
            return True
        return self._allow is not None and self._allow.fullmatch(encode(value)) is not None


def is_plain_value(value: str) -> bool:
    """Whether a value is too plain to be a secret, under any name: a number, a boolean, nothing."""
    return _PLAIN_VALUE.fullmatch(value) is not None


def encode(text: str) -> bytes:
    """UTF-8, with lone surrogates kept as they are."""
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    """The text that `encode` made these bytes of."""
    return data.decode("utf-8", "surrogatepass")
