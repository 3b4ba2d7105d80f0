"""Answers one request of the chat.

In: the body of a request. Out: the body of its response. Never: remembers a turn that failed, calls the model before
everything that can be refused was refused, or behaves differently because an execution trace is wanted.

A trace is made in two steps: `begin_trace` does everything that could fail, before the model is called; `finish` adds
the reply and the time. It is not stored, logged, counted or cached: it lives in the response that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from traceforge.canon import JSONObject, json_bytes
from traceforge.chat.chat_errors import ChatError, ChatErrorCode
from traceforge.chat.chat_request import ChatRequest, read_chat_request
from traceforge.chat.conversation_memory import ConversationMemory
from traceforge.chat.execution_trace import ExecutionTrace, Inputs, Output
from traceforge.chat.prompt_layers import SESSION, PromptFolder, PromptLayers, compose_messages
from traceforge.clock import now_text
from traceforge.conversion import convert
from traceforge.errors import CannotRead
from traceforge.ids import new_id


class ChatModel(Protocol):
    """The model of a chat, behind any provider's API."""

    @property
    def developer_role(self) -> str:
        """The role of the developer prompt in the provider's API."""
        ...

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        """The answer to these messages; never an empty text.

        Raises:
            ChatError: the model does not answer, not in time, or not with a text.
        """
        ...


class Chat:
    """Answers requests; `show_trace` gets every trace, if the operator asked for that."""

    def __init__(
        self,
        name: str,
        model: ChatModel,
        prompts: PromptFolder,
        memory: ConversationMemory,
        *,
        show_trace: Callable[[JSONObject], None] | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._prompts = prompts
        self.memory = memory
        self._show_trace = show_trace

    async def answer(self, data: bytes) -> bytes:
        """The body of the response to a request.

        Raises:
            ChatError: the request fails, and the session is as it was before.
        """
        request = read_chat_request(data)
        async with self.memory.turn(request.session_id) as session:
            layers = self._read_layers()
            role = self._model.developer_role
            messages = compose_messages(layers, session.messages, request.message, developer_role=role)
            draft = begin_trace(request, layers, self._name) if request.trace else None

            reply = await self._model.reply(messages)

            self.memory.append(session, request.message, reply)
        response: JSONObject = {"reply": reply}
        if draft is not None:
            response["trace"] = trace = draft.finish(reply)
            if self._show_trace is not None:
                self._show_trace(trace)
        return json_bytes(response)

    def _read_layers(self) -> PromptLayers:
        try:
            return self._prompts.read_layers()
        except CannotRead as exc:
            hint = "Restore the file; the next request reads it again."
            raise ChatError(ChatErrorCode.PROMPT_UNREADABLE, f"{SESSION}: {exc.reason}", hint=hint) from None


class TraceDraft(NamedTuple):
    """An execution trace without the reply and the time."""

    trace_id: str
    model: str
    session_id: str
    inputs: Inputs

    def finish(self, reply: str) -> JSONObject:
        """The trace of the turn that ended with this reply."""
        trace = ExecutionTrace(self.trace_id, now_text(), self.model, self.session_id, self.inputs, Output(reply))
        value: JSONObject = msgspec.to_builtins(trace)
        return value


def begin_trace(request: ChatRequest, layers: PromptLayers, model: str) -> TraceDraft:
    """Make the id and the hashes of a trace, and check it against its type with an empty reply."""
    inputs = Inputs(layers.system.hash, layers.developer.hash, layers.session.hash, request.message)
    draft = TraceDraft(new_id("trc"), model, request.session_id, inputs)
    convert(draft.finish(""), ExecutionTrace)
    return draft
