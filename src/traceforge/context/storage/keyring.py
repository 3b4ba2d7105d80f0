"""The encryption keys of the projects, in a file outside of the database.

In: a path. Out: a key by project and generation. Never: a key in the database, or in a file that others can read.

    {"format": "traceforge.keyring/1", "keys": {"prj_…": {"1": "<32 bytes, base64>"}}}

A purge destroys the key of a generation: without it, no copy of the database from that time can be read. So a change
replaces the whole file, and overwrites the old file before it unlinks it. A crash in between leaves the old file
under a second name; the next process that opens the keyring overwrites it.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import stat
import threading
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from traceforge.canon import JSON, canonical_bytes
from traceforge.conversion import decode_json
from traceforge.errors import CannotWrite, StoreUnavailable
from traceforge.files import check_not_planted, sync_folder, write_atomic
from traceforge.traces.file_lock import lock_file

FORMAT = "traceforge.keyring/1"
KEY_BYTES = 32
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_TORN_TRIES = 20  # A file that is being replaced can be read again within one of these.
_TORN_PAUSE_S = 0.01

_Keys = dict[tuple[str, int], bytes]


class KeyMissing(StoreUnavailable):
    """The key of a generation is missing: a purge destroyed it, or this is the keyring of another database."""


class _KeyringFile(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    keys: dict[str, dict[str, str]]


class Keyring:
    """The keys in the file; reads the file again when a key is unknown."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._mutex = threading.Lock()
        self._ciphers: dict[tuple[str, int], AESGCM] = {}
        self._file_state: tuple[int, int, int] | None = None
        names = [self.path + suffix for suffix in ("", ".old", ".lock", ".purge")]
        for name in (*names, *self._torn_files()):
            check_not_planted(name)
        with self._mutex:
            if os.path.lexists(self._old_path) or self._torn_files():
                with self._locked():
                    self._overwrite_old_files()
            self._load()

    @property
    def _old_path(self) -> str:
        return f"{self.path}.old"

    def cipher(self, project_id: str, generation: int) -> AESGCM:
        """The cipher that wraps the data keys of a project.

        Raises:
            KeyMissing: the file does not have this key.
        """
        cached = self._ciphers.get((project_id, generation))
        if cached is not None:
            return cached
        with self._mutex:
            self._load()
        try:
            return self._ciphers[project_id, generation]
        except KeyError:
            raise KeyMissing(
                f"{self.path}: no key for project {project_id}, generation {generation}",
                hint="Use the keyring that belongs to this database. Purged content cannot be read again.",
            ) from None

    def has_key(self, project_id: str, generation: int) -> bool:
        """Whether the file has this key now."""
        with self._mutex:
            self._load()
            return (project_id, generation) in self._ciphers

    def generations(self, project_id: str) -> list[int]:
        """The generations of a project whose keys are in the file."""
        with self._mutex:
            self._load()
            return sorted(generation for owner, generation in self._ciphers if owner == project_id)

    def add_key(self, project_id: str, generation: int) -> None:
        """Make a key, unless there is one."""
        with self._edited_keys() as keys:
            keys.setdefault((project_id, generation), secrets.token_bytes(KEY_BYTES))

    def destroy_keys(self, project_id: str, *, before: int) -> None:
        """Destroy the keys of every generation before this one, for good."""
        with self._edited_keys() as keys:
            for owner, generation in list(keys):
                if owner == project_id and generation < before:
                    del keys[owner, generation]

    @contextmanager
    def lock_purges(self, *, wait: bool) -> Iterator[bool]:
        """Be the only process that purges with this keyring; yields False where another one does and `wait` is false.

        A crash releases it, so the next process that gets it may continue what was left.
        """
        descriptor = self._lock_file("purge")
        try:
            yield lock_file(descriptor, wait=wait)
        finally:
            os.close(descriptor)

    @contextmanager
    def _edited_keys(self) -> Iterator[_Keys]:
        with self._mutex, self._locked():
            self._overwrite_old_files()
            keys = self._read()
            before = dict(keys)
            yield keys
            if keys != before:
                self._replace(keys)
            self._load()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the file lock that keeps other processes from changing the keyring; a crash releases it."""
        descriptor = self._lock_file("lock")
        try:
            lock_file(descriptor, wait=True)
            yield
        finally:
            os.close(descriptor)

    def _lock_file(self, suffix: str) -> int:
        try:
            return os.open(f"{self.path}.{suffix}", os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o600)
        except OSError as exc:
            raise CannotWrite(self.path, exc) from None

    def _torn_files(self) -> list[str]:
        """Temporary files that a crash left behind."""
        folder, name = os.path.split(self.path)
        try:
            names = os.listdir(folder)
        except OSError:
            return []
        torn = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]+\.tmp\Z")
        return [os.path.join(folder, name) for name in names if torn.match(name)]

    def _replace(self, keys: _Keys) -> None:
        with suppress(FileNotFoundError):
            os.link(self.path, self._old_path)
        write_atomic(self.path, _write(keys), mode=0o600)
        self._overwrite_old_files()

    def _overwrite_old_files(self) -> None:
        """Overwrite and unlink the files of earlier states; a second name of the current file is only unlinked."""
        for path in self._torn_files():
            _overwrite(path, self.path)
            os.unlink(path)
        if os.path.lexists(self._old_path):
            _overwrite(self._old_path, self.path)
            os.unlink(self._old_path)
            sync_folder(os.path.dirname(self.path))

    def _load(self) -> None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            self._ciphers, self._file_state = {}, None
            return
        except OSError as exc:
            raise _unusable(self.path, (exc.strerror or str(exc)).lower()) from None
        if not stat.S_ISREG(status.st_mode):  # To open a pipe would wait for ever.
            raise _unusable(self.path, "not a file")
        file_state = (status.st_ino, status.st_mtime_ns, status.st_size)
        if file_state != self._file_state:
            cached = self._ciphers
            self._ciphers = {name: cached.get(name) or AESGCM(key) for name, key in self._read().items()}
            self._file_state = file_state

    def _read(self) -> _Keys:
        """The keys in the file; a file that another process replaces meanwhile is read again."""
        for attempt in range(_TORN_TRIES):
            try:
                with open(self.path, "rb") as file:
                    if os.name == "posix" and os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                        raise _unusable(
                            self.path, "other users can read it", hint=f"chmod 600 {shlex.quote(self.path)}"
                        )
                    data = file.read()
                return _parse(data)
            except FileNotFoundError:
                return {}
            except OSError as exc:
                raise _unusable(self.path, (exc.strerror or str(exc)).lower()) from None
            except (msgspec.MsgspecError, NotBase64, ValueError):
                if attempt + 1 < _TORN_TRIES:
                    time.sleep(_TORN_PAUSE_S)
        raise _unusable(self.path, "not a keyring")


def _parse(data: bytes) -> _Keys:
    file = decode_json(data, _KeyringFile)
    if file.format != FORMAT:
        raise ValueError
    keys = {
        (project, int(generation)): b64decode(text, validate=True)
        for project, generations in file.keys.items()
        for generation, text in generations.items()
    }
    if any(len(key) != KEY_BYTES for key in keys.values()):
        raise ValueError
    return keys


def _write(keys: _Keys) -> bytes:
    grouped: dict[str, dict[str, str]] = {}
    for (project, generation), key in keys.items():
        grouped.setdefault(project, {})[str(generation)] = b64encode(key).decode()
    return canonical_bytes(cast("JSON", {"format": FORMAT, "keys": grouped})) + b"\n"


def _overwrite(path: str, current: str) -> None:
    """Overwrite a file, unless it is another name of the current one. Nothing is overwritten through a link, which a
    checkout can bring.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return  # a link, a folder, or a pipe that nobody reads
    try:
        status = os.fstat(descriptor)
        is_current = os.path.exists(current) and os.path.samestat(status, os.stat(current))
        if stat.S_ISREG(status.st_mode) and not is_current:
            os.write(descriptor, bytes(status.st_size))
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: str, why: str, hint: str = "") -> StoreUnavailable:
    return StoreUnavailable(f"{path}: {why}", hint=hint or "Restore the keyring that belongs to this database.")
