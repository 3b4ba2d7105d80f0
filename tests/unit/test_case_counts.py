"""What has run is counted, and a run of everything in which something was left out fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.case_counts import BACKENDS, COUNTED, required_cells

TESTS = Path(__file__).parents[1]
SUITE = """
import pytest

@pytest.mark.parametrize("cell", {cells!r})
def test_one(cell, record_property):
    record_property({name!r}, cell)
"""

HOOKS = """
from importlib.util import module_from_spec, spec_from_file_location

spec = spec_from_file_location("hooks", {path!r})
hooks = module_from_spec(spec)
spec.loader.exec_module(hooks)
pytest_terminal_summary, pytest_sessionfinish = hooks.pytest_terminal_summary, hooks.pytest_sessionfinish
"""


def _run(folder: Path, cells: list[str], *arguments: str) -> tuple[int, str]:
    """A suite with these hooks, whose tests count for these cells."""
    (folder / "t").mkdir()
    (folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["t"]\n')
    (folder / "t" / "conftest.py").write_text(HOOKS.format(path=str(TESTS / "conftest.py")))
    (folder / "t" / "test_it.py").write_text(SUITE.format(cells=cells, name=COUNTED))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    return process.returncode, process.stdout + process.stderr


def _all_cells() -> list[str]:
    return [f"{backend} × {cell}" for backend in BACKENDS for cell in required_cells()]


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_run_without_a_required_cell_fails_and_names_it(tmp_path: Path, workers: str) -> None:
    """Also with several worker processes."""
    cells = [cell for cell in _all_cells() if cell != "postgresql × purge"]

    code, output = _run(tmp_path, cells, "-n", workers)

    assert 1 == code, output
    assert "no test ran for postgresql × purge" in output
    assert "context store, purge: 1 on sqlite, 0 on postgresql" in output
    assert 1 == output.count("no test ran for")


def test_a_run_with_all_cells_passes_and_prints_the_counts(tmp_path: Path) -> None:
    code, output = _run(tmp_path, _all_cells())

    assert 0 == code, output
    assert "context store, merge rebase: 1 on sqlite, 1 on postgresql" in output


def test_a_run_of_single_files_needs_no_cells(tmp_path: Path) -> None:
    code, output = _run(tmp_path, _all_cells()[:1], "t/test_it.py")

    assert 0 == code, output
