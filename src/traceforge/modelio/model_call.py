"""One call of a model: the texts of the response as they arrive, then the unified response.

Calls are never retried, and a response that is cut short is an error. Error messages never contain the provider's
words, a URL or an API key.

    call = adapter.prepare_call(messages, stream=True, timeout_s=60)    # nothing is sent yet
    for text in call: ...                                               # `call.cancel()`, from any thread, ends it
    call.response.unified, call.response.trace_id
"""

from __future__ import annotations

import http.client
from collections.abc import Generator, Iterator, Mapping
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject
from traceforge.capture.http_client import BeginRecording, CallCancelled, CallControl, HttpClient, explain_failure
from traceforge.capture.watched_post import StreamedResponse, watched_post
from traceforge.errors import FailureKind, ProviderFailed
from traceforge.wire.content_encoding import EncodingState, decode_body
from traceforge.wire.endpoints import Dialect, Endpoint
from traceforge.wire.request_encoder import text_delta
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding, ResponseReader
from traceforge.wire.unified import as_object, as_text, list_objects

RESPONSE_BYTES_MAX = 64 << 20  # As much as a recording keeps.
_HINT = "Ask again, or look at what the provider says about it."


class ProviderRequest(NamedTuple):
    """A request in the format of a provider."""

    name: str  # of the adapter and model, for error messages: neither a URL nor a key
    dialect: Dialect
    endpoint: Endpoint
    url: str
    headers: Mapping[str, str]
    body: bytes


class ModelResponse(NamedTuple):
    """The response of a model, once it is complete."""

    unified: JSONObject
    body: JSON  # in the provider's format; that of a stream is assembled
    status: int
    media_type: str
    streamed: bool  # whether it came as events or lines
    trace_id: str | None  # of the trace of the call; None where it is not recorded

    @property
    def message(self) -> JSONObject:
        """The assistant's message of the first choice; empty where there is none."""
        return as_object(self._choice.get("message"))

    @property
    def text(self) -> str:
        """The text of the message; "" where it has none."""
        return as_text(self.message.get("content"))

    @property
    def tool_calls(self) -> list[JSONObject]:
        """The tool calls of the message."""
        return list_objects(self.message.get("tool_calls"))

    @property
    def finish_reason(self) -> str | None:
        """The unified finish reason; None where the provider gives none."""
        return as_text(self._choice.get("finish_reason")) or None

    @property
    def usage(self) -> JSONObject:
        """Token counts, as far as the provider reports them."""
        return as_object(self.unified.get("usage"))

    @property
    def _choice(self) -> JSONObject:
        return next(iter(list_objects(self.unified.get("choices"))), {})


class ModelCall(Iterator[str]):
    """One call. The request is sent when the first text is read.

    One thread reads it. Any other thread may call `cancel`, also before the call begins: the connection is closed,
    and the reader gets `ProviderFailed` of the kind `left`.
    """

    def __init__(
        self, client: HttpClient, request: ProviderRequest, *, timeout_s: float | None = None,
        bytes_max: int = RESPONSE_BYTES_MAX, begin: BeginRecording | None = None,
    ) -> None:  # fmt: skip
        self._client = client
        self._request = request
        self._bytes_max = bytes_max
        self._line = CallControl(timeout_s, begin)
        self._texts = self._send()
        self._response: ModelResponse | None = None

    def __next__(self) -> str:
        try:
            return next(self._texts)
        except StopIteration as end:
            if end.value is not None:
                self._response = end.value
            raise

    def wait(self) -> ModelResponse:
        """Read all texts, and return the response.

        Raises:
            ProviderFailed: no response came, or it is an error; `kind` says which.
        """
        for _ in self:
            pass
        return self.response

    def cancel(self) -> None:
        """End the call from any thread."""
        self._line.cancel()

    def close(self) -> None:
        """End the call from the thread that reads it."""
        self._texts.close()

    @property
    def response(self) -> ModelResponse:
        """The complete response.

        Raises:
            ValueError: the call has not ended.
        """
        if self._response is None:
            raise ValueError("the call has not ended")
        return self._response

    @property
    def trace_id(self) -> str | None:
        """Of the trace of the call, once it has begun, also if it fails; None where it is not recorded."""
        return self._line.trace_id or None

    def _send(self) -> Generator[str, None, ModelResponse]:
        request = self._request
        try:
            with watched_post(self._client, request.url, request.body, request.headers, self._line) as response:
                answer = yield from self._read_texts(response)
        except CallCancelled:
            raise self._failure(FailureKind.CLIENT_LEFT, "the call was cancelled") from None
        except (OSError, http.client.HTTPException) as exc:
            raise self._failure(
                _failure_kind(exc, connected=self._line.was_connected), explain_failure(exc)[0]
            ) from None
        if not 200 <= response.status < 300 or answer.ending is ResponseEnding.ERROR:
            provider_message = as_text(as_object(answer.error).get("message"))
            raise self._failure(
                FailureKind.REFUSED, _refusal_reason(answer, response.status), response.status, provider_message
            )
        if answer.ending is ResponseEnding.CUT:
            raise self._failure(FailureKind.CUT, "the answer was cut short", response.status)
        if answer.ending is not ResponseEnding.COMPLETE or answer.unified is None:
            raise self._failure(
                FailureKind.UNREADABLE,
                "its answer cannot be read: it is not what its endpoint answers with",
                response.status,
            )
        return ModelResponse(
            answer.unified, answer.body, response.status, response.media_type, answer.streamed, self.trace_id
        )

    def _read_texts(self, response: StreamedResponse) -> Generator[str, None, ParsedResponse]:
        texts: list[str] = []
        dialect = self._request.dialect
        reader = ResponseReader(
            self._request.endpoint, response.status, response.media_type,
            lambda event: texts.append(text_delta(dialect, event)),
        )  # fmt: skip
        pieces = self._limited_pieces(response)
        for data in pieces if _is_plain(response.encoding) else self._decoded_pieces(response, pieces):
            reader.feed(data)
            yield from filter(None, texts)
            texts.clear()
        answer = reader.finish()
        yield from filter(None, texts)
        return answer

    def _limited_pieces(self, response: StreamedResponse) -> Iterator[bytes]:
        size = 0
        for data in response.chunks:
            if self._line.was_cancelled:
                raise CallCancelled
            size += len(data)
            if size > self._bytes_max:
                raise self._too_large_error(response)
            yield data

    def _decoded_pieces(self, response: StreamedResponse, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """A compressed response, although none was requested, decoded as a whole."""
        decoded = decode_body(b"".join(pieces), response.encoding, bytes_max=self._bytes_max)
        if decoded.state is EncodingState.TOO_LARGE:
            raise self._too_large_error(response)
        if decoded.state is EncodingState.FAILED:
            reason = "its answer is compressed in a way that cannot be undone"
            raise self._failure(FailureKind.UNREADABLE, reason, response.status)
        yield decoded.body

    def _too_large_error(self, response: StreamedResponse) -> ProviderFailed:
        return self._failure(
            FailureKind.TOO_LARGE, f"its answer is larger than {self._bytes_max} bytes", response.status
        )

    def _failure(self, kind: FailureKind, reason: str, status: int = 0, provider_message: str = "") -> ProviderFailed:
        message = f"{self._request.name} gave no answer: {reason}"
        return ProviderFailed(
            message, hint=_HINT, kind=kind, reason=reason, status=status, provider_text=provider_message
        )


def _is_plain(encoding: str) -> bool:
    return encoding.strip().lower() in ("", "identity")


def _failure_kind(exc: OSError | http.client.HTTPException, *, connected: bool) -> FailureKind:
    if isinstance(exc, TimeoutError):
        return FailureKind.TIMEOUT
    if not connected:
        return FailureKind.UNREACHABLE
    if isinstance(exc, OSError | http.client.IncompleteRead):
        return FailureKind.CUT
    return FailureKind.UNREADABLE


def _refusal_reason(answer: ParsedResponse, status: int) -> str:
    """Why the provider refused; its own words are left out, because they may repeat the prompt."""
    kind = as_text(as_object(answer.error).get("type")) or as_text(as_object(answer.error).get("code"))
    if not 200 <= status < 300:
        return f"it answered with status {status}" + (f" ({kind})" if kind.isidentifier() else "")
    return "it answered with an error"
