"""An independent reader of providers' response bodies, to check `traceforge.wire` against.

Written from the providers' API documents without importing anything from `traceforge.wire`: it splits streams itself,
reads JSON with the standard library and assembles deltas in its own way. `read_facts` lists the facts in a body;
`missing_facts.py` compares them with a unified view.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

# The corpus's own label of an endpoint, and the way of speaking there.
SHAPES = {
    "chat.completions": "chat",
    "completions": "chat",
    "responses": "responses",
    "messages": "messages",
    "anthropic.complete": "complete",
    "generateContent": "gemini",
    "streamGenerateContent": "gemini",
    "api/chat": "ollama",
    "api/generate": "ollama",
}


class Call(NamedTuple):
    """One tool call of the model; arguments as the provider sent them, text or value."""

    id: str
    name: str
    arguments: Any


class ChoiceFacts:
    """The pieces of one choice, in the order of their arrival."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.refusals: list[str] = []
        self.calls: list[Call] = []
        self.finish: str | None = None


class Facts:
    """The facts in a body."""

    def __init__(self) -> None:
        self.choices: dict[Any, ChoiceFacts] = {}
        self.ids: set[str] = set()
        self.models: set[str] = set()
        self.usage: dict[str, Any] = {}
        self.output_tokens: set[Any] = set()  # what a total of written tokens may be: providers count thoughts apart
        self.total_tokens: Any = None
        self.kept: list[Any] = []  # blocks and signatures that must stand somewhere in the view, unchanged
        self.error: Any = None
        self.starts = 0  # how many answers begin in this body

    def choice(self, index: Any) -> ChoiceFacts:
        return self.choices.setdefault(index, ChoiceFacts())

    def identify(self, body: dict[str, Any], name: str, model: str) -> None:
        """Add the id and the model of the response."""
        if body.get(name):
            self.ids.add(body[name])
        if body.get(model):
            self.models.add(body[model])

    def add_usage(self, usage: Any) -> None:
        """Counts are running totals: later ones replace earlier ones, and null changes nothing."""
        if isinstance(usage, dict):
            self.usage.update({name: value for name, value in usage.items() if value is not None})


class NotABody(Exception):
    """The bytes are not a response of this provider; the message says why."""


def read_facts(shape: str, data: bytes) -> Facts:
    """Read the facts in `data`.

    Raises:
        NotABody: the bytes are not an answer, whole or streamed, at all.
    """
    facts = Facts()
    streamed, bodies = split(data)
    bodies = [body for body in bodies if isinstance(body, dict)]
    if not bodies:
        raise NotABody("no JSON object in it")
    _READERS[shape](facts, bodies, streamed)
    return facts


def split(data: bytes) -> tuple[bool, list[Any]]:
    """Whether it is a stream, and its JSON values.

    Raises:
        NotABody: it is empty, or neither JSON, an event stream, nor lines of JSON.
    """
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    if not text.strip():
        raise NotABody("empty")
    if re.match(r"\s*(data|event|id|retry)?:", text):
        return True, list(_values(_event_data(text)))
    try:
        document = json.loads(text)
    except ValueError:
        lines = [line for line in re.split(r"\r?\n", text) if line.strip()]
        values = list(_values(lines))
        if len(lines) < 2 or not values or not isinstance(values[0], dict):
            raise NotABody("not JSON") from None
        return True, values
    if isinstance(document, list):
        return True, document
    return False, [document]


def _event_data(text: str) -> Iterator[str]:
    data_lines: list[str] = []
    for line in [*re.split(r"\r\n|\r|\n", text), ""]:
        if not line and data_lines:
            yield "\n".join(data_lines)
            data_lines = []
        elif line.startswith("data:"):
            data_lines.append(line[5:].removeprefix(" "))


def _values(texts: Iterable[str]) -> Iterator[Any]:
    for text in texts:
        try:
            yield json.loads(text)
        except ValueError:
            continue  # `[DONE]`, or an event that was cut


def _read_chat(facts: Facts, bodies: list[dict[str, Any]], streamed: bool) -> None:
    open_calls: dict[Any, list[list[Any]]] = {}
    for body in bodies:
        facts.identify(body, "id", "model")
        facts.error = facts.error or body.get("error")
        facts.add_usage(body.get("usage"))
        for choice in body.get("choices") or []:
            index = choice.get("index", 0)
            message = choice.get("delta" if streamed and "delta" in choice else "message") or {}
            facts_of_choice = facts.choice(index)
            facts_of_choice.finish = choice.get("finish_reason") or facts_of_choice.finish
            _read_chat_message(facts_of_choice, message)
            if not message and choice.get("text"):
                facts_of_choice.texts.append(choice["text"])
            _add_chat_calls(open_calls.setdefault(index, []), message)
            if not streamed:
                facts.kept += [*(message.get("annotations") or []), *filter(None, [message.get("audio")])]
    if not facts.usage:
        for body in bodies:
            facts.add_usage((body.get("x_groq") or {}).get("usage"))
    for index, calls in open_calls.items():
        facts.choice(index).calls = [Call(own or "", name or "", "".join(text)) for _, own, name, text in calls]
    facts.starts = 1
    facts.total_tokens = facts.usage.get("total_tokens")
    facts.output_tokens = {facts.usage.get("completion_tokens")}


def _read_chat_message(choice_facts: ChoiceFacts, message: dict[str, Any]) -> None:
    content = message.get("content")
    for part in content if isinstance(content, list) else []:
        if part.get("type") == "thinking":
            choice_facts.reasoning += [piece.get("text", "") for piece in part["thinking"]]
        else:
            choice_facts.texts.append(part.get("text") or "")
    if isinstance(content, str):
        choice_facts.texts.append(content)
    choice_facts.reasoning.append(message.get("reasoning_content") or message.get("reasoning") or "")
    choice_facts.refusals.append(message.get("refusal") or "")


def _add_chat_calls(calls: list[list[Any]], message: dict[str, Any]) -> None:
    """A delta continues the call of its index; a second id, or a name without an index, starts another call."""
    for piece in message.get("tool_calls") or []:
        index, own = piece.get("index"), piece.get("id")
        function = piece.get("function") or piece.get("custom") or {}
        name = function.get("name")
        existing_call = None
        if index is not None:
            existing_call = next((call for call in reversed(calls) if call[0] == index), None)
        elif calls and not name:
            existing_call = calls[-1]
        if existing_call is None or (own and existing_call[1] and own != existing_call[1]):
            existing_call = [index, own, name, []]
            calls.append(existing_call)
        existing_call[1], existing_call[2] = existing_call[1] or own, existing_call[2] or name
        existing_call[3].append(function.get("arguments") or function.get("input") or "")
    legacy = message.get("function_call")
    if legacy:
        if not calls:
            calls.append([None, None, None, []])
        calls[-1][2] = calls[-1][2] or legacy.get("name")
        calls[-1][3].append(legacy.get("arguments") or "")


_ENDINGS = {"response.completed", "response.incomplete", "response.failed"}


def _read_responses(facts: Facts, bodies: list[dict[str, Any]], streamed: bool) -> None:
    body = _last_response(facts, bodies) if streamed else bodies[0]
    facts.starts = max(1, sum(event.get("type") == "response.created" for event in bodies))
    facts.identify(body, "id", "model")
    facts.error = facts.error or body.get("error") or body.get("detail")
    facts.add_usage(body.get("usage"))
    facts.total_tokens = facts.usage.get("total_tokens")
    facts.output_tokens = {facts.usage.get("output_tokens")}
    items = body.get("output") or (_streamed_items(bodies) if streamed else [])
    if "status" not in body and not items:
        return
    choice = facts.choice(0)
    choice.finish = body.get("status")
    facts.kept += filter(None, [body.get("incomplete_details")])
    for item in items:
        _read_item(facts, choice, item)


def _last_response(facts: Facts, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """The terminal event's response, or else the last one."""
    last: dict[str, Any] = {}
    for event in bodies:
        if event.get("type") == "error" or (event.get("error") and "response" not in event):
            facts.error = event.get("error") or event
        response = event.get("response")
        if isinstance(response, dict) and (event.get("type") in _ENDINGS or not last.get("output")):
            last = response
    return last


def _streamed_items(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    finished_items = {
        event["output_index"]: event["item"] for event in bodies if event.get("type") == "response.output_item.done"
    }
    begun = {
        event["output_index"]: event["item"] for event in bodies if event.get("type") == "response.output_item.added"
    }
    items = {
        index: finished_items[index] if index in finished_items else _from_deltas(begun[index], index, bodies)
        for index in begun | finished_items
    }
    return [items[index] for index in sorted(items)]


def _from_deltas(item: dict[str, Any], index: int, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """An unfinished item, assembled from its deltas."""
    mine = [event for event in bodies if event.get("output_index") == index]

    def deltas(kind: str) -> str:
        return "".join(event["delta"] for event in mine if event.get("type") == f"response.{kind}.delta")

    match item.get("type"):
        case "message":
            texts = [
                {"type": "output_text", "text": deltas("output_text")},
                {"type": "refusal", "refusal": deltas("refusal")},
            ]
            return {**item, "content": texts}
        case "reasoning":
            return {**item, "summary": [{"text": deltas("reasoning_summary_text") + deltas("reasoning_text")}]}
        case "function_call":
            return {**item, "arguments": deltas("function_call_arguments")}
        case "custom_tool_call":
            return {**item, "input": deltas("custom_tool_call_input")}
    return item


def _read_item(facts: Facts, choice_facts: ChoiceFacts, item: dict[str, Any]) -> None:
    match item.get("type"):
        case "message":
            for part in item.get("content") or []:
                choice_facts.texts.append(part.get("text") or "")
                choice_facts.refusals.append(part.get("refusal") or "")
                facts.kept += part.get("annotations") or []
        case "reasoning":
            choice_facts.reasoning += [piece.get("text") or "" for piece in item.get("summary") or []]
            choice_facts.reasoning += [piece.get("text") or "" for piece in item.get("content") or []]
            facts.kept += filter(None, [item.get("encrypted_content")])
        case "function_call":
            choice_facts.calls.append(Call(item.get("call_id") or "", item["name"], item["arguments"]))
        case "custom_tool_call":
            choice_facts.calls.append(Call(item.get("call_id") or "", item["name"], item["input"]))
        case _:
            facts.kept.append(item)


def _read_messages(facts: Facts, bodies: list[dict[str, Any]], streamed: bool) -> None:
    body = _assemble_message(facts, bodies) if streamed else bodies[0]
    facts.starts = max(1, len({event["message"]["id"] for event in bodies if event.get("type") == "message_start"}))
    facts.identify(body, "id", "model")
    facts.error = facts.error or body.get("error")
    facts.add_usage(body.get("usage"))
    facts.output_tokens = {facts.usage.get("output_tokens")}
    if "content" not in body:
        return
    choice = facts.choice(0)
    choice.finish = body.get("stop_reason")
    facts.kept += filter(None, [body.get("stop_sequence"), body.get("stop_details")])
    for block in body["content"]:
        _read_block(facts, choice, block)


def _assemble_message(facts: Facts, bodies: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in bodies:
        match event.get("type"):
            case "message_start" if event["message"]["id"] != message.get("id"):
                message = dict(event["message"])
                facts.add_usage(message.pop("usage", None))
                blocks, inputs = dict(enumerate(message["content"])), {}
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _add_delta(blocks[event["index"]], event["delta"], inputs, event["index"])
            case "message_delta":
                message |= {name: value for name, value in event["delta"].items() if value is not None}
                facts.add_usage(event.get("usage"))
            case "error":
                facts.error = event["error"]
    for index, text in inputs.items():
        blocks[index]["input"] = parse_arguments(text) if text else blocks[index].get("input")
    return {**message, "content": [blocks[index] for index in sorted(blocks)]} if message else {}


def _add_delta(block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], index: int) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = block.get("signature", "") + delta["signature"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
        case "compaction_delta":
            block |= {name: value for name, value in delta.items() if name != "type"}


def _read_block(facts: Facts, choice_facts: ChoiceFacts, block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            choice_facts.texts.append(block["text"])
            facts.kept += block.get("citations") or []
        case "thinking":
            choice_facts.reasoning.append(block["thinking"])
            facts.kept += filter(None, [block.get("signature")])
        case "tool_use":
            choice_facts.calls.append(Call(block["id"], block["name"], block["input"]))
        case _:
            facts.kept.append(block)


def _read_complete(facts: Facts, bodies: list[dict[str, Any]], streamed: bool) -> None:
    facts.starts = 1
    for body in bodies:
        if body.get("type") == "ping":
            continue
        facts.identify(body, "id", "model")
        facts.error = facts.error or body.get("error")
        choice = facts.choice(0)
        choice.texts.append(body.get("completion") or "")
        choice.finish = body.get("stop_reason") or choice.finish


def _read_gemini(facts: Facts, bodies: list[dict[str, Any]], streamed: bool) -> None:
    facts.starts = 1
    for body in bodies:
        facts.identify(body, "responseId", "modelVersion")
        facts.error = facts.error or body.get("error")
        facts.usage = body.get("usageMetadata") or facts.usage  # each chunk counts anew; the last one stands
        facts.kept += filter(None, [body.get("promptFeedback")])
        for candidate in body.get("candidates") or []:
            choice = facts.choice(candidate.get("index", 0))
            finish = candidate.get("finishReason")
            choice.finish = choice.finish if finish is None else str(finish)
            for part in (candidate.get("content") or {}).get("parts") or []:
                _read_part(facts, choice, part)
    written, thought = facts.usage.get("candidatesTokenCount"), facts.usage.get("thoughtsTokenCount")
    if written is not None or thought is not None:
        facts.output_tokens = {written, (written or 0) + (thought or 0)}
    facts.total_tokens = facts.usage.get("totalTokenCount")


def _read_part(facts: Facts, choice_facts: ChoiceFacts, part: dict[str, Any]) -> None:
    facts.kept += filter(None, [part.get("thoughtSignature")])
    if "functionCall" in part:
        _read_function_call(choice_facts, part["functionCall"])
    elif "text" in part:
        (choice_facts.reasoning if part.get("thought") else choice_facts.texts).append(part["text"])
    else:
        facts.kept += [value for name, value in part.items() if isinstance(value, dict) and value]


def _read_function_call(choice_facts: ChoiceFacts, call: dict[str, Any]) -> None:
    """A call may be complete, or start with a name and `willContinue` and continue without a name."""
    if "name" in call:
        choice_facts.calls.append(Call(call.get("id") or "", call["name"], dict(call.get("args") or {})))
    for piece in call.get("partialArgs") or []:
        _put(choice_facts.calls[-1].arguments, piece)


def _put(arguments: dict[str, Any], piece: dict[str, Any]) -> None:
    steps = [name or int(place) for name, place in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", piece["jsonPath"])]
    at: Any = arguments
    for step, following in pairwise(steps):
        at = _enter(at, step, [] if isinstance(following, int) else {})
    last = steps[-1]
    if "stringValue" in piece:
        before = _enter(at, last, "")
        at[last] = before + piece["stringValue"]
    else:
        _enter(at, last, None)
        at[last] = next((piece[name] for name in ("numberValue", "boolValue") if name in piece), None)


def _enter(at: Any, step: Any, empty: Any) -> Any:
    if isinstance(at, list):
        at.extend([empty] * (step + 1 - len(at)))
        return at[step]
    return at.setdefault(step, empty)


def _read_ollama(facts: Facts, bodies: list[dict[str, Any]], streamed: bool) -> None:
    facts.starts = 1
    counts = (
        "prompt_eval_count",
        "eval_count",
        *(f"{name}_duration" for name in ("total", "load", "prompt_eval", "eval")),
    )
    for body in bodies:
        facts.identify(body, "", "model")
        facts.error = facts.error or body.get("error")
        facts.add_usage({name: body[name] for name in counts if name in body})
        message = body.get("message") or body
        choice = facts.choice(0)
        choice.texts.append(message.get("content") or message.get("response") or "")
        choice.reasoning.append(message.get("thinking") or "")
        choice.finish = body.get("done_reason") or choice.finish
        for call in message.get("tool_calls") or []:
            function = call["function"]
            choice.calls.append(Call(call.get("id") or "", function["name"], function.get("arguments") or {}))
    facts.output_tokens = {facts.usage.get("eval_count")}


_READERS = {
    "chat": _read_chat,
    "responses": _read_responses,
    "messages": _read_messages,
    "complete": _read_complete,
    "gemini": _read_gemini,
    "ollama": _read_ollama,
}


def parse_arguments(text: Any) -> Any:
    """The arguments of a tool call as JSON; the text itself where it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
