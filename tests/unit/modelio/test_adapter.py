"""`modelio/adapter.py`: one way to ask any model."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from traceforge.errors import NotFound
from traceforge.modelio import CallableAdapter, Completion, MockAdapter, Stream
from traceforge.modelio.adapter import content_to_message, message_to_content, redact_content
from traceforge.redact.redactor import Redactor

TEXT = {"type": "output_text", "text": "a"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"id":1}'}}


def test_a_function_is_an_adapter() -> None:
    """It is given the prompt and the context, and may count tokens."""
    prompts: list[Any] = []

    def answer(prompt: Any, context: Any) -> Completion:
        prompts.append((prompt, dict(context)))
        return Completion("Lyon.", 3, 2)

    adapter = CallableAdapter(answer, adapter_id="mine", model_id="m-1")

    assert Completion("Lyon.", 3, 2) == adapter.complete("Where?", {"temperature": 0})
    assert ["Lyon."] == list(adapter.stream("Where?"))
    assert [("Where?", {"temperature": 0}), ("Where?", {})] == prompts
    assert ("mine", "m-1") == (adapter.adapter_id, adapter.model_id)
    assert Completion("text") == CallableAdapter(lambda prompt, context: "text").complete("Where?")


def test_a_mock_answers_in_order_and_fails_after_the_last() -> None:
    """A test that asks more than it has written answers for is wrong."""
    mock = MockAdapter(["one", "two words"])

    assert "one" == mock.complete("first").text
    assert ["two ", "words"] == list(mock.stream("second"))
    with pytest.raises(NotFound, match="2 answers, but this is call 3"):
        mock.complete("third")
    assert ["first", "second", "third"] == mock.prompts


def test_a_stream_has_its_completion_at_its_end() -> None:
    """And none before, nor where it was left."""

    def texts() -> Generator[str, None, Completion]:
        yield "a"
        yield "b"
        return Completion("ab", 1, 2)

    read_stream, closed_stream = Stream(texts()), Stream(texts())
    next(closed_stream)
    closed_stream.close()

    with pytest.raises(ValueError, match="not ended"):
        _ = read_stream.completion
    assert ["a", "b"] == list(read_stream)
    assert Completion("ab", 1, 2) == read_stream.completion
    assert [] == list(closed_stream)
    with pytest.raises(ValueError, match="not ended"):
        _ = closed_stream.completion


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"role": "assistant", "content": "Paris."}, "Paris."),
        ({"role": "assistant", "content": None}, ""),
        ({"role": "assistant", "content": "P", "reasoning": "hm", "parts": [{"type": "thinking"}]}, "P"),
        ({"role": "assistant", "content": "ab", "parts": {"parts": [{"text": "a"}, {"text": "b"}]}}, "ab"),
        (
            {
                "role": "assistant",
                "content": "a",
                "parts": [{"type": "message", "content": [{"type": "output_text"}]}],
            },
            "a",
        ),
    ],
)
def test_an_answer_that_is_text_is_its_text(message: Any, content: str) -> None:
    """Reasoning, and the division into parts, are not included."""
    assert content == message_to_content(message)
    assert None is content_to_message(content)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": "see", "parts": [{"type": "text", "text": "see"}, {"type": "image"}]},
        {"role": "assistant", "content": "a", "parts": [{"type": "message", "content": [{"type": "audio"}]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": None, "parts": {"parts": [{"inlineData": {}}]}},
    ],
)
def test_an_answer_that_is_more_than_text_is_its_canonical_message(message: Any) -> None:
    """Nothing of it is lost: the message comes back."""
    content = message_to_content(message)

    assert content.startswith('{"content":')
    assert message == content_to_message(content)


@pytest.mark.parametrize("text", ['{"role": "assistant"}', '{"role":"user"}', "{", "[]", '{"role":"x"}'])
def test_a_text_that_only_looks_like_a_message_is_a_text(text: str) -> None:
    """A model may write JSON."""
    assert None is content_to_message(text)


def test_a_redacted_message_is_still_a_message() -> None:
    """Redaction does not change its notation."""
    arguments = '{"key":"sk-proj-' + "Ab1" * 16 + '"}'
    message = {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": arguments}}]}
    clean = redact_content(message_to_content(message), Redactor())

    assert "Ab1Ab1" not in clean
    assert None is not content_to_message(clean)
