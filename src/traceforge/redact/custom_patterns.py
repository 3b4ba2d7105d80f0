"""The expressions of a project (`redact_patterns`, `match.ignore_patterns`) and its exceptions (`allow`): google-re2.

In: expressions. Out: compiled ones, or their problems. Never: accepts look-around or back-references, which cannot be
matched in linear time; google-re2 has neither, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import re2

from traceforge.canon import json_path
from traceforge.errors import InvalidConfig
from traceforge.findings import Finding

if TYPE_CHECKING:
    from re2 import _Regexp

PATTERN_RULE = "CF1"
# Texts that have no word, no character class and no length in common.
_ANY_TEXTS = (b"You are brief.", b"1234567890", "Größe\n→ 中文".encode(), b"{}[]/\\;:", b"Q", b"  ~ ")
_SYNTAX_HINT = "Use the syntax of google-re2: no look-around, no back-references (`traceforge help CF1`)."
_TOO_WIDE_HINT = "Write what is meant, no wider: `run-[0-9]+`, not `.+` (`traceforge help CF1`)."


def compile_patterns(patterns: Sequence[str], where: str = "redact_patterns") -> tuple[_Regexp, ...]:
    """Compile every expression.

    Raises:
        InvalidConfig: one of them is none; every bad one is named with its place and the reason.
    """
    findings = pattern_findings(patterns, where)
    if findings:
        raise InvalidConfig(tuple(findings))
    return tuple(_compile(pattern) for pattern in patterns)


def pattern_findings(patterns: Sequence[str], where: str, setting: str = "redact_patterns") -> list[Finding]:
    """What is wrong with each expression; empty if they all compile."""
    findings = []
    for place, pattern in enumerate(patterns):
        reason, hint = _pattern_problem(pattern)
        if reason:
            path = json_path(f"$.{setting}", place)
            findings.append(Finding(where, path, PATTERN_RULE, f"{setting}[{place}] {reason}", hint))
    return findings


def _pattern_problem(pattern: str) -> tuple[str, str]:
    """What is wrong with an expression, and a hint; "" if nothing is."""
    try:
        matches_empty = _compile(pattern).search(b"") is not None
    except re2.error as exc:
        reason = exc.args[0] if exc.args else "not an expression"
        text = reason.decode() if isinstance(reason, bytes) else reason
        return f"is not a google-re2 expression: {text}", _SYNTAX_HINT
    if matches_empty:
        return "matches the empty text, so it would match everywhere", _TOO_WIDE_HINT
    return ("matches every text" if _matches_everything(pattern) else ""), _TOO_WIDE_HINT


def _matches_everything(pattern: str) -> bool:
    """Whether nothing is left of any text. A line break may be left: `.+` does not match it."""
    compiled = _compile(pattern)
    return not any(compiled.sub(b"", text).strip() for text in _ANY_TEXTS)


def _compile(pattern: str) -> _Regexp:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def compile_allow(allow: Sequence[str]) -> _Regexp | None:
    """One expression for all exceptions: each is a whole value, in which `*` matches any text."""
    if not allow:
        return None
    return _compile("(?s)" + "|".join("(?:" + ".*".join(map(re2.escape, value.split("*"))) + ")" for value in allow))
