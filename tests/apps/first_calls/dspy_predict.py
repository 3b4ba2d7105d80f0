"""The first call of dspy's documentation."""

from __future__ import annotations

import dspy

QUESTION = "What is the weather in Paris?"

dspy.configure(lm=dspy.LM("openai/gpt-4.1"))


def test_predict() -> None:
    assert dspy.Predict("question -> answer")(question=QUESTION).answer
