"""One request of each dialect, and the key of a request."""

from __future__ import annotations

import json
from typing import Any

from support.exchanges import HOST
from support.replay_player import KEYS
from support.wire_transcripts import CHAT, MESSAGES, OLLAMA_CHAT, RESPONSES
from traceforge.exchange import Headers
from traceforge.replay.request_key import (
    RequestKeyer,
)

JSON_TYPE = ("Content-Type", "application/json")
GEMINI = "/v1beta/models/gemini-2.5-flash:generateContent"

_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_FUNCTION = {"name": "weather", "description": "Say how the weather is.", "parameters": _SCHEMA}

# One request of each dialect, with every kind of thing in it that decides an answer.
REQUESTS: dict[str, dict[str, Any]] = {
    CHAT: {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
            ]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ],
        "tools": [{"type": "function", "function": {**_FUNCTION, "strict": True}}],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}},
        "temperature": 0, "top_p": 0.9, "seed": 7, "max_tokens": 20, "max_completion_tokens": 30, "n": 2,
        "stop": ["END", "STOP"], "presence_penalty": 0.1, "frequency_penalty": -0.1, "logit_bias": {"50256": -100},
        "logprobs": True, "top_logprobs": 3, "reasoning_effort": "low", "stream": True,
        "stream_options": {"include_usage": True}, "service_tier": "auto", "modalities": ["text"],
    },
    RESPONSES: {
        "model": "gpt-5", "instructions": "Be brief.", "previous_response_id": "resp_1", "max_output_tokens": 99,
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
        "tools": [{"type": "function", **_FUNCTION}, {"type": "web_search"}], "tool_choice": "auto",
        "text": {"format": {"type": "text"}, "verbosity": "low"}, "reasoning": {"effort": "low", "summary": "auto"},
        "store": False, "temperature": 1, "top_p": 1, "truncation": "disabled", "include": ["reasoning.encrypted"],
    },
    MESSAGES: {
        "model": "claude-sonnet-4-5", "max_tokens": 64, "stream": False,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": False, "content": "sunny"},
            ]},
        ],
        "tools": [{"name": "weather", "description": "Say how the weather is.", "input_schema": _SCHEMA}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "temperature": 0.5, "top_p": 0.5, "top_k": 5, "stop_sequences": ["END"],
        "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"of": "us"},
    },
    GEMINI: {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hello"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {"city": "Rome"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"is": "sunny"}}}]},
        ],
        "tools": [{"functionDeclarations": [_FUNCTION]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "generationConfig": {
            "temperature": 0, "topP": 0.5, "topK": 5, "seed": 7, "maxOutputTokens": 9, "candidateCount": 1,
            "stopSequences": ["END"], "responseMimeType": "application/json", "responseSchema": _SCHEMA,
            "thinkingConfig": {"thinkingBudget": 0}, "presencePenalty": 0.1, "frequencyPenalty": 0.2,
        },
    },
    OLLAMA_CHAT: {
        "model": "llama3.2:1b", "stream": True, "format": _SCHEMA, "keep_alive": "5m", "think": False,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi", "images": ["AA"]}],
        "tools": [{"type": "function", "function": _FUNCTION}],
        "options": {"seed": 7, "temperature": 0, "num_predict": 9, "num_ctx": 512, "top_k": 3, "stop": ["END"]},
    },
}  # fmt: skip


def key_of(
    address: str,
    body: object,
    headers: Headers = (),
    *,
    host: str = HOST,
    method: str = "POST",
    keys: RequestKeyer = KEYS,
) -> str:
    """The key of a request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = address if "://" in address else host + address
    return keys.key_request(method, url, (JSON_TYPE, *headers), data).key
