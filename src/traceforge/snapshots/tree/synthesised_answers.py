"""Answers from snapshots without a raw response: written by hand, or imported.

In: approved records without a raw response. Out: for a request equal to one of theirs, an answer in the provider's
own format, made from the record's fields. Never: replaces a raw response; and every use is counted, because no
provider ever sent these bytes.

A record may state in its `request` where the call goes (`upstream`, the logical upstream) and its `headers`, an
object of names and values. What it does not state is unknown, and equals anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from traceforge.canon import JSON, Digest, JSONObject, digest_bytes, exact_canonical_bytes
from traceforge.replay.compared_body import find_compared_part
from traceforge.replay.compared_headers import Pairs
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest, RequestKeyer
from traceforge.replay.response_synthesis import synthesize_response
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.record_draft import convert_request, declare_request
from traceforge.snapshots.formats.snapshot_format import OWN_REQUEST_FIELDS
from traceforge.snapshots.tree.approved_calls import HEAD_FIELDS, ApprovedCall
from traceforge.wire.dialects import decode_request


class SynthesisedAnswers:
    """Records without a raw response, by their request."""

    def __init__(self, calls: Iterable[ApprovedCall], policy: ModelPolicy, keys: RequestKeyer | None = None) -> None:
        self._policy = policy
        self._keys = keys
        self._calls: dict[tuple[str, Digest], list[ApprovedCall]] = {}
        for call in calls:
            if call.raw_response is None and call.record is not None:
                for request in _list_requests(cast("JSONObject", call.record["request"])):
                    calls = self._calls.setdefault((call.provider, _request_digest(call.provider, request)), [])
                    if call not in calls:
                        calls.append(call)

    def find_response(self, keyed_request: KeyedRequest) -> tuple[str, RecordedResponse] | None:
        """The id of the record with the same request, and its answer."""
        for call in self._list_calls(keyed_request):
            if not self._find_head_difference(call, keyed_request):
                body = cast("JSONObject", keyed_request.key_fields.body)
                assert call.record is not None
                return call.id, synthesize_response(keyed_request, body, _unified_response(call.record))
        return None

    def explain_no_response(self, keyed_request: KeyedRequest) -> str:
        """Where only the upstream or the headers differ from a record; else the player explains what is nearest."""
        differences = (self._find_head_difference(call, keyed_request) for call in self._list_calls(keyed_request))
        return next(differences, "")

    def _list_calls(self, keyed_request: KeyedRequest) -> list[ApprovedCall]:
        body, endpoint = keyed_request.key_fields.body, keyed_request.endpoint
        if not self._calls or not isinstance(body, dict) or endpoint.dialect is None or not endpoint.is_generative:
            return []
        sent = decode_request(endpoint, body)
        calls: list[ApprovedCall] = []
        for request in (convert_request(sent), declare_request(sent, self._policy)):
            same_request = self._calls.get(
                (str(endpoint.dialect), _request_digest(str(endpoint.dialect), request)), []
            )
            calls += [call for call in same_request if call not in calls]
        return calls

    def _find_head_difference(self, call: ApprovedCall, keyed_request: KeyedRequest) -> str:
        """What differs from the upstream and the headers that a record states; "" where nothing does."""
        assert call.record is not None
        stated, live = cast("JSONObject", call.record["request"]), keyed_request.key_fields
        upstream, headers = stated.get("upstream"), stated.get("headers")
        if self._keys is None:
            return ""
        if isinstance(upstream, str) and self._keys.resolve_upstream(upstream) != live.upstream:
            return f"{call.id} is approved for the upstream {upstream}, and the request goes to {live.upstream}"
        if isinstance(headers, dict):
            pairs = tuple((name, str(value)) for name, value in headers.items())
            expected, sent = (_drop_media_type(side) for side in (self._keys.compare_headers(pairs), live.headers))
            names = sorted({name for name, _ in {*expected} ^ {*sent}})
            if names:
                return f"{call.id} is approved with other headers: {', '.join(names)}"
        return ""


def _list_requests(stated: JSONObject) -> Iterator[JSONObject]:
    """The requests that a record answers: with the values of its declared fields, and without them."""
    declared = cast("list[JSON]", stated.get("declared", []))
    for ignored in ((), declared):
        yield {name: value for name, value in stated.items() if name not in HEAD_FIELDS and name not in ignored}


def _drop_media_type(headers: Pairs) -> Pairs:
    """Drop the media type: a client adds it by itself, and a snapshot written by hand leaves it out."""
    return tuple(pair for pair in headers if pair[0] != "content-type")


def _request_digest(provider: str, request: JSONObject) -> Digest:
    """The digest of what is compared of a record's request, as in a request key.

    The answer is streamed if the request asks for it, even if the record says otherwise.
    """
    compared = find_compared_part(request, provider)
    return digest_bytes(
        exact_canonical_bytes(
            {name: value for name, value in compared.items() if name not in (*OWN_REQUEST_FIELDS, "stream")}
        )
    )


def _unified_response(record: JSONObject) -> JSONObject:
    """The record's answer in the unified view of `wire`."""
    request, response = cast("JSONObject", record["request"]), cast("JSONObject", record["response"])
    message: JSONObject = {"role": "assistant", "content": response["content"]}
    if "tool_calls" in response:
        message["tool_calls"] = response["tool_calls"]
    choice: JSON = {"index": 0, "message": message, "finish_reason": response["finish_reason"]}
    usage: JSON = {"total_tokens": response["tokens_used"]}
    return {"id": record["id"], "model": request["model"], "choices": [choice], "usage": usage}
