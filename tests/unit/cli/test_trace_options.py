"""What the commands about traces say beside their answers, and how they read times."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from support.purge_rows import trace_with_text
from traceforge.cli.trace_options import (
    old_versions_note,
    read_time,
    store_notes,
    torn_note,
    unread_note,
)
from traceforge.clock import pinned
from traceforge.traces import trace_store
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_store import TraceStore

NOON = datetime(2026, 1, 9, 12, 0, 0, tzinfo=UTC)


def test_notes_are_sentences_for_one_and_for_many() -> None:
    """Noun, verb and pronoun agree."""
    assert [
        "1 trace was lost: a crash interrupted writing it",
        "2 traces were lost: a crash interrupted writing them",
        "1 file in x is not a trace; see `traceforge trace verify`",
        "12 files in x are not traces; see `traceforge trace verify`",
        "1 trace of an older version was upgraded as it was read; `traceforge trace migrate` rewrites it",
        "3 traces of older versions were upgraded as they were read; `traceforge trace migrate` rewrites them",
    ] == [
        torn_note(1), torn_note(2), unread_note(1, "x"), unread_note(12, "x"),
        old_versions_note(1), old_versions_note(3),
    ]  # fmt: skip


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
        assert expected == read_time(text, "--since")


@pytest.mark.parametrize("text", ["now", "2026-02-30", "7", "d", "-1d", "1d\n", "9999999d", "999999w", "1 d"])
def test_what_is_no_time_is_wrong_usage(text: str) -> None:
    """And the message names the option."""
    with pytest.raises(click.UsageError, match="--until"):
        read_time(text, "--until")


def test_the_next_command_names_segments_that_are_not_files_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its time was up, and no longer once the spool is empty; the traces are listed both times."""
    for _ in range(2):
        writer = SpoolWriter(str(tmp_path))
        writer.append(trace_with_text("late"))
        writer.seal()
    with monkeypatch.context() as patch, closing(TraceStore(str(tmp_path))) as behind:
        patch.setattr(trace_store, "DRAIN_SECONDS", 0.0)
        behind.update_index()
        late = [list(store_notes(behind)), len(behind.list_rows())]
    with closing(TraceStore(str(tmp_path))) as done:
        done.update_index()
        finished = [list(store_notes(done)), len(done.list_rows())]

    note = "2 segments of the spool could not be turned into files yet; the traces are listed all the same"
    assert [[note], 2] == late
    assert [[], 2] == finished
