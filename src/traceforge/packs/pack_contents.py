"""What is in a pack, wherever it stands: in a folder, or in an archive.

In: a path. Out: the bytes of its files by name, the signature beside it, and what is wrong with the names. Never:
follows a link, opens what is not a regular file, or writes an archive's files to the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from traceforge.errors import CannotRead
from traceforge.files import list_folder, read_file
from traceforge.findings import IO
from traceforge.modelio import Violation
from traceforge.packs.pack_format import ALL_FILES, SIGNATURE_SUFFIX


@dataclass
class PackContents:
    """The files of a pack. Those of unknown names are named, and not read."""

    pack: str
    names: tuple[str, ...] = ()  # of regular files, sorted
    files: dict[str, bytes] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    signature: bytes | None = None
    signature_name: str = ""
    is_broken: bool = False  # an archive that is none of ours: nothing is known about what it holds


def signature_path(pack: str) -> str:
    """Where the signature of a folder stands: beside it."""
    return os.path.normpath(pack) + SIGNATURE_SUFFIX


def read_folder(pack: str) -> PackContents:
    """Read a pack that is a folder.

    Raises:
        CannotRead: the folder is missing or not readable.
    """
    entries = list_folder(pack)
    names = tuple(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    contents = PackContents(pack, names, violations=[*_check_names(entries)])
    for name in names:
        if name in ALL_FILES:
            try:
                contents.files[name] = read_file(f"{pack}/{name}", follow_links=False)
            except CannotRead as exc:
                contents.violations.append(Violation(IO, name, exc.reason))
    _read_signature(contents)
    return contents


def _read_signature(contents: PackContents) -> None:
    path = signature_path(contents.pack)
    contents.signature_name = os.path.basename(path)
    if not os.path.lexists(path):
        return
    try:
        contents.signature = read_file(path, follow_links=False)
    except CannotRead as exc:
        contents.violations.append(Violation(IO, contents.signature_name, exc.reason))


def _check_names(entries: list[os.DirEntry[str]]) -> Iterator[Violation]:
    for entry in entries:
        if entry.name not in ALL_FILES:
            yield Violation("PK2", entry.name, f"unknown file in pack: {entry.name}")
        if "\\" in entry.name:
            yield Violation("PK7", entry.name, f"file name leads elsewhere: {entry.name}")
        if entry.is_symlink():
            yield Violation("PK6", entry.name, f"file is a symbolic link: {entry.name}")
        elif not entry.is_file(follow_symlinks=False):
            yield Violation("PK12", entry.name, f"not a regular file: {entry.name}")
