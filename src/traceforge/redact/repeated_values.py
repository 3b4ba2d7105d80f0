"""Find redacted values again where nothing but the value itself gives them away.

In: what was redacted in a call, such as a password beside its name. Out: where the same values stand without it: in
a later message, an answer, an error. Never: looks for a value that ordinary text may hold by chance.

Which values are looked for (`is_distinctive`): six characters or more, with letters and digits, or letters and one of
`!#$%&*+?@^~` inside; letters alone only where they look random; digits alone from eight, unless they read as a date
or a time. Not looked for: words, placeholders, names of algorithms and models (`sha256`, `gpt-4o`), ids of providers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

import re2

from traceforge.canon import ascii_json, json_bytes, try_parse_json
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import is_common_word, is_placeholder, is_provider_id, is_random
from traceforge.redact.scanner import SecretSpan, compile_bytes
from traceforge.redact.secret_finder import encode

if TYPE_CHECKING:
    from re2 import _Regexp

    from traceforge.redact.redactions import Redaction

CHARACTERS_MIN = 6  # A shorter value stands in other text by chance.
DIGITS_MIN = 8  # of a number: shorter ones are years, counts and codes of errors
VALUES_SEARCHED_MAX = 16  # So many values are looked for one by one; for more, one expression is faster.
EXPRESSION_BYTES = 256 << 10  # of the values in one expression: a text is scanned once for each

_SCHEME = LazyPattern(r"[A-Za-z][A-Za-z0-9-]{2,15}[ \t]+(?P<credential>\S+)\s*")
_MARK_INSIDE = LazyPattern(r"[!#$%&*+?@^~](?=.*[A-Za-z0-9])")
_LETTER, _DIGIT = LazyPattern(r"[^\W\d_]"), LazyPattern(r"[0-9]")
_DATE_OR_TIME = LazyPattern(r"(?:1[0-9]|20)[0-9]{6,11}")  # 20261117, or seconds and milliseconds since 1970
_TECHNICAL_TERM = LazyPattern(
    r"(?i)(?:aes|base|ed|es|hs|http|ipv|iso|md|oauth|ps|python|rfc|rs|rsa|sha|tls|utf|v)[-_.: /]?v?"
    r"[0-9][0-9.:-]*[a-z]{0,2}"
    r"|(?:claude|command|deepseek|gemini|gemma|glm|gpt|grok|llama|mistral|mixtral|phi|qwen)[-_.: ]?v?"
    r"[0-9][a-z0-9.:_-]*"
)
_SENTENCE_MARKS = " \t\r\n.,:;!?"


def is_distinctive(value: str) -> bool:
    """Whether a value can hardly stand anywhere by chance, so that every place with it holds the same secret."""
    value = value.strip(_SENTENCE_MARKS)
    if len(value) < CHARACTERS_MIN or "\0" in value or _TECHNICAL_TERM.fullmatch(value):
        return False
    data = encode(value)
    if is_placeholder(data) or is_common_word(data) or is_provider_id(data):
        return False
    if value.isdecimal():
        return len(value) >= DIGITS_MIN and _DATE_OR_TIME.fullmatch(value) is None
    if _LETTER.search(value) is None:
        return False
    return _DIGIT.search(value) is not None or _MARK_INSIDE.search(value) is not None or is_random(data)


def list_values(redactions: Iterable[Redaction]) -> dict[str, str]:
    """The distinctive values in a log, each with its type: also the parts by which an answer may repeat one."""
    return {
        value: redaction.type
        for redaction in redactions
        for value in _parts(redaction.type, redaction.reveal())
        if is_distinctive(value)
    }


def _parts(kind: str, secret: str) -> Iterator[str]:
    """A value; without the scheme of a header, the user of a password, the object around it."""
    yield secret.strip()
    scheme = _SCHEME.fullmatch(secret)
    if scheme is not None:
        yield scheme["credential"]
    if kind == "BASIC_AUTH":
        yield secret.partition(":")[2]
    if secret[:1] in ("{", "["):
        todo = [try_parse_json(secret)]
        while todo:
            item = todo.pop()
            if isinstance(item, str):
                yield item.strip()
            elif isinstance(item, dict | list):
                todo += item.values() if isinstance(item, dict) else item


class RepeatedValues:
    """Values that were redacted, each with its type, and a search for them in texts."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types
        self.length_min = min(map(len, types))  # In characters: no spelling of a value is shorter than the value.
        self._types = {spelling: kind for value, kind in types.items() for spelling in _spellings(value)}
        self._expressions = list(_compile(self._types)) if len(self._types) > VALUES_SEARCHED_MAX else []

    def find_values(self, text: bytes) -> list[SecretSpan]:
        """Every place of a value; they may overlap. Linear in the text, for each EXPRESSION_BYTES of values."""
        if self._expressions:
            matches = (match for expression in self._expressions for match in expression.finditer(text))
            return [SecretSpan(match.start(), match.end(), self._types[match[0]]) for match in matches]
        return [
            SecretSpan(start, start + len(value), kind)
            for value, kind in self._types.items()
            for start in _find_all(text, value)
        ]


def _find_all(text: bytes, value: bytes) -> Iterator[int]:
    start = text.find(value)
    while start >= 0:
        yield start
        start = text.find(value, start + len(value))


def _spellings(value: str) -> set[bytes]:
    """A value as it is, as it is escaped inside JSON, and as it is encoded in a URL."""
    escaped = (json_bytes(value).decode()[1:-1], ascii_json(value)[1:-1])
    return {encode(value), *map(encode, escaped), quote(encode(value), safe="").encode()}


def _compile(values: Iterable[bytes]) -> Iterator[_Regexp]:
    """Expressions for any of the values, the longest first: of two that begin alike, the whole one is redacted."""
    batch: list[bytes] = []
    size = 0
    for value in sorted(values, key=len, reverse=True):
        if batch and size + len(value) > EXPRESSION_BYTES:
            yield compile_bytes(b"|".join(batch))
            batch, size = [], 0
        batch.append(re2.escape(value))
        size += len(value)
    if batch:
        yield compile_bytes(b"|".join(batch))
