"""Answers of providers, as they document them, at endpoints from which no model's answer comes; and of Vertex.

`answer` is for `Upstream.choose`: polled things are ready at the third question.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from support.upstream import ReceivedRequest, ScriptedResponse

SOUND = b"ID3\x04\x00\x00" + bytes(range(256)) * 8
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
FILE = {
    "id": "file-abc123", "object": "file", "bytes": 4, "created_at": 1, "filename": "menu.jsonl", "purpose": "batch",
    "status": "processed",
}  # fmt: skip
BATCH = {
    "id": "batch_abc1", "object": "batch", "endpoint": "/v1/chat/completions", "input_file_id": "file-abc123",
    "completion_window": "24h", "created_at": 1,
}  # fmt: skip
RUN = {
    "id": "run_abc1", "object": "thread.run", "created_at": 1, "assistant_id": "asst_abc1", "instructions": "x",
    "thread_id": "thread_abc1", "model": "gpt-4.1", "tools": [], "metadata": {},
}  # fmt: skip
THREAD_MESSAGE = {
    "id": "msg_abc1", "object": "thread.message", "created_at": 1, "thread_id": "thread_abc1", "role": "user",
    "content": [], "attachments": [], "metadata": {}, "status": "completed",
}  # fmt: skip
CLAUDE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
    "stop_sequence": None, "content": [{"type": "text", "text": "Leek soup."}],
    "usage": {"input_tokens": 9, "output_tokens": 4},
}  # fmt: skip
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Leek soup."}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13},
}  # fmt: skip
CLAUDE_EVENTS = (
    {"type": "message_start", "message": {**CLAUDE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Leek "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "soup."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
)
ANSWERS: dict[str, Any] = {
    r"POST /v1/files": FILE,
    r"DELETE /v1/files/file-abc123": {"id": "file-abc123", "object": "file", "deleted": True},
    r"GET /v1/files/file-abc123": FILE,
    r"GET /v1/files\?after=file-abc123": {"object": "list", "data": [{**FILE, "id": "file-def"}], "has_more": False},
    r"GET /v1/files": {"object": "list", "data": [FILE], "has_more": True},
    r"POST /v1/batches": {**BATCH, "status": "validating"},
    r"POST /v1/moderations": {"id": "modr-1", "model": "omni-moderation-latest", "results": [{"flagged": False}]},
    r"POST /v1/images/generations": {"created": 1, "data": [{"b64_json": "aGVsbG8="}]},
    r"POST /v1/audio/transcriptions": {"text": "Leek soup, please."},
    r"POST /v1/assistants": {
        "id": "asst_abc1",
        "object": "assistant",
        "created_at": 1,
        "model": "gpt-4.1",
        "tools": [],
    },
    r"POST /v1/threads": {"id": "thread_abc1", "object": "thread", "created_at": 1, "metadata": {}},
    r"POST /v1/threads/thread_abc1/messages": THREAD_MESSAGE,
    r"POST /v1/threads/thread_abc1/runs": {**RUN, "status": "queued"},
    r"GET /v1/models": {"object": "list", "data": [{"id": "gpt-4.1", "object": "model", "created": 1}]},
    r"POST /v1/responses/input_tokens": {"object": "response.input_tokens", "input_tokens": 9},
    r"GET /v1/responses/resp_1": {"id": "resp_1", "object": "response", "created_at": 1, "output": [], "tools": []},
    r"POST /v1/messages/count_tokens": {"input_tokens": 14},
    r"POST .*/models/[^/]+:rawPredict": CLAUDE,
    r"POST .*/models/[^/]+:generateContent": GEMINI,
    r"POST .*/models/[^/]+:predict": {
        "predictions": [{"embeddings": {"values": [0.1], "statistics": {"token_count": 2}}}]
    },
    r"POST /v1beta\d*/(?:\S+/)?cachedContents": {"name": "cachedContents/xyz1", "model": "models/gemini-2.5-flash"},
}


class HeadResponse(ScriptedResponse):
    """The answer to a HEAD: the length of a body that is not sent."""

    @property
    def length(self) -> int:
        return len(PICTURE)


class EndpointFamilies:
    """The provider; `counts` says how often each request line came."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def answer(self, request: ReceivedRequest) -> ScriptedResponse:
        """The answer to a request."""
        line = request.line.decode().removesuffix(" HTTP/1.1")
        self.counts[line] += 1
        return self._answer_bytes(line, request) or self._answer_polled(line) or _answer_json(line)

    def _answer_bytes(self, line: str, request: ReceivedRequest) -> ScriptedResponse | None:
        if line == "POST /v1/audio/speech":
            return ScriptedResponse([SOUND[:700], SOUND[700:]], headers={"content-type": "audio/mpeg"}, chunked=True)
        if line.startswith("HEAD "):
            return HeadResponse([], headers={"content-type": "application/octet-stream"})
        if line == "GET /v1/files/file-abc123/content":
            etag = {"content-type": "application/octet-stream", "etag": '"1"'}
            if b"if-none-match" in request.head.lower():
                return ScriptedResponse([], 304, {"etag": '"1"'})
            if b"range:" in request.head.lower():
                return ScriptedResponse([PICTURE[:10]], 206, {**etag, "content-range": f"bytes 0-9/{len(PICTURE)}"})
            return ScriptedResponse([PICTURE], headers=etag)
        if line.startswith("DELETE /v1/responses/"):
            return ScriptedResponse([], 204, {})
        if line.endswith(":streamRawPredict"):
            frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in CLAUDE_EVENTS]
            return ScriptedResponse(frames, headers={"content-type": "text/event-stream"}, chunked=True)
        if line == "GET /v1/old-file":
            return ScriptedResponse([], 302, {"location": "/v1/files/file-abc123/content"})
        return None

    def _answer_polled(self, line: str) -> ScriptedResponse | None:
        polled = {"GET /v1/batches/batch_abc1": BATCH, "GET /v1/threads/thread_abc1/runs/run_abc1": RUN}.get(line)
        if polled is None:
            return None
        status = "completed" if self.counts[line] % 3 == 0 else "in_progress"
        headers = {"content-type": "application/json", "openai-poll-after-ms": "30"}
        return ScriptedResponse([json.dumps({**polled, "status": status}).encode()], headers=headers)


def _answer_json(line: str) -> ScriptedResponse:
    for pattern, value in ANSWERS.items():
        if re.fullmatch(pattern, line):
            return ScriptedResponse([json.dumps(value).encode()])
    return ScriptedResponse([b'{"error": {"message": "no such endpoint"}}'], 404)
