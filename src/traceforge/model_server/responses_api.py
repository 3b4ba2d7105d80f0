"""OpenAI's Responses API, plain and as named events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from traceforge.model_server.generated_answer import Asked, Ending, Heard, Said, Tool, answer
from traceforge.model_server.openai_api import answer_schema, tool_choice
from traceforge.model_server.provider_io import CREATED, Reply, Request, events, plain, text_of

Event = dict[str, Any]
ROLES: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}


def responses(request: Request) -> Reply:
    """`POST /v1/responses`."""
    body = request.body
    asked = Asked(
        request.digest,
        len(request.canonical),
        str(body.get("model", "")),
        list(_heard(body)),
        [Tool(one["name"], one.get("parameters") or {}) for one in body.get("tools") or [] if one.get("name")],
        tool_choice(body.get("tool_choice")),
        answer_schema((body.get("text") or {}).get("format")),
        body.get("max_output_tokens"),
    )
    said = answer(asked)
    whole = _response(body, asked, said)
    if not body.get("stream"):
        return plain(whole)
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(_events(whole, said)))
    return events(numbered, named=True)


def _heard(body: dict[str, Any]) -> Iterator[Heard]:
    if body.get("instructions"):
        yield Heard("system", text_of(body["instructions"]))
    given = body.get("input") or ""
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind == "function_call":
            yield Heard("call", item["name"])
        elif kind == "function_call_output":
            yield Heard("result", text_of(item.get("output")))
        elif kind == "message":
            yield Heard(ROLES.get(item.get("role", ""), "system"), text_of(item.get("content")))


def _response(body: dict[str, Any], asked: Asked, said: Said) -> dict[str, Any]:
    cut_short = said.ending is Ending.LENGTH
    return {
        "id": said.name("resp_"), "object": "response", "created_at": CREATED, "model": asked.model,
        "status": "incomplete" if cut_short else "completed", "output": [_item(said)],
        "incomplete_details": {"reason": "max_output_tokens"} if cut_short else None,
        "error": None, "instructions": body.get("instructions"), "metadata": body.get("metadata") or {},
        "max_output_tokens": body.get("max_output_tokens"), "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"), "temperature": body.get("temperature", 1.0),
        "top_p": body.get("top_p", 1.0), "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [], "text": body.get("text") or {"format": {"type": "text"}},
        "truncation": "disabled", "usage": {
            "input_tokens": said.tokens_in, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said.tokens_out, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": said.tokens_in + said.tokens_out,
        },
    }  # fmt: skip


def _item(said: Said) -> dict[str, Any]:
    if said.call:
        return {
            "type": "function_call", "id": said.name("fc_"), "call_id": said.name("call_"), "status": "completed",
            "name": said.call.name, "arguments": said.call.text,
        }  # fmt: skip
    return {
        "type": "message", "id": said.name("msg_"), "role": "assistant",
        "status": "incomplete" if said.ending is Ending.LENGTH else "completed", "content": [_part(said.text)],
    }  # fmt: skip


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _events(whole: dict[str, Any], said: Said) -> Iterator[Event]:
    (item,) = whole["output"]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    empty: dict[str, Any] = {"arguments": ""} if said.call else {"content": []}
    opened = {**item, "status": "in_progress", **empty}
    yield {"type": "response.output_item.added", "output_index": 0, "item": opened}
    place = {"item_id": item["id"], "output_index": 0}
    yield from _call_events(said, place) if said.call else _text_events(said, {**place, "content_index": 0})
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _call_events(said: Said, place: dict[str, Any]) -> Iterator[Event]:
    assert said.call
    kind = "response.function_call_arguments"
    yield from ({"type": f"{kind}.delta", **place, "delta": piece} for piece in said.argument_pieces())
    yield {"type": f"{kind}.done", **place, "name": said.call.name, "arguments": said.call.text}


def _text_events(said: Said, place: dict[str, Any]) -> Iterator[Event]:
    kind = "response.output_text"
    yield {"type": "response.content_part.added", **place, "part": _part("")}
    yield from ({"type": f"{kind}.delta", **place, "delta": piece, "logprobs": []} for piece in said.pieces())
    yield {"type": f"{kind}.done", **place, "text": said.text, "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": _part(said.text)}
