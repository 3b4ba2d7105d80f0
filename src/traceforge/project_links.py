"""Finds links that lead out of a project, in the folders in which TraceForge writes: its state and its traces.

In: a project, and paths in it. Out: the first path that a link puts elsewhere. Never: follows a link, or looks at the
traces themselves, of which there are many: they are written under a new name and renamed, which replaces a link.

A state folder that Git tracks is refused already (`TF208`), but a checkout can also be an unpacked archive.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from traceforge.files import STATE_DIR

# Below the folder of traces; those whose files are few are looked at one by one.
_FOLDERS_OF_FEW = ("archive", "index", "spool")
_FOLDERS = ("chunks", *_FOLDERS_OF_FEW)


def find_link_out(project: str, paths: Iterable[str]) -> str | None:
    """The first of these paths, relative to the project, that is not in it once links are followed."""
    inside = os.path.join(project, "")
    for path in paths:
        if not os.path.join(os.path.realpath(os.path.join(project, path)), "").startswith(inside):
            return path
    return None


def list_traces_folders(traces_dir: str) -> list[str]:
    """The folder of traces, and those below it."""
    return [traces_dir, *(os.path.join(traces_dir, name) for name in _FOLDERS)]


def list_state_paths(project: str) -> Iterator[str]:
    """The state folder, and the links in it."""
    yield STATE_DIR
    yield from _list_links(project, STATE_DIR)


def list_traces_paths(project: str, traces_dir: str) -> Iterator[str]:
    """The folder of traces, those below it, and the links in them."""
    yield from list_traces_folders(traces_dir)
    for name in _FOLDERS_OF_FEW:
        yield from _list_links(project, os.path.join(traces_dir, name))


def _list_links(project: str, folder: str) -> Iterator[str]:
    try:
        with os.scandir(os.path.join(project, folder)) as entries:
            links = sorted(entry.name for entry in entries if entry.is_symlink())
    except OSError:
        return  # missing, or no folder: whoever writes there says so
    for name in links:
        yield os.path.join(folder, name)
