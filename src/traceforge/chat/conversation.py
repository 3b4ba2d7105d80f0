"""One turn of a conversation.

In: the body of a request. Out: the body of its answer. Never: remembers a turn that failed, calls the model before
everything that can be refused was refused, or does anything else because a trace was asked for than attach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from traceforge.canon import JSONObject, json_bytes
from traceforge.chat.chat_errors import Code, Refusal
from traceforge.chat.chat_request import read_ask
from traceforge.chat.conversation_memory import Memory
from traceforge.chat.explain import begin
from traceforge.chat.prompt_layers import SESSION, Layers, Prompts, compose
from traceforge.errors import CannotRead


class Model(Protocol):
    """What answers."""

    @property
    def developer_role(self) -> str:
        """How it calls the one who speaks second."""
        ...

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        """What it says to these messages; never an empty text.

        Raises:
            Refusal: it does not answer, not in time, or not with a text.
        """
        ...


class Chat:
    """Answers requests; `show` is given every trace, where the operator has asked for that."""

    def __init__(
        self,
        name: str,
        model: Model,
        prompts: Prompts,
        memory: Memory,
        *,
        show: Callable[[JSONObject], None] | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._prompts = prompts
        self.memory = memory
        self._show = show

    async def answer(self, data: bytes) -> bytes:
        """Answer one request.

        Raises:
            Refusal: it is not answered, and the session is as it was before.
        """
        ask = read_ask(data)
        async with self.memory.turn(ask.session_id) as session:
            layers = self._layers()
            role = self._model.developer_role
            messages = compose(layers, session.messages, ask.message, developer_role=role)
            draft = begin(ask, layers, self._name) if ask.trace else None

            reply = await self._model.reply(messages)

            self.memory.remember(session, ask.message, reply)
        answer: JSONObject = {"reply": reply}
        if draft is not None:
            answer["trace"] = trace = draft.finish(reply)
            if self._show is not None:
                self._show(trace)
        return json_bytes(answer)

    def _layers(self) -> Layers:
        try:
            return self._prompts.layers()
        except CannotRead as exc:
            hint = "Put the file back; the next request reads it again."
            raise Refusal(Code.PROMPT_UNREADABLE, f"{SESSION}: {exc.reason}", hint=hint) from None
