"""Texts that differ from run to run by their nature: times, random ids, temporary paths.

In: texts. Out: where such parts are, and the expression that describes them. Never: decides that a part is volatile:
a project declares that. This only recognises texts that no author writes into a prompt on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from traceforge.canon import JSON

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?"

# In the order in which they are tried at a place. Each can be declared: google-re2 takes the same expressions.
KINDS = {
    "time stamp": rf"{_DATE}[T ]{_TIME}(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})?",
    "UUID": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "temporary path": r"(?:/private)?/(?:tmp|var/folders)/[A-Za-z0-9._/+-]+",
    "date": _DATE,
    "time": _TIME,
    "Unix time": r"1[0-9]{9}(?:[0-9]{3})?(?:\.[0-9]+)?",
    "hexadecimal id": r"[0-9a-f]{12,64}",
}
_NAMES = tuple(KINDS)


class VolatileSpan(Struct, frozen=True):
    """A part of a text that looks volatile."""

    start: int
    end: int
    kind: str


@cache
def _any_kind() -> re.Pattern[str]:
    """Compiled on first use: most projects declare nothing."""
    return re.compile("|".join(f"(?<![A-Za-z0-9])({expression})(?![A-Za-z0-9])" for expression in KINDS.values()))


def find_volatile_spans(text: str) -> Iterator[VolatileSpan]:
    """The parts of a text that look volatile, without overlap."""
    for match in _any_kind().finditer(text):
        if match.lastindex is not None:
            yield VolatileSpan(match.start(), match.end(), _NAMES[match.lastindex - 1])


def replace_volatile_spans(value: JSON) -> JSON:
    """A value with every part that looks volatile replaced by the name of its kind."""
    if isinstance(value, str):
        return _any_kind().sub(lambda match: f"<{_NAMES[(match.lastindex or 1) - 1]}>", value)
    if isinstance(value, dict):
        return {key: replace_volatile_spans(child) for key, child in value.items()}
    if isinstance(value, list):
        return [replace_volatile_spans(child) for child in value]
    return value
