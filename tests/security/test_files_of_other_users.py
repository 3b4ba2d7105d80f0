"""Files and folders above a project that another user could have put there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.command import CommandResult, traceforge
from support.config_files import configure
from support.stored_traces import call, store_calls
from traceforge import config
from traceforge.config import CONFIG_FILE, find_project, load_config
from traceforge.errors import CannotRead, CannotWrite, UntrustedProject
from traceforge.project_trust import (
    LIST_NAME,
    distrust_project,
    list_trusted_projects,
    require_trust,
    trust_project,
)

STRANGER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that everybody can write to, with a folder of this user in it."""
    folder = tmp_path / "shared"
    (folder / "mine").mkdir(parents=True)
    folder.chmod(0o1777)
    return folder


def give_away(*paths: Path) -> None:
    for path in paths:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


def plant_config(folder: Path) -> None:
    give_away(configure(folder) / CONFIG_FILE)


def plant_pyproject(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.traceforge]\n")
    give_away(folder / "pyproject.toml")


def plant_snapshots(folder: Path) -> None:
    (folder / ".ai-snapshots").mkdir()
    give_away(folder / ".ai-snapshots")


def plant_link(folder: Path) -> None:
    """To a file of this user, who did not mean it as a configuration."""
    (folder / "notes.json").write_text("{}")
    (folder / CONFIG_FILE).symlink_to("notes.json")
    give_away(folder / CONFIG_FILE)


def plant_target(folder: Path) -> None:
    """A link of this user, to a file that somebody else can change."""
    (folder / "notes.json").write_text("{}")
    (folder / CONFIG_FILE).symlink_to("notes.json")
    give_away(folder / "notes.json")


def plant_checks(folder: Path) -> None:
    """Whose assertions name functions that are imported."""
    (folder / ".git").mkdir()
    (folder / ".ai-checks").mkdir()
    give_away(folder / ".ai-checks")


def plant_state(folder: Path) -> None:
    """With a match key that its author knows, and changes that wait for an approval."""
    (folder / ".git").mkdir()
    (folder / ".ai-tests").mkdir()
    give_away(folder / ".ai-tests")


def plant_match_key(folder: Path) -> None:
    """Into a state folder that everybody may write to: its author can test what was redacted."""
    (folder / ".git").mkdir()
    (folder / ".ai-tests").mkdir()
    (folder / ".ai-tests" / "match.key").write_text("00" * 32)
    give_away(folder / ".ai-tests" / "match.key")


def plant_pending(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".ai-tests" / "pending").mkdir(parents=True)
    give_away(folder / ".ai-tests" / "pending")


def plant_traces(folder: Path) -> None:
    """Its owner exchanges the files in it at any time, also while they are written."""
    (folder / ".git").mkdir()
    (folder / ".ai-tests" / "traces").mkdir(parents=True)
    give_away(folder / ".ai-tests" / "traces")


def plant_index(folder: Path) -> None:
    """With the words of all prompts."""
    (folder / ".git").mkdir()
    (folder / ".ai-tests" / "traces" / "index").mkdir(parents=True)
    give_away(folder / ".ai-tests" / "traces" / "index")


def plant_configured_traces(folder: Path) -> None:
    (folder / CONFIG_FILE).write_text('{"traces_dir": "calls"}')
    (folder / "calls").mkdir()
    give_away(folder / "calls")


PLANTS = [
    plant_config, plant_pyproject, plant_snapshots, plant_link, plant_target, plant_checks, plant_state,
    plant_match_key, plant_pending, plant_traces, plant_index, plant_configured_traces,
]  # fmt: skip


@needs_root
@pytest.mark.parametrize("plant", PLANTS)
def test_a_file_of_another_user_above_is_refused(shared: Path, plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for root; the hint names the command that trusts it."""
    plant(shared)
    monkeypatch.chdir(shared / "mine")

    with pytest.raises(UntrustedProject) as refused:
        load_config(str(shared / "mine"), {})

    assert f"traceforge trust {shared}" in refused.value.hint


@needs_root
@pytest.mark.parametrize("name", [".", "index", "spool", "chunks", "archive"])
def test_a_folder_for_traces_that_another_user_has_put_there_is_refused(shared: Path, name: str) -> None:
    """A variable may name a folder that another user lends, but not what everybody can put into `/tmp`."""
    traces = shared / "traces"
    (traces / name).mkdir(parents=True)
    if name != ".":
        traces.chmod(0o1777)
    give_away(traces / name)

    with pytest.raises(CannotWrite, match="another user has put it there"):
        load_config(str(shared), {"TRACEFORGE_TRACES_DIR": str(traces)})

    shared.chmod(0o755)
    traces.chmod(0o755)
    load_config(str(shared), {"TRACEFORGE_TRACES_DIR": str(traces)})


@needs_root
@pytest.mark.parametrize("words", ["check list", "check run", "run -- true", "status", "trace list", "context log x"])
def test_no_command_obeys_what_lies_in_a_folder_for_everybody(shared: Path, words: str) -> None:
    """Where nothing makes a project, the current folder is one: `/tmp`, with a stranger's checks and state."""
    (shared / ".ai-checks").mkdir()
    (shared / ".ai-checks" / "a.yaml").write_text(
        "name: a\ntrace_id: '00000001'\nassertions:\n  - {type: python, function: 'evil:holds'}\n"
    )
    (shared / "evil.py").write_text("open('obeyed', 'w').close()\ndef holds(answer):\n    return True\n")
    (shared / ".ai-tests").mkdir()
    give_away(*shared.rglob("*"))
    store_calls(shared, call(1))
    before = sorted(shared.rglob("*"))

    ran = traceforge(*words.split(), cwd=shared)

    assert (3, True) == (ran.code, "error TF403" in ran.err), ran
    assert before == sorted(shared.rglob("*"))


@needs_root
@pytest.mark.parametrize("name", [CONFIG_FILE, "pyproject.toml"])
def test_a_file_that_is_exchanged_after_its_owner_was_checked_is_not_read(
    shared: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger who creates and removes it without a pause would win against a look before the reading."""
    (shared / CONFIG_FILE).write_text("{}")
    if name != CONFIG_FILE:
        (shared / CONFIG_FILE).rename(shared / name)
        (shared / name).write_text("[tool.traceforge]\n")

    def exchange(project: str, paths: Any) -> Any:
        owners = require_trust(project, paths)
        give_away(shared / name)
        return owners

    monkeypatch.setattr(config, "require_trust", exchange)

    with pytest.raises(CannotRead, match="another user has put it there"):
        load_config(str(shared), {})


@needs_root
def test_a_file_that_appears_after_the_owners_were_checked_is_not_read(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither our own, nor one that is shared with other tools."""
    (shared / ".git").mkdir()

    def plant_late(project: str, paths: Any) -> Any:
        owners = require_trust(project, paths)
        (shared / "pyproject.toml").write_text("[tool.traceforge]\nmax_trace_retention = 1\n")
        give_away(shared / "pyproject.toml")
        return owners

    monkeypatch.setattr(config, "require_trust", plant_late)

    assert "" == load_config(str(shared), {}).file


@needs_root
def test_a_repository_of_another_user_above_makes_no_project(shared: Path) -> None:
    """TraceForge would write traces beside it."""
    (shared / ".git").mkdir()
    assert str(shared) == find_project(str(shared / "mine"))

    give_away(shared / ".git")

    assert str(shared / "mine") == find_project(str(shared / "mine"))


@needs_root
def test_root_trusts_the_checkout_in_which_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container of a CI service; not a folder above its own, nor one in which others can write."""
    checkout = configure(tmp_path / "checkout")
    (checkout / "src").mkdir()
    (checkout / "roots").mkdir()
    give_away(checkout, checkout / CONFIG_FILE, checkout / "src")

    for folder in (checkout, checkout / "src"):
        monkeypatch.chdir(folder)
        assert str(checkout) == load_config(str(folder), {}).project
    monkeypatch.chdir(checkout / "roots")
    with pytest.raises(UntrustedProject):
        load_config(str(checkout / "roots"), {})
    monkeypatch.chdir(checkout)
    checkout.chmod(0o777)
    with pytest.raises(UntrustedProject):
        load_config(str(checkout), {})


@needs_root
def test_a_nested_clone_does_not_obey_what_is_above_it(shared: Path) -> None:
    """The search ends at its own repository."""
    plant_config(shared)
    (shared / "mine" / ".git").mkdir()

    assert (str(shared / "mine"), "") == load_config(str(shared / "mine"), {})[0::3]


@needs_root
def test_trust_is_kept_in_the_users_own_list(shared: Path, tmp_path: Path) -> None:
    """Given, listed and taken back with one command; a list of somebody else's is not believed."""
    plant_config(shared)
    state = tmp_path / "state"

    def run(*words: str | Path) -> CommandResult:
        return traceforge(*words, cwd=shared / "mine", XDG_STATE_HOME=str(state))

    refused = run("config", "check")
    assert (3, True) == (refused.code, f"error TF403: {shared / CONFIG_FILE} belongs to another user" in refused.err)
    assert f"trusted: {shared}\n" == run("trust", shared).out
    assert f"trusted already: {shared}\n" == run("trust", shared).out
    assert (0, f"{shared}\n") == (run("config", "check").code, run("trust", "--list").out)
    assert 0o600 == (state / "traceforge" / LIST_NAME).stat().st_mode & 0o777
    give_away(state / "traceforge" / LIST_NAME)
    assert 3 == run("config", "check").code
    os.chown(state / "traceforge" / LIST_NAME, 0, 0)
    assert f"not trusted: {shared}\n" == run("trust", shared, "--remove").out
    assert (3, "") == (run("config", "check").code, run("trust", "--list").out)


def test_the_list_of_trusted_projects_can_be_changed_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice changes nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert [True, False] == [trust_project("/a b"), trust_project("/a b")]
    assert ["/a b"] == list_trusted_projects()
    assert [True, False] == [distrust_project("/a b"), distrust_project("/a b")]
    assert [] == list_trusted_projects()
