"""Calls the model through its provider's adapter.

In: messages. Out: the text of the answer. Never: an empty text, a retry (the first call may have been paid for), a
redirect that is followed (the API key would go with it), or a wait without end.

Adapters block, so calls are made in threads. The time limit begins with the request, so it includes the wait for a
free thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from traceforge.canon import JSON, JSONObject
from traceforge.chat.chat_errors import ChatError, ChatErrorCode
from traceforge.chat.model_address import ModelAddress
from traceforge.errors import FailureKind, ProviderFailed
from traceforge.http.plain_response import reason_phrase
from traceforge.http.thread_pool import ThreadPool
from traceforge.modelio.model_call import ModelResponse
from traceforge.modelio.provider_adapters import adapter_for
from traceforge.redact.redactor import Redactor

TIMEOUT_S = 120.0  # From the request to the last byte of the response.
CALLS_MAX = 64  # Calls in flight, each in a thread; further ones wait in order of arrival.
RESPONSE_BYTES_MAX = 8 << 20  # Far more than a model writes.
REASON_CHARACTERS_MAX = 300
REASON_READ_MAX = 10_000  # Searched for secrets before it is shortened: half of a key would not be recognised.


class ProviderModel:
    """A model at one address. `tokens_max` is the limit that Anthropic's API demands; no other API gets it."""

    def __init__(
        self, address: ModelAddress, model: str, timeout_s: float = TIMEOUT_S, *, tokens_max: int | None = None
    ) -> None:
        limit: dict[str, JSON] = {} if tokens_max is None else {"max_tokens": tokens_max}
        self._adapter = adapter_for(
            address.provider, model, url=address.url, api_key=address.key, parameters=limit, agent="traceforge-chat"
        )
        self._timeout_s = timeout_s
        self._threads = ThreadPool(CALLS_MAX, "traceforge-chat")
        self._redactor = Redactor()  # A provider may repeat the API key in its error.
        self.developer_role = address.developer_role

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        """The text of the model's answer.

        Raises:
            ChatError: 504 if the answer takes too long, otherwise 502; the message says why.
        """
        call = self._adapter.prepare_call(
            messages, stream=None, timeout_s=self._timeout_s, bytes_max=RESPONSE_BYTES_MAX
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._threads.run(call.wait)
        except TimeoutError:
            raise self._timeout_error() from None
        except ProviderFailed as exc:
            raise self._to_chat_error(exc) from None
        finally:
            call.cancel()  # Closes the connection if the client has left or the time is over.
        return _answer_text(response)

    def _timeout_error(self) -> ChatError:
        message = f"the model did not answer within {self._timeout_s:g} seconds"
        hint = "Send the message again, or start with a longer --timeout."
        return ChatError(ChatErrorCode.UPSTREAM_TIMEOUT, message, hint=hint)

    def _to_chat_error(self, failure: ProviderFailed) -> ChatError:
        match failure.kind:
            case FailureKind.TIMEOUT:
                return self._timeout_error()
            case FailureKind.UNREACHABLE:
                message = f"the model's server cannot be reached: {failure.reason}"
                hint = "Check that it is running, and that --upstream is right."
                return ChatError(ChatErrorCode.UPSTREAM_UNREACHABLE, message, hint=hint)
            case FailureKind.REFUSED:
                return ChatError(ChatErrorCode.UPSTREAM_REFUSED, self._describe_refusal(failure))
            case FailureKind.CUT | FailureKind.CLIENT_LEFT:
                message = f"the model's server broke off its response: {failure.reason}"
                return ChatError(ChatErrorCode.UPSTREAM_BROKE_OFF, message)
        return ChatError(ChatErrorCode.UPSTREAM_UNREADABLE, f"the model's server responded, but {failure.reason}")

    def _describe_refusal(self, failure: ProviderFailed) -> str:
        status = f"the model's server responded with {failure.status} {reason_phrase(failure.status)}".rstrip()
        text = self._redactor.redact_text(failure.provider_text[:REASON_READ_MAX])
        reason = " ".join(text.split())[:REASON_CHARACTERS_MAX]
        return f"{status}: {reason}" if reason else status


def _answer_text(response: ModelResponse) -> str:
    """The text of an answer, or of the model's refusal.

    Raises:
        ChatError: the response has neither.
    """
    message = response.message
    for name in ("content", "refusal"):
        text = message.get(name)
        if isinstance(text, str) and text:
            return text
    reason = f" (finish reason: {response.finish_reason[:40]})" if response.finish_reason else ""
    content = "tool calls and no text" if message.get("tool_calls") else "no text"
    raise ChatError(ChatErrorCode.UPSTREAM_EMPTY, f"the model answered with {content}{reason}")
