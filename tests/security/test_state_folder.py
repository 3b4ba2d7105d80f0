"""A commit neither brings the state of a machine, nor sends what a command writes out of the checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import traceforge
from traceforge.config import load_config
from traceforge.context.storage.keyring import Keyring
from traceforge.errors import CannotWrite, InvalidConfig, StoreUnavailable

COMMANDS = {
    "record": ("record", "--", "true"),
    "status": ("status",),
    "diff": ("diff",),
    "approve": ("approve", "--all", "--reason", "x"),
    "reject": ("reject", "x"),
    "test": ("test", "--", "true"),
    "verify": ("verify",),
    "base": ("base",),
    "snapshot": ("snapshot", "list"),
    "run": ("run", "--", "true"),
    "trace": ("trace", "list"),
    "trace verify": ("trace", "verify"),
    "trace prune": ("trace", "prune", "--older-than", "0"),
    "session": ("session", "list"),
    "import": ("import", "vcr", "a.json"),
    "proxy": ("proxy", "--port", "0"),
    "check-live": ("check-live", "--yes"),
    "context": ("context", "session", "create"),
    "serve": ("serve", "--port", "0"),
    "modelio record": ("modelio", "record", "--out", "out.json", "--", "true"),
    "modelio from-traces": ("modelio", "from-traces", "--out", "out.json"),
    "init": ("init",),
}


def make_project(folder: Path) -> tuple[Path, Path]:
    """A checkout, and a folder of the user that is none of its business."""
    project, outside = folder / "project", folder / "outside"
    outside.mkdir(parents=True)
    project.mkdir()
    (project / "a.json").write_text("{}")
    subprocess.run(["git", "init", "-q", project], check=True)
    return project, outside


def commit(project: Path) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", project, "add", "-Af", "."], check=True)
    subprocess.run(["git", "-C", project, *identity, "commit", "-qm", "x"], check=True)


def link_state(project: Path, outside: Path) -> None:
    (project / ".ai-tests").symlink_to(outside)


def link_traces(project: Path, outside: Path) -> None:
    (project / ".ai-tests").mkdir()
    (project / ".ai-tests" / "traces").symlink_to(outside)


def link_configured_traces(project: Path, outside: Path) -> None:
    (project / "build").symlink_to(outside)
    (project / "traceforge.config.json").write_text('{"traces_dir": "build/traces"}')


def link_to_a_link(project: Path, outside: Path) -> None:
    (project / "a").mkdir()
    (project / "a" / "b").symlink_to(outside)
    (project / ".ai-tests").symlink_to("a/b")


def link_to_a_missing_folder(project: Path, outside: Path) -> None:
    (project / ".ai-tests").symlink_to(outside / "new")


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "the state folder": link_state,
    "the default traces": link_traces,
    "traces of the configuration": link_configured_traces,
    "a link to a link": link_to_a_link,
    "a link to a missing folder": link_to_a_missing_folder,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_uses_state_that_a_commit_brought(tmp_path: Path, command: str) -> None:
    """A match key that is public, a database with chosen content, traces that nobody recorded."""
    project, _ = make_project(tmp_path)
    (project / ".ai-tests").mkdir()
    (project / ".ai-tests" / "match.key").write_text("0" * 64)
    commit(project)

    result = traceforge(*COMMANDS[command], cwd=project)

    assert (3, True) == (result.code, "TF208" in result.err), result
    assert ["match.key"] == [path.name for path in (project / ".ai-tests").iterdir()]


@pytest.mark.slow  # The next test has the same claim for one command.
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_writes_through_a_link_out_of_the_project(tmp_path: Path, command: str) -> None:
    """Committed or not: a checkout can also be an unpacked archive."""
    project, outside = make_project(tmp_path)
    link_state(project, outside)

    result = traceforge(*COMMANDS[command], cwd=project)

    assert (3, True) == (result.code, "TF401" in result.err), result
    assert "leads out of the project" in result.err
    assert [] == list(outside.iterdir())


@pytest.mark.parametrize("link", LINKS)
def test_state_and_traces_stay_in_the_project(tmp_path: Path, link: str) -> None:
    """Whatever is linked, and however often."""
    project, outside = make_project(tmp_path)
    LINKS[link](project, outside)

    with pytest.raises(InvalidConfig, match="leads out of the project") as refused:
        load_config(str(project), {})
    assert refused.value.hint
    result = traceforge("run", "--", "true", cwd=project)

    assert (3, []) == (result.code, list(outside.iterdir()))


# What a checkout can bring as a link, one by one. TraceForge would read, overwrite or lock what it leads to.
LINKED = [
    ".ai-tests/context.db", ".ai-tests/context.db-wal", ".ai-tests/context.db.keys", ".ai-tests/context.db.keys.old",
    ".ai-tests/context.db.keys.lock", ".ai-tests/.context.db.keys.aa11.tmp", ".ai-tests/match.key",
    ".ai-tests/approve.lock", ".ai-tests/approve.journal", ".ai-tests/pending", ".ai-tests/checks",
    ".ai-tests/check-live", ".ai-tests/traces/index", ".ai-tests/traces/index/traces.sqlite",
    ".ai-tests/traces/chunks", ".ai-tests/traces/spool", ".ai-tests/traces/spool/a.tfs",
    ".ai-tests/traces/archive", ".ai-tests/traces/archive/2026-01-01-000000000000.tfz",
]  # fmt: skip


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("has_target", [True, False])
def test_no_file_of_the_state_is_a_link_out_of_the_project(tmp_path: Path, name: str, has_target: bool) -> None:
    """Of an unpacked archive, `.context.db.keys.aa11.tmp` once filled the file that it led to with zeros."""
    project, outside = make_project(tmp_path)
    (project / name).parent.mkdir(parents=True)
    if has_target:
        (outside / "precious").write_text("precious")
    (project / name).symlink_to(outside / "precious")

    with pytest.raises(InvalidConfig, match="leads out of the project") as refused:
        load_config(str(project), {})

    assert name in str(refused.value)


@pytest.mark.parametrize("name", [".ring.aa11.tmp", "ring.old"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_lies_beside_a_keyring_is_not_overwritten_through_a_link(tmp_path: Path, name: str, kind: str) -> None:
    """Also where a user has named the keyring, and the folder is nobody's project."""
    (tmp_path / "precious").write_text("precious")
    if kind == "link":
        (tmp_path / name).symlink_to("precious")
    else:
        os.mkfifo(tmp_path / name)

    Keyring(str(tmp_path / "ring")).add_key("prj_a", 1)

    assert ["precious", "ring", "ring.lock"] == sorted(path.name for path in tmp_path.iterdir())
    assert "precious" == (tmp_path / "precious").read_text()


@pytest.mark.parametrize("suffix", [".lock", ".purge"])
def test_a_lock_of_a_keyring_is_not_made_through_a_link(tmp_path: Path, suffix: str) -> None:
    """It would be an empty file wherever the link leads."""
    (tmp_path / f"ring{suffix}").symlink_to("elsewhere")
    ring = Keyring(str(tmp_path / "ring"))

    with pytest.raises(CannotWrite), ring.lock_purges(wait=False):
        ring.add_key("prj_a", 1)

    assert not (tmp_path / "elsewhere").exists()


def test_a_pipe_in_the_place_of_a_keyring_stops_no_command(tmp_path: Path) -> None:
    """To open it would wait for a writer for ever."""
    os.mkfifo(tmp_path / "ring")

    with pytest.raises(StoreUnavailable, match="not a file"):
        Keyring(str(tmp_path / "ring"))


def test_a_link_within_the_project_is_followed(tmp_path: Path) -> None:
    """As is a path that leads through a link to the project itself."""
    project, _ = make_project(tmp_path)
    (project / "state").mkdir()
    (project / ".ai-tests").symlink_to("state")
    (tmp_path / "link").symlink_to(project)

    assert str(project.resolve()) == load_config(str(tmp_path / "link"), {}).project


def test_the_user_may_choose_any_folder_for_traces(tmp_path: Path) -> None:
    """In the environment, which no commit can set."""
    project, outside = make_project(tmp_path)
    link_configured_traces(project, outside)

    result = traceforge("run", "--", "true", cwd=project, TRACEFORGE_TRACES_DIR=str(outside / "traces"))

    assert 0 == result.code, result


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_init_does_not_copy_what_a_link_names(tmp_path: Path, name: str) -> None:
    """A linked `.gitignore` would become a file with the content of a secret file, ready to be committed."""
    project, outside = make_project(tmp_path)
    (outside / "credentials").write_text("secret\n")
    (project / name).symlink_to(outside / "credentials")

    result = traceforge("init", cwd=project)

    assert (3, True) == (result.code, "TF201" in result.err), result
    assert "secret\n" == (outside / "credentials").read_text()
    assert (project / name).is_symlink()


@pytest.mark.parametrize("folder", [".github", ".github/workflows"])
def test_init_writes_no_workflow_through_a_link(tmp_path: Path, folder: str) -> None:
    """A linked `.github` would send the workflow into another repository."""
    project, outside = make_project(tmp_path)
    (project / folder).parent.mkdir(exist_ok=True)
    (project / folder).symlink_to(outside)

    result = traceforge("init", "--github-workflow", cwd=project)

    assert (3, True) == (result.code, "TF202" in result.err), result
    assert [] == list(outside.rglob("*"))


EMBEDDED = {
    "HEAD": "ref: refs/heads/main\n",
    "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n",
    "objects/info/keep": "",
    "refs/heads/keep": "",
    "traceforge.config.json": "{}",
    ".ai-tests/match.key": "0" * 64,
}


def test_a_folder_that_a_commit_made_look_like_a_repository_is_not_asked(tmp_path: Path) -> None:
    """Git takes it for the repository of a package: its author would decide what is tracked, and what the base is."""
    project, _ = make_project(tmp_path)
    package = project / "package"
    for name, text in EMBEDDED.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    commit(project)

    ran = traceforge("status", cwd=package, CI="true")

    assert (3, True) == (ran.code, "Git cannot say whether a commit brought it" in ran.err), ran
