"""The sums of the index: equal to those of the traces themselves."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from support.stored_traces import DAY, TRACES, call, store_calls
from traceforge.clock import timestamp_text
from traceforge.exchange import Caller
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore
from traceforge.wire.unified import as_object

MINUTE = 60_000


def open_store(project: Path) -> TraceStore:
    """A project with calls of two models and two call sites over two hours, some of which failed."""
    calls = [
        replace(
            call(
                number,
                model=("gpt-4.1", "gpt-4.1-mini")[number % 2],
                caller=Caller(f"app.py:{number % 3}:f") if number % 3 else Caller(),
                at=DAY + timedelta(minutes=3 * number),
                status=503 if number % 7 == 0 else 200,
            ),
            duration_ms=10.0 + number * 1.25,
        )
        for number in range(1, 41)
    ]
    store_calls(project, *calls)
    store = TraceStore(str(project / TRACES))
    store.update_index()
    return store


def test_sums_are_those_of_the_traces(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    expected: dict[tuple[int, str, str], list[float]] = defaultdict(lambda: [0, 0, 0.0])
    durations: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for row in store.list_rows():
        body = store.load_trace(row).body
        metadata, source = as_object(body["metadata"]), as_object(body.get("source"))
        offset = round((float(row.summary.timestamp[11:13]) * 60 + float(row.summary.timestamp[14:16])) // 15) * 15
        start = int(DAY.replace(hour=0).timestamp() * 1000) + offset * MINUTE
        place = f"{source['file']}:{source['line']}" if source else ""
        key = start, str(as_object(body["request"])["model"]), place
        expected[key][0] += 1
        expected[key][1] += metadata["status"] == "error"
        expected[key][2] += float(str(metadata.get("tokens_used", 0)))
        durations[key].append(int(float(str(metadata["duration_ms"])) * 10))

    groups = store.sum_calls(TraceFilter(), 15 * MINUTE)

    assert 40 == sum(group.calls for group in groups)
    assert dict(expected) == {
        (group.start_ms, group.model, group.source): [group.calls, group.errors, group.tokens] for group in groups
    }
    assert {key: sorted(times) for key, times in durations.items()} == {
        (group.start_ms, group.model, group.source): sorted(group.durations) for group in groups
    }


def test_a_filter_leaves_out_older_calls_and_other_models(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    since = timestamp_text(DAY + timedelta(minutes=60))

    assert 21 == sum(group.calls for group in store.sum_calls(TraceFilter(since=since), MINUTE))
    assert {"gpt-4.1"} == {group.model for group in store.sum_calls(TraceFilter(model="gpt-4.1"), MINUTE)}


def test_the_range_of_time_is_that_of_the_calls(tmp_path: Path) -> None:
    store = open_store(tmp_path / "full")
    first = int(DAY.timestamp() * 1000)

    assert (first + 3 * MINUTE, first + 120 * MINUTE) == store.find_time_range()
    assert TraceStore(str(tmp_path / "nothing")).find_time_range() is None
    assert [] == TraceStore(str(tmp_path / "nothing")).sum_calls(TraceFilter(), MINUTE)
