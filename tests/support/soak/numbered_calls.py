"""Model calls that can be told apart for ever: request and answer follow from a name, a number and the seed.

So nothing of a call has to be remembered: whoever checks its trace makes both again, and compares every byte.
"""

from __future__ import annotations

import json
import random
from typing import Any

PATH = "/v1/chat/completions"
# No text of these looks like a secret; some are more than one byte a letter.
WORDS = (
    "invoice",
    "Tuesday",
    "größer",
    "東京",
    "refund",
    "naïve",
    "ticket",
    "🙂",
    "a\nline",
    'a "quote"',
    "C:\\path",
)
LONG_SHARE, LONG_WORDS_MAX, SHORT_WORDS_MAX = 0.05, 4000, 60
PIECE_LETTERS = 200  # of an answer that is streamed


def make_request(seed: int, client: str, number: int) -> bytes:
    """The body of a call; every third is streamed, one in twenty is long."""
    source = random.Random(f"{seed} {client} {number}")
    words_max = LONG_WORDS_MAX if source.random() < LONG_SHARE else SHORT_WORDS_MAX
    text = " ".join(source.choices(WORDS, k=source.randint(1, words_max)))
    body: dict[str, Any] = {
        "model": f"{client}.{number}",
        "messages": [{"role": "user", "content": f"{client}.{number}: {text}"}],
    }
    if number % 3 == 0:
        body["stream"] = True
    return _compact(body)


def answer_text(text: str) -> str:
    """What the provider answers to the last message."""
    return f"You wrote: {text}"


def answer_pieces(request: bytes) -> list[bytes]:
    """The body of the provider's answer: one piece, or one for each event of a stream."""
    body = json.loads(request)
    text = answer_text(body["messages"][-1]["content"])
    head = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        return [_compact({**head, "object": "chat.completion", "choices": [choice], "usage": usage})]
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[at : at + PIECE_LETTERS]} for at in range(0, len(text), PIECE_LETTERS)]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    events = [{**head, "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    return [b"data: " + _compact(event) + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]


def _compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
