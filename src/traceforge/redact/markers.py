"""Where a secret of the request stands in the answer.

In: secrets, and the pieces of an answer in which each of them has a marker of its own. Out: the pieces as they are
stored, with `[REDACTED]` everywhere, and which of those stand for which secret. Never: keeps a secret longer than one
call; what is stored is a number and the place in the request to refill it from.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from string import ascii_lowercase

from traceforge.canon import json_bytes
from traceforge.redact.redactions import REDACTED
from traceforge.redact.stream_redaction import Edit, apply_edits


class Markers:
    """Markers for some secrets, by their place in the order given.

    Their text is random, so that no answer can hold one by chance or on purpose, and has letters only, so that no
    detector finds anything in it.
    """

    def __init__(self, values: Iterable[str]) -> None:
        nonce = "".join(secrets.choice(ascii_lowercase) for _ in range(8))
        self._values = list(dict.fromkeys(values))
        self.texts: dict[str, str] = {}
        for number, value in enumerate(self._values):
            for spelled in _spellings(value):
                self.texts.setdefault(spelled, f"[REDACTED#{nonce}{_letters(number)}]")
        self._found = re.compile(rb"\[REDACTED(?:#" + nonce.encode() + rb"([a-z]+))?\]")
        self._numbers = {_letters(n).encode(): n for n in range(len(self._values))}

    def settle(self, chunks: Sequence[bytes]) -> tuple[list[bytes], list[tuple[int, str]]]:
        """The chunks with plain markers, and for every one that was ours its ordinal and its secret.

        Ordinals count every `[REDACTED]` of the joined chunks, from 0.
        """
        edits: list[Edit] = []
        ours: list[tuple[int, str]] = []
        for ordinal, found in enumerate(self._found.finditer(b"".join(chunks))):
            if found[1] is not None:
                edits.append(Edit(found.start(), found.end(), REDACTED.encode()))
                ours.append((ordinal, self._values[self._numbers[found[1]]]))
        return apply_edits(chunks, edits), ours


def _spellings(value: str) -> Iterable[str]:
    """A value as it is, and as it stands inside JSON that is itself a text: the arguments of a tool call."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return (value,)
    return value, json_bytes(value).decode()[1:-1], json.dumps(value)[1:-1]


def _letters(number: int) -> str:
    """0 is `a`, 25 is `z`, 26 is `ba`."""
    text = ascii_lowercase[number % 26]
    while number := number // 26:
        text = ascii_lowercase[number % 26] + text
    return text
