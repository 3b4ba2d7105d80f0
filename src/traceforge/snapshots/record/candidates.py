"""Calls of a run that could be approved.

In: traces of a run, in their order. Out: for each call its wire answer, what a record of it would say, and every
reason why it cannot be one. Never: a failed attempt that an identical success followed, or a call that got no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from traceforge.canon import Digest, JSONObject
from traceforge.compare.compared_call import Call
from traceforge.config import ModelRule
from traceforge.exchange import CallOutcome, Headers
from traceforge.replay.recorded_response import RecordedResponse, response_from_trace
from traceforge.replay.request_key import BEHAVIOUR_HEADERS, KeyedRequest, RequestKeyer
from traceforge.snapshots.formats.determinism_policy import check_policy, find_gate
from traceforge.snapshots.formats.raw_response import WireAnswer, call_of_wire, draft_of_wire
from traceforge.snapshots.formats.record_draft import Draft, Kind, Reason
from traceforge.snapshots.tree.approved_calls import REQUEST, asked_of

# What a server says about itself and the hour; recording again would change nothing but these.
PASSING_HEADERS = frozenset(
    {
        "age", "alt-svc", "cf-cache-status", "cf-ray", "date", "nel", "report-to", "server", "server-timing",
        "set-cookie", "strict-transport-security", "vary", "via", "x-content-type-options",
        "x-envoy-upstream-service-time",
    }
)  # fmt: skip
KEPT_HEADERS = BEHAVIOUR_HEADERS | {"content-type"}
# Members of a request that name something the provider keeps: an answer that was replayed is not there.
STATE_FIELDS = frozenset({"previous_response_id", "conversation", "cachedContent", "cached_content", "container"})
UNKNOWN_SOURCE: JSONObject = {"file": "(unknown)", "line": 0, "function": ""}

_POLICY_HINT = 'Set it where the call is made, or declare the model with "gate": "request" in the configuration.'


class Candidate(Struct, frozen=True, dict=True):
    """One call of a run that got an answer."""

    trace_id: str
    asked: KeyedRequest
    scope: str
    provider: str
    source: JSONObject
    timestamp: str
    latency_ms: float
    wire: WireAnswer
    draft: Draft
    gate: str
    reasons: tuple[Reason, ...]  # why it cannot be approved

    @property
    def key(self) -> Digest:
        """What it asks."""
        return self.asked.key

    @property
    def failed(self) -> bool:
        """Did the provider answer with an error?"""
        return self.wire.status >= 400

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.draft.request.get("model", "")) or self.asked.endpoint.model

    @property
    def refers_to_state(self) -> bool:
        """Does it continue something that the provider keeps?"""
        body = self.wire.body
        return isinstance(body, dict) and any(body.get(name) for name in STATE_FIELDS)

    @property
    def has_record(self) -> bool:
        """Is there a place for it in the snapshot format?"""
        return self.draft.kind is not Kind.WIRE_ONLY

    @property
    def redacted(self) -> int:
        """Values of the answer that replay as `[REDACTED]`."""
        return max(0, len(self.wire.taken_out("response")) - len(self.wire.taken_out("echoes")))

    @cached_property
    def call(self) -> Call:
        """The call as it is compared."""
        if not self.has_record:
            return call_of_wire(self.wire)
        return Call.from_snapshot({"request": self.draft.request, "response": self.draft.response})


def find_candidates(
    traces: Iterable[tuple[JSONObject, bytes]], keys: RequestKeyer, models: Mapping[str, ModelRule], scope: str = ""
) -> list[Candidate]:
    """Every call that got an answer; attempts that failed and then succeeded are left out.

    `scope` is the one of calls that belong to no test.
    """
    found = [one for body, chunks in traces if (one := _candidate(body, chunks, keys, models, scope)) is not None]
    return list(_without_attempts(found))


def _candidate(
    body: JSONObject, chunk_lines: bytes, keys: RequestKeyer, models: Mapping[str, ModelRule], scope: str
) -> Candidate | None:
    answer = response_from_trace(body, chunk_lines)
    if answer is None:
        return None
    seen = cast("JSONObject", body["wire"])
    wire = _wire(body, seen, answer)
    drafted = draft_of_wire(wire, models)
    provider = folder_name(str(body.get("provider", "other")))
    gate = find_gate(str(drafted.request.get("model")), models) if drafted.kind is not Kind.WIRE_ONLY else REQUEST
    metadata = cast("JSONObject", body["metadata"])
    return Candidate(
        str(body["id"]),
        asked_of(keys, wire),
        str(body.get("scope") or scope),
        provider,
        cast("JSONObject", body.get("source", UNKNOWN_SOURCE)),
        str(body["timestamp"]),
        float(str(metadata["duration_ms"])),
        wire,
        drafted,
        gate,
        tuple(_reasons(seen, answer, drafted, provider, models)),
    )


def _reasons(
    seen: JSONObject, answer: RecordedResponse, drafted: Draft, provider: str, models: Mapping[str, ModelRule]
) -> Iterator[Reason]:
    """Why it cannot be approved."""
    if answer.cut:
        left = seen.get("outcome") == CallOutcome.CLIENT_LEFT
        why = "the application left before its end" if left else "the provider broke off"
        yield Reason("response", f"the answer was cut off: {why}", "Let it come to its end, and record again.")
        return
    if seen.get("incomplete"):
        yield Reason("response", "the call was too large to be kept whole", "Ask for less in one call.")
        return
    if drafted.kind is Kind.WIRE_ONLY:
        return
    yield from drafted.reasons
    for problem in check_policy(drafted.request, provider, models):
        yield Reason(f"request.{problem.path}", problem.message, _POLICY_HINT)


def _wire(body: JSONObject, seen: JSONObject, answer: RecordedResponse) -> WireAnswer:
    parts = urlsplit(str(seen["url"]))
    lines = cast("list[str]", seen.get("request_headers", []))
    sent = ((name, value) for name, _, value in (line.partition(": ") for line in lines))
    redacted = body.get("redacted")
    return WireAnswer(
        str(seen["method"]),
        parts.path or "/",
        parts.query,
        tuple(pair for pair in sent if pair[0].lower() in KEPT_HEADERS),
        body.get("provider_request"),
        answer.status,
        _lasting(answer.headers),
        answer.chunks,
        redacted=redacted if isinstance(redacted, dict) else None,
    )


def _lasting(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if pair[0].lower() not in PASSING_HEADERS)


def _without_attempts(found: Sequence[Candidate]) -> Iterator[Candidate]:
    """A failed attempt is not kept where the same was asked again, in the same scope, and answered."""
    answered: set[tuple[str, Digest]] = set()
    kept: list[Candidate] = []
    for one in reversed(found):
        place = (one.scope, one.key)
        if one.failed and place in answered:
            continue
        if not one.failed:
            answered.add(place)
        kept.append(one)
    return reversed(kept)


def folder_name(provider: str) -> str:
    """A provider's name as the name of its folder."""
    name = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in provider.lower())
    name = name.lstrip("._-") or "other"
    return f"{name}-provider" if name in ("wire", "approvals") else name
