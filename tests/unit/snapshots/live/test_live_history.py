"""Stored reports of live checks."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from traceforge.clock import pinned
from traceforge.errors import CannotRead, NotFound
from traceforge.snapshots.live.live_history import (
    REPORTS_FOLDER,
    REPORTS_MAX,
    list_reports,
    read_report,
    store_report,
)

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def test_reports_are_listed_newest_first_and_read_as_stored(tmp_path: Path) -> None:
    names = []
    for minute in range(3):
        with pinned(NOW + timedelta(minutes=minute)):
            names.append(store_report(str(tmp_path), {"exit_code": minute, "snapshots": []}))

    assert names[::-1] == list_reports(str(tmp_path))
    stored = {"at": "2026-11-18T12:01:00.000Z", "exit_code": 1, "snapshots": []}
    assert stored == read_report(str(tmp_path), names[1])


def test_only_the_newest_reports_stay(tmp_path: Path) -> None:
    for second in range(REPORTS_MAX + 5):
        with pinned(NOW + timedelta(seconds=second)):
            store_report(str(tmp_path), {"exit_code": second})

    names = list_reports(str(tmp_path))
    assert REPORTS_MAX == len(names) == len(list((tmp_path / REPORTS_FOLDER).iterdir()))
    assert [REPORTS_MAX + 4, 5] == [read_report(str(tmp_path), names[place])["exit_code"] for place in (0, -1)]


def test_a_report_is_for_this_user_alone(tmp_path: Path) -> None:
    """It quotes answers."""
    name = store_report(str(tmp_path), {})

    path = tmp_path / REPORTS_FOLDER / f"{name}.json"
    assert (0o600, 0o700) == (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode))


@pytest.mark.parametrize("name", ["", "..", "../../secret", "2026-11-18T12-00-00-000Z-00000000", "a\0b"])
def test_a_name_that_is_not_listed_is_not_found(tmp_path: Path, name: str) -> None:
    """Also where a file outside of the folder has it."""
    (tmp_path / "secret.json").write_text("{}")
    store_report(str(tmp_path), {})

    with pytest.raises(NotFound):
        read_report(str(tmp_path), name)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"'])
def test_a_broken_report_is_named(tmp_path: Path, content: bytes) -> None:
    name = store_report(str(tmp_path), {})
    (tmp_path / REPORTS_FOLDER / f"{name}.json").write_bytes(content)

    with pytest.raises(CannotRead, match="not a report of a live check"):
        read_report(str(tmp_path), name)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    name = store_report(str(tmp_path), {})
    path = tmp_path / REPORTS_FOLDER / f"{name}.json"
    path.rename(tmp_path / "elsewhere.json")
    os.symlink(tmp_path / "elsewhere.json", path)

    with pytest.raises(CannotRead):
        read_report(str(tmp_path), name)


def test_a_project_without_checks_has_no_reports(tmp_path: Path) -> None:
    assert [] == list_reports(str(tmp_path))
