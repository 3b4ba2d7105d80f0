"""The calls of a run that could be approved.

In: traces of a run, in their order. Out: for each call its raw response, the draft of its record, and every reason
why it cannot be approved. Never: a failed attempt that an identical success followed, or a call that failed on its
way to the provider. A call that the application cancelled before a response came can be approved as that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from http import HTTPStatus
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from traceforge.canon import Digest, JSONObject
from traceforge.compare.compared_call import ComparedCall
from traceforge.errors import LOST_KEY_HINT
from traceforge.exchange import CallOutcome, Headers
from traceforge.replay.fingerprints import Fingerprints
from traceforge.replay.recorded_response import CancelCause, Cancellation, RecordedResponse
from traceforge.replay.request_key import KeyedRequest, RequestKeyer, UnknownParts
from traceforge.replay.trace_recordings import find_unknown_parts, request_headers, response_from_trace
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE, ModelPolicy
from traceforge.snapshots.formats.raw_response import RawResponse, decode_comparable_call, draft_raw_response
from traceforge.snapshots.formats.record_draft import DraftKind, RecordDraft, RefusalReason, find_policy_reasons
from traceforge.snapshots.formats.snapshot_format import is_source_file
from traceforge.snapshots.record.stored_state import list_state_ids
from traceforge.snapshots.tree.approved_calls import key_stored_request
from traceforge.traces.body_reader import looks_like_another_body

# Headers about the server and the time, which differ in every recording.
TRANSIENT_HEADERS = frozenset(
    {
        "age", "alt-svc", "cf-cache-status", "cf-ray", "date", "nel", "report-to", "server", "server-timing",
        "set-cookie", "strict-transport-security", "vary", "via", "x-content-type-options",
        "x-envoy-upstream-service-time",
    }
)  # fmt: skip
# Request fields that refer to something the provider stores; it does not store what was only replayed.
STATE_FIELDS = frozenset({"previous_response_id", "conversation", "cachedContent", "cached_content", "container"})
# How each outcome without a response ended the call; any other outcome is a failure on the way to the provider.
CANCEL_CAUSES: Mapping[str, CancelCause] = {
    CallOutcome.CLIENT_LEFT: CancelCause.APPLICATION,
    CallOutcome.TIMED_OUT: CancelCause.TIMEOUT,
}
# How the error begins of a call that somebody interrupted, with the keyboard or a time limit of a test (pytest raises
# `Failed` and `Exit`): the application does not cancel it when it is run again.
INTERRUPTIONS = ("KeyboardInterrupt", "SystemExit", "Failed", "Exit")
CLOCK_STEP = timedelta(milliseconds=1)  # of timestamps
OUTSIDE = "(outside)"  # the folder of a source file that is not in the project
UNKNOWN_SOURCE: JSONObject = {"file": "(unknown)", "line": 0, "function": ""}

_USER_INFO = re.compile(r"//[^/?#]*@")  # Its redacted form looks like a broken IPv6 address.

_BROKEN_HINT = "Record again; an answer that breaks off cannot be approved."
_CUT_HINT = "Read the answer to its end, and record again."

NO_KEY_REASON = RefusalReason(
    "request",
    "a part of it is redacted, and cannot be compared later: the match key is missing",
    f"Ask your team for the match key, set TRACEFORGE_MATCH_KEY to it, and record again. {LOST_KEY_HINT}",
)

RequestIdentity = tuple[Digest, Fingerprints]


class Candidate(Struct, frozen=True, dict=True):
    """One call of a run that was answered, or cancelled by the application."""

    trace_id: str
    keyed_request: KeyedRequest
    fingerprints: Fingerprints
    scope: str
    provider: str
    source: JSONObject
    timestamp: str
    latency_ms: float
    raw_response: RawResponse
    draft: RecordDraft
    gate: str
    reasons: tuple[RefusalReason, ...]  # why the call cannot be approved
    per_worker: bool = False  # another worker made the same call in another test, and a cache may save this one

    @property
    def key(self) -> Digest:
        return self.keyed_request.key

    @property
    def identity(self) -> RequestIdentity:
        """What two calls with the same request have in common: also its redacted parts."""
        return self.key, self.fingerprints

    @property
    def has_failed(self) -> bool:
        """Whether the application got an error, or cancelled the call before a response came."""
        return self.raw_response.status >= 400 or self.raw_response.cancellation is not None

    @property
    def start(self) -> datetime:
        return datetime.fromisoformat(self.timestamp)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(milliseconds=self.latency_ms)

    @property
    def model(self) -> str:
        return str(self.draft.request.get("model", "")) or self.keyed_request.endpoint.model

    @property
    def has_state_reference(self) -> bool:
        """Whether the request refers to something that the provider stores."""
        body = self.raw_response.request_body
        return isinstance(body, dict) and any(body.get(name) for name in STATE_FIELDS)

    @property
    def state_ids(self) -> list[str]:
        """The ids under which the provider may store what the request refers to."""
        raw = self.raw_response
        return list_state_ids(raw.path, raw.query, raw.request_body)

    @property
    def has_record(self) -> bool:
        """Whether a record can hold the call."""
        return self.draft.kind is not DraftKind.RAW_ONLY

    @property
    def redacted_count(self) -> int:
        """How many values of the answer will replay as `[REDACTED]`."""
        return max(0, len(self.raw_response.redactions("response")) - len(self.raw_response.redactions("echoes")))

    @cached_property
    def call(self) -> ComparedCall:
        """The call in the form in which calls are compared."""
        if not self.has_record:
            return decode_comparable_call(self.raw_response)
        return ComparedCall.from_snapshot({"request": self.draft.request, "response": self.draft.response})


def find_candidates(
    traces: Iterable[tuple[JSONObject, bytes]],
    keys: RequestKeyer,
    policy: ModelPolicy,
    scope: str = "",
    workers: Mapping[str, str] | None = None,
    *,
    needs_match_key: bool = False,
) -> list[Candidate]:
    """Every answered call, without failed attempts that were retried with success.

    `scope` is that of calls outside of tests. `workers` are those of pytest-xdist, by trace id: of what each of them
    does, such as setting up a fixture of the session, one worker's calls are taken. With `needs_match_key`, a call
    whose redacted parts could not be compared later is refused.
    """
    candidates = [
        candidate
        for body, chunks in traces
        if (candidate := _make_candidate(body, chunks, keys, policy, scope, needs_match_key)) is not None
    ]
    return settle_workers(list(_drop_failed_attempts(candidates)), workers or {})


def settle_workers(candidates: Sequence[Candidate], workers: Mapping[str, str]) -> list[Candidate]:
    """The calls of a run with workers, each that several of them make once; `workers` as in `find_candidates`."""
    return _drop_repeats_of_workers(_mark_calls_per_worker(candidates, workers), workers)


def replace_raw_response(candidate: Candidate, raw: RawResponse, policy: ModelPolicy) -> Candidate:
    """The call with the same request and another response, as the policy judges it."""
    draft = draft_raw_response(raw, policy)
    reasons = [reason for reason in candidate.reasons if reason == NO_KEY_REASON]
    if draft.kind is not DraftKind.RAW_ONLY:
        reasons += find_policy_reasons(draft, candidate.provider, policy)
    gate = str(draft.request.get("gate", REQUEST_GATE))
    return replace(candidate, raw_response=raw, draft=draft, gate=gate, reasons=tuple(reasons))


def _make_candidate(
    body: JSONObject,
    chunk_lines: bytes,
    keys: RequestKeyer,
    policy: ModelPolicy,
    scope: str,
    needs_match_key: bool,
) -> Candidate | None:
    answer = response_from_trace(body, chunk_lines) or _find_cancellation(body)
    if answer is None:
        return None
    trace_wire = cast("JSONObject", body["wire"])
    raw = _build_raw_response(body, trace_wire, answer, keys)
    call_scope = str(body.get("scope") or scope)
    keyed_request = key_stored_request(keys, raw, call_scope)
    fingerprints = keys.read_fingerprints(keyed_request, raw.redacted)
    draft = draft_raw_response(raw, policy)
    provider = provider_folder(str(body.get("provider", "other")))
    metadata = cast("JSONObject", body["metadata"])
    return Candidate(
        str(body["id"]),
        keyed_request,
        fingerprints,
        call_scope,
        provider,
        _project_source(cast("JSONObject", body.get("source", UNKNOWN_SOURCE))),
        str(body["timestamp"]),
        float(str(metadata["duration_ms"])),
        raw,
        draft,
        str(draft.request.get("gate", REQUEST_GATE)),
        (
            *_find_refusal_reasons(trace_wire, answer, draft, provider, policy),
            *([NO_KEY_REASON] if needs_match_key and fingerprints is None else ()),
        ),
    )


def _find_cancellation(body: JSONObject) -> RecordedResponse | None:
    """What a trace without a response says of a call that the application cancelled; None: it failed otherwise, was
    interrupted, or its request is not known whole: a client may leave before it has sent all of it.
    """
    wire, request, metadata = body.get("wire"), body.get("provider_request"), cast("JSONObject", body["metadata"])
    if not isinstance(wire, dict) or wire.get("status") or wire.get("outcome") not in CANCEL_CAUSES:
        return None
    if request is not None and looks_like_another_body(request):
        return None
    if str(metadata.get("error", "")).partition(":")[0] in INTERRUPTIONS:
        return None
    cause = CANCEL_CAUSES[CallOutcome(str(wire["outcome"]))]
    after_ms = float(str(metadata["duration_ms"]))
    return RecordedResponse(0, (), (), streamed=False, cancellation=Cancellation(cause, after_ms))


def _project_source(source: JSONObject) -> JSONObject:
    """Where the call was made; of a file outside of the project, which differs on every machine, its name alone."""
    file = str(source["file"])
    if is_source_file(file):
        return source
    name = re.split(r"[/\\]", file)[-1]
    return {**source, "file": f"{OUTSIDE}/{name}" if name not in ("", "..") else str(UNKNOWN_SOURCE["file"])}


def _find_refusal_reasons(
    trace_wire: JSONObject,
    answer: RecordedResponse,
    draft: RecordDraft,
    provider: str,
    policy: ModelPolicy,
) -> Iterator[RefusalReason]:
    """Why the call cannot be approved."""
    if answer.cut and not _is_left_early(trace_wire, answer):
        client_left = trace_wire.get("outcome") == CallOutcome.CLIENT_LEFT
        cause = "the application closed the connection" if client_left else "the provider broke off"
        yield RefusalReason("response", f"the answer was cut off: {cause}", _CUT_HINT)
        return
    if answer.status == HTTPStatus.SWITCHING_PROTOCOLS and trace_wire.get("outcome") == CallOutcome.CUT:
        yield RefusalReason("response", "the WebSocket connection was lost: neither side closed it", _BROKEN_HINT)
        return
    if trace_wire.get("incomplete"):
        yield RefusalReason("response", "the call was too large to be stored whole", "Ask for less in one call.")
        return
    if draft.kind is DraftKind.RAW_ONLY:
        return
    yield from find_policy_reasons(draft, provider, policy)


def _is_left_early(trace_wire: JSONObject, answer: RecordedResponse) -> bool:
    """Whether the application closed a stream before its end: what it read is known, and can be replayed."""
    return answer.cut and answer.streamed and trace_wire.get("outcome") == CallOutcome.CLIENT_LEFT


def _build_raw_response(
    body: JSONObject, trace_wire: JSONObject, answer: RecordedResponse, keys: RequestKeyer
) -> RawResponse:
    url = _USER_INFO.sub("//", str(trace_wire["url"]), count=1)
    parts = urlsplit(url)
    redacted = body.get("redacted")
    unknown = find_unknown_parts(trace_wire)
    return RawResponse(
        str(trace_wire["method"]),
        parts.path or "/",
        parts.query,
        tuple(pair for pair in request_headers(body) if keys.is_compared_header(pair[0])),
        body.get("provider_request"),
        answer.status,
        _drop_transient_headers(answer.headers),
        answer.chunks,
        redacted=redacted if isinstance(redacted, dict) else None,
        upstream=None if unknown.upstream else keys.name_upstream(url, request_headers(body)),
        known_headers=_list_known_headers(unknown, keys),
        is_left_early=_is_left_early(trace_wire, answer),
        cancellation=answer.cancellation,
    )


def _list_known_headers(unknown: UnknownParts, keys: RequestKeyer) -> tuple[str, ...] | None:
    if unknown.known_headers is None:
        return None
    return tuple(sorted(name for name in unknown.known_headers if keys.is_compared_header(name)))


def _drop_transient_headers(headers: Headers) -> Headers:
    return tuple(pair for pair in headers if pair[0].lower() not in TRANSIENT_HEADERS)


def _drop_failed_attempts(candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """Leave out failed attempts whose request was answered later in the same scope.

    A call that was cancelled while the answered one was under way does not count as an earlier attempt: the
    application makes both.
    """
    last_success: dict[tuple[str, RequestIdentity], Candidate] = {}
    remaining: list[Candidate] = []
    for candidate in reversed(candidates):
        request = (candidate.scope, candidate.identity)
        success = last_success.get(request)
        if candidate.has_failed and success is not None and not _is_under_way(candidate, success):
            continue
        if not candidate.has_failed:
            last_success.setdefault(request, candidate)
        remaining.append(candidate)
    return reversed(remaining)


def _is_under_way(cancelled: Candidate, success: Candidate) -> bool:
    """Whether a call that the application cancelled was still under way when the answered one began."""
    return cancelled.raw_response.cancellation is not None and success.start + CLOCK_STEP <= cancelled.end


def _drop_repeats_of_workers(candidates: Sequence[Candidate], workers: Mapping[str, str]) -> list[Candidate]:
    """Leave out calls that another worker made at least as often in the same scope: each runs what tests share, and
    with `--dist each` all tests.
    """
    counts: Counter[tuple[str, Digest, str]] = Counter(
        (candidate.scope, candidate.key, workers.get(candidate.trace_id, "")) for candidate in candidates
    )
    chosen_workers: dict[tuple[str, Digest], str] = {}
    for (scope, key, worker), _ in counts.most_common():
        chosen_workers.setdefault((scope, key), worker)
    return [
        candidate
        for candidate in candidates
        if chosen_workers[candidate.scope, candidate.key] == workers.get(candidate.trace_id, "")
    ]


def _mark_calls_per_worker(candidates: Sequence[Candidate], workers: Mapping[str, str]) -> list[Candidate]:
    """Mark calls that look as if each worker had cached the answer: in one test of each worker, equally often.

    The calls of the first of these tests are not marked: every run makes them, in one test or another.
    """
    counts: dict[RequestIdentity, dict[str, Counter[str]]] = {}  # by request, worker and scope
    for candidate in candidates:
        worker = workers.get(candidate.trace_id, "")
        counts.setdefault(candidate.identity, {}).setdefault(worker, Counter())[candidate.scope] += 1
    first_scopes = {
        identity: next(iter(next(iter(scopes.values()))))
        for identity, scopes in counts.items()
        if all(len(in_worker) == 1 for in_worker in scopes.values())
        and len({times for in_worker in scopes.values() for times in in_worker.values()}) == 1
    }
    return [
        replace(candidate, per_worker=first_scopes.get(candidate.identity, candidate.scope) != candidate.scope)
        for candidate in candidates
    ]


def provider_folder(provider: str) -> str:
    """The folder name of a provider."""
    name = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "-" for char in provider.lower())
    name = name.lstrip("._-") or "other"
    return f"{name}-provider" if name in ("wire", "approvals") else name
