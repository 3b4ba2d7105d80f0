"""The answers of a live check, redacted.

In: an exchange, with its secrets. Out: the answer to compare and store, or why there is none. Never: stores anything
that was not redacted.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct, field

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.compare.compared_call import ComparedCall
from traceforge.replay.request_key import RequestKeyer
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import decode_comparable_answer
from traceforge.snapshots.formats.record_draft import UNKNOWN_FINISH
from traceforge.snapshots.live.live_plan import LiveCall
from traceforge.snapshots.live.live_sender import SendResult
from traceforge.snapshots.record.candidates import find_candidates
from traceforge.traces.trace_composer import TraceComposer
from traceforge.wire.response_reader import ResponseEnding
from traceforge.wire.unified import as_object


class LiveAnswer(Struct, frozen=True, omit_defaults=True):
    """One answer, and one line of the journal."""

    call: str  # the digest of the live call
    id: str
    run: int
    at: str
    response: dict[str, Any] = field(name="said")  # as the journal has always called it
    in_record: bool  # whether `response` is a record's, or the provider's
    latency_ms: float
    model: str = ""  # that the response names
    system_fingerprint: str = ""
    tokens: float | None = None
    attempts: int = 1

    def as_call(self, request: JSONObject) -> ComparedCall:
        """The answer to this request, in the form in which calls are compared."""
        build = ComparedCall.from_snapshot if self.in_record else ComparedCall.from_trace
        return build({"request": request, "response": cast("JSON", self.response)})


class FailedRequest(Struct, frozen=True):
    """A request without an answer that could be compared."""

    call: str
    id: str
    run: int
    why: str


class LiveAnswerReader:
    """Reads answers from exchanges. Thread-safe."""

    def __init__(self, composer: TraceComposer, keys: RequestKeyer, policy: ModelPolicy) -> None:
        self._composer = composer
        self._keys = keys
        self._policy = policy

    def read(self, call: LiveCall, run: int, sent: SendResult) -> LiveAnswer | FailedRequest:
        """Redact an exchange, and read its answer."""
        exchange = sent.exchange
        identity = (str(call.digest), call.approved.id, run)
        composed = self._composer.compose(exchange)
        body = cast("JSONObject", parse_json(composed.trace))
        problem = self._find_problem(call, sent, body)
        candidates = find_candidates([(body, composed.chunks)], self._keys, self._policy) if not problem else []
        if not candidates:
            return FailedRequest(*identity, problem or "the answer could not be read")
        (candidate,) = candidates
        if candidate.has_record and self._broke_off(call, candidate.draft.response):
            return FailedRequest(*identity, "the answer broke off: it has no finish reason")
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
    def _broke_off(call: LiveCall, response: JSONObject) -> bool:
        """Whether an answer has no finish reason, and the approved one has."""
        approved = as_object(call.approved.record["response"]) if call.approved.record is not None else {}
        return response["finish_reason"] == UNKNOWN_FINISH != approved.get("finish_reason")

    @staticmethod
    def _find_problem(call: LiveCall, sent: SendResult, body: JSONObject) -> str:
        """Why the answer cannot be compared; "" if it can. An error is an answer if an error was approved."""
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
