"""What a provider said in a live check, cleaned.

In: an exchange, with every secret in it. Out: what is compared and kept of it, or why it is no answer. Never: keeps
what redaction has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.compare import ComparedCall
from traceforge.config import ModelRule
from traceforge.replay.request_key import RequestKeyer
from traceforge.snapshots.formats.raw_response import decode_comparable_answer
from traceforge.snapshots.live.live_plan import LiveCall
from traceforge.snapshots.live.live_sender import SendResult
from traceforge.snapshots.record.candidates import find_candidates
from traceforge.traces.trace_composer import TraceComposer
from traceforge.wire.response_reader import ResponseEnding
from traceforge.wire.unified import as_object


class LiveAnswer(Struct, frozen=True, omit_defaults=True):
    """One answer. It is a line of the journal."""

    call: str  # the digest of the live call
    id: str
    run: int
    at: str
    said: dict[str, Any]
    in_record: bool  # is it said as a record says it, or as the wire does?
    latency_ms: float
    model: str = ""  # that says it answered
    system_fingerprint: str = ""
    tokens: float | None = None
    attempts: int = 1

    def as_call(self, request: JSONObject) -> ComparedCall:
        """The answer as it is compared, to this request."""
        build = ComparedCall.from_snapshot if self.in_record else ComparedCall.from_trace
        return build({"request": request, "response": cast("JSON", self.said)})


class FailedRequest(Struct, frozen=True):
    """A request that got no answer which could be compared."""

    call: str
    id: str
    run: int
    why: str


class LiveAnswerReader:
    """Makes answers of exchanges. Safe to use from several threads."""

    def __init__(self, composer: TraceComposer, keys: RequestKeyer, models: Mapping[str, ModelRule]) -> None:
        self._composer = composer
        self._keys = keys
        self._models = models

    def read(self, call: LiveCall, run: int, sent: SendResult) -> LiveAnswer | FailedRequest:
        """Clean what came, and say what it is."""
        exchange = sent.exchange
        identity = (str(call.digest), call.approved.id, run)
        composed = self._composer.compose(exchange)
        body = cast("JSONObject", parse_json(composed.trace))
        problem = self._find_problem(call, sent, body)
        candidates = find_candidates([(body, composed.chunks)], self._keys, self._models) if not problem else []
        if not candidates:
            return FailedRequest(*identity, problem or "nobody could read the answer")
        (candidate,) = candidates
        if candidate.has_record and not candidate.draft.response.get("finish_reason"):
            return FailedRequest(*identity, "the answer broke off: it does not say why it ended")
        response = as_object(body.get("response"))
        metadata = as_object(body.get("metadata"))
        return LiveAnswer(
            *identity,
            exchange.started_at,
            dict(candidate.draft.response)
            if candidate.has_record
            else decode_comparable_answer(candidate.raw_response),
            candidate.has_record,
            round(exchange.duration_ms, 1),
            _text(response.get("model")),
            _text(response.get("system_fingerprint")),
            cast("float | None", metadata.get("tokens_used")),
            sent.attempts,
        )

    @staticmethod
    def _find_problem(call: LiveCall, sent: SendResult, body: JSONObject) -> str:
        """Why there is nothing to compare; an error that was approved is an answer."""
        exchange = sent.exchange
        assert call.approved.raw_response is not None
        approved_error = call.approved.raw_response.status >= 400
        if sent.problem or not exchange.status:
            return sent.problem or exchange.error
        if as_object(body.get("wire")).get("ending") == ResponseEnding.CUT:
            return "the answer broke off"
        if exchange.status >= 300 and not approved_error:
            error = str(as_object(body.get("metadata")).get("error") or "")
            detail = f": {error}" if error and not error.startswith("HTTP status") else ""
            return f"HTTP status {exchange.status}{detail}"
        return ""


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
