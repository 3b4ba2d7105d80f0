"""Redaction: secrets and personal data are replaced before anything is stored or matched. Pure.

Each name is imported when it is asked for, and google-re2 when a `Redactor` first looks at a text: most commands need
neither, and a replay needs them with its first call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceforge.redact.markers import SecretMarkers
    from traceforge.redact.redactions import REDACTED, Echo, Redacted, Redaction, TextSpan, pair_echoes
    from traceforge.redact.redactor import Redactor
    from traceforge.redact.stream_redaction import TextStreamRedactor

__all__ = [
    "REDACTED",
    "Echo",
    "Redacted",
    "Redaction",
    "Redactor",
    "SecretMarkers",
    "TextSpan",
    "TextStreamRedactor",
    "pair_echoes",
]

_ELSEWHERE = {"SecretMarkers": "markers", "Redactor": "redactor", "TextStreamRedactor": "stream_redaction"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'redactions')}"), name)
    return value
