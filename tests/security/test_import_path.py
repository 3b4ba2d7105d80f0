"""A module in a checkout is not imported by TraceForge itself, whatever its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import COMMAND

MODULES = ("json", "click", "msgspec", "sitecustomize", "usercustomize", "traceforge/__init__", "subprocess")
PLANTED = "import os\nopen(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'imported'), 'w').close()\n"
START_RECORDER = """
from traceforge.capture.recorder import ProcessRecorder
from traceforge.capture.trace_writer import RecorderSettings

print(ProcessRecorder(RecorderSettings("traces")).close(30))
"""


def plant(folder: Path, modules: tuple[str, ...]) -> Path:
    """A checkout with modules that leave a file named `imported` beside them."""
    (folder / "a.json").write_text("{}")
    for module in modules:
        path = folder / f"{module}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PLANTED)
    return folder


def run_in(folder: Path, *words: str) -> list[str]:
    """Run a command in the checkout; returns the places where a planted module was imported."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(words, cwd=folder, env=environ, capture_output=True, timeout=120, check=False)
    assert 0 == result.returncode, result
    return [str(path.relative_to(folder)) for path in folder.rglob("imported")]


@pytest.mark.parametrize("words", [("hash", "a.json"), ("config", "show"), ("run", "--", "true")], ids=" ".join)
def test_the_command_imports_nothing_from_the_current_folder(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Neither modules of Python, nor of libraries, nor ones with our own name."""
    assert [] == run_in(plant(tmp_path, MODULES), str(COMMAND), *words)


def test_python_m_imports_no_library_from_the_current_folder(tmp_path: Path) -> None:
    """Python has looked for `traceforge` there before our first line runs: `-P` is the remedy."""
    modules = tuple(module for module in MODULES if not module.startswith("traceforge"))

    assert [] == run_in(plant(tmp_path, modules), sys.executable, "-m", "traceforge", "hash", "a.json")


def test_python_m_with_a_safe_path_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """`python -P -m traceforge` is as safe as the command."""
    assert [] == run_in(plant(tmp_path, MODULES), sys.executable, "-P", "-m", "traceforge", "hash", "a.json")


def test_the_process_that_writes_traces_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """The proxy starts it in the folder that it was started in."""
    assert [] == run_in(plant(tmp_path, MODULES), sys.executable, "-P", "-c", START_RECORDER)
