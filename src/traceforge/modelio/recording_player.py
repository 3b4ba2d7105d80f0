"""Replay a recording through the proxy, for any SDK.

Requests are matched by the hash of their prompt and its occurrence. A recording stores no prompts, so an unmatched
request cannot be compared with the nearest one.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import Digest, JSONObject
from traceforge.config import Config
from traceforge.modelio.adapter import Completion, content_to_message
from traceforge.modelio.prompt import request_prompt_hashes
from traceforge.modelio.replay_adapter import InteractionQueue
from traceforge.redact.redactor import Redactor
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest, RequestKeyer
from traceforge.replay.response_synthesis import synthesize_response
from traceforge.replay.volatile import VolatileRules
from traceforge.wire.dialects import decode_request
from traceforge.wire.unified import as_text


class RecordingFallback:
    """Answers the requests of a player with an empty library from a recording."""

    def __init__(self, session: JSONObject, redactor: Redactor) -> None:
        self._queue = InteractionQueue(session)
        self._redactor = redactor
        self._model = str(session["model_id"])

    @property
    def unused(self) -> int:
        """How many interactions were not used."""
        return len(self._queue.unused())

    def find_response(self, request: KeyedRequest) -> tuple[str, RecordedResponse] | None:
        """The next interaction for this request, and its response."""
        body = request.sent_body
        if not isinstance(body, dict) or request.endpoint.dialect is None or not request.endpoint.is_generative:
            return None
        unified_request = decode_request(request.endpoint, body)
        match = self._queue.take_first_match(self._prompt_hashes(unified_request))
        if match is None:
            return None
        number, answer = match
        unified = _unified_response(number, answer, as_text(unified_request.get("model")) or self._model)
        return f"interaction {number}", synthesize_response(request, body, unified)

    def _prompt_hashes(self, request: JSONObject) -> tuple[Digest, ...]:
        """Redact the prompt again, as for traces: decoding may join texts of the redacted body."""
        prompt: JSONObject = {name: request[name] for name in ("messages", "prompt") if name in request}
        return request_prompt_hashes(cast("JSONObject", self._redactor.redact_json(prompt).value))

    def explain_no_response(self, request: KeyedRequest) -> str:
        """Why the recording has no response for a request."""
        body = request.sent_body
        endpoint = request.endpoint
        if not isinstance(body, dict) or endpoint.dialect is None or not endpoint.is_generative:
            return "a recording only answers generation requests, and this is another kind of request"
        hashes = self._prompt_hashes(decode_request(endpoint, body))
        if not hashes:
            return "the request has no messages and no prompt"
        unused = self._queue.unused()
        unused_text = (
            f"{len(unused)} are unused, the first is {self._queue.prompt_hash_at(unused[0])}"
            if unused
            else "none is unused"
        )
        reason = self._queue.explain_no_match(hashes[0])
        return f"the prompt is {hashes[0]}, {reason}; of {len(self._queue)} interactions {unused_text}"


def _unified_response(number: int, answer: Completion, model: str) -> JSONObject:
    """The unified response. Token counts that the recording does not have are 0, because SDKs require a number."""
    message = content_to_message(answer.text) or {"role": "assistant", "content": answer.text}
    tokens_input, tokens_output = answer.tokens_input or 0, answer.tokens_output or 0
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    usage: JSONObject = {
        "prompt_tokens": tokens_input,
        "completion_tokens": tokens_output,
        "total_tokens": tokens_input + tokens_output,
    }
    choice: JSONObject = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": f"recorded-{number}", "created": 0, "model": model, "choices": [choice], "usage": usage}


def open_recording_player(config: Config, session: JSONObject) -> tuple[Player, RecordingFallback]:
    """A player of a valid recording, for the proxy.

    Volatile parts of requests are not replaced, because they were part of the prompt's hash when it was recorded.
    """
    redactor = Redactor.from_config(config)
    fallback = RecordingFallback(session, redactor)
    return Player(RequestKeyer(redactor, VolatileRules()), Library([]), fallback=fallback), fallback
