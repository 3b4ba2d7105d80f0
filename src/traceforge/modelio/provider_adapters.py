"""Adapters for providers: OpenAI and every server that speaks as it does, Anthropic, Gemini, Ollama.

In: prompts. Out: what the model answered, read as captured answers are. Never: an address or a key in an error or in
an `adapter_id`, a second attempt, or half an answer: one that is cut short is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping, Sequence
from typing import ClassVar

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.capture.http_client import BeginRecording, HttpClient
from traceforge.errors import ProviderFailed
from traceforge.modelio.adapter import Completion, Context, Stream, message_to_content
from traceforge.modelio.model_call import RESPONSE_BYTES_MAX, ModelCall, ModelResponse, ProviderRequest
from traceforge.modelio.prompt import Prompt
from traceforge.wire.endpoints import Dialect, EndpointKind, find_endpoint
from traceforge.wire.request_encoder import encode_request
from traceforge.wire.unified import as_object, is_number, list_objects

_VERSION = re.compile(r"/(v\d[a-z0-9]*|api)\Z")  # With which a base URL may end; every path begins with one.


class ProviderAdapter:
    """One model of one provider. `parameters` go with every call, and those of a call over them.

    A text as a prompt is sent as one user message; a chat is sent as it is. `url` is the address in front of the
    path that the dialect is known by, or all of it; `api_key` is that of the environment where none is given, and
    "" is no key.
    """

    dialect: ClassVar[Dialect]
    kind: ClassVar[EndpointKind]
    default_url: ClassVar[str]
    key_variable: ClassVar[str] = ""

    def __init__(
        self, model: str, *, url: str = "", api_key: str | None = None,
        parameters: Mapping[str, JSON] | None = None, agent: str = "traceforge-modelio",
    ) -> None:  # fmt: skip
        self._url = (url or self.default_url).rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            raise ValueError("the address of a provider begins with http:// or https://")
        self._key = (os.environ.get(self.key_variable, "") if api_key is None else api_key).strip()
        if not self._key.isascii() or (self._key and not self._key.isprintable()):
            raise ValueError("the key of a provider has a character that no header can hold")
        self._parameters = dict(parameters or {})
        self._client = HttpClient(agent)
        self.adapter_id = f"{self.dialect}-{self.kind}"
        self.model_id = model

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """Ask, and wait for the whole answer.

        Raises:
            ProviderFailed: there is none, or it is an error.
        """
        return _completion(self.prepare_call(_messages(prompt), context, stream=False).wait())

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """Ask for a stream, and take it as it comes; raises the same."""

        def texts() -> Generator[str, None, Completion]:
            call = self.prepare_call(_messages(prompt), context, stream=True)
            try:
                yield from call
            finally:
                call.close()
            return _completion(call.response)

        return Stream(texts())

    def prepare_call(
        self, messages: Sequence[JSONObject], parameters: Mapping[str, JSON] | None = None, *,
        stream: bool | None = False, timeout_s: float | None = None, bytes_max: int = RESPONSE_BYTES_MAX,
        begin: BeginRecording | None = None,
    ) -> ModelCall:  # fmt: skip
        """A call that has not begun: whoever reads it begins it, and has all of the answer at its end.

        `stream` None says nothing about streams: the provider answers as it likes, and either is read. `timeout_s`
        is for the call as a whole; without it, each read may take five minutes. `begin` records it, where nobody in
        this process does.
        """
        encoded = encode_request(
            self.dialect, self.model_id, messages, {**self._parameters, **(parameters or {})}, stream=stream
        )
        request = ProviderRequest(
            f"{self.adapter_id} {self.model_id}", self.dialect, find_endpoint("POST", encoded.path),
            self._endpoint_url(encoded.path), {"content-type": "application/json", **self.headers()},
            json_bytes(encoded.body),
        )  # fmt: skip
        return ModelCall(self._client, request, timeout_s=timeout_s, bytes_max=bytes_max, begin=begin)

    def headers(self) -> dict[str, str]:
        """What says who asks."""
        return {"authorization": f"Bearer {self._key}"} if self._key else {}

    def _endpoint_url(self, path: str) -> str:
        """The whole address: a version that both have, and an endpoint that is named, stand there once."""
        url_endpoint = find_endpoint("POST", self._url)
        if (self.dialect, self.kind) == (
            url_endpoint.dialect,
            url_endpoint.kind,
        ) and self.kind is not EndpointKind.GENERATE:
            return self._url
        _, version, path_without_version = path.split("/", 2)
        url_version = _VERSION.search(self._url)
        return (
            f"{self._url}/{path_without_version}"
            if url_version and (url_version[1] == "api") is (version == "api")
            else self._url + path
        )


class OpenAIAdapter(ProviderAdapter):
    """OpenAI's chat completions, or with `url` those of any server that speaks the same."""

    dialect = Dialect.OPENAI
    kind = EndpointKind.CHAT
    default_url = "https://api.openai.com/v1"
    key_variable = "OPENAI_API_KEY"


class AnthropicAdapter(ProviderAdapter):
    """Anthropic's messages."""

    dialect = Dialect.ANTHROPIC
    kind = EndpointKind.MESSAGES
    default_url = "https://api.anthropic.com"
    key_variable = "ANTHROPIC_API_KEY"

    def headers(self) -> dict[str, str]:
        """Its key has a header of its own."""
        return {**({"x-api-key": self._key} if self._key else {}), "anthropic-version": "2023-06-01"}


class GeminiAdapter(ProviderAdapter):
    """Gemini's generateContent."""

    dialect = Dialect.GEMINI
    kind = EndpointKind.GENERATE
    default_url = "https://generativelanguage.googleapis.com"
    key_variable = "GEMINI_API_KEY"

    def headers(self) -> dict[str, str]:
        """Its key has a header of its own."""
        return {"x-goog-api-key": self._key} if self._key else {}


class OllamaAdapter(ProviderAdapter):
    """Ollama's chat, on this machine unless it is told otherwise."""

    dialect = Dialect.OLLAMA
    kind = EndpointKind.CHAT
    default_url = "http://127.0.0.1:11434"


ADAPTERS: Mapping[str, type[ProviderAdapter]] = {
    adapter.dialect.value: adapter for adapter in (OpenAIAdapter, AnthropicAdapter, GeminiAdapter, OllamaAdapter)
}


def adapter_for(
    provider: str, model: str, *, url: str = "", api_key: str | None = None,
    parameters: Mapping[str, JSON] | None = None, agent: str = "traceforge-modelio",
) -> ProviderAdapter:  # fmt: skip
    """The adapter of a provider by its name: openai, anthropic, gemini or ollama.

    Raises:
        ValueError: there is no such provider, or the address is none.
    """
    if provider not in ADAPTERS:
        raise ValueError(f"a provider is one of {', '.join(ADAPTERS)}")
    return ADAPTERS[provider](model, url=url, api_key=api_key, parameters=parameters, agent=agent)


def _messages(prompt: Prompt) -> list[JSONObject]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]


def completion_from_response(unified: JSONObject) -> Completion | None:
    """What a recording holds of an answer in the unified view; None where it has no choice, or several."""
    choices = list_objects(unified.get("choices"))
    if len(choices) != 1:
        return None
    text = choices[0].get("text")
    content = text if isinstance(text, str) else message_to_content(as_object(choices[0].get("message")))
    usage = as_object(unified.get("usage"))
    return Completion(content, _token_count(usage.get("prompt_tokens")), _token_count(usage.get("completion_tokens")))


def _completion(response: ModelResponse) -> Completion:
    completion = completion_from_response(response.unified)
    if completion is None:
        raise ProviderFailed("a model gave several answers or none, and a recording holds one for each prompt")
    return completion


def _token_count(value: JSON) -> int | None:
    return int(value) if is_number(value) and isinstance(value, int | float) else None
