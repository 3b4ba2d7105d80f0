"""What a check reports about a file.

A *finding* is one broken rule at one place. The rules IO and PARSE mean that a file could not be checked, and CK4
that a check had no answer to look at; neither is ever the same as valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from typing import NamedTuple

IO = "IO"
PARSE = "PARSE"
NO_ANSWER = "CK4"  # A check has no answer to look at, or one that does not say what it asks for.
UNCHECKED_RULES = frozenset({IO, PARSE, NO_ANSWER})


class ExitCode(IntEnum):
    """The exit codes, the same for every command."""

    OK = 0  # unchanged, valid
    FINDINGS = 1  # something was found
    USAGE = 2  # the command was called wrongly
    UNCHECKED = 3  # something could not be checked


class Finding(NamedTuple):
    """One broken rule. Orders by file, then place, then rule."""

    file: str
    path: str  # a JSON path, or "" where the file as a whole is meant
    rule: str
    message: str
    hint: str = ""

    @property
    def is_unchecked(self) -> bool:
        """Whether the file could not be checked, as opposed to a broken rule."""
        return self.rule in UNCHECKED_RULES

    def to_json(self) -> dict[str, str]:
        """The finding as every `--json` report prints it."""
        return self._asdict()


_PRINTABLE_NAME = r"[A-Za-z0-9._:/+-]{1,100}\Z"  # Most runs find nothing to show.


def printable_name(text: str) -> str:
    """A short plain name as it is; anything else could be a secret, and build logs are public."""
    return text if re.match(_PRINTABLE_NAME, text) else "(a value that is not printed)"


def nearest_name(word: str, names: Iterable[str], likeness: float = 0.6) -> str:
    """The name most like a word, for a hint; "" where none is near."""
    return next(iter(get_close_matches(word, list(names), 1, likeness)), "")


def internal_error_finding(file: str, error: Exception) -> Finding:
    """The finding for a check that raised an unexpected exception, and so checked nothing."""
    name = printable_name(file)
    hint = f"This is a mistake in TraceForge: report it with the output of `traceforge --debug hash {name}`."
    return Finding(file, "", IO, f"internal error: {type(error).__name__}", hint)


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """1 if anything is wrong, else 3 if anything could not be checked, else 0."""
    kinds = {finding.is_unchecked for finding in findings}
    if False in kinds:
        return ExitCode.FINDINGS
    return ExitCode.UNCHECKED if kinds else ExitCode.OK
