"""`chat/conversation.py`: a trace fails before anything happened, or it does not fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.chat_servers import Echo, write_prompts
from traceforge.canon import JSONObject
from traceforge.chat import conversation
from traceforge.chat.chat_errors import ChatError
from traceforge.chat.conversation import Chat
from traceforge.chat.conversation_memory import ConversationMemory
from traceforge.chat.prompt_layers import PromptFolder

TRACED = b'{"message": "hi", "session_id": "s", "trace": true}'
PLAIN = b'{"message": "hi", "session_id": "s"}'


class Broken(Exception):
    """What goes wrong."""


def _broken(*_: object, **__: object) -> str:
    raise Broken


@pytest.mark.parametrize("part", ["new_id", "now_text", "Inputs", "ExecutionTrace", "Output", "TraceDraft"])
def test_a_failing_trace_fails_before_the_model_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Nothing is sent or remembered; and the same request without a trace is answered."""
    model = Echo()
    chat = Chat("m", model, PromptFolder(write_prompts(tmp_path)), ConversationMemory())
    monkeypatch.setattr(conversation, part, _broken)

    with pytest.raises(Broken):
        asyncio.run(chat.answer(TRACED))
    assert ([], []) == (model.bodies, chat.memory.sessions)
    assert {"reply": "echo: hi"} == json.loads(asyncio.run(chat.answer(PLAIN)))


def test_an_invalid_trace_is_found_before_the_model_is_called(tmp_path: Path) -> None:
    """A model without a name cannot be in a trace."""
    model = Echo()
    chat = Chat("", model, PromptFolder(write_prompts(tmp_path)), ConversationMemory())

    with pytest.raises(ValueError, match="length"):
        asyncio.run(chat.answer(TRACED))
    assert [] == model.bodies


def test_a_trace_has_the_prompts_that_were_sent(tmp_path: Path) -> None:
    """Not a prompt file that changed while the model was answering."""

    class Meddling(Echo):
        async def reply(self, messages: Sequence[JSONObject]) -> str:
            (tmp_path / "session.md").write_text("Another one.")
            return await super().reply(messages)

    model = Meddling()
    prompts = PromptFolder(write_prompts(tmp_path))
    before = prompts.read_layers().session.hash
    chat = Chat("m", model, prompts, ConversationMemory())
    first = json.loads(asyncio.run(chat.answer(TRACED)))["trace"]["inputs"]["session_prompt_hash"]
    second = json.loads(asyncio.run(chat.answer(TRACED)))["trace"]["inputs"]["session_prompt_hash"]

    assert before == first != second
    assert ["It is Monday.\n", "Another one."] == [
        json.loads(body)["messages"][2]["content"] for body in model.bodies
    ]


def test_a_failed_turn_is_not_remembered(tmp_path: Path) -> None:
    """Whatever the reason, with and without a trace."""

    class Failing(Echo):
        async def reply(self, messages: Sequence[JSONObject]) -> str:
            raise Broken

    chat = Chat("m", Failing(), PromptFolder(write_prompts(tmp_path)), ConversationMemory())
    for body in (TRACED, PLAIN):
        with pytest.raises(Broken):
            asyncio.run(chat.answer(body))
    with pytest.raises(ChatError):
        asyncio.run(chat.answer(b"{}"))

    assert [] == chat.memory.sessions
