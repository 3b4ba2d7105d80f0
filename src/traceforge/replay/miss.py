"""A miss: a request that nothing recorded answers, explained.

In: what was asked, and the recordings there are. Out: the nearest of them, the places that differ with both values
(redacted, and only as much of them as tells them apart), and the answer that says so in the provider's own error
shape. Never: an answer that an SDK would try again, or take for one of the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.compare.tree import ABSENT, Absent, Row, Side, differences
from traceforge.errors import TraceForgeError
from traceforge.exchange import Caller, Chunk, Headers
from traceforge.replay.answer import RecordedAnswer
from traceforge.replay.key import Asked, Pairs, Question
from traceforge.replay.library import Found, Recording
from traceforge.wire.registry import Dialect

STATUS = 418  # No SDK tries it again, and no provider sends it.
HEADERS: Headers = (("content-type", "application/json"), ("x-should-retry", "false"))
KIND = "traceforge_replay_miss"
CANDIDATES_MAX = 200  # Compared in full; among more, the latest count.
MISSING = 1000  # How far a message or a field that is only in one of two questions puts them apart.
PLACES_MAX = 5
VALUE_LENGTH_MAX = 120
LEAD = 30  # How much of two texts is shown before the place where they part.


class Place(NamedTuple):
    """One place that differs, as it is shown."""

    path: str
    recorded: str
    asked: str


class Miss(NamedTuple):
    """Why a request was not answered."""

    endpoint: str
    recordings: int
    nearest: str = ""  # the name of a recording; empty where there is none of this endpoint
    places: tuple[Place, ...] = ()
    more: int = 0  # places that are not shown
    why: str = ""  # where it is not about places
    caller: Caller = Caller()
    asked: Asked | None = None  # clean; None where the request could not even be looked up

    @property
    def message(self) -> str:
        """One text that says everything."""
        if self.why:
            return f"no recorded call matches: {self.why}"
        if not self.recordings:
            return "no recorded call matches: nothing was recorded"
        if not self.nearest:
            return f"no recorded call matches: none of {self.recordings} recordings is of {self.endpoint}"
        shown = "; ".join(f"{at.path}: recorded {at.recorded}, asked {at.asked}" for at in self.places)
        more = f"; and at {self.more} more" if self.more else ""
        return f"no recorded call matches; the nearest is {self.nearest}, which differs at {shown}{more}"

    def answer(self, dialect: Dialect | None) -> RecordedAnswer:
        """The miss as the provider's SDK can show it."""
        body = json_bytes(_error(dialect, f"TraceForge replay: {self.message}"))
        return RecordedAnswer(STATUS, HEADERS, (Chunk(0.0, body),), streamed=False)


def explain(asked: Asked, found: Found, here: Sequence[Recording], recordings: Sequence[Recording]) -> Miss:
    """Find the nearest recording, and what differs.

    One of the same scope, which are those `here`, is nearer than any other as long as the two have their fields and
    messages in common: a test that asks something else now is compared with what it asked.
    """
    endpoint = f"{asked.endpoint.dialect or 'an unknown dialect'} {asked.endpoint.kind}"
    if found.differs:
        why = f"a redacted part differs at {found.differs} from {found.nearest}, or the match key is another one"
        return Miss(endpoint, len(recordings), found.nearest, why=why)
    weight, nearest, rows = _nearest(asked, here)
    if weight >= MISSING:
        weight, nearest, rows = min((weight, nearest, rows), _nearest(asked, recordings), key=lambda one: one[0])
    if nearest and not rows:
        rows = [Row("how often it was asked", "as often as it was recorded", "once more")]
    places = tuple(Place(row.path, *_shown(row.before, row.after)) for row in rows[:PLACES_MAX])
    return Miss(endpoint, len(recordings), nearest, places, max(0, len(rows) - PLACES_MAX))


def _nearest(asked: Asked, recordings: Iterable[Recording]) -> tuple[int, str, list[Row]]:
    """How far the nearest is, its name, and where it differs; far away and without a name where there is none."""
    best: tuple[int, str, list[Row]] = (1 << 60, "", [])
    alike = [one for one in recordings if one.endpoint[:2] == asked.endpoint[:2]]
    for one in alike[-CANDIDATES_MAX:]:
        try:
            rows = list(_rows(one.source.question(), asked.question))
        except TraceForgeError:
            continue  # It was removed or damaged since, and says nothing any more.
        weight = _total(rows)
        if weight < best[0]:
            best = (weight, one.name, rows)
    return best


def unreadable(asked: Asked, name: str, error: TraceForgeError, recordings: int) -> Miss:
    """The recording that would answer cannot be read any more."""
    endpoint = f"{asked.endpoint.dialect or 'an unknown dialect'} {asked.endpoint.kind}"
    return Miss(endpoint, recordings, name, why=f"the recording {name} cannot be read: {error}")


def distance(before: Question, after: Question) -> int:
    """How far apart two questions are; 0 where they are the same."""
    return _total(_rows(before, after))


def nearest_value(asked: JSON, known: Sequence[tuple[str, JSON]]) -> tuple[str, tuple[Place, ...]]:
    """Which of some named values is the nearest, and the places at which it differs."""
    candidates = [(name, list(differences(value, asked, "$"))) for name, value in known[-CANDIDATES_MAX:]]
    name, rows = min(candidates, key=lambda one: _total(one[1]))
    return name, tuple(Place(row.path, *_shown(row.before, row.after)) for row in rows[:PLACES_MAX])


def _total(rows: Iterable[Row]) -> int:
    return sum(map(_weight, rows))


def _rows(before: Question, after: Question) -> Iterator[Row]:
    """Every place at which two questions differ."""
    if before.method != after.method:
        yield Row("the method", before.method, after.method)
    if before.address != after.address:
        yield Row("the address", before.address, after.address)
    yield from _pairs("parameter", before.query, after.query)
    yield from _pairs("header", before.headers, after.headers)
    yield from differences(before.body, after.body, "$")


def _pairs(kind: str, before: Pairs, after: Pairs) -> Iterator[Row]:
    for name in sorted({name for name, _ in (*before, *after)}):
        old, new = (_joined(pairs, name) for pairs in (before, after))
        if old != new:
            yield Row(f"the {kind} {name}", old, new)


def _joined(pairs: Pairs, name: str) -> Side:
    values = [value for key, value in pairs if key == name]
    return ", ".join(values) if values else ABSENT


def _weight(row: Row) -> int:
    """A changed word is nearer than a missing message, and a longer text that is missing is farther."""
    if isinstance(row.before, Absent) or isinstance(row.after, Absent):
        return MISSING
    if isinstance(row.before, str) and isinstance(row.after, str):
        start, end = _common(row.before, row.after)
        return 10 + min(900, max(len(row.before), len(row.after)) - start - end)
    return 100


def _common(before: str, after: str) -> tuple[int, int]:
    """How long the common beginning and the common end of two texts are; they do not overlap."""
    shorter = min(len(before), len(after))
    start = _longest(shorter, lambda size: before[:size] == after[:size])
    end = _longest(shorter - start, lambda size: before[len(before) - size :] == after[len(after) - size :])
    return start, end


def _longest(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest size up to a limit for which it holds; it holds for every smaller one, too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _shown(before: Side, after: Side) -> tuple[str, str]:
    """Both sides, from shortly before the place where they part if they are long."""
    texts = [_text(side) for side in (before, after)]
    if max(map(len, texts)) <= VALUE_LENGTH_MAX:
        return texts[0], texts[1]
    start = max(0, _common(texts[0], texts[1])[0] - LEAD)
    return _window(texts[0], start), _window(texts[1], start)


def _window(text: str, start: int) -> str:
    end = start + VALUE_LENGTH_MAX
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _text(value: Side) -> str:
    return "nothing" if isinstance(value, Absent) else json_bytes(value).decode(errors="replace")


def _error(dialect: Dialect | None, message: str) -> JSON:
    if dialect is Dialect.OLLAMA:
        return {"error": message}
    if dialect is Dialect.GEMINI:
        return {"error": {"code": STATUS, "message": message, "status": "FAILED_PRECONDITION"}}
    error: JSONObject = {"type": KIND, "code": KIND, "message": message, "param": None}
    return {"type": "error", "error": error} if dialect is Dialect.ANTHROPIC else {"error": error}
