"""`compare/refusal_signs.py`: the three signs of a refusal."""

from __future__ import annotations

import pytest

from traceforge.compare.compared_call import ComparedChoice
from traceforge.compare.refusal_signs import find_refusal_sign


@pytest.mark.parametrize(
    ("choice", "sign"),
    [
        (ComparedChoice("", refusal="I can't."), "the refusal field is set"),
        (ComparedChoice("", "content_filter"), "finish_reason is content_filter"),
        (ComparedChoice("", "refusal"), "finish_reason is refusal"),
        (ComparedChoice("I can’t help with that."), "the text begins with “I can't help”"),
        (ComparedChoice("Sorry, but I cannot provide that."), "the text begins with “I cannot provide”"),
        (ComparedChoice("I'm sorry, but I can't do this."), "the text begins with “I'm sorry, but I can't”"),
        (
            ComparedChoice("As an AI language model, I don't have"),
            "the text begins with “As an AI language model, I don't”",
        ),
    ],
)
def test_a_refusal_is_recognised_by_its_sign(choice: ComparedChoice, sign: str) -> None:
    """The provider's field, the finish reason, or a phrase at the beginning."""
    assert sign == find_refusal_sign(choice)


@pytest.mark.parametrize(
    "choice",
    [
        ComparedChoice("The capital of France is Paris.", "stop"),
        ComparedChoice("I can't believe how well this works!"),
        ComparedChoice("Yes. " * 50 + "I can't help with that."),
        ComparedChoice("", {"odd": 1}),
        ComparedChoice(""),
    ],
)
def test_an_answer_is_not_a_refusal(choice: ComparedChoice) -> None:
    """Neither other words with the same beginning, nor the phrase far down in a text."""
    assert "" == find_refusal_sign(choice)
