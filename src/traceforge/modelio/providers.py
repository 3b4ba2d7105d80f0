"""Adapters for providers: OpenAI and every server that speaks as it does, Anthropic, Gemini, Ollama.

In: prompts. Out: what the model answered, read as captured answers are. Never: an address or a key in an error or in
an `adapter_id`, a second attempt, or half an answer: one that is cut short is an error.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Generator, Mapping
from typing import ClassVar

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.capture.client import Client, explain
from traceforge.capture.seen import seen_post
from traceforge.errors import ProviderFailed
from traceforge.modelio.adapter import Completion, Context, Stream, content_of
from traceforge.modelio.prompt import Prompt
from traceforge.wire.answer import Answer, AnswerReader, Ending
from traceforge.wire.asking import encode_request, text_delta
from traceforge.wire.registry import Dialect, find_endpoint
from traceforge.wire.unified import is_number, obj, objects, text_of


class ProviderAdapter:
    """One model of one provider. `parameters` go with every call, and a call's context over them.

    A text as a prompt is sent as one user message; a chat is sent as it is. `url` is the address in front of the
    path that the dialect is known by; the key is that of the environment where none is given.
    """

    dialect: ClassVar[Dialect]
    kind: ClassVar[str]
    address: ClassVar[str]
    key_variable: ClassVar[str] = ""

    def __init__(
        self, model: str, *, url: str = "", api_key: str = "", parameters: Mapping[str, JSON] | None = None
    ) -> None:
        self._url = (url or self.address).rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            raise ValueError("the address of a provider begins with http:// or https://")
        self._key = api_key or os.environ.get(self.key_variable, "")
        self._parameters = dict(parameters or {})
        self._client = Client("traceforge-modelio")
        self.adapter_id = f"{self.dialect}-{self.kind}"
        self.model_id = model

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """Ask, and wait for the whole answer.

        Raises:
            ProviderFailed: there is none, or it is an error.
        """
        return self._whole(self._ask(prompt, context, stream=False))

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """Ask for a stream, and take it as it comes; raises the same."""
        return Stream(self._ask(prompt, context, stream=True))

    def headers(self) -> dict[str, str]:
        """What says who asks."""
        return {"authorization": f"Bearer {self._key}"} if self._key else {}

    @staticmethod
    def _whole(texts: Generator[str, None, Completion]) -> Completion:
        while True:
            try:
                next(texts)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what the generator returns

    def _ask(self, prompt: Prompt, context: Context | None, *, stream: bool) -> Generator[str, None, Completion]:
        messages: list[JSONObject] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]
        parameters = {**self._parameters, **(context or {})}
        asked = encode_request(self.dialect, self.model_id, messages, parameters, stream=stream)
        path = asked.path.removeprefix("/v1") if self._url.endswith("/v1") else asked.path
        endpoint = find_endpoint("POST", asked.path)
        texts: list[str] = []
        headers = {"content-type": "application/json", **self.headers()}
        try:
            with seen_post(self._client, self._url + path, json_bytes(asked.body), headers) as response:
                status = response.status
                reader = AnswerReader(
                    endpoint, status, response.media_type, lambda event: texts.append(text_delta(self.dialect, event))
                )
                for data in response.pieces:
                    reader.feed(data)
                    yield from filter(None, texts)
                    texts.clear()
                answer = reader.finish()
                yield from filter(None, texts)
        except (OSError, http.client.HTTPException) as exc:
            raise self._failed(explain(exc)[0]) from None
        if answer.ending is not Ending.COMPLETE or answer.unified is None or status >= 400:
            raise self._failed(_said(answer, status))
        return _completion(answer.unified)

    def _failed(self, why: str) -> ProviderFailed:
        hint = "Ask again, or look at what the provider says about it."
        return ProviderFailed(f"{self.adapter_id} {self.model_id} gave no answer: {why}", hint=hint)


class OpenAIAdapter(ProviderAdapter):
    """OpenAI's chat completions, or with `url` those of any server that speaks the same."""

    dialect = Dialect.OPENAI
    kind = "chat"
    address = "https://api.openai.com/v1"
    key_variable = "OPENAI_API_KEY"


class AnthropicAdapter(ProviderAdapter):
    """Anthropic's messages."""

    dialect = Dialect.ANTHROPIC
    kind = "messages"
    address = "https://api.anthropic.com"
    key_variable = "ANTHROPIC_API_KEY"

    def headers(self) -> dict[str, str]:
        """Its key has a header of its own."""
        return {"x-api-key": self._key, "anthropic-version": "2023-06-01"}


class GeminiAdapter(ProviderAdapter):
    """Gemini's generateContent."""

    dialect = Dialect.GEMINI
    kind = "generate"
    address = "https://generativelanguage.googleapis.com"
    key_variable = "GEMINI_API_KEY"

    def headers(self) -> dict[str, str]:
        """Its key has a header of its own."""
        return {"x-goog-api-key": self._key}


class OllamaAdapter(ProviderAdapter):
    """Ollama's chat, on this machine unless it is told otherwise."""

    dialect = Dialect.OLLAMA
    kind = "chat"
    address = "http://127.0.0.1:11434"


def _said(answer: Answer, status: int) -> str:
    """What went wrong; the provider's own words are left out, because they may repeat the prompt."""
    if answer.ending is Ending.CUT:
        return "the answer was cut short"
    kind = text_of(obj(answer.error).get("type")) or text_of(obj(answer.error).get("code"))
    if status >= 400:
        return f"it answered with status {status}" + (f" ({kind})" if kind.isidentifier() else "")
    return "it answered with an error" if answer.ending is Ending.ERROR else "its answer cannot be read"


def completion_of(unified: JSONObject) -> Completion | None:
    """What a recording holds of an answer in the unified view; None where it has no choice, or several."""
    choices = objects(unified.get("choices"))
    if len(choices) != 1:
        return None
    text = choices[0].get("text")
    content = text if isinstance(text, str) else content_of(obj(choices[0].get("message")))
    usage = obj(unified.get("usage"))
    return Completion(content, _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def _completion(unified: JSONObject) -> Completion:
    found = completion_of(unified)
    if found is None:
        raise ProviderFailed("a model gave several answers or none, and a recording holds one for each prompt")
    return found


def _count(value: JSON) -> int | None:
    return int(value) if is_number(value) and isinstance(value, int | float) else None
