"""Reading and writing files safely.

In: paths. Out: the bytes of a regular file, or one clear reason why not. Never: blocks on a
FIFO, follows a link inside a tree it checks, reads a file too large to be ours, or leaves a
half-written file behind.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress

from traceforge.errors import CannotRead, CannotWrite

STATE_DIR = ".ai-tests"  # What a machine keeps for itself; never committed.
FILE_BYTES_MAX = 1 << 30  # 1 GiB: ten times the largest legal recording. Beyond, memory is at risk.

_OPEN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_OWNER_HINT = "Work in a folder that only you can write to."
_LINK_HINT = "Replace the link with the file: a check that followed links would read outside its tree."


def read_file(
    path: str,
    *,
    follow_links: bool = True,
    bytes_max: int = FILE_BYTES_MAX,
    owners: Container[int] | None = None,
) -> bytes:
    """Read a whole regular file.

    `follow_links` is for paths that a person named; files found in a tree are read without it. With `owners`, the
    file that was opened must belong to one of these users: a path that was checked before may be another file by now.

    Raises:
        CannotRead: it is missing, not a regular file, too large, a link, another user's, or we have no permission.
    """
    try:
        descriptor = os.open(path, _OPEN if follow_links else _OPEN | _NOFOLLOW)
    except (OSError, ValueError) as exc:
        raise _explain(path, exc) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CannotRead(path, f"{_file_kind(status.st_mode)}, not a file")
        if owners is not None and status.st_uid not in owners:
            raise CannotRead(path, "another user has put it there meanwhile", hint=_OWNER_HINT)
        if status.st_size > bytes_max:
            raise _too_large(path, f"{status.st_size} bytes", bytes_max)
        data = _read_all(descriptor, status.st_size, bytes_max)
        if len(data) > bytes_max:
            raise _too_large(path, "more bytes than it first said", bytes_max)
        return data
    except OSError as exc:
        raise _explain(path, exc) from None
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, size: int, bytes_max: int) -> bytes:
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    parts, total = [data], len(data)
    while total <= bytes_max and (data := os.read(descriptor, 1 << 20)):  # longer than one read, or being written
        parts.append(data)
        total += len(data)
    return b"".join(parts)


def _too_large(path: str, size_text: str, bytes_max: int) -> CannotRead:
    hint = "TraceForge writes no file of that size. Check the path."
    return CannotRead(path, f"{size_text}, more than the limit of {bytes_max}", hint=hint)


def _explain(path: str, error: OSError | ValueError) -> CannotRead:
    if isinstance(error, ValueError):  # a NUL, or text that the file system's encoding does not have
        return CannotRead(path, "not a valid file name", hint="Check the path.")
    match error:
        case FileNotFoundError():
            return CannotRead(path, "no such file or folder", hint="Check the path.")
        case PermissionError():
            mode = "u+rx" if os.path.isdir(path) else "u+r"
            return CannotRead(path, "no permission to read it", hint=f"chmod {mode} {shlex.quote(path)}")
        case IsADirectoryError():
            return CannotRead(path, "a folder, not a file", hint="Check the path.")
        case NotADirectoryError() if os.path.lexists(path):
            return CannotRead(path, "a file, not a folder", hint="Check the path.")
        case NotADirectoryError():
            return CannotRead(path, "a part of this path is a file, not a folder", hint="Check the path.")
    if os.path.islink(path):
        return CannotRead(path, "a symbolic link, which is not followed here", hint=_LINK_HINT)
    return CannotRead(path, (error.strerror or str(error)).lower())


def _file_kind(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "a special file")


def list_folder(path: str) -> list[os.DirEntry[str]]:
    """List a folder, sorted by name.

    Raises:
        CannotRead: it is missing, not a folder, or we have no permission.
    """
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError) as exc:
        raise _explain(path, exc) from None


def walk_folders(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """A folder and all below it, each with the names of its folders and files, as `os.walk` from the top down.

    The caller may remove names of folders, or sort them. Without recursion, which `os.walk` has in Python 3.11: who
    wrote a checkout chooses how deep its folders lie.
    """
    pending = [top]
    while pending:
        parent = pending.pop()
        try:
            entries = list_folder(parent)
        except CannotRead:
            continue
        folders = [entry.name for entry in entries if os.path.isdir(entry.path)]
        names = set(folders)
        yield parent, folders, [entry.name for entry in entries if entry.name not in names]
        paths = [os.path.join(parent, name) for name in folders]
        pending += [path for path in reversed(paths) if not os.path.islink(path)]


def write_atomic(path: str, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a crash leaves the old content or the new, never a part.

    Raises:
        CannotWrite: the folder is missing, the disk is full, or we have no permission.
    """
    write_atomic_chunks(path, (data,), mode=mode)


def write_atomic_chunks(path: str, chunks: Iterable[bytes], *, mode: int = 0o644) -> None:
    """As `write_atomic`, for content that is too large for memory.

    Raises:
        CannotWrite: the folder is missing, the disk is full, or we have no permission.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")
    try:
        _write_synced(temporary, chunks, mode)
        try:
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(folder or ".")
    except OSError as exc:
        raise CannotWrite(path, exc) from None


def _write_synced(path: str, chunks: Iterable[bytes], mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":  # A folder cannot be opened there; NTFS journals the rename itself.
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_folder(folder: str) -> None:
    """Make a folder and its missing parents, with access for this user only.

    A new `.ai-tests` gets a `.gitignore`, so that Git ignores it also in a project without `traceforge init`.
    """
    for path in _missing_folders(folder):
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
            if os.path.basename(path) == STATE_DIR:
                ignore_folder_in_git(path)


def make_shared_folder(folder: str) -> None:
    """Make a folder and its missing parents. Other users may read it, but not change it, with any umask.

    Raises:
        OSError: it cannot be made, or a file has its name.
    """
    for path in _missing_folders(folder):
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            if not os.path.isdir(path):  # Otherwise, another process has just made it.
                raise


def _missing_folders(folder: str) -> list[str]:
    """The folder and its parents that do not exist, outermost first."""
    missing: list[str] = []
    while folder and not os.path.isdir(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def ignore_folder_in_git(folder: str) -> None:
    """Write a `.gitignore` for everything in a folder, unless it has one."""
    with suppress(FileExistsError), open(os.path.join(folder, ".gitignore"), "xb", opener=_open_private) as file:
        file.write(b"*\n")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def create_private_file(path: str) -> None:
    """Create an empty file with access for this user only, if no file exists; on an error, leave none.

    The file is closed before it gets its name: to close a file releases every POSIX lock that this process has on it,
    and another thread may open a database as soon as it has its name.
    """
    if os.path.lexists(path):
        return
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    with suppress(OSError):
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            os.link(temporary, path)
        finally:
            os.unlink(temporary)


def write_private_chunks(path: str, chunks: Iterable[bytes]) -> None:
    """Write a file that only its owner can read, as a whole or not at all; a device or a pipe is written to as it is.

    Raises:
        CannotWrite: it cannot be written, or another user has prepared it.
    """
    entry = check_not_planted(path)  # Decides alone: what is put there from now on is replaced, and not followed.
    is_link = entry is not None and stat.S_ISLNK(entry.st_mode)
    target = os.path.realpath(path) if is_link else path
    if (
        entry is None
        or stat.S_ISREG(entry.st_mode)
        or (is_link and (os.path.isfile(path) or not os.path.exists(path)))
    ):
        write_atomic_chunks(target, chunks, mode=0o600)
        return
    try:
        with open(os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0)), "wb") as file:
            file.writelines(chunks)
    except OSError as exc:
        raise CannotWrite(path, exc) from None


def check_not_planted(path: str) -> os.stat_result | None:
    """Refuse a file, a link or a pipe that another user has put into a folder in which everybody may create files.

    That user would get what we write, or would choose which of our files we overwrite. Returns the status of the
    path, without following a link; None if nothing exists there.

    Raises:
        CannotWrite: the path belongs neither to this user nor to the owner of the folder.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        folder, entry = os.stat(os.path.dirname(path) or "."), os.lstat(path)
        if os.name != "posix":
            return entry
        if folder.st_mode & stat.S_IWOTH and entry.st_uid not in (os.geteuid(), folder.st_uid):
            hint = "Use a folder that only you can write to, or remove it."
            raise CannotWrite(path, "another user has put it there", hint=hint)
        return entry
    return None


def close_to_others(path: str) -> None:
    """Make a file private to its owner; a missing file is not an error.

    Raises:
        CannotWrite: other users may read or change it, and we may not change that.
    """
    if os.name != "posix":
        return
    with suppress(FileNotFoundError):
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            try:
                os.chmod(path, 0o600)
            except PermissionError as exc:
                raise CannotWrite(path, exc, hint="It belongs to another user, who can read it.") from None


def find_state_folder() -> str | None:
    """The folder for what this user keeps on this machine, outside of every project; None without a home folder."""
    home = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "traceforge") if os.path.isabs(home) else None


def sync_file_system(path: str) -> None:
    """Wait until everything on the file system of `path` is on the disk: one wait for any number of files."""
    if not hasattr(os, "sync"):
        return  # Windows: NTFS journals names, and the data follows within seconds.
    import ctypes  # Deferred: some builds of Python lack it.

    descriptor = os.open(path, os.O_RDONLY)
    try:
        syncfs = getattr(ctypes.CDLL(None), "syncfs", None)
        if syncfs is None or syncfs(descriptor) != 0:
            os.sync()
    finally:
        os.close(descriptor)
