"""Explain a request without a recording: the nearest recording, and where the two differ.

Values are redacted, and shortened to the part that differs. The explanation is sent as an error response in the
provider's format that no SDK retries or takes for a model's answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.compare.json_diff import ABSENT, Absent, Side, ValueChange, list_differences
from traceforge.errors import TraceForgeError
from traceforge.exchange import Caller, Chunk, Headers
from traceforge.replay.library import Library, LookupResult
from traceforge.replay.logical_upstream import UPSTREAM_PLACE
from traceforge.replay.nearest_recording import CANDIDATES_MAX, find_nearest
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_distance import common_lengths, weigh_values
from traceforge.replay.request_key import KeyedRequest, KeyFields, Parameters
from traceforge.terminal import one_line
from traceforge.wire.endpoints import Dialect, Endpoint

UNMATCHED_STATUS = 418  # No SDK retries it, and no provider sends it.
UNMATCHED_HEADERS: Headers = (("content-type", "application/json"), ("x-should-retry", "false"))
ERROR_TYPE = "traceforge_replay_miss"
DIFFERENCES_MAX = 5
VALUE_LENGTH_MAX = 120
HEADER_PLACE = "the header "
CONTEXT_LENGTH = 30  # How much of two texts is shown before the first difference.


class FieldDifference(Struct, frozen=True):
    """One difference between the nearest recording and the live request, as it is shown."""

    path: str
    recorded: str
    live: str


class UnmatchedRequest(NamedTuple):
    """A request that was not replayed, and why."""

    endpoint: str
    recording_count: int
    nearest: str = ""  # the name of the nearest recording; empty where none is for this endpoint
    differences: tuple[FieldDifference, ...] = ()
    omitted_count: int = 0  # differences that are not shown
    head_differences: tuple[FieldDifference, ...] = ()  # those of the upstream and the headers
    has_other_differences: bool = True  # whether anything else differs
    reason: str = ""  # instead of differences
    can_record: bool = True  # whether a new recording would help; not if the request cannot be replayed at all
    needs_fresh: bool = False  # whether only a recording that replaces the approved answer (`--fresh`) would help
    caller: Caller = Caller()
    request: KeyedRequest | None = None  # without redacted values; None where it could not be looked up

    @property
    def is_new(self) -> bool:
        """Whether no recording answers the request, and a recording of it would."""
        return self.can_record and not self.needs_fresh

    @property
    def message(self) -> str:
        """The whole explanation in one line; the application that made the call may print it."""
        return one_line(self._explain())

    def _explain(self) -> str:
        if self.reason:
            return f"no recorded call matches: {self.reason}" if self.is_new else self.reason
        if not self.recording_count:
            return "no recorded call matches: nothing was recorded"
        if not self.nearest:
            return f"no recorded call matches: none of {self.recording_count} recordings is for {self.endpoint}"
        differences = "; ".join(
            f"{difference.path}: recorded {difference.recorded}, sent {difference.live}"
            for difference in self.differences
        )
        omitted = f"; and at {self.omitted_count} more" if self.omitted_count else ""
        return f"no recorded call matches; the nearest is {self.nearest}, which differs at {differences}{omitted}"

    def to_response(self, dialect: str | None) -> RecordedResponse:
        """The explanation as an error of the provider."""
        body = json_bytes(_error_body(dialect, f"TraceForge replay: {self.message}"))
        return RecordedResponse(UNMATCHED_STATUS, UNMATCHED_HEADERS, (Chunk(0.0, body),), streamed=False)


def explain_unmatched(request: KeyedRequest, lookup: LookupResult, scope: str, library: Library) -> UnmatchedRequest:
    """Find the nearest recording, and what differs."""
    if lookup.differs_at:
        difference = f"a redacted part differs at {lookup.differs_at} from {lookup.nearest}"
        reason = f"{difference}, or it was recorded with another match key"
        return unmatched_for_reason(request, len(library), reason)._replace(nearest=lookup.nearest)
    nearest = find_nearest(request, scope, library)
    if nearest is None:
        return UnmatchedRequest(_endpoint_name(request.endpoint), len(library))
    if nearest.has_same_endpoint:
        changes = list(_find_differences(nearest.key_fields, request.key_fields))
    else:  # Everything differs, and nothing else is worth a line.
        names = (_endpoint_name(endpoint) for endpoint in (nearest.recording.endpoint, request.endpoint))
        changes = [ValueChange("the endpoint", *names)]
    if not changes:
        changes = [ValueChange("the number of identical requests", "as recorded", "one more")]
    shown_differences = tuple(
        FieldDifference(change.path, *_shorten_pair(change.before, change.after))
        for change in changes[:DIFFERENCES_MAX]
    )
    omitted_count = max(0, len(changes) - DIFFERENCES_MAX)
    head_changes = [change for change in changes if _is_in_head(change)]
    return UnmatchedRequest(
        _endpoint_name(request.endpoint),
        len(library),
        nearest.recording.name,
        shown_differences,
        omitted_count,
        tuple(FieldDifference(change.path, *_shorten_pair(change.before, change.after)) for change in head_changes),
        len(head_changes) < len(changes),
    )


def explain_unreadable(
    request: KeyedRequest, name: str, error: TraceForgeError, recording_count: int
) -> UnmatchedRequest:
    """The matching recording cannot be read any more."""
    reason = f"the recording {name} cannot be read: {error}"
    return unmatched_for_reason(request, recording_count, reason)._replace(nearest=name, can_record=False)


def unmatched_for_reason(request: KeyedRequest, recording_count: int, reason: str) -> UnmatchedRequest:
    """An unmatched request that no recording is compared with."""
    return UnmatchedRequest(_endpoint_name(request.endpoint), recording_count, reason=reason)


def _endpoint_name(endpoint: Endpoint) -> str:
    return f"{endpoint.dialect or 'an unknown dialect'} {endpoint.kind}"


def find_nearest_value(
    actual: JSON, named_values: Sequence[tuple[str, JSON]]
) -> tuple[str, tuple[FieldDifference, ...]]:
    """The name of the nearest value, and its differences from the actual one."""
    name, value = min(named_values[-CANDIDATES_MAX:], key=lambda candidate: weigh_values(candidate[1], actual))
    changes = list(list_differences(value, actual, "$"))
    return name, tuple(
        FieldDifference(change.path, *_shorten_pair(change.before, change.after))
        for change in changes[:DIFFERENCES_MAX]
    )


def _find_differences(before: KeyFields, after: KeyFields) -> Iterator[ValueChange]:
    if before.method != after.method:
        yield ValueChange("the method", before.method, after.method)
    if not before.unknown.upstream and before.upstream != after.upstream:
        yield ValueChange(UPSTREAM_PLACE, before.upstream, after.upstream)
    if before.address != after.address:
        yield ValueChange("the address", before.address, after.address)
    yield from _differing_pairs("parameter", before.query, after.query)
    known_headers = before.unknown.known_headers
    headers = tuple(pair for pair in after.headers if known_headers is None or pair[0] in known_headers)
    yield from _differing_pairs("header", before.headers, headers)
    yield from list_differences(before.body, after.body, "$")


def _differing_pairs(kind: str, before: Parameters, after: Parameters) -> Iterator[ValueChange]:
    for name in sorted({name for name, _ in (*before, *after)}):
        old, new = (_joined_values(pairs, name) for pairs in (before, after))
        if old != new:
            yield ValueChange(f"the {kind} {name}", old, new)


def _joined_values(pairs: Parameters, name: str) -> Side:
    values = ["(without =)" if value is None else value for key, value in pairs if key == name]
    return ", ".join(values) if values else ABSENT


def _is_in_head(change: ValueChange) -> bool:
    return change.path == UPSTREAM_PLACE or change.path.startswith(HEADER_PLACE)


def _shorten_pair(before: Side, after: Side) -> tuple[str, str]:
    """Both values as text; long ones from shortly before their first difference."""
    texts = [_value_text(side) for side in (before, after)]
    if max(map(len, texts)) <= VALUE_LENGTH_MAX:
        return texts[0], texts[1]
    start = max(0, common_lengths(texts[0], texts[1])[0] - CONTEXT_LENGTH)
    return _window(texts[0], start), _window(texts[1], start)


def _window(text: str, start: int) -> str:
    end = start + VALUE_LENGTH_MAX
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _value_text(value: Side) -> str:
    return "nothing" if isinstance(value, Absent) else json_bytes(value).decode(errors="replace")


def _error_body(dialect: str | None, message: str) -> JSON:
    if dialect is Dialect.OLLAMA:
        return {"error": message}
    if dialect is Dialect.GEMINI:
        return {"error": {"code": UNMATCHED_STATUS, "message": message, "status": "FAILED_PRECONDITION"}}
    if dialect == "bedrock":
        return {"message": message, "code": ERROR_TYPE}
    error: JSONObject = {"type": ERROR_TYPE, "code": ERROR_TYPE, "message": message, "param": None}
    return {"type": "error", "error": error} if dialect is Dialect.ANTHROPIC else {"error": error}
