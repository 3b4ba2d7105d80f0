"""Folders of a project that may have tests, and with them snapshots.

In: a folder. Out: all below it. Never: enters what installers fill. A pull request can name a folder as it likes, and
can bring a `pyvenv.cfg` that makes pytest take any folder for a virtual environment, so only names count here.
"""

from __future__ import annotations

from collections.abc import Iterator

from traceforge.files import walk_folders

_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})


def may_have_tests(name: str) -> bool:
    """Whether a folder of this name is looked into: not if it is hidden, or belongs to an installer."""
    return not name.startswith(".") and name not in _SKIPPED_FOLDERS


def list_subfolders(top: str) -> Iterator[str]:
    """A folder and all below it that may have tests."""
    for folder, names, _ in walk_folders(top):
        names[:] = filter(may_have_tests, names)
        yield folder
