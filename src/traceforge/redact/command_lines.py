"""Redacting the words of a command: its scope is stored with every call that it makes.

In: words, as a program gets them. Out: one line of shell, with `[REDACTED]` for the values of options, variables and
headers with a secret name, for secret parts of URLs, and for all that a detector finds. Never: judges such a value by
its look: on a command line, the name is enough.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.redactions import REDACTED
from traceforge.redact.secret_finder import SecretFinder, decode, encode, is_plain_value
from traceforge.redact.secret_names import is_secret_header_name
from traceforge.redact.url_redaction import redact_url

_OPTION = LazyPattern(r"(?P<name>--?[A-Za-z][\w.-]*)(?:(?P<sign>[=:])(?P<value>.*))?", re.DOTALL)
_VARIABLE = LazyPattern(r"(?P<name>[A-Za-z_][\w.-]*)(?P<sign>=)(?P<value>.+)", re.DOTALL)
_HEADER = LazyPattern(r"(?P<name>[A-Za-z][\w-]*)(?P<sign>:[ \t]*)(?P<value>.+)", re.DOTALL)
_SHORT_NAMES = LazyPattern(r"(?i)(?:^|[-_.])(?:pass|pwd|pat|creds?|passw)$")


def redact_command(finder: SecretFinder, words: Sequence[str]) -> str:
    """The words as one line, without secrets."""
    parts: list[str] = []
    is_value = False  # whether this word is the value of an option with a secret name
    for word in words:
        if is_value and not word.startswith("-") and _is_secret_value(finder, word):
            parts.append(REDACTED)
            is_value = False
            continue
        part, is_value = _redact_word(finder, word)
        parts.append(part)
    data = encode(" ".join(parts))
    return decode(finder.replace_secrets(data, finder.find_secrets_in_line(data)))


def _redact_word(finder: SecretFinder, word: str) -> tuple[str, bool]:
    """A word for the shell, and whether the next word is the value of this option."""
    option = _OPTION.fullmatch(word)
    if option is not None and option["value"] is None:
        return shlex.quote(word), _is_secret_name(option["name"])
    match = option or _VARIABLE.fullmatch(word) or _HEADER.fullmatch(word)
    if match is not None and _is_secret_name(match["name"]) and _is_secret_value(finder, match["value"]):
        return shlex.quote(match["name"]) + match["sign"].strip() + REDACTED, False
    inner = _redact_inner_command(finder, word)
    if inner is not None:
        return shlex.quote(inner), False
    return shlex.quote(redact_url(finder, word).value if "://" in word else word), False


def _redact_inner_command(finder: SecretFinder, word: str) -> str | None:
    """A command inside of a word, as in `sh -c "…"`, without secrets; None where the word is none, or has none."""
    if ("-" not in word and "=" not in word) or not re.search(r"\s", word):
        return None
    try:
        words = shlex.split(word)
    except ValueError:  # an unbalanced quote
        words = word.split()
    inner = redact_command(finder, words)
    return inner if inner.count(REDACTED) > word.count(REDACTED) else None


def _is_secret_name(name: str) -> bool:
    """Whether an option, variable or header has a secret name; `.` separates words like `-`: `-Dsonar.token`."""
    name = name.lstrip("-").replace(".", "-")
    return is_secret_header_name(name) or _SHORT_NAMES.search(name) is not None


def _is_secret_value(finder: SecretFinder, value: str) -> bool:
    return not is_plain_value(value) and not finder.is_allowed(value)
