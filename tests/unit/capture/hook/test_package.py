"""The hook needs only the standard library of Python 3.9, and nothing else of TraceForge."""

from __future__ import annotations

import ast
import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.corpus import PROJECT

HOOK = PROJECT / "src" / "traceforge" / "capture" / "hook"
FILES = sorted(HOOK.glob("*.py"))
OLD_PYTHONS = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.9.*/bin/python"))) + [
    path for path in [shutil.which("python3.9")] if path and "shims" not in path
]
NO_OLD_PYTHON = pytest.param("", marks=pytest.mark.skip(reason="there is no Python 3.9 here"))
LOAD = """
import importlib, importlib.util, pathlib, sys
folder = pathlib.Path(sys.argv[1])
where = [str(folder)]
spec = importlib.util.spec_from_file_location("alone", folder / "__init__.py", submodule_search_locations=where)
sys.modules["alone"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for file in folder.glob("*.py"):
    if file.stem != "__init__":
        importlib.import_module("alone." + file.stem)
print(sorted(name for name in sys.modules if name.partition(".")[0] == "traceforge"))
"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_module_is_valid_python_3_9(file: Path) -> None:
    """The hook runs in the oldest supported Python."""
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_module_imports_the_standard_library_and_its_neighbours(file: Path) -> None:
    """No import, at the top or in a function, names anything else."""
    imports = [
        node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    named = [
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in imports
        for alias in node.names
        if isinstance(node, ast.Import) or node.level == 0
    ]

    assert [] == [name for name in named if name.partition(".")[0] not in sys.stdlib_module_names]


@pytest.mark.parametrize("python", OLD_PYTHONS[:1] or [NO_OLD_PYTHON])
def test_it_loads_on_python_3_9_without_traceforge(python: str) -> None:
    """Every module of it, under another name, in a Python without TraceForge."""
    ran = subprocess.run(
        [python, "-I", "-c", LOAD, str(HOOK)], capture_output=True, text=True, timeout=60, check=False
    )

    assert ("[]\n", "", 0) == (ran.stdout, ran.stderr, ran.returncode)


def test_it_loads_where_traceforge_cannot_be_imported() -> None:
    """Isolated from site-packages, it needs none of them."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOAD, str(HOOK)], capture_output=True, text=True, timeout=60, check=False
    )

    assert ("[]\n", "", 0) == (ran.stdout, ran.stderr, ran.returncode)
