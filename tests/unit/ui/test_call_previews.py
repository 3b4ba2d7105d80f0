"""The previews of calls, kept in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stored_traces import TRACES, call, store_calls
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore
from traceforge.ui import call_previews
from traceforge.ui.call_previews import CallPreviews
from traceforge.ui.views.call_preview import CallPreview

PARIS = "The capital of France is Paris."


@pytest.fixture
def store(tmp_path: Path) -> TraceStore:
    store_calls(tmp_path, *(call(number, f"Question {number}?") for number in range(1, 5)))
    made = TraceStore(str(tmp_path / TRACES))
    made.update_index()
    return made


def rows(store: TraceStore) -> list[TraceRow]:
    return store.list_rows(TraceFilter())


def test_each_trace_is_read_once(store: TraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_previews, "READ_SECONDS", 3600.0)
    previews = CallPreviews()
    first = previews.find(store, rows(store))
    monkeypatch.setattr(call_previews, "read_preview", None)

    assert first == previews.find(store, rows(store))
    assert {CallPreview(f"Question {number}?", PARIS) for number in range(1, 5)} == set(first.values())


def test_what_cannot_be_read_in_time_comes_with_the_next_request(
    store: TraceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page never waits for more."""
    previews = CallPreviews()
    times = iter([0.0, 0.0, 0.01, 1.0, 1.0])
    monkeypatch.setattr(call_previews.time, "monotonic", lambda: next(times))
    assert 2 == len(previews.find(store, rows(store)))

    monkeypatch.setattr(call_previews.time, "monotonic", lambda: 0.0)
    assert 4 == len(previews.find(store, rows(store)))


def test_the_oldest_previews_are_dropped(store: TraceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_previews, "READ_SECONDS", 3600.0)
    monkeypatch.setattr(call_previews, "PREVIEWS_MAX", 2)
    previews = CallPreviews()

    assert 4 == len(previews.find(store, rows(store)))
    assert 2 == len(previews._previews)


def test_a_large_or_removed_trace_has_an_empty_preview(
    store: TraceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_previews, "READ_SECONDS", 3600.0)
    listed = rows(store)
    (tmp_path / TRACES / listed[0].summary.file_name).unlink()
    (tmp_path / TRACES / listed[1].summary.file_name).write_text("{")
    monkeypatch.setattr(call_previews, "FILE_BYTES_MAX", 100)

    assert {CallPreview()} == set(CallPreviews().find(store, listed).values())
