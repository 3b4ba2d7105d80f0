"""A miss: a request that nothing recorded answers, explained.

In: what was asked, and the recordings there are. Out: the nearest of them, the places that differ with both values
(redacted, and only as much of them as tells them apart), and the answer that says so in the provider's own error
shape. Never: an answer that an SDK would try again, or take for one of the model's.
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

UNMATCHED_STATUS = 418  # No SDK tries it again, and no provider sends it.
UNMATCHED_HEADERS: Headers = (("content-type", "application/json"), ("x-should-retry", "false"))
ERROR_TYPE = "traceforge_replay_miss"
CANDIDATES_MAX = 200  # Compared in full; among more, the latest count.
MISSING_WEIGHT = 1000  # How far a message or a field that is only in one of two questions puts them apart.
DIFFERENCES_MAX = 5
VALUE_LENGTH_MAX = 120
CONTEXT_LENGTH = 30  # How much of two texts is shown before the place where they part.


class FieldDifference(NamedTuple):
    """One place that differs, as it is shown."""

    path: str
    recorded: str
    live: str


class UnmatchedRequest(NamedTuple):
    """Why a request was not answered."""

    endpoint: str
    recording_count: int
    nearest: str = ""  # the name of a recording; empty where there is none of this endpoint
    differences: tuple[FieldDifference, ...] = ()
    omitted_count: int = 0  # places that are not shown
    reason: str = ""  # where it is not about places
    caller: Caller = Caller()
    request: KeyedRequest | None = None  # clean; None where the request could not even be looked up

    @property
    def message(self) -> str:
        """One text that says everything."""
        if self.reason:
            return f"no recorded call matches: {self.reason}"
        if not self.recording_count:
            return "no recorded call matches: nothing was recorded"
        if not self.nearest:
            return f"no recorded call matches: none of {self.recording_count} recordings is of {self.endpoint}"
        shown = "; ".join(
            f"{difference.path}: recorded {difference.recorded}, asked {difference.live}"
            for difference in self.differences
        )
        omitted_count = f"; and at {self.omitted_count} more" if self.omitted_count else ""
        return f"no recorded call matches; the nearest is {self.nearest}, which differs at {shown}{omitted_count}"

    def to_response(self, dialect: Dialect | None) -> RecordedResponse:
        """The miss as the provider's SDK can show it."""
        body = json_bytes(_error_body(dialect, f"TraceForge replay: {self.message}"))
        return RecordedResponse(UNMATCHED_STATUS, UNMATCHED_HEADERS, (Chunk(0.0, body),), streamed=False)


def explain_unmatched(
    request: KeyedRequest, lookup: LookupResult, in_scope: Sequence[Recording], recordings: Sequence[Recording]
) -> UnmatchedRequest:
    """Find the nearest recording, and what differs.

    One of the same scope, which are those `here`, is nearer than any other as long as the two have their fields and
    messages in common: a test that asks something else now is compared with what it asked.
    """
    if lookup.differs_at:
        reason = (
            f"a redacted part differs at {lookup.differs_at} from {lookup.nearest}, or the match key is another one"
        )
        return unmatched_for_reason(request, len(recordings), reason)._replace(nearest=lookup.nearest)
    weight, nearest, rows = _find_nearest(request, in_scope)
    if weight >= MISSING_WEIGHT:
        weight, nearest, rows = min(
            (weight, nearest, rows), _find_nearest(request, recordings), key=lambda one: one[0]
        )
    if nearest and not rows:
        rows = [ValueChange("how often it was asked", "as often as it was recorded", "once more")]
    shown_differences = tuple(
        FieldDifference(row.path, *_shorten_pair(row.before, row.after)) for row in rows[:DIFFERENCES_MAX]
    )
    omitted_count = max(0, len(rows) - DIFFERENCES_MAX)
    return UnmatchedRequest(_endpoint_name(request), len(recordings), nearest, shown_differences, omitted_count)


def _find_nearest(request: KeyedRequest, recordings: Iterable[Recording]) -> tuple[int, str, list[ValueChange]]:
    """How far the nearest is, its name, and where it differs; far away and without a name where there is none."""
    best: tuple[int, str, list[ValueChange]] = (1 << 60, "", [])
    candidates = [one for one in recordings if one.endpoint[:2] == request.endpoint[:2]]
    for one in candidates[-CANDIDATES_MAX:]:
        try:
            rows = list(_find_differences(one.source.load_key_fields(), request.key_fields))
        except TraceForgeError:
            continue  # It was removed or damaged since, and says nothing any more.
        weight = _total_weight(rows)
        if weight < best[0]:
            best = (weight, one.name, rows)
    return best


def explain_unreadable(
    request: KeyedRequest, name: str, error: TraceForgeError, recording_count: int
) -> UnmatchedRequest:
    """The recording that would answer cannot be read any more."""
    reason = f"the recording {name} cannot be read: {error}"
    return unmatched_for_reason(request, recording_count, reason)._replace(nearest=name)


def unmatched_for_reason(request: KeyedRequest, recording_count: int, reason: str) -> UnmatchedRequest:
    """An unmatched request that no recording is compared with."""
    return UnmatchedRequest(_endpoint_name(request), recording_count, reason=reason)


def _endpoint_name(request: KeyedRequest) -> str:
    return f"{request.endpoint.dialect or 'an unknown dialect'} {request.endpoint.kind}"


def request_distance(before: KeyFields, after: KeyFields) -> int:
    """How far apart two questions are; 0 where they are the same."""
    return _total_weight(_find_differences(before, after))


def find_nearest_value(
    actual: JSON, named_values: Sequence[tuple[str, JSON]]
) -> tuple[str, tuple[FieldDifference, ...]]:
    """Which of some named values is the nearest, and the places at which it differs."""
    candidates = [
        (name, list(list_differences(value, actual, "$"))) for name, value in named_values[-CANDIDATES_MAX:]
    ]
    name, rows = min(candidates, key=lambda one: _total_weight(one[1]))
    return name, tuple(
        FieldDifference(row.path, *_shorten_pair(row.before, row.after)) for row in rows[:DIFFERENCES_MAX]
    )


def _total_weight(rows: Iterable[ValueChange]) -> int:
    return sum(map(_weight, rows))


def _find_differences(before: KeyFields, after: KeyFields) -> Iterator[ValueChange]:
    """Every place at which two questions differ."""
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


def _weight(row: ValueChange) -> int:
    """A changed word is nearer than a missing message, and a longer text that is missing is farther."""
    if isinstance(row.before, Absent) or isinstance(row.after, Absent):
        return MISSING_WEIGHT
    if isinstance(row.before, str) and isinstance(row.after, str):
        start, end = _common_lengths(row.before, row.after)
        return 10 + min(900, max(len(row.before), len(row.after)) - start - end)
    return 100


def _common_lengths(before: str, after: str) -> tuple[int, int]:
    """How long the common beginning and the common end of two texts are; they do not overlap."""
    shorter = min(len(before), len(after))
    start = _largest_size(shorter, lambda size: before[:size] == after[:size])
    end = _largest_size(shorter - start, lambda size: before[len(before) - size :] == after[len(after) - size :])
    return start, end


def _largest_size(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest size up to a limit for which it holds; it holds for every smaller one, too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _shorten_pair(before: Side, after: Side) -> tuple[str, str]:
    """Both sides, from shortly before the place where they part if they are long."""
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
