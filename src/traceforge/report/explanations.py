"""What every rule, error code and exit code means, for `traceforge help`.

The texts are those of docs/reference/rules.md, errors.md and exit-codes.md: `make docs` writes them into
`explanations.json`, because an installed package has no docs.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, cast

from traceforge.canon import JSONObject, parse_json

NEAREST_MAX = 4
LIKENESS_MIN = 0.5  # With difflib's default of 0.6, `SN99` finds only SN9.
WIDTH = 80
_ERROR_CODE = re.compile(r"TF[0-9]+\Z")
_REFUSAL_STATUS = "418"  # Of the response to a call that no recording answers.
_REFUSAL_RULES = ("GT1", "GT2")


class Explanation(NamedTuple):
    """One entry of the reference: its sentence, and its paragraphs with their labels."""

    sentence: str
    paragraphs: list[tuple[str, str]]


@cache
def load_explanations() -> dict[str, Explanation]:
    """Every entry by its code."""
    entries = parse_json(files("traceforge.report").joinpath("explanations.json").read_bytes())
    return {code: Explanation(**cast("dict[str, Any]", entry)) for code, entry in cast("JSONObject", entries).items()}


def find_code(word: str) -> str | None:
    """The code that a person means: upper and lower case make no difference."""
    return {code.lower(): code for code in load_explanations()}.get(word.lower())


def nearest_topics(word: str, commands: Iterable[str]) -> list[str]:
    """The codes and commands most like a word that is neither, the nearest first.

    Nothing is near an error code: that two have digits in common says nothing about what they mean. A refused call
    has the HTTP status 418.
    """
    if word == _REFUSAL_STATUS:
        return list(_REFUSAL_RULES)
    if _ERROR_CODE.match(word.upper()):
        return []
    topics = {topic.lower(): topic for topic in (*load_explanations(), *commands)}
    return [topics[match] for match in get_close_matches(word.lower(), topics, NEAREST_MAX, LIKENESS_MIN)]


def explanation_text(code: str) -> str:
    """The entry of a code as it is printed: the sentence, then a paragraph for each label."""
    explanation = load_explanations()[code]
    column = max(len(label) for label, _ in explanation.paragraphs) + 3
    lines = [_fill(f"{code}: {explanation.sentence}"), ""]
    for label, text in explanation.paragraphs:
        lines += [_fill(text, f"{label}:".ljust(column), " " * column)] if label else ["", _fill(text)]
    return "\n".join(lines)


def _fill(text: str, first: str = "", following: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=following, break_on_hyphens=False, break_long_words=False
    )
