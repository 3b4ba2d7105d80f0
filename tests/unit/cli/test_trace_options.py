"""What the commands about traces say beside their answers, and about options that they cannot use."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click
import pytest

from support.purge_rows import trace_with_text
from traceforge.cli.trace_options import (
    make_filter,
    old_versions_note,
    store_notes,
    torn_note,
    unread_note,
)
from traceforge.traces import trace_store
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_store import TraceStore


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


@pytest.mark.parametrize("text", ["now", "9999999d", "999999w"])
def test_what_is_no_time_is_wrong_usage(text: str) -> None:
    """And the message names the option."""
    with pytest.raises(click.UsageError, match="--until"):
        make_filter({"until": text})


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
