"""A secret of this user on this machine, outside of every project.

In: nothing. Out: the key, made when it is first needed; None where none can be kept. Never: is in a project, where a
pull request could bring one; is printed.

It proves where a file was written: an approval that was interrupted is finished only by the user whose approval it
was. `$XDG_STATE_HOME/traceforge/machine.key`, by default under `~/.local/state`, readable by its owner alone.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from traceforge.errors import CannotRead, CannotWrite
from traceforge.files import find_state_folder, make_private_folder, read_file, write_atomic

NAME = "machine.key"
KEY_BYTES = 32


def find_machine_key(*, make: bool) -> bytes | None:
    """The key; with `make`, a new one if it is missing. None: no folder for it, or other users can read it."""
    path = _key_path()
    if path is None:
        return None
    if make:
        _write_key(path)
    try:
        is_private = _is_private(os.lstat(path))
        key = read_file(path, bytes_max=KEY_BYTES, follow_links=False) if is_private else b""
    except (OSError, CannotRead):
        return None
    return key if len(key) == KEY_BYTES else None


def _key_path() -> str | None:
    folder = find_state_folder()
    return os.path.join(folder, NAME) if folder is not None else None


def _write_key(path: str) -> None:
    """Write a new key, unless there is one."""
    if os.path.lexists(path):
        return
    with suppress(OSError, CannotWrite):
        make_private_folder(os.path.dirname(path))
        write_atomic(path, os.urandom(KEY_BYTES), mode=0o600)


def _is_private(status: os.stat_result) -> bool:
    """Whether this user owns the file, and no other user can read or write it."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
