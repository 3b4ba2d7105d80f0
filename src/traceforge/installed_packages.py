"""What the packages that are installed beside TraceForge offer it.

In: the name of a group of entry points. Out: those entry points. Never: looks into other folders of `sys.path` than
those to which packages are installed: a checkout may be one, and may bring the metadata of a package.
"""

from __future__ import annotations

import site
from collections.abc import Iterator
from typing import TYPE_CHECKING

from traceforge.errors import CannotRead
from traceforge.files import list_folder, read_file

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def find_entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group, in a fixed order; the same one twice is one."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    entries = {entry for folder in folders for entry in _folder_entry_points(folder, group)}
    return sorted(entries, key=lambda entry: (entry.name, entry.value))


def _folder_entry_points(folder: str, group: str) -> Iterator[EntryPoint]:
    try:
        names = [entry.name for entry in list_folder(folder)]
    except CannotRead:
        return  # Python names folders that need not exist.
    for name in names:
        path = f"{folder}/{name}"
        if name.endswith((".dist-info", ".egg-info")) and _has_group(f"{path}/entry_points.txt", group):
            # Deferred: it takes 20 ms to import, in each command that watches calls, and most environments have none.
            from importlib.metadata import Distribution

            distribution = Distribution.at(path)
            yield from (entry for entry in distribution.entry_points if entry.group == group)


def _has_group(path: str, group: str) -> bool:
    try:
        return group.encode() in read_file(path)
    except CannotRead:
        return False
