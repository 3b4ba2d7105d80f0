"""Traces of a help desk: three sessions with tools, streams, an error, a picture and reasoning, over the last day.

`words` are added to every text that an application or a model wrote.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from support.stored_traces import call, store_calls, time_ago, trace_id
from traceforge.exchange import Caller, Chunk, Exchange

STREAM, TOOL_CALL, ANTHROPIC_CALL, ERROR, LAST = 3, 2, 4, 5, 6  # Numbers of calls that a test opens.
SESSION = "desk-1881"
SYSTEM = "You are the help desk of a bookshop.\nAnswer in at most three sentences.\nQuote the order number."
ANSWER = (
    "Order **1881** left on *Monday*:\n\n1. it is in Lyon now\n2. it arrives on **12 May**\n\n"
    "| parcel | place |\n|---|---|\n| 1 of 2 | Lyon |\n| 2 of 2 | delivered |\n\n"
    "```python\nprint(track('1881'))\n```\n\nSee [the carrier](https://carrier.example/1881)."
)
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "find_order",
            "description": "Find an order by its number.",
            "parameters": {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]},
        },
    }
]


def png(width: int = 96, height: int = 64) -> str:
    """A small picture, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    row = b"\0" + b"".join(bytes((60 + place, 91, 219)) for place in range(width))
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


def store_desk_traces(folder: Path, words: str = "") -> None:
    """Store the calls of the desk, and sixty more over the day, so that plots and lists have something to show."""
    store_calls(folder, *_conversation(words), *(_later_call(number, words) for number in range(100, 160)))


def _conversation(words: str) -> list[Exchange]:
    def step(number: int, parent: int | None = None, **state: Any) -> Caller:
        place = f"shop/desk.py:{20 + number}:answer{words}"
        return Caller(
            place,
            "",
            f"{SESSION}{words}",
            number,
            "" if parent is None else trace_id(parent),
            {**state, words: words} if words else {**state},
        )

    question = {"role": "user", "content": f"Where is order 1881? {words}"}
    system = {"role": "system", "content": f"{SYSTEM}{words}"}
    arguments = json.dumps({"number": f"1881{words}"})
    function = {"name": f"find_order{words}", "arguments": arguments}
    tool_call = {"id": "call_1", "type": "function", "function": function}
    wanted = {"role": "assistant", "content": None, "tool_calls": [tool_call]}
    result = {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": json.dumps({"parcels": 2, "place": f"Lyon{words}"}),
    }
    photo = {"role": "user", "content": [
        {"type": "text", "text": f"And this one? {words}"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png()}"}},
        {"type": "image_url", "image_url": {"url": f"https://images.example/{words}.svg"}},
    ]}  # fmt: skip
    thinking = [{"type": "thinking", "thinking": f"The customer is in a hurry. {words}", "signature": "s"},
                {"type": "text", "text": f"Bonjour {words}"}]  # fmt: skip
    calls = [
        call(1, answer=f'{{"category": "delivery", "certainty": 93}}{words}', caller=step(0), at=_second(0.0),
             messages=[{"role": "system", "content": f"Sort the message.{words}"}, question], temperature=0, seed=7,
             response_format={"type": "json_object"}),
        with_answer(call(TOOL_CALL, caller=step(1, 1, tries=1), at=_second(1.1), messages=[system, question],
                         tools=TOOLS), wanted, "tool_calls"),
        at_uneven_pace(call(STREAM, answer=[f"{part} " for part in f"{ANSWER}{words}".split(" ")],
                            caller=step(2, 1, tries=2), at=_second(2.9), messages=[system, question, wanted, result],
                            tools=TOOLS, temperature=0, seed=7)),
        with_content(call(ANTHROPIC_CALL, model=f"claude-haiku-4-5{words}", provider="anthropic", caller=step(3, 3),
                          at=_second(5.0), messages=[{"role": "user", "content": f"Traduis: bonjour {words}"}]),
                     thinking),
        call(ERROR, answer=f"The engine is overloaded {words}", status=503, caller=step(4, 3), at=_second(5.9),
             messages=[system, photo]),
        call(LAST, answer=f"It is a parcel with the number 1881. {words}", caller=step(5, 3, tries=3),
             at=_second(6.6), messages=[system, photo], tools=TOOLS),
    ]  # fmt: skip
    lengths = (740.0, 1310.0, calls[2].duration_ms, 620.0, 240.0, 1480.0)
    return [
        msgspec.structs.replace(exchange, duration_ms=length) for exchange, length in zip(calls, lengths, strict=True)
    ]


def _second(number: float) -> datetime:
    return time_ago(minutes=24) + timedelta(seconds=number)


def _later_call(number: int, words: str) -> Exchange:
    models = ("gpt-4.1-mini", "gpt-4.1", "claude-haiku-4-5")
    model = models[number % 7 % 3]
    made = call(
        number,
        f"Where is order {number}? {words}",
        f"Order {number} is on its way. {words}",
        model=f"{model}{words}",
        provider="anthropic" if model.startswith("claude") else "openai",
        caller=Caller(
            f"shop/desk.py:{number % 4 + 40}:ask{words}", "", f"tests/test_desk.py::test_{number % 9}{words}"
        ),
        at=time_ago(hours=22) + timedelta(minutes=(number - 100) * 21),
        status=429 if number % 13 == 0 else 200,
    )
    return msgspec.structs.replace(made, duration_ms=180.0 + (number * 7919) % 900)


def at_uneven_pace(exchange: Exchange) -> Exchange:
    """The same call with chunks that come as those of a model do: now fast, now slow."""
    time, chunks = 380.0, []
    for number, chunk in enumerate(exchange.chunks):
        time += 12.0 + (number * 7919) % 31 + (240.0 if number % 23 == 11 else 0.0)
        chunks.append(Chunk(time, chunk.data))
    return msgspec.structs.replace(exchange, chunks=tuple(chunks), duration_ms=time + 2)


def with_answer(exchange: Exchange, message: dict[str, Any], reason: str) -> Exchange:
    """The same call with another message of an OpenAI chat as its answer."""
    body = json.loads(exchange.chunks[0].data)
    body["choices"] = [{"index": 0, "message": message, "finish_reason": reason}]
    return _with_body(exchange, body)


def with_content(exchange: Exchange, content: Sequence[dict[str, Any]]) -> Exchange:
    """The same call with other parts in the answer of Anthropic."""
    return _with_body(exchange, {**json.loads(exchange.chunks[0].data), "content": content})


def _with_body(exchange: Exchange, body: dict[str, Any]) -> Exchange:
    return msgspec.structs.replace(exchange, chunks=(Chunk(12.5, json.dumps(body).encode()),))
