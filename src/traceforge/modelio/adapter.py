"""Adapters: one small interface to call any model.

An adapter takes a prompt and returns a `Completion`, or a `Stream` of texts that ends with one. `recording` and
`replay_adapter` wrap an adapter to record and replay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, canonical_bytes, encode_utf8, parse_json
from traceforge.errors import NotFound, NotJSON
from traceforge.modelio.prompt import Prompt
from traceforge.redact.redactor import Redactor
from traceforge.wire.unified import as_object, list_objects

Context = Mapping[str, JSON]  # Parameters of a call, such as a temperature. They are not part of its hash.

_TEXT_PART_TYPES = frozenset({"text", "output_text", "thinking", "redacted_thinking", "reasoning"})


class Completion(Struct, frozen=True):
    """The answer of a model: its text, or the canonical JSON of its message where that is more than text."""

    text: str
    tokens_input: int | None = None
    tokens_output: int | None = None


class Stream(Iterator[str]):
    """The texts of an answer as they arrive. `completion` is available after the last one."""

    def __init__(self, texts: Generator[str, None, Completion]) -> None:
        self._texts = texts
        self._completion: Completion | None = None

    def __next__(self) -> str:
        try:
            return next(self._texts)
        except StopIteration as end:
            if end.value is not None:
                self._completion = end.value
            raise

    def close(self) -> None:
        """End the call before the answer is complete."""
        self._texts.close()

    @property
    def completion(self) -> Completion:
        """The whole answer.

        Raises:
            ValueError: the stream has not ended.
        """
        if self._completion is None:
            raise ValueError("the stream has not ended")
        return self._completion


class Adapter(Protocol):
    """A model that can be called. `adapter_id` is the provider and the kind of endpoint, never a host."""

    @property
    def adapter_id(self) -> str:
        """The provider and the kind of endpoint, such as `openai-chat`."""
        ...

    @property
    def model_id(self) -> str:
        """The name of the model."""
        ...

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """Call the model, and wait for the whole answer."""
        ...

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """Call the model, and stream the answer."""
        ...


class CallableAdapter:
    """Uses a function of a prompt and a context as an adapter. Its streams have one text."""

    def __init__(
        self,
        function: Callable[[Prompt, Context], str | Completion],
        *,
        adapter_id: str = "callable",
        model_id: str = "callable",
    ) -> None:
        self._function = function
        self.adapter_id = adapter_id
        self.model_id = model_id

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        answer = self._function(prompt, context or {})
        return answer if isinstance(answer, Completion) else Completion(answer)

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """Call the function when the first text is read."""
        return Stream(stream_as_one_text(lambda: self.complete(prompt, context)))


class MockAdapter:
    """Returns the given answers, one for each call; `prompts` are those it was called with.

    A stream has one text for each word, so that readers of streams are tested with several.
    """

    def __init__(
        self, answers: Sequence[str | Completion], *, adapter_id: str = "mock", model_id: str = "mock"
    ) -> None:
        self._answers = [answer if isinstance(answer, Completion) else Completion(answer) for answer in answers]
        self._lock = threading.Lock()
        self.prompts: list[Prompt] = []
        self.adapter_id = adapter_id
        self.model_id = model_id

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """The next answer.

        Raises:
            NotFound: there are more calls than answers.
        """
        with self._lock:
            number = len(self.prompts)
            self.prompts.append(prompt)
        if number >= len(self._answers):
            hint = "Give the MockAdapter an answer for each call."
            raise NotFound(f"the mock has {len(self._answers)} answers, but this is call {number + 1}", hint=hint)
        return self._answers[number]

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """The next answer, word by word."""

        def pieces() -> Generator[str, None, Completion]:
            answer = self.complete(prompt, context)
            words = answer.text.split(" ")
            yield from [f"{word} " for word in words[:-1]] + words[-1:]
            return answer

        return Stream(pieces())


def stream_as_one_text(complete: Callable[[], Completion]) -> Generator[str, None, Completion]:
    """A stream that yields a whole answer as one text; an empty answer yields none."""
    answer = complete()
    if answer.text:
        yield answer.text
    return answer


def message_to_content(message: JSONObject) -> str:
    """What a recording stores of an assistant's message: its text, or the whole message where it is more than text.

    Thinking parts are not part of the answer, and do not count as more than text.
    """
    content = message.get("content")
    is_plain = not any(message.get(name) for name in ("tool_calls", "refusal", "function_call", "audio"))
    if is_plain and isinstance(content, str | None) and _is_text(message.get("parts")):
        return content or ""
    return canonical_bytes(message).decode()


def redact_content(content: str, redactor: Redactor) -> str:
    """Redact an answer; the canonical JSON of a message stays canonical JSON."""
    message = content_to_message(content)
    return (
        redactor.redact_text(content)
        if message is None
        else canonical_bytes(redactor.redact_json(message).value).decode()
    )


def content_to_message(content: str) -> JSONObject | None:
    """The message that `message_to_content` encoded; None where the text is the answer itself."""
    if not content.startswith("{"):
        return None
    try:
        message = parse_json(encode_utf8(content))
    except NotJSON:
        return None
    if not isinstance(message, dict) or message.get("role") != "assistant" or message_to_content(message) != content:
        return None
    return message


def _is_text(parts: JSON) -> bool:
    """Whether every part of a message, in any provider's format, is text or thinking."""
    part_list = list_objects(parts) if isinstance(parts, list) else list_objects(as_object(parts).get("parts"))
    for part in part_list:
        if part.get("type") == "message":
            if not _is_text(part.get("content")):
                return False
        elif part.get("type") not in _TEXT_PART_TYPES and not (
            "type" not in part and isinstance(part.get("text"), str)
        ):
            return False
    return True
