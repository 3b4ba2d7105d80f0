"""A support agent: it looks up orders, computes refunds, and streams its answers.

    python agent.py "Where is my order A-1002?"

The `openai` SDK takes its key from OPENAI_API_KEY and, if it is set, the server from OPENAI_BASE_URL.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai import OpenAI

from shop import TOOLS, call_tool

PROMPTS = Path(__file__).parent / "prompts"
# Temperature 0 and a seed make an answer repeatable, so that it can be reviewed once and pinned.
SETTINGS: dict[str, Any] = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 300}
TRIAGE = {
    "type": "json_schema",
    "json_schema": {
        "name": "triage",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "category": {"type": "string", "enum": ["delivery", "refund", "other"]},
                "certainty": {"type": "integer", "minimum": 0, "maximum": 100},
            },
            "required": ["category", "certainty"],
            "additionalProperties": False,
        },
    },
}
STEPS_MAX = 6  # An agent that calls tools for ever costs money for ever.

Listener = Callable[[str], object]


class SupportAgent:
    """One conversation with one customer."""

    def __init__(self, client: OpenAI | None = None) -> None:
        self.client = client or OpenAI()
        self.messages: list[Any] = [{"role": "system", "content": read_prompt("support")}]

    def ask(self, question: str, on_text: Listener = lambda piece: None) -> str:
        """Answer a question; `on_text` gets each piece of the answer as it arrives."""
        self.messages.append({"role": "user", "content": question})
        for _ in range(STEPS_MAX):
            message = self._reply(on_text)
            if not message.tool_calls:
                return message.content or ""
            for call in message.tool_calls:
                result = call_tool(call.function.name, call.function.arguments)
                self.messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        raise RuntimeError(f"no answer after {STEPS_MAX} steps")

    def _reply(self, on_text: Listener) -> Any:
        """One call of the model, as a stream."""
        with self.client.chat.completions.stream(
            messages=self.messages, tools=TOOLS, stream_options={"include_usage": True}, **SETTINGS
        ) as stream:
            for event in stream:
                if event.type == "content.delta":
                    on_text(event.delta)
            message = stream.get_final_completion().choices[0].message
        self.messages.append(_assistant_message(message))
        return message


def triage(question: str, client: OpenAI | None = None) -> dict[str, Any]:
    """The category of a message, to choose its queue."""
    messages: list[Any] = [
        {"role": "system", "content": read_prompt("triage")},
        {"role": "user", "content": question},
    ]
    chat = (client or OpenAI()).chat.completions
    answer = chat.create(messages=messages, response_format=TRIAGE, **SETTINGS)
    return dict(json.loads(answer.choices[0].message.content))


def read_prompt(name: str) -> str:
    """Read a prompt of `prompts/`, where people can review it."""
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8").strip()


def _assistant_message(message: Any) -> dict[str, Any]:
    """The assistant's message, as the next request repeats it."""
    if not message.tool_calls:
        return {"role": "assistant", "content": message.content}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content, "tool_calls": calls}


if __name__ == "__main__":
    SupportAgent().ask(" ".join(sys.argv[1:]), on_text=lambda piece: print(piece, end="", flush=True))
    print()
