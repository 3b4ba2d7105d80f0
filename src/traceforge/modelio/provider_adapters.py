"""Adapters for OpenAI and compatible servers, Anthropic, Gemini and Ollama.

Calls are never retried, and a response that is cut short is an error. Errors and `adapter_id` never contain a URL
or an API key.
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

_VERSION = re.compile(r"/(v\d[a-z0-9]*|api)\Z")  # A base URL may end with it, and every path begins with it.


class ProviderAdapter:
    """One model of one provider. `parameters` are sent with every call; those of a call override them.

    A text prompt is sent as one user message; a chat is sent as it is. `url` is the base URL or the whole URL of the
    endpoint. `api_key` is read from the environment where it is None; "" sends no key.
    """

    dialect: ClassVar[Dialect]
    kind: ClassVar[EndpointKind]
    default_url: ClassVar[str]
    key_variable: ClassVar[str] = ""
    stream_parameters: ClassVar[Mapping[str, JSON]] = {}  # of a stream, unless the caller says otherwise

    def __init__(
        self, model: str, *, url: str = "", api_key: str | None = None,
        parameters: Mapping[str, JSON] | None = None, agent: str = "traceforge-modelio",
    ) -> None:  # fmt: skip
        self._url = (url or self.default_url).rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            raise ValueError("the URL of a provider must begin with http:// or https://")
        self._key = (os.environ.get(self.key_variable, "") if api_key is None else api_key).strip()
        if not self._key.isascii() or (self._key and not self._key.isprintable()):
            raise ValueError("the API key has a character that is not allowed in a header")
        self._parameters = dict(parameters or {})
        self._client = HttpClient(agent)
        self.adapter_id = f"{self.dialect}-{self.kind}"
        self.model_id = model

    def complete(self, prompt: Prompt, context: Context | None = None) -> Completion:
        """Call the model, and wait for the whole answer.

        Raises:
            ProviderFailed: no answer came, or it is an error.
        """
        return _completion(self.prepare_call(_messages(prompt), context, stream=False).wait())

    def stream(self, prompt: Prompt, context: Context | None = None) -> Stream:
        """Call the model, and stream the answer; raises the same."""

        parameters = {**self.stream_parameters, **self._parameters, **(context or {})}

        def texts() -> Generator[str, None, Completion]:
            call = self.prepare_call(_messages(prompt), parameters, stream=True)
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
        """Prepare a call; the request is sent when its first text is read.

        With `stream` None, the provider decides whether it streams. `timeout_s` limits the whole call; without it,
        each read may take five minutes. `begin` records the call, where no capture in this process does.
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
        """The headers that authenticate the caller."""
        return {"authorization": f"Bearer {self._key}"} if self._key else {}

    def _endpoint_url(self, path: str) -> str:
        """The URL of the endpoint; a version or endpoint that the base URL already has is not repeated."""
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
    """OpenAI's chat completions; with `url`, those of any compatible server."""

    dialect = Dialect.OPENAI
    kind = EndpointKind.CHAT
    default_url = "https://api.openai.com/v1"
    key_variable = "OPENAI_API_KEY"
    stream_parameters: ClassVar[Mapping[str, JSON]] = {"stream_options": {"include_usage": True}}  # Else no tokens.


class AnthropicAdapter(ProviderAdapter):
    """Calls Anthropic's messages API, with the key in `x-api-key`."""

    dialect = Dialect.ANTHROPIC
    kind = EndpointKind.MESSAGES
    default_url = "https://api.anthropic.com"
    key_variable = "ANTHROPIC_API_KEY"

    def headers(self) -> dict[str, str]:
        return {**({"x-api-key": self._key} if self._key else {}), "anthropic-version": "2023-06-01"}


class GeminiAdapter(ProviderAdapter):
    """Calls Gemini's generateContent API, with the key in `x-goog-api-key`."""

    dialect = Dialect.GEMINI
    kind = EndpointKind.GENERATE
    default_url = "https://generativelanguage.googleapis.com"
    key_variable = "GEMINI_API_KEY"

    def headers(self) -> dict[str, str]:
        return {"x-goog-api-key": self._key} if self._key else {}


class OllamaAdapter(ProviderAdapter):
    """Ollama's chat, by default on this machine."""

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
        ValueError: the provider is unknown, or the URL is invalid.
    """
    if provider not in ADAPTERS:
        raise ValueError(f"the provider must be one of {', '.join(ADAPTERS)}")
    return ADAPTERS[provider](model, url=url, api_key=api_key, parameters=parameters, agent=agent)


def _messages(prompt: Prompt) -> list[JSONObject]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [*prompt]


def completion_from_response(unified: JSONObject) -> Completion | None:
    """What a recording stores of a unified response; None where it does not have exactly one choice."""
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
        raise ProviderFailed("the model returned several answers or none; a recording stores one for each prompt")
    return completion


def _token_count(value: JSON) -> int | None:
    return int(value) if is_number(value) and isinstance(value, int | float) else None
