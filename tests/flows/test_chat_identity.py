"""Requesting a trace changes only the response: not the model's input, its answer, or the session."""

from __future__ import annotations

import hashlib
import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from support.chat_servers import Client, running_chat, write_prompts
from support.example_counts import scale_examples
from support.upstream import ReceivedRequest, ScriptedResponse, upstream
from traceforge.chat.model_address import find_address
from traceforge.chat.provider_model import ProviderModel

TURNS = scale_examples(200)
CONVERSATIONS = 2  # each three times at once

MODES: dict[str, Callable[[random.Random], bool]] = {
    "never": lambda _: False,
    "always": lambda _: True,
    "sometimes": lambda dice: dice.random() < 0.5,
}
ODD = ["\x00\x1f", "שלום עולם", "\u202eabc", "half \ud83d", "😀" * 40, '"\\\n\r\t', "x" * 3000]


def _answer(received: ReceivedRequest) -> ScriptedResponse:
    """The answer depends on every byte of the request."""
    digest = hashlib.sha256(received.head + received.body).hexdigest()
    text = f"{digest} {ODD[int(digest[:4], 16) % len(ODD)]}"
    return ScriptedResponse([json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()])


def _message(conversation: int, turn: int) -> str:
    return f"conversation {conversation}, turn {turn}: {ODD[(conversation + turn) % len(ODD)]}"


class Conversation(threading.Thread):
    """One conversation, turn by turn."""

    def __init__(self, url: str, mode: str, conversation: int) -> None:
        super().__init__()
        self.mode, self.conversation = mode, conversation
        self.session = f"{mode}-{conversation}"
        self.replies: list[str] = []
        self.traced = 0
        self._client = Client(url)
        self._dice = random.Random(conversation)

    def run(self) -> None:
        for turn in range(TURNS):
            wanted = MODES[self.mode](self._dice)
            body = {"message": _message(self.conversation, turn), "session_id": self.session}
            data = json.dumps({**body, "trace": True} if wanted else body).encode()
            answer = self._client.post(data).json()
            assert wanted is ("trace" in answer)
            self.traced += wanted
            self.replies.append(answer["reply"])
        self._client.close()


def _run(folder: Path) -> tuple[list[Conversation], dict[str, list[tuple[str, str]]], list[ReceivedRequest]]:
    with upstream() as model:
        model.choose = _answer
        with running_chat(
            ProviderModel(find_address(f"{model.url}/v1", {}), "m-1"), write_prompts(folder)
        ) as running:
            talks = [Conversation(running.url, mode, number) for number in range(CONVERSATIONS) for mode in MODES]
            for talk in talks:
                talk.start()
            for talk in talks:
                talk.join()
            memory = {
                talk.session: [tuple(message) for message in running.chat.memory.history(talk.session)]
                for talk in talks
            }
        return talks, memory, list(model.received)


def test_turns_are_the_same_with_and_without_traces(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Traced never, always and at random, at the same time: upstream bytes, replies and memory are identical.

    The requests do not name their session, so each must have come exactly three times, head and body.
    """
    talks, memory, received = _run(tmp_path / "prompts")
    request_counts = Counter(received)

    assert {0, TURNS} < {talk.traced for talk in talks}
    assert {3} == set(request_counts.values())
    assert CONVERSATIONS * TURNS == len(request_counts)
    for number in range(CONVERSATIONS):
        same = [talk for talk in talks if talk.conversation == number]
        assert same[0].replies == same[1].replies == same[2].replies
        assert memory[same[0].session] == memory[same[1].session] == memory[same[2].session]
        assert TURNS == len(set(same[0].replies))
        last = [text for turn in range(TURNS - 10, TURNS) for text in (_message(number, turn), same[0].replies[turn])]
        assert last == [text for _, text in memory[same[0].session]]
    record_property(
        "summary", f"chat: {len(received)} upstream requests of {len(talks)} conversations, each three times"
    )
