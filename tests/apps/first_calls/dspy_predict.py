"""The first calls of dspy's documentation."""

from __future__ import annotations

import dspy

QUESTION = "What is the weather in Paris?"


def test_predict() -> None:
    with dspy.context(lm=dspy.LM("openai/gpt-4.1", cache=False)):
        assert dspy.Predict("question -> answer")(question=QUESTION).answer
