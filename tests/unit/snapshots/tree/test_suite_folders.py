"""`suite_folders`: which folders of a project may have tests."""

from __future__ import annotations

import os
from pathlib import Path

from traceforge.snapshots.tree.suite_folders import list_subfolders


def test_a_file_in_a_folder_hides_nothing_below_it(tmp_path: Path) -> None:
    """pytest takes a folder with `pyvenv.cfg` for a virtual environment; of a real one, little is left to look at."""
    for name in ("group/package/tests", "venv/lib/python3.11/site-packages/x", ".venv/lib", "node_modules/x"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("group", "venv"):
        (tmp_path / name / "pyvenv.cfg").write_text("home = /usr/bin\n")

    folders = {os.path.relpath(folder, tmp_path) for folder in list_subfolders(str(tmp_path))}

    expected = {".", "group", "group/package", "group/package/tests", "venv", "venv/lib", "venv/lib/python3.11"}
    assert expected == folders
