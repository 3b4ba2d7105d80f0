"""Answers of snapshots that have no wire answer: written by hand, or imported.

In: approved records without a wire answer. Out: for a request that says the same as one of them, an answer in the
provider's own shape, made from the record's fields. Never: stands in where there is a wire answer; and every use is
counted, because nobody has seen these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from traceforge.canon import JSON, Digest, JSONObject, digest_canonical
from traceforge.config import ModelRule
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest
from traceforge.replay.response_synthesis import synthesize_response
from traceforge.snapshots.formats.record_draft import draft_request
from traceforge.snapshots.tree.approved_calls import Approved
from traceforge.wire.dialects import decode_request


class Synthesis:
    """Records without a wire answer, by what they ask."""

    def __init__(self, approved: Iterable[Approved], models: Mapping[str, ModelRule]) -> None:
        self._models = models
        self._found: dict[tuple[str, Digest], Approved] = {}
        for one in approved:
            if one.wire is None and one.record is not None:
                request = cast("JSONObject", one.record["request"])
                self._found.setdefault((one.provider, _digest(request)), one)

    def find_response(self, asked: KeyedRequest) -> tuple[str, RecordedResponse] | None:
        """The record that says the same as this request, and its answer."""
        body, endpoint = asked.key_fields.body, asked.endpoint
        if not self._found or not isinstance(body, dict) or endpoint.dialect is None or not endpoint.generates:
            return None
        request = draft_request(decode_request(endpoint, body), self._models)
        one = self._found.get((str(endpoint.dialect), _digest(request)))
        if one is None or one.record is None:
            return None
        return one.id, synthesize_response(asked, body, _unified(one.record))

    def explain_no_response(self, asked: KeyedRequest) -> str:
        """Nothing to add: what was approved explains a miss."""
        return ""


def _digest(request: JSONObject) -> Digest:
    return digest_canonical({name: value for name, value in request.items() if name != "declared"})


def _unified(record: JSONObject) -> JSONObject:
    """The record's answer in the unified view."""
    request, said = cast("JSONObject", record["request"]), cast("JSONObject", record["response"])
    message: JSONObject = {"role": "assistant", "content": said["content"]}
    if "tool_calls" in said:
        message["tool_calls"] = said["tool_calls"]
    choice: JSON = {"index": 0, "message": message, "finish_reason": said["finish_reason"]}
    usage: JSON = {"total_tokens": said["tokens_used"]}
    return {"id": record["id"], "model": request["model"], "choices": [choice], "usage": usage}
