"""Several files as one: all or nothing, nowhere else, and one at a time."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from traceforge.errors import BrokenJournal, CannotRead, CannotWrite, PathInUse
from traceforge.snapshots.tree import tree_transaction
from traceforge.snapshots.tree.tree_transaction import (
    FileChange,
    finish_interrupted_approval,
    is_tree_file,
    lock_tree,
    write_files_atomically,
)

NEW = [
    FileChange("openai/one.json", b"one"),
    FileChange("wire/one.json", b"\xff\x00"),
    FileChange("manifest.json", b"m"),
]


def _tree(project: Path) -> dict[str, bytes]:
    root = project / ".ai-snapshots"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _interrupted(project: Path, changes: list[FileChange], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leave a journal behind, and nothing else."""
    with monkeypatch.context() as patch:
        patch.setattr(tree_transaction, "_apply_changes", lambda *_: None)
        write_files_atomically(str(project), changes)
    return project / ".ai-tests" / "approve.journal"


def test_files_are_written_and_removed_together(tmp_path: Path) -> None:
    """No journal and no temporary file stays; an empty folder goes."""
    write_files_atomically(str(tmp_path), NEW)
    assert {change.file: change.data for change in NEW} == _tree(tmp_path)

    write_files_atomically(str(tmp_path), [FileChange("wire/one.json", None), FileChange("manifest.json", b"n")])

    assert {"openai/one.json": b"one", "manifest.json": b"n"} == _tree(tmp_path)
    assert not (tmp_path / ".ai-snapshots" / "wire").exists()
    assert {".gitignore", "approve.lock"} == set(os.listdir(tmp_path / ".ai-tests"))


def test_many_files_are_written_too(tmp_path: Path) -> None:
    """They are synced all at once."""
    changes = [FileChange(f"openai/n{number}.json", b"x") for number in range(tree_transaction.SYNC_EACH_MAX + 1)]

    write_files_atomically(str(tmp_path), changes)

    assert len(changes) == len(_tree(tmp_path))


def test_without_a_journal_finishing_takes_one_lookup(tmp_path: Path) -> None:
    """And makes no folder."""
    assert not finish_interrupted_approval(str(tmp_path))
    assert [] == os.listdir(tmp_path)


def test_an_interrupted_transaction_is_finished_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal decides; a second call finds nothing to do."""
    _interrupted(tmp_path, NEW, monkeypatch)

    assert finish_interrupted_approval(str(tmp_path))
    assert {change.file: change.data for change in NEW} == _tree(tmp_path)
    assert not finish_interrupted_approval(str(tmp_path))


def test_an_interrupted_transaction_is_finished_before_the_next_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new approval builds on the complete last one."""
    _interrupted(tmp_path, NEW, monkeypatch)
    (tmp_path / ".ai-tests" / ".approve.journal.0a0b0c0d.tmp").write_bytes(b"half")

    write_files_atomically(str(tmp_path), [FileChange("openai/two.json", b"2")])

    assert {**{change.file: change.data for change in NEW}, "openai/two.json": b"2"} == _tree(tmp_path)
    assert {".gitignore", "approve.lock"} == set(os.listdir(tmp_path / ".ai-tests"))


def test_a_journal_with_any_byte_changed_is_refused_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte, and every length: the error says so, and no file is touched."""
    journal = _interrupted(tmp_path, NEW, monkeypatch)
    data = journal.read_bytes()
    damaged = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(len(data))]

    for text in [*damaged, *(data[:length] for length in range(0, len(data), 7)), data + b" "]:
        journal.write_bytes(text)
        with pytest.raises(
            BrokenJournal, match="the rest of the approval cannot be applied, and some of its files may"
        ):
            finish_interrupted_approval(str(tmp_path))

    assert not (tmp_path / ".ai-snapshots").exists()


def _refusal(project: Path) -> str:
    with pytest.raises(BrokenJournal) as refused:
        finish_interrupted_approval(str(project))
    assert not (project / ".ai-snapshots").exists()
    return refused.value.message


def test_a_journal_of_another_folder_user_or_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull request can bring a journal, and a checksum, but no proof that it was written here."""
    here, clone = tmp_path / "here", tmp_path / "clone"
    data = _interrupted(here, NEW, monkeypatch).read_bytes()
    (clone / ".ai-tests").mkdir(parents=True)

    for forged in (data, data.replace(data.split()[4], b"-", 1), data.replace(data.split()[4], b"0" * 64, 1)):
        (clone / ".ai-tests" / "approve.journal").write_bytes(forged)
        assert "was not written here, by you, in this folder" in _refusal(clone)

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    assert "was not written here, by you, in this folder" in _refusal(here)


def test_no_journal_is_applied_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that was written there: a build writes nothing that is approved."""
    journal = _interrupted(tmp_path, NEW, monkeypatch)
    monkeypatch.setenv("CI", "true")

    assert "is not applied where CI is set" in _refusal(tmp_path)
    assert journal.exists()


def test_without_a_key_changes_are_written_and_an_interrupted_one_cannot_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have no home to write in."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    write_files_atomically(str(tmp_path / "one"), NEW)
    _interrupted(tmp_path / "two", NEW, monkeypatch)

    assert {change.file: change.data for change in NEW} == _tree(tmp_path / "one")
    assert "was not written here, by you, in this folder" in _refusal(tmp_path / "two")


@pytest.mark.parametrize(
    "file",
    ["../out.json", "openai/../../out.json", "/etc/out.json", "openai/a/b.json", "a\\b.json", ".hidden/x.json",
     "openai/.x.json", "openai/x.txt", "x.json", "openai/x.json\n", ""],
)  # fmt: skip
def test_no_journal_leads_out_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """Even with a right checksum."""
    assert not is_tree_file(file)
    with monkeypatch.context() as patch:
        patch.setattr(tree_transaction, "is_tree_file", lambda _: True)
        _interrupted(tmp_path, [*NEW, FileChange(file, b"out")], monkeypatch)

    with pytest.raises(BrokenJournal, match="leads out of the snapshot tree"):
        finish_interrupted_approval(str(tmp_path))
    assert not (tmp_path / ".ai-snapshots").exists()


@pytest.mark.parametrize("place", [".ai-snapshots", ".ai-snapshots/openai", ".ai-snapshots/openai/one.json"])
def test_no_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Neither by a change nor by a journal; nothing beside the link is written either."""
    outside = tmp_path / "outside"
    outside.mkdir()
    project = tmp_path / "project"
    (project / place).parent.mkdir(parents=True)
    (project / place).symlink_to(outside)

    with pytest.raises(CannotWrite, match="symbolic link") as caught:
        write_files_atomically(str(project), NEW)
    assert f"Replace the link with a {'file' if place.endswith('.json') else 'folder'}." == caught.value.hint
    assert not (project / ".ai-tests" / "approve.journal").exists()

    (project / place).unlink()
    _interrupted(project, NEW, monkeypatch)
    (project / place).symlink_to(outside)
    with pytest.raises(CannotWrite, match="symbolic link"):
        finish_interrupted_approval(str(project))
    assert [] == os.listdir(outside)
    assert not (project / ".ai-snapshots" / "manifest.json").exists()


def test_a_state_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(CannotRead, match=r"\.ai-tests: no permission to read it"):
        write_files_atomically(str(tmp_path), NEW)


def test_a_temporary_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Its name can be predicted, so an attacker could create it."""
    (tmp_path / "outside").write_bytes(b"old")
    (tmp_path / ".ai-snapshots" / "openai").mkdir(parents=True)
    (tmp_path / ".ai-snapshots" / "openai" / ".one.json.tmp").symlink_to(tmp_path / "outside")

    with pytest.raises(CannotWrite):
        write_files_atomically(str(tmp_path), NEW)
    assert b"old" == (tmp_path / "outside").read_bytes()


def test_two_changes_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second fails at once; a reader waits first."""
    monkeypatch.setattr(tree_transaction, "WAIT_SECONDS", 0.05)
    with lock_tree(str(tmp_path)) as write:
        with pytest.raises(PathInUse, match="another process"):
            write_files_atomically(str(tmp_path), NEW)
        (tmp_path / ".ai-tests" / "approve.journal").write_bytes(b"not yet looked at")
        with pytest.raises(PathInUse):
            finish_interrupted_approval(str(tmp_path))
        (tmp_path / ".ai-tests" / "approve.journal").unlink()
        write(NEW)

    assert 3 == len(_tree(tmp_path))
    write_files_atomically(str(tmp_path), [FileChange("manifest.json", b"again")])
