"""The match key of a project: its id, who may make it, and which builds may go without it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from traceforge.config import MATCH_KEY_FILE, SNAPSHOTS_DIR
from traceforge.errors import CannotRead, InvalidFile, WrongMatchKey
from traceforge.match_key import (
    KEY_ID_NAME,
    ensure_match_key,
    find_match_key,
    is_fork_build,
    load_match_key,
    make_key_id,
    read_key_id,
    requires_comparison,
    write_key_id,
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A project without a key."""
    monkeypatch.delenv("TRACEFORGE_MATCH_KEY", raising=False)
    return str(tmp_path)


def commit_id(project: str, key: bytes) -> None:
    """Write the id of a key into the snapshot tree."""
    folder = Path(project, SNAPSHOTS_DIR)
    folder.mkdir(exist_ok=True)
    (folder / KEY_ID_NAME).write_bytes(write_key_id(key))


def test_an_id_names_one_key_and_does_not_hold_it(project: str) -> None:
    commit_id(project, b"secret")

    assert make_key_id(b"secret") == read_key_id(project)
    assert 2 == len({make_key_id(b"secret"), make_key_id(b"Secret")})
    assert b"secret" not in write_key_id(b"secret")
    assert 32 == len(read_key_id(project))


def test_a_key_is_made_once_and_for_this_user_only(project: str) -> None:
    assert ensure_match_key(project)
    first = find_match_key(project)

    assert not ensure_match_key(project)
    assert first == find_match_key(project) == load_match_key(project)
    assert 0o600 == stat.S_IMODE(os.stat(os.path.join(project, MATCH_KEY_FILE)).st_mode)
    assert [".gitignore", "match.key"] == sorted(os.listdir(os.path.join(project, ".ai-tests")))


def test_no_key_is_made_where_an_id_is_committed(project: str) -> None:
    commit_id(project, b"secret")

    assert not ensure_match_key(project)
    assert None is load_match_key(project)
    assert not os.path.lexists(os.path.join(project, MATCH_KEY_FILE))


def test_another_key_is_the_wrong_key(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """White space around a key is no part of it."""
    commit_id(project, b"secret")
    monkeypatch.setenv("TRACEFORGE_MATCH_KEY", " secret\n")
    assert b"secret" == load_match_key(project)

    monkeypatch.setenv("TRACEFORGE_MATCH_KEY", "another")
    with pytest.raises(WrongMatchKey, match="wrong key"):
        load_match_key(project)


def test_a_key_that_is_no_text_is_not_replaced(project: str) -> None:
    path = Path(project, MATCH_KEY_FILE)
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(CannotRead):
        ensure_match_key(project)

    assert b"\xff\xfe" == path.read_bytes()


@pytest.mark.parametrize("text", ["{}", "[]", "", '{"version": "1.0.0", "id": "x"}', '{"version": "2", "id": "x"}'])
def test_a_file_that_names_no_key_is_refused(project: str, text: str) -> None:
    """It is not taken for a project without a key."""
    commit_id(project, b"secret")
    Path(project, SNAPSHOTS_DIR, KEY_ID_NAME).write_text(text)

    with pytest.raises(InvalidFile):
        ensure_match_key(project)


def _event(head: Any, base: Any = "we/app") -> dict[str, Any]:
    return {"pull_request": {"head": {"repo": head}, "base": {"repo": {"full_name": base}}}}


@pytest.mark.parametrize(
    ("name", "event", "is_fork"),
    [
        ("pull_request", _event({"full_name": "they/app"}), True),
        ("pull_request_target", _event({"full_name": "they/app"}), True),
        ("pull_request", _event(None), True),  # The fork was deleted.
        ("pull_request", _event({"full_name": "we/app"}), False),
        ("push", _event({"full_name": "they/app"}), False),
        ("merge_group", {}, False),
        ("pull_request", {}, False),
        ("pull_request", _event({"full_name": "they/app"}, base=None), False),
        ("pull_request", [], False),
    ],
)
def test_a_fork_on_github(tmp_path: Path, name: str, event: Any, is_fork: bool) -> None:
    """As the event says; what it does not say is no fork, so that redacted parts must be compared."""
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))

    environ = {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)}

    assert is_fork is is_fork_build(environ)
    assert (not is_fork) is requires_comparison("forks", environ)
    assert (True, False) == (requires_comparison("require", environ), requires_comparison("count", environ))


def test_an_event_that_cannot_be_read_is_no_fork(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text("{")

    for name in (str(path), str(tmp_path), "", "/nowhere"):
        assert not is_fork_build({"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": name})


@pytest.mark.parametrize(
    ("source", "target", "is_fork"), [("7", "9", True), ("9", "9", False), ("", "9", False), ("7", "", False)]
)
def test_a_fork_on_gitlab(source: str, target: str, is_fork: bool) -> None:
    environ = {"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": source, "CI_MERGE_REQUEST_PROJECT_ID": target}

    assert is_fork is is_fork_build({"GITLAB_CI": "true", **environ})
    assert not is_fork_build(environ)
