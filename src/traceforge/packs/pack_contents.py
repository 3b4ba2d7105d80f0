"""The files of a pack, and the checks of their names.

Links are never followed, and only regular files are opened.
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
    """The files of a pack. Files with unknown names are listed and not read."""

    pack: str
    names: tuple[str, ...] = ()  # of regular files, sorted
    files: dict[str, bytes] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    signature: bytes | None = None
    signature_name: str = ""
    is_broken: bool = False  # an invalid archive, whose content is unknown


def signature_path(pack: str) -> str:
    """The path of a folder's signature, which is next to the folder."""
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
            yield Violation("PK7", entry.name, f"file name leads outside the pack: {entry.name}")
        if entry.is_symlink():
            yield Violation("PK6", entry.name, f"file is a symbolic link: {entry.name}")
        elif not entry.is_file(follow_symlinks=False):
            yield Violation("PK12", entry.name, f"not a regular file: {entry.name}")
