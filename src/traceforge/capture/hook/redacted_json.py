"""JSON of a recording, compared with that of today.

In: two JSON values, the first of them redacted. Out: whether they are, or can be, the same: only who can redact the
other one knows. Never: tells what was redacted, or does I/O.
"""

from __future__ import annotations

import json
import re
from typing import Any

_REDACTION = re.compile(r"\[REDACTED[^\[\]]*\]")


def can_be_same_json(recorded: Any, now: Any) -> bool:
    """Whether two values can be the same, of the same types; a redacted part equals anything."""
    if isinstance(recorded, str) and isinstance(now, str):
        parts = _REDACTION.split(recorded)
        return recorded == now or (len(parts) > 1 and _has_parts(now, parts))
    if isinstance(recorded, dict) and isinstance(now, dict):
        return recorded.keys() == now.keys() and all(can_be_same_json(recorded[name], now[name]) for name in recorded)
    if isinstance(recorded, list) and isinstance(now, list):
        return len(recorded) == len(now) and all(map(can_be_same_json, recorded, now))
    if isinstance(recorded, str) and _REDACTION.fullmatch(recorded):
        return True  # A number that was redacted.
    return type(recorded) is type(now) and bool(recorded == now)


def is_equal_json(recorded: Any, now: Any) -> bool:
    """Whether two values are the same, of the same types."""
    return json.dumps(recorded, sort_keys=True) == json.dumps(now, sort_keys=True)


def _has_parts(text: str, parts: list[str]) -> bool:
    """Whether a text begins with the first part, ends with the last one, and has the others in between, in order."""
    first, *others, last = parts
    place = len(first) if text.startswith(first) else -1
    for part in others:
        start = text.find(part, place) if place >= 0 else -1
        place = start + len(part) if start >= 0 else -1
    return 0 <= place <= len(text) - len(last) and text.endswith(last)
