"""The reason of an approval, as the user states it: a reviewer reads it, so it must say something."""

from __future__ import annotations

import re

import click

# In lower case, without punctuation: what people leave in a command that they copied, or write to get past it.
PLACEHOLDERS = frozenset(
    {"", "fixme", "na", "none", "reason", "the reason", "tbd", "todo", "why", "xxx", "your reason"}
)
REASON_HINT = 'say why the change is right, such as --reason "shorter answers, as agreed".'


def is_placeholder(reason: str) -> bool:
    """Whether a reason says nothing: it is empty, has no letter or digit, or is a word such as TODO."""
    words = re.sub(r"[^\w\s]|_", "", reason.lower()).split()
    return " ".join(words) in PLACEHOLDERS


def check_reason(reason: str | None) -> str:
    """The reason without white space around it.

    Raises:
        click.UsageError: there is none, or it says nothing.
    """
    if reason is None:
        raise click.UsageError("Missing option '--reason': state why the change is right.")
    if not reason.strip():
        raise click.BadParameter(f"The reason must not be empty: {REASON_HINT}", param_hint="--reason")
    if is_placeholder(reason):
        message = f"{reason.strip()!r} is a placeholder and no reason: {REASON_HINT}"
        raise click.BadParameter(message, param_hint="--reason")
    return reason.strip()
