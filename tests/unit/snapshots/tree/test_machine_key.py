"""`machine_key.py`: a secret that no project can bring."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from traceforge.snapshots.tree.machine_key import KEY_BYTES, find_machine_key


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the key of this test is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "traceforge" / "machine.key"


def test_the_key_is_made_once_and_only_its_owner_can_read_it(path: Path) -> None:
    assert find_machine_key(make=False) is None
    key = find_machine_key(make=True)

    assert key is not None
    assert len(key) == KEY_BYTES
    assert key == find_machine_key(make=True) == find_machine_key(make=False) == path.read_bytes()
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)


def test_a_relative_state_home_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would lead into the project. The home folder is taken instead."""
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert find_machine_key(make=True) == (tmp_path / ".local/state/traceforge/machine.key").read_bytes()


@pytest.mark.parametrize("fault", ["readable", "short", "long", "link", "folder"])
def test_a_key_that_is_not_ours_alone_proves_nothing(path: Path, fault: str) -> None:
    find_machine_key(make=True)
    if fault == "readable":
        path.chmod(0o640)
    elif fault in ("short", "long"):
        path.write_bytes(bytes(KEY_BYTES - 1 if fault == "short" else KEY_BYTES + 1))
    else:
        moved = path.rename(path.with_name("moved"))
        os.symlink(moved, path) if fault == "link" else path.mkdir()

    assert find_machine_key(make=True) is None
