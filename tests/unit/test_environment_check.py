"""A test that leaves environment variables behind fails, and the next test does not see them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.command import PLAIN_PYTEST

SUITE = """
import os
import pytest

@pytest.fixture(scope="module")
def wide():
    os.environ["LEFT_BY_A_WIDE_FIXTURE"] = "secret-value"

def test_leaks(): os.environ["LEFT_BY_A_TEST"] = "secret-value"
def test_removes(): del os.environ["THERE_BEFORE"]
def test_puts_back(monkeypatch): monkeypatch.setenv("NOT_LEFT", "1")
def test_sees_nothing(): assert ("LEFT_BY_A_TEST" in os.environ, os.environ["THERE_BEFORE"]) == (False, "1")
def test_a_wider_fixture_leaks(wide): pass
"""


def test_the_test_that_leaks_is_the_one_that_fails(tmp_path: Path) -> None:
    """By name, without the value."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    environ = {**os.environ, **PLAIN_PYTEST, "THERE_BEFORE": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    environ = {name: value for name, value in environ.items() if not name.startswith("PYTEST_XDIST")}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "support.environment_check", "-p", "no:traceforge", "-rA"]

    ran = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    errors = [line for line in ran.stdout.splitlines() if line.startswith("ERROR ")]
    assert ["leaks", "removes", "leaks"] == [line.split(" - ")[0].rpartition("_")[2] for line in errors], ran.stdout
    for name in ("LEFT_BY_A_WIDE_FIXTURE", "LEFT_BY_A_TEST", "THERE_BEFORE"):
        assert f"environment variables behind: {name}" in ran.stdout
    assert "5 passed, 3 errors" in ran.stdout
    assert "PASSED test_suite.py::test_sees_nothing" in ran.stdout
