"""The reason of an approval: a reviewer reads it, so it must say something. Pure."""

from __future__ import annotations

import re

# In lower case, without punctuation: what people leave in a command that they copied, or write to get past it.
PLACEHOLDERS = frozenset(
    {"", "fixme", "na", "none", "reason", "the reason", "tbd", "todo", "why", "xxx", "your reason"}
)
REASON_HINT = 'say why the change is right, such as --reason "shorter answers, as agreed".'


def is_placeholder(reason: str) -> bool:
    """Whether a reason says nothing: it is empty, has no letter or digit, or is a word such as TODO."""
    words = re.sub(r"[^\w\s]|_", "", reason.lower()).split()
    return " ".join(words) in PLACEHOLDERS


def find_reason_problem(reason: str) -> str:
    """Why a reason cannot be the reason of an approval; "" if it can."""
    if not reason.strip():
        return f"The reason must not be empty: {REASON_HINT}"
    if is_placeholder(reason):
        return f"{reason.strip()!r} is a placeholder and no reason: {REASON_HINT}"
    return ""
