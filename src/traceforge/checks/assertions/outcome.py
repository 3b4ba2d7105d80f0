"""The result of one assertion about one answer."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject
from traceforge.wire.unified import json_text

EXCERPT_CHARACTERS = 200


class Verdict(StrEnum):
    """Whether an assertion holds. `UNCHECKED`: the answer does not say what it asks for."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "unchecked"


class Outcome(NamedTuple):
    """Whether it holds, what was expected, what there is, and where in the answer."""

    verdict: Verdict
    expected: str
    actual: str
    where: str = "text"

    @property
    def holds(self) -> bool:
        return self.verdict is Verdict.PASSED

    def to_json(self) -> JSONObject:
        return {
            "verdict": self.verdict.value, "expected": self.expected, "actual": self.actual, "where": self.where
        }  # fmt: skip


def decide(holds: bool, expected: str, actual: str, where: str = "text") -> Outcome:
    return Outcome(Verdict.PASSED if holds else Verdict.FAILED, expected, actual, where)


def unchecked(expected: str, reason: str, where: str) -> Outcome:
    """The outcome where the answer lacks what the assertion is about."""
    return Outcome(Verdict.UNCHECKED, expected, reason, where)


def replace_half_characters(text: str) -> str:
    """The text for a library that takes whole characters only: JSON can hold half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def quote(text: str, start: int = 0) -> str:
    """A part of a text in quotation marks, for a report."""
    end = start + EXCERPT_CHARACTERS
    before, after = "…" if start > 0 else "", "…" if end < len(text) else ""
    return f"{before}{json_text(text[start:end])}{after}"


def value_text(value: JSON) -> str:
    """A JSON value, shortened for a report."""
    text = json_text(value)
    return text if len(text) <= EXCERPT_CHARACTERS else f"{text[:EXCERPT_CHARACTERS]}…"
