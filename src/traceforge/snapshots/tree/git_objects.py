"""Objects of a Git repository, all read through one process.

In: names of objects, such as `HEAD` or `1a2b3c:./.ai-snapshots`. Out: their ids and content. Never: starts a process
for each object, which is what would make a comparison with another commit slow; runs a hook; or reaches a network.
"""

from __future__ import annotations

import hashlib
import subprocess
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from msgspec import Struct

from traceforge.snapshots.tree.git_commands import GIT, SECONDS_MAX, GitUnavailable, git_environment

TREE_MODE, LINK_MODE = "40000", "120000"


class GitObject(Struct, frozen=True):
    """An object: its id, its kind (commit, tree, blob or tag) and its content."""

    id: str
    kind: str
    data: bytes


class TreeEntry(Struct, frozen=True):
    """One name in a folder of a commit."""

    mode: str
    id: str

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file: neither a link nor another repository."""
        return self.mode.startswith("100")


class GitObjects:
    """The objects of the repository around a folder, while it is open. For one thread.

    Raises:
        GitUnavailable: Git cannot be run.
    """

    def __init__(self, folder: str) -> None:
        try:
            self._process = subprocess.Popen(  # noqa: S603 (a fixed command, no shell)
                [*GIT, "-C", folder, "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=git_environment(),
            )
        except (OSError, ValueError):
            raise GitUnavailable("git cannot be run") from None
        self._watchdog = threading.Timer(SECONDS_MAX, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watchdog.cancel()
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # What was not written is not wanted any more.
                if pipe is not None:
                    pipe.close()
        self._process.wait()

    def find(self, name: str) -> GitObject | None:
        """An object; None if the clone does not have it.

        Raises:
            GitUnavailable: Git has ended, for example because this is not a repository.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        if "\n" in name or not name.strip():
            return None
        try:
            stdin.write(f"{name}\n".encode(errors="surrogateescape"))
            stdin.flush()
            header = stdout.readline()
            words = header.split()
            if not header.endswith(b"\n"):
                raise GitUnavailable("git ended before it replied")
            if len(words) != 3 or not words[2].isdigit():
                return None  # `NAME missing` or `NAME ambiguous`
            size = int(words[2])
            data = stdout.read(size + 1)
        except OSError:
            raise GitUnavailable("git ended before it replied") from None
        if len(data) != size + 1:
            raise GitUnavailable("git ended before it replied")
        return GitObject(words[0].decode(), words[1].decode(), data[:-1])

    def find_parents(self, name: str) -> list[str] | None:
        """The ids of a commit's parents, also where a shallow clone does not have them; None without the commit."""
        commit = self.find(name)
        if commit is None or commit.kind != "commit":
            return None
        head = commit.data.partition(b"\n\n")[0]
        return [line[7:].decode() for line in head.split(b"\n") if line.startswith(b"parent ")]

    def list_folder(self, name: str) -> dict[str, TreeEntry] | None:
        """The entries of a folder of a commit; None if it is not a folder there.

        Raises:
            GitUnavailable: Git has ended.
        """
        tree = self.find(name)
        return _parse_tree(tree) if tree is not None and tree.kind == "tree" else None


def blob_id(data: bytes, like: str) -> str:
    """The id that Git gives to a file with these bytes, in a repository whose ids look `like` this one."""
    algorithm = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _parse_tree(tree: GitObject) -> dict[str, TreeEntry]:
    size = len(tree.id) // 2
    entries = {}
    offset = 0
    while offset < len(tree.data):
        end = tree.data.index(b"\0", offset)
        mode, _, name = tree.data[offset:end].partition(b" ")
        offset = end + 1 + size
        entries[name.decode(errors="surrogateescape")] = TreeEntry(mode.decode(), tree.data[end + 1 : offset].hex())
    return entries
