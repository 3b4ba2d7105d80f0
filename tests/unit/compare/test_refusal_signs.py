"""`compare/refusal_signs.py`: the three signs of a refusal."""

from __future__ import annotations

import pytest

from traceforge.compare import Choice
from traceforge.compare.refusal_signs import refusal_sign


@pytest.mark.parametrize(
    ("choice", "sign"),
    [
        (Choice("", refusal="I can't."), "the refusal field is set"),
        (Choice("", "content_filter"), "finish_reason is content_filter"),
        (Choice("", "refusal"), "finish_reason is refusal"),
        (Choice("I can’t help with that."), "the text begins with “I can't help”"),
        (Choice("Sorry, but I cannot provide that."), "the text begins with “I cannot provide”"),
        (Choice("I'm sorry, but I can't do this."), "the text begins with “I'm sorry, but I can't”"),
        (Choice("As an AI language model, I don't have"), "the text begins with “As an AI language model, I don't”"),
    ],
)
def test_a_refusal_is_known_by_its_sign(choice: Choice, sign: str) -> None:
    """The provider's field, the reason to stop, or a phrase at the beginning; the sign is told."""
    assert sign == refusal_sign(choice)


@pytest.mark.parametrize(
    "choice",
    [
        Choice("The capital of France is Paris.", "stop"),
        Choice("I can't believe how well this works!"),
        Choice("Yes. " * 50 + "I can't help with that."),
        Choice("", {"odd": 1}),
        Choice(""),
    ],
)
def test_an_answer_is_no_refusal(choice: Choice) -> None:
    """Other words with the same beginning, and the phrase far down in a text, are none."""
    assert "" == refusal_sign(choice)
