"""Check files as tests of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.command import PLAIN_PYTEST
from support.stored_traces import call, store_calls

CHECK = "name: {}\ntrace_id: '{}'\nassertions: [{{type: contains, value: Paris}}]\n"


def run_pytest(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with our plugin in a project."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CI"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=project, env={**environ, **PLAIN_PYTEST}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_each_check_is_an_item(tmp_path: Path) -> None:
    """One passes; one fails with what was expected; one could not be checked, which is not green."""
    store_calls(tmp_path, call(1), call(2, answer="Rome."))
    folder = tmp_path / ".ai-checks"
    folder.mkdir()
    (tmp_path / "traceforge.config.json").write_text("{}")
    for name, trace in (("a", "00000001"), ("b", "00000002"), ("c", "0000ffff")):
        (folder / f"{name}.yaml").write_text(CHECK.format(name, trace))

    ran = run_pytest(tmp_path, ".ai-checks")

    assert 1 == ran.returncode
    assert "2 failed, 1 passed" in ran.stdout
    assert 'expected: a text with "Paris"' in ran.stdout
    assert "there is no trace 0000ffff" in ran.stdout
    assert "FAILED .ai-checks/b.yaml::b - contains: expected" in ran.stdout


def test_a_malformed_file_is_an_error_of_the_collection(tmp_path: Path) -> None:
    """With its line and the hint; no test ran, and the run is red."""
    (tmp_path / ".ai-checks").mkdir()
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / ".ai-checks" / "a.yaml").write_text(CHECK.format("a", "00000001").replace("contains", "contians"))

    ran = run_pytest(tmp_path, ".ai-checks/a.yaml")

    assert 2 == ran.returncode
    assert ".ai-checks/a.yaml: line 3 column 15: CK1 assertions[0].type must be" in ran.stdout
    assert "hint: Did you mean contains?" in ran.stdout


def test_other_yaml_files_are_no_tests(tmp_path: Path) -> None:
    """Only those in a folder for checks."""
    (tmp_path / "a.yaml").write_text("name: [")
    (tmp_path / "test_a.py").write_text("def test_a():\n    pass\n")

    ran = run_pytest(tmp_path)

    assert (0, True) == (ran.returncode, "1 passed" in ran.stdout)
