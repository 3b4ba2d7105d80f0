"""The answers that a scripted provider gives to `tests/apps/sdk_calls.py`.

A model is named `<call style>.<round>`. Round 0 gets an answer written by hand, the other rounds answers from the
recorded corpus: a text, or a tool call where the call style has tools and the request holds no tool result yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from support.corpus_traffic import Interaction, interactions
from support.extractor import ChoiceFacts, NotABody, read_facts
from support.upstream import ReceivedRequest, ScriptedResponse
from traceforge.redact.redactor import Redactor

BYTES_MAX = 60_000  # of an answer: enough for all but a few, and quick
TOOL = "look"
_RESULTS = re.compile(rb'"role": ?"tool"|"type": ?"(?:tool_result|function_call_output)"|"functionResponse"')
_LABELS = {
    "chat": ("openai", "chat.completions"),
    "responses": ("openai", "responses"),
    "messages": ("anthropic", "messages"),
    "gemini": ("gemini", "generateContent"),
    "ollama": ("ollama", "api/chat"),
}
_PATHS = {
    "/chat/completions": "chat", "/responses": "responses", "/messages": "messages", ":generateContent": "gemini",
    ":streamGenerateContent?alt=sse": "gemini", "/api/chat": "ollama",
}  # fmt: skip


class Body(NamedTuple):
    """One response body, in the pieces in which it is sent."""

    name: str
    media_type: str
    pieces: tuple[bytes, ...]

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


class RequestSummary(NamedTuple):
    """The properties of a request that select its answer."""

    model: str
    shape: str
    streaming: bool
    calls: bool  # is a tool to be called?
    round: int


def read_request(received: ReceivedRequest) -> RequestSummary:
    """Summarize a request of the application."""
    target = received.line.split()[1].decode()
    shape = next(shape for end, shape in _PATHS.items() if target.endswith(end))
    match = re.search(r"/models/([^/:]+):", target)
    model = match[1] if match else json.loads(received.body)["model"]
    way, _, number = model.rpartition(".")
    calls = "-tools" in way and not _RESULTS.search(received.body)
    return RequestSummary(model, shape, way.endswith("-stream"), calls, int(number))


class Answers:
    """Handwritten answers, and `rounds` of recorded ones."""

    def __init__(self, corpus: Path | None, rounds: int) -> None:
        self.rounds = range(rounds + 1 if corpus else 1)
        self._real = {
            (shape, streaming, calls): _samples(corpus, shape, streaming, calls)[:rounds]
            for shape in _LABELS for streaming in (False, True) for calls in (False, True)
        } if corpus else {}  # fmt: skip

    def find(self, request_summary: RequestSummary) -> Body:
        """The answer to a request."""
        real = self._real.get((request_summary.shape, request_summary.streaming, request_summary.calls)) or ()
        if request_summary.round == 0 or not real:
            return handwritten_body(request_summary.shape, request_summary.streaming, request_summary.calls)
        return real[(request_summary.round - 1) % len(real)]

    def tool(self, shape: str, streaming: bool, number: int) -> str:
        """The name of the tool that the answer calls."""
        (call,) = _only_choice(shape, self.find(RequestSummary("", shape, streaming, True, number)).data).calls
        return call.name

    def models(self, ways: dict[str, str]) -> dict[str, str]:
        """Each model name and the tool to offer it; `ways` maps a call style to the shape of its API."""
        return {
            f"{way}.{number}": self.tool(shape, way.endswith("-stream"), number) if "-tools" in way else ""
            for way, shape in ways.items()
            for number in self.rounds
        }

    def answer(self, received: ReceivedRequest) -> ScriptedResponse:
        """The response of a scripted provider to a request."""
        request = read_request(received)
        body = self.find(request)
        return ScriptedResponse(
            list(body.pieces), headers={"content-type": body.media_type}, chunked=request.streaming
        )


def _only_choice(shape: str, data: bytes) -> ChoiceFacts:
    (choice,) = read_facts(shape, data).choices.values()
    return choice


@cache
def _samples(corpus: Path, shape: str, streaming: bool, calls: bool) -> list[Body]:
    """Recorded answers with a text, or with one tool call, and without secrets; spread over the corpus."""
    redactor = Redactor()
    bodies = [
        _body(interaction)
        for interaction in interactions(corpus)
        if (interaction.provider, interaction.streaming) == (_LABELS[shape][0], streaming)
        and interaction.label.replace("streamG", "g") == _LABELS[shape][1]
        and interaction.status == 200 and not interaction.stale_encoding and 0 < len(interaction.body) < BYTES_MAX
        and _suits(shape, interaction.body, calls)
        and not redactor.find_secrets(interaction.body.decode("utf-8", "replace"))
    ]  # fmt: skip
    spread = max(1, len(bodies) // 16)
    return [*bodies[spread // 2 :: spread], *bodies]


def _suits(shape: str, data: bytes, calls: bool) -> bool:
    try:
        facts = read_facts(shape, data)
        if facts.error or len(facts.choices) != 1 or facts.starts > 1:
            return False
        choice = _only_choice(shape, data)
        if not calls:
            return bool("".join(choice.texts)) and not choice.calls
        (call,) = choice.calls
        arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
        named = re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call.name) is not None and not call.name.startswith(
            "final_result"
        )
        return named and isinstance(arguments, dict) and (bool(call.id) or shape in ("gemini", "ollama"))
    except (NotABody, ValueError, TypeError, KeyError):
        return False


def _body(sample: Interaction) -> Body:
    sizes: Sequence[int] = sample.chunk_sizes if sum(sample.chunk_sizes) == len(sample.body) else ()
    if not sample.streaming:
        sizes = [len(sample.body)]
    return Body(
        sample.name, sample.media_type, tuple(_cut(sample.body, sizes or [777] * (len(sample.body) // 777 + 1)))
    )


def _cut(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    start = 0
    for size in sizes:
        if data[start : start + size]:
            yield data[start : start + size]
        start += size


# -- by hand


def handwritten_body(shape: str, streaming: bool, calls: bool) -> Body:
    """A handwritten answer."""
    media = (
        ("application/x-ndjson" if shape == "ollama" else "text/event-stream") if streaming else "application/json"
    )
    values = _HANDWRITTEN[shape](streaming, calls)
    if not streaming:
        pieces = [json.dumps(values[0]).encode()]
    elif shape == "ollama":
        pieces = [json.dumps(value).encode() + b"\n" for value in values]
    else:
        pieces = [_event(value, named=shape in ("responses", "messages")) for value in values]
        pieces += [b"data: [DONE]\n\n"] if shape == "chat" else []
    return Body(f"{shape} by hand", media, tuple(pieces))


def _event(value: dict[str, Any], *, named: bool) -> bytes:
    return ((f"event: {value['type']}\n" if named else "") + f"data: {json.dumps(value)}\n\n").encode()


def _chat(streaming: bool, calls: bool) -> list[dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": TOOL, "arguments": '{"city": "Paris"}'}}
    message = (
        {"role": "assistant", "content": None, "tool_calls": [call]}
        if calls
        else {"role": "assistant", "content": "Paris."}
    )
    finish = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    head = {"id": "chatcmpl-1", "created": 1767225600, "model": "gpt"}
    if not streaming:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return [{**head, "object": "chat.completion", "choices": [choice], "usage": usage}]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "Pa"}, {"content": "ris."}]
    if calls:
        begin = {"index": 0, "id": "call_1", "type": "function", "function": {"name": TOOL, "arguments": ""}}
        parts = [{"index": 0, "function": {"arguments": part}} for part in ('{"city":', ' "Paris"}')]
        deltas = [
            {"role": "assistant", "content": None, "tool_calls": [begin]},
            *({"tool_calls": [part]} for part in parts),
        ]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    head["object"] = "chat.completion.chunk"
    return [*({**head, "choices": [choice]} for choice in choices), {**head, "choices": [], "usage": usage}]


def _responses(streaming: bool, calls: bool) -> list[dict[str, Any]]:
    text = {"type": "output_text", "text": "Paris.", "annotations": [], "logprobs": []}
    item: dict[str, Any] = {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text],
    }  # fmt: skip
    if calls:
        item = {
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": TOOL, "status": "completed",
            "arguments": '{"city": "Paris"}',
        }  # fmt: skip
    usage = {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12,
    }  # fmt: skip
    response = {
        "id": "resp_1", "object": "response", "created_at": 1767225600, "model": "gpt", "status": "completed",
        "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage,
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0,
        "top_p": 1.0,
    }  # fmt: skip
    if not streaming:
        return [response]
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    place = {"item_id": item["id"], "output_index": 0}
    if calls:
        opened = {**item, "arguments": "", "status": "in_progress"}
        middle = [
            {"type": "response.function_call_arguments.delta", **place, "delta": part}
            for part in ('{"city":', ' "Paris"}')
        ]
        middle.append(
            {"type": "response.function_call_arguments.done", **place, "name": TOOL, "arguments": item["arguments"]}
        )
    else:
        opened = {**item, "content": [], "status": "in_progress"}
        inside = {**place, "content_index": 0}
        middle = [
            {"type": "response.content_part.added", **inside, "part": {**text, "text": ""}},
            *(
                {"type": "response.output_text.delta", **inside, "delta": part, "logprobs": []}
                for part in ("Pa", "ris.")
            ),
            {"type": "response.output_text.done", **inside, "text": "Paris.", "logprobs": []},
            {"type": "response.content_part.done", **inside, "part": text},
        ]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": opened},
        *middle,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _messages(streaming: bool, calls: bool) -> list[dict[str, Any]]:
    block = (
        {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {"city": "Paris"}}
        if calls
        else {"type": "text", "text": "Paris."}
    )
    finish = "tool_use" if calls else "end_turn"
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [block],
        "stop_reason": finish, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 3},
    }  # fmt: skip
    if not streaming:
        return [message]
    parts = [{"type": "text_delta", "text": part} for part in ("Pa", "ris.")]
    if calls:
        parts = [{"type": "input_json_delta", "partial_json": part} for part in ('{"city":', ' "Paris"}')]
    empty = {**block, "input": {}} if calls else {**block, "text": ""}
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": part} for part in parts),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": finish, "stop_sequence": None},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]


def _gemini(streaming: bool, calls: bool) -> list[dict[str, Any]]:
    texts = ("Pa", "ris.") if streaming else ("Paris.",)
    parts: list[dict[str, Any]] = [{"text": text} for text in texts]
    if calls:
        parts = [{"functionCall": {"name": TOOL, "args": {"city": "Paris"}}}]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    head = {"modelVersion": "gemini", "responseId": "r1"}
    last = len(parts) - 1
    return [
        {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, **({"finishReason": "STOP"} if at == last else {})}
            ],
            **({"usageMetadata": usage} if at == last else {}),
            **head,
        }
        for at, part in enumerate(parts)
    ]


def _ollama(streaming: bool, calls: bool) -> list[dict[str, Any]]:
    head = {"model": "llama", "created_at": "2026-01-01T00:00:00Z"}
    counts = {"done": True, "done_reason": "stop", "total_duration": 5, "prompt_eval_count": 9, "eval_count": 3}
    call = {"function": {"name": TOOL, "arguments": {"city": "Paris"}}}
    messages: list[dict[str, Any]] = [{"content": text} for text in ("Pa", "ris.")]
    if calls:
        messages = [{"content": "", "tool_calls": [call]}]
    if not streaming:
        message = messages[0] if calls else {"content": "Paris."}
        return [{**head, "message": {"role": "assistant", **message}, **counts}]
    pieces = [{**head, "message": {"role": "assistant", **message}, "done": False} for message in messages]
    return [*pieces, {**head, "message": {"role": "assistant", "content": ""}, **counts}]


_HANDWRITTEN: dict[str, Callable[[bool, bool], list[dict[str, Any]]]] = {
    "chat": _chat, "responses": _responses, "messages": _messages, "gemini": _gemini, "ollama": _ollama,
}  # fmt: skip
