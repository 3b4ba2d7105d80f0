"""Which projects this user trusts: a file of another user must not configure what this user runs.

In: the paths that make a folder a project. Out: nothing, or an error with the command that trusts the project. Never:
trusts a file because of where it is: everybody can write to /tmp, and the search for a project goes upwards.

A file is trusted if it belongs to this user or to root, who could change TraceForge itself. Root, as in a container
of a CI service, also trusts the checkout in which it works, if everything there belongs to one user. Other projects
are trusted once they are listed in `$XDG_STATE_HOME/traceforge/trusted-projects`, by default under `~/.local/state`,
one path a line.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence

from traceforge.errors import CannotRead, CannotWrite, UntrustedProject
from traceforge.files import find_state_folder, make_private_folder, read_file, write_atomic

LIST_NAME = "trusted-projects"
LIST_BYTES_MAX = 1 << 20
ROOT = 0


def require_trust(project: str, paths: Sequence[str]) -> set[int] | None:
    """Check who owns the files that configure a project; the users whose files may be read there, None for all.

    Raises:
        UntrustedProject: one belongs to another user, and the project is not trusted.
    """
    untrusted = [path for path in paths if not has_trusted_owner(path)]
    if not untrusted:
        return _trusted_owners() if hasattr(os, "geteuid") else None
    if _is_own_checkout(project, paths) or project in list_trusted_projects():
        return None
    hint = f"If you trust whoever wrote it, run: traceforge trust {shlex.quote(project)}"
    raise UntrustedProject(f"{untrusted[0]} belongs to another user, and is not read", hint=hint)


def has_trusted_owner(path: str) -> bool:
    """Whether a file, and what it links to, belong to this user or to root; also true of what does not exist."""
    return all(owner in _trusted_owners() for owner in _find_owners(path))


def list_trusted_projects() -> list[str]:
    """The projects that this user has trusted; none if another user could have written the list."""
    path = _list_path()
    if path is None or not os.path.lexists(path):
        return []
    status = os.lstat(path)
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        return []
    try:
        data = read_file(path, follow_links=False, bytes_max=LIST_BYTES_MAX)
    except CannotRead:
        return []
    return data.decode(errors="surrogateescape").split("\n")[:-1]


def trust_project(project: str) -> bool:
    """Add a project to the list; False if it is there already.

    Raises:
        CannotWrite: the list cannot be written, or the path cannot be in it.
    """
    return _change_list(project, is_trusted=True)


def distrust_project(project: str) -> bool:
    """Remove a project from the list; False if it is not there. Raises the same."""
    return _change_list(project, is_trusted=False)


def _change_list(project: str, *, is_trusted: bool) -> bool:
    path = _list_path()
    if path is None or "\n" in project:
        reason = "there is no home folder" if path is None else "its path has a line break"
        raise CannotWrite(path or LIST_NAME, reason, hint="Run TraceForge as the user who owns the project.")
    projects = list_trusted_projects()
    if (project in projects) is is_trusted:
        return False
    projects = [*projects, project] if is_trusted else [entry for entry in projects if entry != project]
    try:
        make_private_folder(os.path.dirname(path))
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    data = "".join(f"{entry}\n" for entry in projects).encode(errors="surrogateescape")
    write_atomic(path, data, mode=0o600)
    return True


def _list_path() -> str | None:
    folder = find_state_folder()
    return os.path.join(folder, LIST_NAME) if folder is not None else None


def _trusted_owners() -> set[int]:
    """This user, root, and behind `sudo` the user who called it."""
    if not hasattr(os, "geteuid"):
        return set()
    owners = {os.geteuid(), ROOT}
    caller = os.environ.get("SUDO_UID", "")
    if os.geteuid() == ROOT and caller.isdecimal():
        owners.add(int(caller))
    return owners


def _find_owners(path: str) -> set[int]:
    """The owners of a path and of what it links to; none where the system has no owners, or nothing is there."""
    if not hasattr(os, "geteuid"):
        return set()
    owners = set()
    for read_status in (os.lstat, os.stat):
        try:
            owners.add(read_status(path).st_uid)
        except OSError:
            continue
    return owners


def _is_own_checkout(project: str, paths: Sequence[str]) -> bool:
    """Whether this is root in a checkout of another user: everything belongs to that user, also the current folder,
    and only that user can add files to the project.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != ROOT:
        return False
    try:
        status, current = os.stat(project), os.stat(os.curdir)
    except OSError:
        return False
    owners = {owner for path in paths for owner in _find_owners(path)} - {ROOT}
    return owners == {status.st_uid} == {current.st_uid} and not status.st_mode & stat.S_IWOTH
