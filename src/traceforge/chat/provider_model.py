"""Asking the model, through the adapter of its provider.

In: messages. Out: the text of the answer. Never: an empty text, a second try (a model that was asked twice may have
been paid twice), a redirect that is followed (the key would go with it), or a wait without an end.

An adapter waits, and the loop must not: calls are made in threads, so many at a time. The time of an answer begins
when it is asked for, so waiting for a thread is a part of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from traceforge.canon import JSON, JSONObject
from traceforge.chat.chat_errors import Code, Refusal
from traceforge.chat.model_address import Address
from traceforge.errors import FailureKind, ProviderFailed
from traceforge.http.thread_pool import ThreadPool
from traceforge.modelio.model_call import ModelResponse
from traceforge.modelio.provider_adapters import adapter_for
from traceforge.redact import Redactor

TIMEOUT_S = 120.0  # From the request to the last byte of the answer.
CALLS_MAX = 64  # Answers waited for at a time, each by a thread; more wait in line, in the order in which they came.
ANSWER_BYTES_MAX = 8 << 20  # Far more than a model writes.
REASON_CHARACTERS_MAX = 300
REASON_READ_MAX = 10_000  # What is searched for secrets before it is cut: half of a key is not recognised.


class Upstream:
    """A model at one address. `tokens_max` is the limit that Anthropic demands; it is sent to nobody else."""

    def __init__(
        self, address: Address, model: str, timeout_s: float = TIMEOUT_S, *, tokens_max: int | None = None
    ) -> None:
        limit: dict[str, JSON] = {} if tokens_max is None else {"max_tokens": tokens_max}
        self._adapter = adapter_for(
            address.provider, model, url=address.url, api_key=address.key, parameters=limit, agent="traceforge-chat"
        )
        self._timeout_s = timeout_s
        self._threads = ThreadPool(CALLS_MAX, "traceforge-chat")
        self._redactor = Redactor()  # A provider may repeat a key in the sentence that refuses it.
        self.developer_role = address.developer_role

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        """What the model says.

        Raises:
            Refusal: 504 where it takes too long, else 502; the message says why.
        """
        asking = self._adapter.prepare_call(
            messages, stream=None, timeout_s=self._timeout_s, bytes_max=ANSWER_BYTES_MAX
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                answered = await self._threads.run(asking.wait)
        except TimeoutError:
            raise self._late() from None
        except ProviderFailed as exc:
            raise self._refusal(exc) from None
        finally:
            asking.cancel()  # Whoever asked has left, or waited long enough: its connection is closed.
        return _text(answered)

    def _late(self) -> Refusal:
        told = f"the model gave no answer within {self._timeout_s:g} seconds"
        return Refusal(Code.UPSTREAM_TIMEOUT, told, hint="Ask again, or start with a longer --timeout.")

    def _refusal(self, failed: ProviderFailed) -> Refusal:
        match failed.kind:
            case FailureKind.TIMEOUT:
                return self._late()
            case FailureKind.UNREACHABLE:
                told = f"the model's server cannot be reached: {failed.reason}"
                return Refusal(Code.UPSTREAM_UNREACHABLE, told, hint="Is it running, and is --upstream right?")
            case FailureKind.REFUSED:
                return Refusal(Code.UPSTREAM_REFUSED, self._why(failed))
            case FailureKind.CUT | FailureKind.CLIENT_LEFT:
                told = f"the model's server broke off: {failed.reason}"
                return Refusal(Code.UPSTREAM_BROKE_OFF, told)
        return Refusal(Code.UPSTREAM_UNREADABLE, f"the model's server answered, but {failed.reason}")

    def _why(self, failed: ProviderFailed) -> str:
        told = f"the model's server answered {failed.status} {_phrase(failed.status)}".rstrip()
        said = " ".join(self._redactor.redact_text(failed.provider_text[:REASON_READ_MAX]).split())[
            :REASON_CHARACTERS_MAX
        ]
        return f"{told}: {said}" if said else told


def _text(answered: ModelResponse) -> str:
    """The text of an answer.

    Raises:
        Refusal: it has none.
    """
    message = answered.message
    for name in ("content", "refusal"):
        said = message.get(name)
        if isinstance(said, str) and said:
            return said
    ended = answered.finish_reason
    why = f" (it ended with {ended[:40]})" if ended else ""
    what = "tool calls and no text" if message.get("tool_calls") else "no text"
    raise Refusal(Code.UPSTREAM_EMPTY, f"the model answered with {what}{why}")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
