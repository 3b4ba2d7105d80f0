"""Assertions about the text of an answer: exact, contains, not_contains, regex, fuzzy, length."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import re2
from msgspec import UNSET

from traceforge.canon import number_text
from traceforge.checks.assertions.answer import Answer
from traceforge.checks.assertions.language_detection import detect_language
from traceforge.checks.assertions.outcome import Outcome, decide, quote, replace_half_characters, unchecked
from traceforge.checks.assertions.token_estimate import estimate_tokens
from traceforge.checks.formats.assertion_types import (
    ContainsAssertion,
    ExactAssertion,
    FuzzyAssertion,
    LanguageAssertion,
    LengthAssertion,
    NotContainsAssertion,
    RegexAssertion,
    TokenCountAssertion,
)
from traceforge.errors import MissingExtra

if TYPE_CHECKING:
    from re2 import _Regexp

try:
    from rapidfuzz import fuzz
except ImportError:  # The extra `checks` is not installed.
    fuzz = None  # type: ignore[assignment]

FUZZY_CHARACTERS_MAX = 50_000  # The time grows with the product of both lengths.


def check_exact(assertion: ExactAssertion, answer: Answer) -> Outcome:
    expected, actual = (_normalise(text, assertion) for text in (assertion.value, answer.text))
    common = next(
        (place for place, pair in enumerate(zip(expected, actual, strict=False)) if pair[0] != pair[1]),
        min(len(expected), len(actual)),
    )
    where = "text" if expected == actual else f"text, character {common + 1}"
    return decide(expected == actual, f"the text {quote(assertion.value)}", quote(answer.text), where)


def check_contains(assertion: ContainsAssertion, answer: Answer) -> Outcome:
    text = _fold(answer.text, assertion.ignore_case)
    missing = [value for value in list_texts(assertion.value) if _fold(value, assertion.ignore_case) not in text]
    expected = f"a text with {' and '.join(map(quote, missing or list_texts(assertion.value)))}"
    return decide(not missing, expected, quote(answer.text))


def check_not_contains(assertion: NotContainsAssertion, answer: Answer) -> Outcome:
    text = _fold(answer.text, assertion.ignore_case)
    for value in list_texts(assertion.value):
        if (place := text.find(_fold(value, assertion.ignore_case))) >= 0:
            return decide(
                False, f"a text without {quote(value)}", quote(answer.text, place), f"text, character {place + 1}"
            )
    return decide(True, f"a text without {' and '.join(map(quote, list_texts(assertion.value)))}", quote(answer.text))


def check_regex(assertion: RegexAssertion, answer: Answer) -> Outcome:
    expression = compile_expression(assertion)
    text = replace_half_characters(answer.text)
    match = expression.fullmatch(text) if assertion.whole else expression.search(text)
    extent = "is" if assertion.whole else "has a match of"
    return decide(match is not None, f"a text that {extent} /{assertion.pattern}/", quote(answer.text))


@lru_cache(maxsize=256)  # Each of many cases has the same expression.
def compile_expression(assertion: RegexAssertion) -> _Regexp:
    """The compiled expression.

    Raises:
        re2.error: it is not an expression of google-re2.
    """
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not assertion.ignore_case
    return re2.compile(assertion.pattern, options)


def check_fuzzy(assertion: FuzzyAssertion, answer: Answer) -> Outcome:
    if fuzz is None:
        raise MissingExtra("the assertion fuzzy cannot run here: rapidfuzz is not installed", "checks")
    expected = f"a text that is at least {number_text(assertion.at_least)} like {quote(assertion.value)}"
    texts = [_fold(text, assertion.ignore_case) for text in (assertion.value, answer.text)]
    if max(map(len, texts)) > FUZZY_CHARACTERS_MAX:
        return unchecked(expected, f"a text of more than {FUZZY_CHARACTERS_MAX} characters", "text")
    scorers = {"whole": fuzz.ratio, "part": fuzz.partial_ratio, "words": fuzz.token_set_ratio}
    likeness = scorers[assertion.method](*texts) / 100
    return decide(likeness >= assertion.at_least, expected, f"{likeness:.3f}: {quote(answer.text)}")


def check_length(assertion: LengthAssertion, answer: Answer) -> Outcome:
    lengths = {
        "characters": len(answer.text),
        "words": len(answer.text.split()),
        "lines": len(answer.text.splitlines()),
    }
    return _check_bounds(assertion, lengths[assertion.unit], assertion.unit)


def check_language(assertion: LanguageAssertion, answer: Answer) -> Outcome:
    expected = f"a text in {assertion.value}"
    language = detect_language(answer.text)
    if not language:
        return unchecked(expected, f"the language is not clear: {quote(answer.text)}", "text")
    return decide(language == assertion.value, expected, f"{language}: {quote(answer.text)}")


def check_token_count(assertion: TokenCountAssertion, answer: Answer) -> Outcome:
    if assertion.source == "estimate":
        return _check_bounds(assertion, estimate_tokens(answer.text), "tokens (estimated)")
    count = answer.measures.completion_tokens
    if count is None:
        return unchecked("tokens as the provider counted them", "the token usage is unknown", "usage")
    return _check_bounds(assertion, count, "tokens")


def _check_bounds(assertion: LengthAssertion | TokenCountAssertion, number: float, unit: str) -> Outcome:
    low = 0 if assertion.min is UNSET else assertion.min
    high = float("inf") if assertion.max is UNSET else assertion.max
    bounds = [
        f"{name} {number_text(value)}"
        for name, value in (("at least", assertion.min), ("at most", assertion.max))
        if value is not UNSET
    ]
    return decide(low <= number <= high, f"{' and '.join(bounds)} {unit}", number_text(number))


def list_texts(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _normalise(text: str, assertion: ExactAssertion) -> str:
    return _fold(text.strip() if assertion.trim else text, assertion.ignore_case)


def _fold(text: str, ignore_case: bool) -> str:
    return text.casefold() if ignore_case else text
