"""`clock.py`: one clock, one spelling of an instant."""

from __future__ import annotations

import contextvars
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.clock import days_ago, find_instant, is_timestamp, now, now_text, pinned, timestamp_text

NOON = datetime(2026, 1, 9, 12, 0, 0, 123456, tzinfo=UTC)

GOOD = [
    "2026-01-09T10:30:00Z",
    "2026-01-09T10:30:00.1Z",
    "2026-01-09T10:30:00.123456789Z",
    "2026-01-09T10:30:00+00:00",
    "2026-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00Z",
    "2024-02-29T00:00:00Z",
]
BAD = [
    "",
    "now",
    "2026-01-09",
    "2026-01-09T10:30:00",
    "2026-01-09 10:30:00Z",
    "2026-01-09t10:30:00z",
    "2026-01-09T10:30Z",
    "2026-01-09T10:30:60Z",
    "2026-01-09T24:00:00Z",
    "2026-01-09T10:60:00Z",
    "2026-13-09T10:30:00Z",
    "2026-00-09T10:30:00Z",
    "2026-01-32T10:30:00Z",
    "2026-01-00T10:30:00Z",
    "2026-01-09T10:30:00.Z",
    "2026-01-09T10:30:00,5Z",
    "2026-01-09T10:30:00.1234567890Z",
    "2026-01-09T10:30:00+0100",
    "2026-01-09T10:30:00+24:00",
    "2026-01-09T10:30:00Z\n",
    "\n2026-01-09T10:30:00Z",
    " 2026-01-09T10:30:00Z",
    "٢٠٢٦-01-09T10:30:00Z",
    "20260109T103000Z",
    "12026-01-09T10:30:00Z",
]


def test_the_clock_tells_the_current_time_in_utc() -> None:
    """Unpinned, `now` lies between two readings of the system's clock."""
    before = datetime.now(UTC)
    instant = now()

    assert before <= instant <= datetime.now(UTC)
    assert UTC is instant.tzinfo


def test_a_pinned_clock_stands_still_until_its_block_ends() -> None:
    """Inside the block every reading is the pinned instant; blocks nest."""
    with pinned(NOON):
        assert NOON == now() == now()
        with pinned(NOON + timedelta(days=1)):
            assert NOON + timedelta(days=1) == now()
        assert NOON == now()

    assert now() > NOON


def test_an_error_ends_a_pinned_block_too() -> None:
    """The clock goes on, however the block was left."""
    with pytest.raises(ZeroDivisionError), pinned(NOON):
        _ = 1 / 0

    assert now() > NOON


def test_a_pinned_clock_is_pinned_in_its_own_context_only() -> None:
    """Another context, as another thread or task has, sees the real time."""
    elsewhere = contextvars.copy_context()
    with pinned(NOON):
        times = elsewhere.run(now)

    assert NOON != times


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (NOON, "2026-01-09T12:00:00.123Z"),
        (NOON.replace(microsecond=0), "2026-01-09T12:00:00.000Z"),
        (NOON.replace(microsecond=999_999), "2026-01-09T12:00:00.999Z"),
        (NOON.astimezone(timezone(timedelta(hours=-5, minutes=-30))), "2026-01-09T12:00:00.123Z"),
        (datetime(33, 1, 9, tzinfo=UTC), "0033-01-09T00:00:00.000Z"),
    ],
)
def test_an_instant_is_stored_in_utc_with_milliseconds(instant: datetime, text: str) -> None:
    """Whatever its zone, the text ends in Z, has three digits of a second, and is never rounded up."""
    assert text == timestamp_text(instant)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_every_stored_instant_can_be_read_again(instant: datetime) -> None:
    """What `timestamp_text` writes, `find_instant` reads, to the millisecond."""
    milliseconds = instant.microsecond // 1000

    assert (instant.replace(microsecond=0), milliseconds * 1_000_000) == find_instant(timestamp_text(instant))


@pytest.mark.parametrize("text", GOOD)
def test_a_timestamp_is_recognised(text: str) -> None:
    """RFC 3339 with a zone, and up to nine digits of a second."""
    assert is_timestamp(text)


@pytest.mark.parametrize("text", BAD, ids=ascii)
def test_any_other_spelling_is_refused(text: str) -> None:
    """No zone, other digits, a final newline, a 25th hour: none of it is a timestamp."""
    assert not is_timestamp(text)
    assert find_instant(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29T10:30:00Z",
        "2026-02-30T10:30:00Z",
        "2026-04-31T10:30:00Z",
        "1900-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    ],
)
def test_a_time_that_does_not_exist_is_spelled_as_one_and_no_instant(text: str) -> None:
    """The calendar, and the years 1 to 9999 in UTC, decide after the spelling did."""
    assert is_timestamp(text)
    assert find_instant(text) is None


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-01-09T10:30:00Z", 0),
        ("2026-01-09T11:30:00.0+01:00", 0),
        ("2026-01-09T10:30:00.5Z", 500_000_000),
        ("2026-01-09T05:00:00.000000001-05:30", 1),
        ("2026-01-09T10:30:00.123456789Z", 123_456_789),
    ],
)
def test_an_instant_has_its_second_in_utc_and_its_nanoseconds(text: str, nanoseconds: int) -> None:
    """Five spellings of the same second, each with its own fraction."""
    assert (datetime(2026, 1, 9, 10, 30, tzinfo=UTC), nanoseconds) == find_instant(text)


def test_instants_order_by_time_and_not_by_text() -> None:
    """Zones and lengths of fractions mislead a comparison of texts; instants compare rightly."""
    in_order = [
        "2026-01-09T12:00:00+02:00",
        "2026-01-09T10:00:00.000000001Z",
        "2026-01-09T10:00:00.5Z",
        "2026-01-09T10:00:00.51Z",
        "2026-01-09T09:00:01-01:00",
    ]

    assert in_order == sorted(set(in_order), key=lambda text: find_instant(text) or ())
    assert in_order != sorted(in_order)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (0, "2026-01-09T12:00:00.123Z"),
        (1.5, "2026-01-08T00:00:00.123Z"),
        (30, "2025-12-10T12:00:00.123Z"),
        (100_000, "1970-01-01T00:00:00.000Z"),
        (10**9, "1970-01-01T00:00:00.000Z"),
        (1e300, "1970-01-01T00:00:00.000Z"),
    ],
)
def test_days_ago_is_never_before_any_call(days: float, expected: str) -> None:
    """However many days a project keeps its traces, there is such an instant."""
    with pinned(NOON):
        assert expected == days_ago(days)


def test_the_text_of_now_is_that_of_the_instant() -> None:
    """The quick way and the long way agree, second after second, and a pinned clock counts."""
    for _ in range(1000):
        before, text, after = timestamp_text(now()), now_text(), timestamp_text(now())
        assert before <= text <= after
        assert is_timestamp(text)
        assert len(before) == len(text)
    with pinned(NOON):
        assert timestamp_text(NOON) == now_text()


def test_the_text_of_now_follows_the_clock_by_the_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an instant is used again within its millisecond only, also where the clock is set back."""
    start = 1_794_830_000_123_000_000
    instants = [start, start + 999_999, start + 1_000_000, start + 1_000_000_000, start]
    monkeypatch.setattr("traceforge.clock.time.time_ns", iter(instants).__next__)

    texts = [now_text() for _ in instants]

    assert ["20.123Z", "20.123Z", "20.124Z", "21.123Z", "20.123Z"] == [text[-7:] for text in texts]
    assert all(map(is_timestamp, texts))
