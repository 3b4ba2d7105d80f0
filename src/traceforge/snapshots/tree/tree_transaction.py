"""Change several files of a snapshot tree in one transaction.

In: new bytes for files below `.ai-snapshots/`, or their removal. Out: all changes, or none. Never: leaves a part of
them, even if the process is killed; writes outside the tree; follows a link in it.

The journal, `.ai-tests/approve.journal`, commits the transaction. It is one file, written atomically:

    "traceforge journal 2 sha256:" and 64 hex digits,        the digest of everything below this line,
    a space, 64 hex digits or "-", LF                        and who wrote it (`machine_key.py`)
    {"changes": [{"file", "b64"}, …]}                       the new content of each file; null removes it

Then the files are written, then the journal is removed. A process that dies before the journal exists has changed
nothing; after that, the next command writes the rest (`finish_interrupted_approval`), and doing it twice is harmless.
A file lock, which the system releases when its process dies, keeps two approvals apart.

A journal rewrites what was approved, so one that a pull request brings must not be applied: only the user who wrote
it, in this folder on this machine, can prove it, and where CI is set none is applied at all.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct, ValidationError

from traceforge.build_environment import is_ci
from traceforge.canon import canonical_bytes, digest_bytes, parse_json
from traceforge.config import SNAPSHOTS_DIR
from traceforge.conversion import convert
from traceforge.errors import BrokenJournal, CannotWrite, NotJSON, PathInUse
from traceforge.files import (
    STATE_DIR,
    list_folder,
    make_private_folder,
    make_shared_folder,
    read_file,
    sync_file_system,
    sync_folder,
    write_atomic,
)
from traceforge.snapshots.tree.machine_key import find_machine_key
from traceforge.snapshots.tree.state_folder import JOURNAL_NAME, has_interrupted_approval
from traceforge.traces.file_lock import lock_file

LOCK_NAME = "approve.lock"
WAIT_SECONDS = 10.0  # How long a reader waits for an approval, which takes milliseconds.
SYNC_EACH_MAX = 32  # Up to this many files are synced one by one; for more, one sync of the file system is cheaper.

_HEADER = b"traceforge journal 2 "
_NO_PROOF = b"-"  # Where no key can be kept; such a journal cannot be finished.
_TREE_FILE = re.compile(
    r"(?:manifest\.json|match-key\.json|[a-z0-9][a-z0-9._-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*\.json)\Z"
)
_TEMPORARY_JOURNAL = re.compile(rf"\.{re.escape(JOURNAL_NAME)}\.[0-9a-f]+\.tmp\Z")


class FileChange(Struct, frozen=True):
    """The new content of a file; None removes it. Its path is relative to the tree, with `/`."""

    file: str
    data: bytes | None


Writer = Callable[[Sequence[FileChange]], None]


class _JournalChange(Struct, forbid_unknown_fields=True):
    file: str
    b64: str | None


class _Journal(Struct, forbid_unknown_fields=True):
    changes: list[_JournalChange]


def write_files_atomically(project: str, changes: Sequence[FileChange]) -> None:
    """Change several files of the project's tree at once.

    Raises:
        PathInUse: another process is doing the same.
        CannotRead: `.ai-tests` cannot be listed.
        CannotWrite: a file cannot be written, or is a link.
        BrokenJournal: an earlier change was cut short and cannot be finished.
    """
    with lock_tree(project) as write:
        write(changes)


@contextmanager
def lock_tree(project: str, *, wait_seconds: float = 0) -> Iterator[Writer]:
    """Lock the project's tree for writing; yields the function that writes changes.

    For callers that read the tree first and then decide what to write. An interrupted approval is finished first.

    Raises:
        PathInUse, CannotWrite, BrokenJournal: as `write_files_atomically`.
        CannotRead: `.ai-tests` cannot be listed.
    """
    state = os.path.join(project, STATE_DIR)
    descriptor = _open_lock(state)
    try:
        _wait_for_lock(descriptor, wait_seconds)
        _remove_temporary_journals(state)
        _finish_journal(project)
        yield lambda changes: _write_changes(project, changes)
    finally:
        os.close(descriptor)


def finish_interrupted_approval(project: str) -> bool:
    """Finish an approval whose process died; True if there was one. Every command that reads the tree calls this.

    Raises:
        PathInUse: another process has been writing for a long time.
        CannotRead, CannotWrite, BrokenJournal: as `lock_tree`.
    """
    if not has_interrupted_approval(project):
        return False
    with lock_tree(project, wait_seconds=WAIT_SECONDS):
        return True


def is_tree_file(file: str) -> bool:
    """Whether a snapshot tree may hold a file of this path: one of its own, or `<folder>/<name>.json`."""
    return _TREE_FILE.match(file) is not None


def _journal_path(project: str) -> str:
    return os.path.join(project, STATE_DIR, JOURNAL_NAME)


def _open_lock(state: str) -> int:
    path = os.path.join(state, LOCK_NAME)
    try:
        make_private_folder(state)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        return os.open(path, flags, 0o600)
    except OSError as exc:
        raise CannotWrite(path, exc) from None


def _wait_for_lock(descriptor: int, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while not lock_file(descriptor):
        if time.monotonic() >= deadline:
            hint = "Wait until it has finished, and run the command again."
            raise PathInUse("another process is changing the snapshots of this project", hint=hint)
        time.sleep(0.02)


def _remove_temporary_journals(state: str) -> None:
    """Remove journals that were never completed. The lock is held, so no process is writing one."""
    for entry in list_folder(state):
        if _TEMPORARY_JOURNAL.match(entry.name):
            with suppress(OSError):
                os.unlink(entry.path)


def _write_changes(project: str, changes: Sequence[FileChange]) -> None:
    _refuse_links(project, changes)
    body = canonical_bytes(
        {
            "changes": [
                {
                    "file": change.file,
                    "b64": None if change.data is None else base64.b64encode(change.data).decode(),
                }
                for change in changes
            ]
        }
    )
    proof = _prove(project, body, find_machine_key(make=True))
    head = _HEADER + digest_bytes(body).encode() + b" " + proof + b"\n"
    write_atomic(_journal_path(project), head + body, mode=0o600)
    _apply_changes(project, changes)


def _finish_journal(project: str) -> None:
    path = _journal_path(project)
    if os.path.lexists(path):
        if is_ci():
            raise BrokenJournal(path, "the journal of an approval is not applied where CI is set")
        changes = _read_journal(project, path)
        _refuse_links(project, changes)
        _apply_changes(project, changes)


def _prove(project: str, body: bytes, key: bytes | None) -> bytes:
    """A proof that this user wrote a journal for this folder."""
    if key is None:
        return _NO_PROOF
    return (
        hmac.digest(key, os.path.realpath(project).encode(errors="surrogateescape") + b"\0" + body, "sha256")
        .hex()
        .encode()
    )


def _read_journal(project: str, path: str) -> list[FileChange]:
    head, _, body = read_file(path, follow_links=False).partition(b"\n")
    digest, _, proof = head.rpartition(b" ")
    if digest != _HEADER + digest_bytes(body).encode():
        raise BrokenJournal(path, "the journal of an approval is damaged")
    expected = _prove(project, body, find_machine_key(make=False))
    if expected == _NO_PROOF or not hmac.compare_digest(proof, expected):
        raise BrokenJournal(path, "the journal of an approval was not written here, by you, in this folder")
    try:
        journal = convert(parse_json(body), _Journal)
        changes = [
            FileChange(entry.file, None if entry.b64 is None else base64.b64decode(entry.b64, validate=True))
            for entry in journal.changes
        ]
    except (NotJSON, ValidationError, binascii.Error, ValueError):
        raise BrokenJournal(path, "the journal of an approval has not the format of one") from None
    if not all(is_tree_file(change.file) for change in changes):
        raise BrokenJournal(path, "the journal of an approval leads out of the snapshot tree")
    return changes


def _refuse_links(project: str, changes: Sequence[FileChange]) -> None:
    """Check every path before the first file is written, so that no transaction starts that cannot be finished."""
    root = os.path.join(project, SNAPSHOTS_DIR)
    paths = {root}
    for change in changes:
        assert is_tree_file(change.file), f"not a file of a snapshot tree: {change.file!r}"
        path = os.path.join(root, *change.file.split("/"))
        paths |= {os.path.dirname(path), path}
    for path in paths:
        if os.path.islink(path):
            replacement = "file" if path.endswith(".json") else "folder"
            hint = f"Replace the link with a {replacement}."
            raise CannotWrite(path, "it is a symbolic link, which is not followed", hint=hint)


def _apply_changes(project: str, changes: Sequence[FileChange]) -> None:
    """Write the files of the journal, sync them to the disk, and remove the journal."""
    root = os.path.join(project, SNAPSHOTS_DIR)
    sync_each = len(changes) <= SYNC_EACH_MAX
    try:
        make_shared_folder(root)
        folders = {project, root}
        for change in changes:
            path = os.path.join(root, *change.file.split("/"))
            folders.add(os.path.dirname(path))
            _replace_file(path, change.data, sync_each)
        if sync_each:
            for folder in filter(os.path.isdir, sorted(folders)):
                sync_folder(folder)
        else:
            sync_file_system(root)
        _remove_empty_folders(folders - {project, root})
        os.unlink(_journal_path(project))
        sync_folder(os.path.join(project, STATE_DIR))
    except OSError as exc:
        raise CannotWrite(exc.filename or root, exc) from None


def _replace_file(path: str, data: bytes | None, sync: bool) -> None:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.tmp")  # The same each time, so that a second try leaves none.
    if data is None:
        for stale in (temporary, path):
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(stale)
        return
    make_shared_folder(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(temporary, flags, 0o644), "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.replace(temporary, path)


def _remove_empty_folders(folders: set[str]) -> None:
    """Remove folders that became empty: Git does not track them."""
    for folder in folders:
        with suppress(OSError):
            os.rmdir(folder)
