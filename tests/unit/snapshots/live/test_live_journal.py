"""The journal of a live check: what a stop leaves."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.proposals import approve_change, make_call, propose
from traceforge.clock import pinned, timestamp_text
from traceforge.errors import CannotRead, CannotWrite, PathInUse
from traceforge.snapshots.live.live_address import ProviderAddresses
from traceforge.snapshots.live.live_answer import LiveAnswer
from traceforge.snapshots.live.live_journal import FINISHED, FOLDER, LiveJournal
from traceforge.snapshots.live.live_plan import LivePlan, make_plan

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def plan() -> LivePlan:
    """One call, three runs."""
    approved = approve_change(propose(make_call("Hi")).changes[0])
    return make_plan([approved], ProviderAddresses({"openai": "http://127.0.0.1:9"}), {}, runs=3)


def answer(plan: LivePlan, run: int, at: datetime = NOW) -> LiveAnswer:
    """An answer to the call of a plan."""
    call = plan.calls[0]
    return LiveAnswer(
        str(call.digest), call.approved.id, run, timestamp_text(at), {"content": "a"}, True, 1.5, tokens=3
    )


def files(project: Path) -> list[str]:
    """What stands there."""
    return sorted(path.name for path in (project / FOLDER).iterdir())


def test_answers_survive_an_interrupted_check(tmp_path: Path, plan: LivePlan) -> None:
    """The next check of the same plan uses them, also with more or fewer runs."""
    with pinned(NOW):
        with LiveJournal(str(tmp_path), plan) as journal:
            journal.add(answer(plan, 1))
            journal.add(answer(plan, 2))
        with LiveJournal(str(tmp_path), plan._replace(runs=9)) as reopened:
            assert [answer(plan, 1), answer(plan, 2)] == reopened.answers
        with LiveJournal(str(tmp_path), plan._replace(runs=1)) as fewer:
            assert [answer(plan, 1)] == fewer.answers


def test_a_finished_check_starts_again(tmp_path: Path, plan: LivePlan) -> None:
    """Its answers can still be read, under another name."""
    with pinned(NOW), LiveJournal(str(tmp_path), plan) as journal:
        journal.add(answer(plan, 1))
        journal.finish()

    assert [FINISHED] == files(tmp_path)
    with LiveJournal(str(tmp_path), plan) as reopened:
        assert [] == reopened.answers


def test_fresh_discards_the_journal_and_an_empty_journal_is_removed(tmp_path: Path, plan: LivePlan) -> None:
    with LiveJournal(str(tmp_path), plan) as journal:
        journal.add(answer(plan, 1))
    with LiveJournal(str(tmp_path), plan, fresh=True) as reopened:
        assert [] == reopened.answers

    assert [] == files(tmp_path)


def test_answers_of_another_day_are_not_used(tmp_path: Path, plan: LivePlan) -> None:
    """Models change."""
    with LiveJournal(str(tmp_path), plan) as journal:
        journal.add(answer(plan, 1, NOW - timedelta(days=2)))
        journal.add(answer(plan, 2, NOW - timedelta(hours=2)))
    with pinned(NOW), LiveJournal(str(tmp_path), plan) as reopened:
        assert [2] == [live_answer.run for live_answer in reopened.answers]


def test_a_last_line_cut_by_a_crash_is_dropped_and_any_other_is_an_error(tmp_path: Path, plan: LivePlan) -> None:
    """A partial last line was never used; a broken line before it is damage."""
    with pinned(NOW):
        with LiveJournal(str(tmp_path), plan) as journal:
            journal.add(answer(plan, 1))
        file = tmp_path / FOLDER / files(tmp_path)[0]
        complete = file.read_bytes()
        file.write_bytes(complete + complete[:40])
        with LiveJournal(str(tmp_path), plan) as reopened:
            reopened.add(answer(plan, 2))
            assert 2 == len(reopened.answers)
        assert 2 == file.read_bytes().count(b"\n")

        file.write_bytes(complete[:40] + b"\n" + complete)
        with pytest.raises(CannotRead, match="line 1 is not an answer"):
            LiveJournal(str(tmp_path), plan)


def test_two_do_not_make_the_same_check(tmp_path: Path, plan: LivePlan) -> None:
    """The second process is refused; only the user can read the file."""
    with LiveJournal(str(tmp_path), plan) as journal:
        with pytest.raises(PathInUse), LiveJournal(str(tmp_path), plan):
            pass
        journal.add(answer(plan, 1))
        (name,) = files(tmp_path)

        assert 0o600 == os.stat(tmp_path / FOLDER / name).st_mode & 0o777


def test_a_full_disk_is_an_error_and_the_partial_line_is_dropped(
    tmp_path: Path, plan: LivePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of which only a part could be written counts as none, here and for the next check."""
    write = os.write
    with pinned(NOW):
        with LiveJournal(str(tmp_path), plan) as journal:
            journal.add(answer(plan, 1))
            monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
            with pytest.raises(CannotWrite, match="no space left"):
                journal.add(answer(plan, 2))
        monkeypatch.undo()
        with LiveJournal(str(tmp_path), plan) as reopened:
            assert [answer(plan, 1)] == reopened.answers
