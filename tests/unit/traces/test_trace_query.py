"""How people choose traces: fields, times and words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from traceforge.clock import pinned
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_query import InvalidQuery, TraceQuery, read_query, read_time

NOON = datetime(2026, 1, 9, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("2026-01-31T12:00:00", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00+01:00", "2026-01-31T12:00:00+01:00"),
        ("90s", "2026-01-09T11:58:30.000Z"),
        ("30m", "2026-01-09T11:30:00.000Z"),
        ("2h", "2026-01-09T10:00:00.000Z"),
        ("7d", "2026-01-02T12:00:00.000Z"),
        ("1w", "2026-01-02T12:00:00.000Z"),
    ],
)
def test_a_time_is_a_timestamp_a_day_or_how_long_ago(text: str, expected: str) -> None:
    """Whatever a person writes becomes one timestamp."""
    with pinned(NOON):
        assert expected == read_time(text, "since")


@pytest.mark.parametrize("text", ["now", "2026-02-30", "7", "d", "-1d", "1d\n", "9999999d", "999999w", "1 d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """And the error has the name of the field."""
    with pytest.raises(InvalidQuery) as refused:
        read_time(text, "until")

    assert "until" == refused.value.name


def test_a_query_has_fields_and_words() -> None:
    """Values with spaces are quoted; a name that is no field is a word to search for, with its colon."""
    query = read_query(
        'status:error refund "two words" session:"tests/a.py::test b" model:gpt-* https://x.example a:b'
    )

    assert (
        TraceQuery(
            TraceFilter(status="error", session_id="tests/a.py::test b", model="gpt-*"),
            'refund "two words" https://x.example a:b',
        )
        == query
    )


def test_a_field_in_the_text_takes_precedence() -> None:
    """Somebody typed it last; empty fields filter nothing."""
    fields = {"provider": "openai", "model": "  ", "test": "t::a"}

    assert TraceFilter(provider="gemini", session_id="t::a") == read_query("provider:gemini", fields).filter


def test_an_unknown_status_is_refused() -> None:
    """It would match nothing, and an empty list would say that there is nothing."""
    with pytest.raises(InvalidQuery, match="success or error"):
        read_query("status:failed")
