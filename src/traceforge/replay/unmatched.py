"""Explain a request without a recording: the nearest recording, and where the two differ.

Values are redacted, and shortened to the part that differs. The explanation is sent as an error response in the
provider's format that no SDK retries or takes for a model's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.compare.json_diff import ABSENT, Absent, Side, ValueChange, list_differences
from traceforge.errors import TraceForgeError
from traceforge.exchange import Caller, Chunk, Headers
from traceforge.replay.library import LookupResult, Recording
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest, KeyFields, Pairs
from traceforge.wire.endpoints import Dialect

UNMATCHED_STATUS = 418  # No SDK retries it, and no provider sends it.
UNMATCHED_HEADERS: Headers = (("content-type", "application/json"), ("x-should-retry", "false"))
ERROR_TYPE = "traceforge_replay_miss"
CANDIDATES_MAX = 200  # Only the latest recordings are compared.
MISSING_WEIGHT = 1000  # The distance for a message or field that only one of two requests has.
DIFFERENCES_MAX = 5
VALUE_LENGTH_MAX = 120
CONTEXT_LENGTH = 30  # How much of two texts is shown before the first difference.


class FieldDifference(NamedTuple):
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
    reason: str = ""  # instead of differences
    can_record: bool = True  # whether a new recording would help; not if the request cannot be replayed at all
    caller: Caller = Caller()
    request: KeyedRequest | None = None  # without redacted values; None where it could not be looked up

    @property
    def message(self) -> str:
        """The whole explanation in one line."""
        if self.reason:
            return f"no recorded call matches: {self.reason}" if self.can_record else self.reason
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

    def to_response(self, dialect: Dialect | None) -> RecordedResponse:
        """The explanation as an error of the provider."""
        body = json_bytes(_error_body(dialect, f"TraceForge replay: {self.message}"))
        return RecordedResponse(UNMATCHED_STATUS, UNMATCHED_HEADERS, (Chunk(0.0, body),), streamed=False)


def explain_unmatched(
    request: KeyedRequest, lookup: LookupResult, in_scope: Sequence[Recording], recordings: Sequence[Recording]
) -> UnmatchedRequest:
    """Find the nearest recording, and what differs.

    Recordings of the same scope (`in_scope`) are preferred while they have all fields and messages of the request: a
    test whose prompt changed is compared with its own recording.
    """
    if lookup.differs_at:
        difference = f"a redacted part differs at {lookup.differs_at} from {lookup.nearest}"
        reason = f"{difference}, or it was recorded with another match key"
        return unmatched_for_reason(request, len(recordings), reason)._replace(nearest=lookup.nearest)
    weight, nearest, changes = _find_nearest(request, in_scope)
    if weight >= MISSING_WEIGHT:
        weight, nearest, changes = min(
            (weight, nearest, changes), _find_nearest(request, recordings), key=lambda nearest: nearest[0]
        )
    if nearest and not changes:
        changes = [ValueChange("the number of identical requests", "as recorded", "one more")]
    shown_differences = tuple(
        FieldDifference(change.path, *_shorten_pair(change.before, change.after))
        for change in changes[:DIFFERENCES_MAX]
    )
    omitted_count = max(0, len(changes) - DIFFERENCES_MAX)
    return UnmatchedRequest(_endpoint_name(request), len(recordings), nearest, shown_differences, omitted_count)


def _find_nearest(request: KeyedRequest, recordings: Iterable[Recording]) -> tuple[int, str, list[ValueChange]]:
    """The distance of the nearest recording, its name, and its differences; the name is empty where there is none."""
    best: tuple[int, str, list[ValueChange]] = (1 << 60, "", [])
    candidates = [recording for recording in recordings if recording.endpoint[:2] == request.endpoint[:2]]
    for recording in candidates[-CANDIDATES_MAX:]:
        try:
            changes = list(_find_differences(recording.source.load_key_fields(), request.key_fields))
        except TraceForgeError:
            continue  # It was removed or damaged since.
        weight = _total_weight(changes)
        if weight < best[0]:
            best = (weight, recording.name, changes)
    return best


def explain_unreadable(
    request: KeyedRequest, name: str, error: TraceForgeError, recording_count: int
) -> UnmatchedRequest:
    """The matching recording cannot be read any more."""
    reason = f"the recording {name} cannot be read: {error}"
    return unmatched_for_reason(request, recording_count, reason)._replace(nearest=name, can_record=False)


def unmatched_for_reason(request: KeyedRequest, recording_count: int, reason: str) -> UnmatchedRequest:
    """An unmatched request that no recording is compared with."""
    return UnmatchedRequest(_endpoint_name(request), recording_count, reason=reason)


def _endpoint_name(request: KeyedRequest) -> str:
    return f"{request.endpoint.dialect or 'an unknown dialect'} {request.endpoint.kind}"


def request_distance(before: KeyFields, after: KeyFields) -> int:
    """How different two requests are; 0 where they are equal."""
    return _total_weight(_find_differences(before, after))


def find_nearest_value(
    actual: JSON, named_values: Sequence[tuple[str, JSON]]
) -> tuple[str, tuple[FieldDifference, ...]]:
    """The name of the nearest value, and its differences from the actual one."""
    candidates = [
        (name, list(list_differences(value, actual, "$"))) for name, value in named_values[-CANDIDATES_MAX:]
    ]
    name, changes = min(candidates, key=lambda candidate: _total_weight(candidate[1]))
    return name, tuple(
        FieldDifference(change.path, *_shorten_pair(change.before, change.after))
        for change in changes[:DIFFERENCES_MAX]
    )


def _total_weight(changes: Iterable[ValueChange]) -> int:
    return sum(map(_weight, changes))


def _find_differences(before: KeyFields, after: KeyFields) -> Iterator[ValueChange]:
    if before.method != after.method:
        yield ValueChange("the method", before.method, after.method)
    if before.address != after.address:
        yield ValueChange("the address", before.address, after.address)
    yield from _differing_pairs("parameter", before.query, after.query)
    yield from _differing_pairs("header", before.headers, after.headers)
    yield from list_differences(before.body, after.body, "$")


def _differing_pairs(kind: str, before: Pairs, after: Pairs) -> Iterator[ValueChange]:
    for name in sorted({name for name, _ in (*before, *after)}):
        old, new = (_joined_values(pairs, name) for pairs in (before, after))
        if old != new:
            yield ValueChange(f"the {kind} {name}", old, new)


def _joined_values(pairs: Pairs, name: str) -> Side:
    values = [value for key, value in pairs if key == name]
    return ", ".join(values) if values else ABSENT


def _weight(change: ValueChange) -> int:
    """A changed word weighs less than a missing message, and a short change less than a long one."""
    if isinstance(change.before, Absent) or isinstance(change.after, Absent):
        return MISSING_WEIGHT
    if isinstance(change.before, str) and isinstance(change.after, str):
        start, end = _common_lengths(change.before, change.after)
        return 10 + min(900, max(len(change.before), len(change.after)) - start - end)
    return 100


def _common_lengths(before: str, after: str) -> tuple[int, int]:
    """The lengths of the common beginning and of the common end of two texts, without overlap."""
    shorter = min(len(before), len(after))
    start = _largest_size(shorter, lambda size: before[:size] == after[:size])
    end = _largest_size(shorter - start, lambda size: before[len(before) - size :] == after[len(after) - size :])
    return start, end


def _largest_size(limit: int, holds: Callable[[int], bool]) -> int:
    """Binary search for the largest size up to `limit` for which `holds` is true."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _shorten_pair(before: Side, after: Side) -> tuple[str, str]:
    """Both values as text; long ones from shortly before their first difference."""
    texts = [_value_text(side) for side in (before, after)]
    if max(map(len, texts)) <= VALUE_LENGTH_MAX:
        return texts[0], texts[1]
    start = max(0, _common_lengths(texts[0], texts[1])[0] - CONTEXT_LENGTH)
    return _window(texts[0], start), _window(texts[1], start)


def _window(text: str, start: int) -> str:
    end = start + VALUE_LENGTH_MAX
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _value_text(value: Side) -> str:
    return "nothing" if isinstance(value, Absent) else json_bytes(value).decode(errors="replace")


def _error_body(dialect: Dialect | None, message: str) -> JSON:
    if dialect is Dialect.OLLAMA:
        return {"error": message}
    if dialect is Dialect.GEMINI:
        return {"error": {"code": UNMATCHED_STATUS, "message": message, "status": "FAILED_PRECONDITION"}}
    error: JSONObject = {"type": ERROR_TYPE, "code": ERROR_TYPE, "message": message, "param": None}
    return {"type": "error", "error": error} if dialect is Dialect.ANTHROPIC else {"error": error}
