"""Answers from snapshots without a raw response: written by hand, or imported.

In: approved records without a raw response. Out: for a request equal to one of theirs, an answer in the provider's
own format, made from the record's fields. Never: replaces a raw response; and every use is counted, because no
provider ever sent these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from traceforge.canon import JSON, Digest, JSONObject, digest_bytes, exact_canonical_bytes
from traceforge.config import ModelRule
from traceforge.replay.compared_body import UNCOMPARED_FIELDS, drop_fields, renumber_ids
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest
from traceforge.replay.response_synthesis import synthesize_response
from traceforge.snapshots.formats.record_draft import draft_request
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.wire.dialects import decode_request


class SynthesisedAnswers:
    """Records without a raw response, by their request."""

    def __init__(self, calls: Iterable[ApprovedCall], models: Mapping[str, ModelRule]) -> None:
        self._models = models
        self._calls: dict[tuple[str, Digest], ApprovedCall] = {}
        for call in calls:
            if call.raw_response is None and call.record is not None:
                request = cast("JSONObject", call.record["request"])
                self._calls.setdefault((call.provider, _request_digest(call.provider, request)), call)

    def find_response(self, keyed_request: KeyedRequest) -> tuple[str, RecordedResponse] | None:
        """The id of the record with the same request, and its answer."""
        body, endpoint = keyed_request.key_fields.body, keyed_request.endpoint
        if not self._calls or not isinstance(body, dict) or endpoint.dialect is None or not endpoint.is_generative:
            return None
        request = draft_request(decode_request(endpoint, body), self._models)
        call = self._calls.get((str(endpoint.dialect), _request_digest(str(endpoint.dialect), request)))
        if call is None or call.record is None:
            return None
        return call.id, synthesize_response(keyed_request, body, _unified_response(call.record))

    def explain_no_response(self, keyed_request: KeyedRequest) -> str:
        """Nothing to add: the player explains which approved call is nearest."""
        return ""


def _request_digest(provider: str, request: JSONObject) -> Digest:
    """The digest of what is compared of a record's request, as in a request key."""
    compared, _ = drop_fields(request, UNCOMPARED_FIELDS.get(provider, ()))
    fields = {name: value for name, value in cast("JSONObject", compared).items() if name != "declared"}
    return digest_bytes(exact_canonical_bytes(renumber_ids(fields)))


def _unified_response(record: JSONObject) -> JSONObject:
    """The record's answer in the unified view of `wire`."""
    request, response = cast("JSONObject", record["request"]), cast("JSONObject", record["response"])
    message: JSONObject = {"role": "assistant", "content": response["content"]}
    if "tool_calls" in response:
        message["tool_calls"] = response["tool_calls"]
    choice: JSON = {"index": 0, "message": message, "finish_reason": response["finish_reason"]}
    usage: JSON = {"total_tokens": response["tokens_used"]}
    return {"id": record["id"], "model": request["model"], "choices": [choice], "usage": usage}
