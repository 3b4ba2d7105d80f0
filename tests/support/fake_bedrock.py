"""Amazon Bedrock on loopback: what its documentation says it answers, and what it was asked.

The model decides what happens: `throttled` refuses its first call, `denied` all, `broken` fails within its stream.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from support.bedrock_frames import USAGE, chunk, converse_events, exception
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream

STREAM = "application/vnd.amazon.eventstream"
ACCOUNT = "123456789012"
PROFILE = f"arn:aws:bedrock:us-east-1:{ACCOUNT}:application-inference-profile/a1b2c3"
CLAUDE_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
     "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Tea"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " time"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
     "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
)  # fmt: skip


class FakeBedrock:
    """The server; `asked` has the path of each request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stored_bytes = 0  # of the object that another service of AWS keeps
        self._throttled: set[str] = set()
        self.server = Upstream()
        self.server.choose = self.answer

    def answer(self, request: ReceivedRequest) -> ScriptedResponse:
        """What Bedrock sends; another service answers with what it got."""
        path = unquote(request.line.split(b" ")[1].decode())
        self.asked.append(path)
        if not path.startswith("/model/"):
            return self._store(request)
        model, _, operation = path.removeprefix("/model/").rpartition("/")
        if "throttled" in model and path not in self._throttled:
            self._throttled.add(path)
            return _error(429, "ThrottlingException", "Too many requests, please wait before trying again.")
        if "denied" in model:
            role = f"arn:aws:sts::{ACCOUNT}:assumed-role/clerk/session"
            return _error(403, "AccessDeniedException", f"User: {role} is not authorized to invoke {PROFILE}")
        return getattr(self, f"_{operation.replace('-', '_')}")(model, json.loads(request.body))

    def _store(self, request: ReceivedRequest) -> ScriptedResponse:
        if request.line.startswith(b"PUT"):
            self.stored_bytes = len(request.body)
            return ScriptedResponse([b""], headers={"etag": '"1"'})
        return ScriptedResponse([f"{self.stored_bytes} bytes".encode()], headers={"etag": '"1"'})

    def _converse(self, model: str, body: dict[str, Any]) -> ScriptedResponse:
        text = f"You said {body['messages'][-1]['content'][0]['text']}"
        message = {"role": "assistant", "content": [{"text": text}]}
        answer = {"output": {"message": message}, "stopReason": "end_turn", "usage": USAGE}
        return _json({**answer, "metrics": {"latencyMs": 9}})

    def _converse_stream(self, model: str, body: dict[str, Any]) -> ScriptedResponse:
        if "broken" in model:
            first = converse_events("Tea")[:2]
            return _stream([*first, exception("modelStreamErrorException", "The model stopped.")])
        return _stream(converse_events("Tea", " time", " now"))

    def _invoke(self, model: str, body: dict[str, Any]) -> ScriptedResponse:
        if "embed" in model:
            return _json({"embedding": [0.5, -0.25], "inputTextTokenCount": 3})
        text = [{"type": "text", "text": "Tea time"}]
        return _json({**CLAUDE_EVENTS[0]["message"], "content": text, "stop_reason": "end_turn"})

    def _invoke_with_response_stream(self, model: str, body: dict[str, Any]) -> ScriptedResponse:
        return _stream([chunk(value) for value in CLAUDE_EVENTS])


def _json(value: dict[str, Any]) -> ScriptedResponse:
    return ScriptedResponse([json.dumps(value).encode()], headers=_headers("application/json"))


def _stream(pieces: list[bytes]) -> ScriptedResponse:
    return ScriptedResponse(pieces, headers=_headers(STREAM), chunked=True)


def _error(status: int, kind: str, message: str) -> ScriptedResponse:
    headers = {**_headers("application/json"), "x-amzn-errortype": f"{kind}:http://internal.amazon.com/coral/"}
    return ScriptedResponse([json.dumps({"message": message}).encode()], status=status, headers=headers)


def _headers(media_type: str) -> dict[str, str]:
    return {"content-type": media_type, "x-amzn-requestid": "0a1b2c3d-0000-4000-8000-0123456789ab"}
