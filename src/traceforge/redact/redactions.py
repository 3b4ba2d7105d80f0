"""The records of a redaction: a span of text, or a value that was replaced.

In: places, types and the values themselves. Out: records with place and type. Never: prints, stores or
pickles a value: a `Redaction` keeps it in memory only, so that an answer can be compared with its request
(`echoes`), and two redacted parts with each other under a key (`fingerprint`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Generic, NamedTuple, NoReturn, TypeVar

from msgspec import Struct

from traceforge.canon import encode_utf8

REDACTED = "[REDACTED]"  # No detector finds anything in it, so redacting twice changes nothing.
MARKER_PATTERN = r"\[REDACTED(?:#[a-z]{9,16})?\]"  # REDACTED, or the temporary marker of one secret.

Value = TypeVar("Value")


class TextSpan(NamedTuple):
    """A secret in a text: from `start` to `end`, in code points, and what it is."""

    start: int
    end: int
    type: str


class Redaction:
    """One value that was replaced: its place, its type and, in memory only, the value itself."""

    __slots__ = ("_secret", "path", "start", "type")

    def __init__(self, path: str, start: int, kind: str, secret: str) -> None:
        self.path = path  # the place in the document, as `$.messages[0].content`
        self.start = start  # in code points of the text that stood there
        self.type = kind
        self._secret = secret

    def __repr__(self) -> str:
        return f"Redaction(path={self.path!r}, start={self.start}, type={self.type!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Redaction holds a secret and is never written anywhere")

    def reveal(self) -> str:
        """The value that was replaced: to refill a replayed answer, never to be stored."""
        return self._secret

    def fingerprint(self, key: bytes) -> str:
        """HMAC-SHA256 of the value: with the same `key`, equal fingerprints mean equal values."""
        return f"hmac-sha256:{hmac.new(key, encode_utf8(self._secret), hashlib.sha256).hexdigest()}"


class Redacted(NamedTuple, Generic[Value]):
    """A cleaned value, and what was taken out of it."""

    value: Value
    log: list[Redaction]


class Echo(Struct, frozen=True):
    """A value of an answer that also stood in its request."""

    answer: Redaction
    request: Redaction


def pair_echoes(request_log: Iterable[Redaction], response_log: Iterable[Redaction]) -> list[Echo]:
    """Which redacted values of an answer also stood in the request, and where there first.

    Those are stored as references and refilled from the live request on replay; all others
    replay as `[REDACTED]`.
    """
    first: dict[str, Redaction] = {}
    for redaction in request_log:
        first.setdefault(redaction.reveal(), redaction)
    return [Echo(redaction, first[redaction.reveal()]) for redaction in response_log if redaction.reveal() in first]
