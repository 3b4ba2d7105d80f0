"""`files.py`: a whole regular file or one clear reason why not; writes that are whole or nothing."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from traceforge import files
from traceforge.errors import CannotRead, CannotWrite
from traceforge.files import (
    FILE_BYTES_MAX,
    check_not_planted,
    list_folder,
    make_private_folder,
    read_file,
    write_atomic,
    write_private_chunks,
)

AS_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
FOLLOW = pytest.mark.parametrize("follow", [True, False])


def _refusal(path: Path | str, **options: Any) -> CannotRead:
    with pytest.raises(CannotRead) as caught:
        read_file(str(path), **options)
    assert str(path) == caught.value.path
    return caught.value


# ---------------------------------------------------------------------------------------------
# Reading


@FOLLOW
@pytest.mark.parametrize("size", [0, 1, 4096, 3 << 20])
def test_a_regular_file_is_read_whole(tmp_path: Path, size: int, follow: bool) -> None:
    """Empty or longer than one chunk: every byte, and no other."""
    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)

    assert data == read_file(str(tmp_path / "a"), follow_links=follow)


@FOLLOW
def test_a_missing_file_is_reported_as_missing(tmp_path: Path, follow: bool) -> None:
    """The reason is one phrase, and the hint something to do."""
    error = _refusal(tmp_path / "a", follow_links=follow)

    assert "no such file or folder" == error.reason
    assert error.hint


@FOLLOW
def test_a_folder_is_not_a_file(tmp_path: Path, follow: bool) -> None:
    """A folder where a file should be is named as one."""
    assert "a folder, not a file" == _refusal(tmp_path, follow_links=follow).reason


def test_a_file_used_as_a_folder_is_explained(tmp_path: Path) -> None:
    """`a.json/b` where a.json is a file."""
    (tmp_path / "a").write_bytes(b"")

    assert "a part of this path is a file, not a folder" == _refusal(tmp_path / "a" / "b").reason


@FOLLOW
def test_a_fifo_is_refused_and_does_not_block(tmp_path: Path, follow: bool) -> None:
    """Without a writer, a reader would wait for ever."""
    os.mkfifo(tmp_path / "a")

    assert "a FIFO, not a file" == _refusal(tmp_path / "a", follow_links=follow).reason


@FOLLOW
def test_a_device_is_refused(follow: bool) -> None:
    """`/dev/zero` never ends."""
    assert "a device, not a file" == _refusal("/dev/zero", follow_links=follow).reason


def test_a_socket_is_refused(tmp_path: Path) -> None:
    """A socket cannot even be opened; the system's reason is passed on."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "a"))

        assert "no such device or address" == _refusal(tmp_path / "a").reason


def test_a_link_is_followed_only_where_the_user_named_it(tmp_path: Path) -> None:
    """Inside a tree, a link could lead anywhere."""
    (tmp_path / "a").write_bytes(b"data")
    (tmp_path / "link").symlink_to("a")

    assert b"data" == read_file(str(tmp_path / "link"))
    error = _refusal(tmp_path / "link", follow_links=False)
    assert "a symbolic link, which is not followed here" == error.reason
    assert error.hint


@pytest.mark.parametrize("target", ["missing", "/dev/zero", "fifo", "."])
def test_a_link_to_anything_is_a_link_where_links_are_not_followed(tmp_path: Path, target: str) -> None:
    """What is behind it is not looked at."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(target)

    assert "a symbolic link, which is not followed here" == _refusal(tmp_path / "link", follow_links=False).reason


def test_a_link_to_nothing_is_a_missing_file_where_links_are_followed(tmp_path: Path) -> None:
    """The person named a file that is not there."""
    (tmp_path / "link").symlink_to("missing")

    assert "no such file or folder" == _refusal(tmp_path / "link").reason


@AS_ROOT
def test_a_file_without_permission_is_reported_with_a_fix(tmp_path: Path) -> None:
    """The hint is a command."""
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "a").chmod(0)
    error = _refusal(tmp_path / "a")

    assert "no permission to read it" == error.reason
    assert f"chmod u+r {tmp_path / 'a'}" == error.hint


def test_a_refused_permission_is_explained_even_if_the_tests_run_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a simulated refusal, because root gets none."""

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    error = _refusal(tmp_path / "a")

    assert ("no permission to read it", f"chmod u+r {tmp_path / 'a'}") == (error.reason, error.hint)


def test_a_file_is_read_up_to_the_limit_and_not_beyond(tmp_path: Path) -> None:
    """Exactly the limit is allowed; one byte more is refused with both sizes."""
    (tmp_path / "a").write_bytes(b"x" * 10)

    assert b"x" * 10 == read_file(str(tmp_path / "a"), bytes_max=10)
    assert "10 bytes, more than the limit of 9" == _refusal(tmp_path / "a", bytes_max=9).reason


def test_the_limit_is_ten_times_the_largest_recording(tmp_path: Path) -> None:
    """A sparse file one byte above the limit is refused at once, without being read."""
    with (tmp_path / "a").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)

    assert 10 * 100_000_000 <= FILE_BYTES_MAX
    assert f"{FILE_BYTES_MAX + 1} bytes, more than the limit of {FILE_BYTES_MAX}" == _refusal(tmp_path / "a").reason


def _grow(monkeypatch: pytest.MonkeyPatch, path: Path, more: bytes) -> None:
    """Let the file grow by `more` between the look at its size and the first read."""
    real: Callable[[int], os.stat_result] = os.fstat

    def grow(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        with path.open("ab") as file:
            file.write(more)
        return status

    monkeypatch.setattr(os, "fstat", grow)


@pytest.mark.parametrize("more", [1, 5, 3 << 20])
def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Including what a writer appended before the last read."""
    (tmp_path / "a").write_bytes(b"start")
    _grow(monkeypatch, tmp_path / "a", b"x" * more)

    assert b"start" + b"x" * more == read_file(str(tmp_path / "a"))


def test_a_file_that_grows_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on what is read, not on what the size was before: memory is what it protects."""
    (tmp_path / "a").write_bytes(b"start")
    _grow(monkeypatch, tmp_path / "a", b"x" * 100)

    assert "more than the limit of 50" in _refusal(tmp_path / "a", bytes_max=50).reason


def test_a_file_that_shrinks_while_it_is_read_is_read_to_its_new_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"start and more")
    real = os.fstat

    def shrink(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        os.truncate(tmp_path / "a", 5)
        return status

    monkeypatch.setattr(os, "fstat", shrink)

    assert b"start" == read_file(str(tmp_path / "a"))


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"], ids=ascii)
def test_a_name_that_no_file_can_have_is_unreadable_and_no_crash(tmp_path: Path, name: str) -> None:
    """Names can come from a document; a NUL or a lone surrogate in one is a finding like any other."""
    _refusal(f"{tmp_path}/{name}")


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    """Neither a read nor any refusal leaks one."""
    (tmp_path / "a").write_bytes(b"data")
    os.mkfifo(tmp_path / "fifo")
    before = len(os.listdir("/proc/self/fd"))

    read_file(str(tmp_path / "a"))
    _refusal(tmp_path / "a", bytes_max=1)
    _refusal(tmp_path / "fifo")
    _refusal(tmp_path)

    assert before == len(os.listdir("/proc/self/fd"))


# ---------------------------------------------------------------------------------------------
# Listing


def test_a_folder_is_listed_by_name(tmp_path: Path) -> None:
    """Sorted, dot files and folders too, whatever order the system has."""
    for name in ("b", "a", ".c", "Z", "é"):
        (tmp_path / name).mkdir()

    assert [".c", "Z", "a", "b", "é"] == [entry.name for entry in list_folder(str(tmp_path))]


def test_only_a_folder_can_be_listed(tmp_path: Path) -> None:
    """A missing folder and a file are two reasons."""
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(CannotRead, match="no such file or folder"):
        list_folder(str(tmp_path / "missing"))
    with pytest.raises(CannotRead, match="a file, not a folder"):
        list_folder(str(tmp_path / "a"))


# ---------------------------------------------------------------------------------------------
# Writing


def test_a_written_file_holds_its_data_and_nothing_else_is_left(tmp_path: Path) -> None:
    """New or replaced, the folder has the one file afterwards, readable by all."""
    for data in (b"first", b"second and longer", b""):
        write_atomic(str(tmp_path / "a"), data)

        assert data == (tmp_path / "a").read_bytes()
        assert ["a"] == os.listdir(tmp_path)
    assert 0o644 == stat.S_IMODE((tmp_path / "a").stat().st_mode) | 0o044


def test_a_file_in_the_current_folder_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare name has no folder in front of it."""
    monkeypatch.chdir(tmp_path)
    write_atomic("a", b"data")

    assert b"data" == (tmp_path / "a").read_bytes()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A full disk at any step: the old content stands, and no temporary file is left."""
    (tmp_path / "a").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(CannotWrite, match="cannot be written: no space left on device"):
        write_atomic(str(tmp_path / "a"), b"new")

    assert b"old" == (tmp_path / "a").read_bytes()
    assert ["a"] == os.listdir(tmp_path)


def test_a_write_into_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """Folders are not made on the way."""
    with pytest.raises(CannotWrite, match="cannot be written: no such file or directory"):
        write_atomic(str(tmp_path / "missing" / "a"), b"data")


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    """What a link pointed to outside the tree stays as it was."""
    (tmp_path / "outside").write_bytes(b"outside")
    (tmp_path / "a").symlink_to("outside")
    write_atomic(str(tmp_path / "a"), b"data")

    assert b"outside" == (tmp_path / "outside").read_bytes()
    assert b"data" == (tmp_path / "a").read_bytes()
    assert not (tmp_path / "a").is_symlink()


def test_a_new_state_folder_is_ignored_by_git_and_no_other_folder(tmp_path: Path) -> None:
    """Whichever folder below it is made first."""
    make_private_folder(str(tmp_path / ".ai-tests" / "traces" / "spool"))
    make_private_folder(str(tmp_path / "elsewhere" / "traces"))

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [tmp_path / ".ai-tests" / ".gitignore"] == written
    assert (b"*\n", 0o600) == (written[0].read_bytes(), stat.S_IMODE(written[0].stat().st_mode))


# ---------------------------------------------------------------------------------------------
# Other users, as everybody can test them: only root can give a file away


def test_a_file_of_another_owner_is_not_read(tmp_path: Path) -> None:
    """Its owner is that of the file that was opened, whatever was looked at before."""
    (tmp_path / "a").write_bytes(b"data")

    assert b"data" == read_file(str(tmp_path / "a"), owners={os.geteuid()})
    assert "another user has put it there" in str(_refusal(tmp_path / "a", owners={os.geteuid() + 1}))
    assert "another user has put it there" in str(_refusal(tmp_path / "a", owners=()))


@pytest.mark.parametrize("kind", ["file", "link", "pipe"])
def test_what_another_user_has_put_into_a_folder_for_everybody_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, not even where the link leads; in a folder of our own it is ours to use."""
    place, outside = tmp_path / "a", tmp_path / "outside"
    outside.write_bytes(b"outside")
    {"file": place.touch, "link": lambda: place.symlink_to(outside), "pipe": lambda: os.mkfifo(place)}[kind]()
    original = os.lstat

    def lstat_of_another(path: str) -> os.stat_result:
        fields = list(original(path))
        fields[stat.ST_UID] += 1
        return os.stat_result(fields)

    monkeypatch.setattr(files.os, "lstat", lstat_of_another)
    tmp_path.chmod(0o755)
    check_not_planted(str(place))
    tmp_path.chmod(0o1777)
    with pytest.raises(CannotWrite, match="another user has put it there"):
        check_not_planted(str(place))
    with pytest.raises(CannotWrite, match="another user has put it there"):
        write_private_chunks(str(place), [b"data"])
    assert b"outside" == outside.read_bytes()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_appears_after_the_look_is_replaced(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link would choose which of our files is overwritten, and a pipe would get what we write."""
    place, outside = tmp_path / "a", tmp_path / "outside"
    outside.write_bytes(b"outside")
    original = files.check_not_planted

    def plant_late(path: str) -> os.stat_result | None:
        entry = original(path)
        if kind == "link":
            place.symlink_to(outside)
        else:
            os.mkfifo(place)
        return entry

    monkeypatch.setattr(files, "check_not_planted", plant_late)
    write_private_chunks(str(place), [b"data"])

    assert (b"outside", b"data") == (outside.read_bytes(), place.read_bytes())
    assert stat.S_IFREG | 0o600 == place.lstat().st_mode


@pytest.mark.parametrize("link", [False, True])
def test_a_pipe_of_our_own_is_written_to(tmp_path: Path, link: bool) -> None:
    """As `/dev/stdout`, which is a link to one."""
    place = tmp_path / "a"
    os.mkfifo(place)
    (tmp_path / "link").symlink_to(place)
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    write_private_chunks(str(tmp_path / "link" if link else place), [b"da", b"ta"])

    assert b"data" == os.read(reader, 10)
    os.close(reader)
