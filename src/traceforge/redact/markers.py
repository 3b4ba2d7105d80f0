"""Find which redacted values of an answer came from the request.

In: secrets of the request, and an answer in which each of them was replaced by a marker of its own. Out: the answer
as it is stored, with `[REDACTED]` for every marker, and which of those replace which secret. Never: keeps a secret
longer than one call; what is stored is a number, and the place in the request to refill it from.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from string import ascii_lowercase

from traceforge.canon import ascii_json, json_bytes
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.redact.text_edits import ByteEdit, apply_edits


class SecretMarkers:
    """Markers for some secrets, by their place in the order given.

    Their text is random, so that no answer can hold one by chance or on purpose, and has letters only, so that no
    detector finds anything in it.
    """

    def __init__(self, values: Iterable[str]) -> None:
        nonce = "".join(secrets.choice(ascii_lowercase) for _ in range(8))
        self._values = list(dict.fromkeys(values))
        self.by_secret: dict[str, str] = {}
        for number, value in enumerate(self._values):
            for spelling in _spellings(value):
                self.by_secret.setdefault(spelling, f"[REDACTED#{nonce}{_letters(number)}]")
        self._pattern = re.compile(rb"\[REDACTED(?:#" + nonce.encode() + rb"([a-z]+))?\]")
        self._text_pattern = re.compile(self._pattern.pattern.decode())
        self._numbers = {_letters(n).encode(): n for n in range(len(self._values))}

    def strip_markers(self, chunks: Sequence[bytes]) -> tuple[list[bytes], list[tuple[int, str]]]:
        """The chunks with plain markers, and for every one that was ours its ordinal and its secret.

        Ordinals count every `[REDACTED]` of the joined chunks, from 0.
        """
        edits: list[ByteEdit] = []
        marked: list[tuple[int, str]] = []
        for ordinal, match in enumerate(self._pattern.finditer(b"".join(chunks))):
            if match[1] is not None:
                edits.append(ByteEdit(match.start(), match.end(), REDACTED.encode()))
                marked.append((ordinal, self._values[self._numbers[match[1]]]))
        return apply_edits(chunks, edits), marked

    def strip_paths(self, redactions: Iterable[Redaction]) -> list[Redaction]:
        """The redactions with plain markers in their paths: the name of a member may be a secret."""
        return [
            Redaction(self._text_pattern.sub(REDACTED, item.path), item.start, item.type, item.reveal())
            for item in redactions
        ]


def _spellings(value: str) -> Iterable[str]:
    """A value as it is, and as it is escaped inside JSON text, such as the arguments of a tool call."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return (value,)
    return value, json_bytes(value).decode()[1:-1], ascii_json(value)[1:-1]


def _letters(number: int) -> str:
    """0 is `a`, 25 is `z`, 26 is `ba`."""
    text = ascii_lowercase[number % 26]
    while number := number // 26:
        text = ascii_lowercase[number % 26] + text
    return text
