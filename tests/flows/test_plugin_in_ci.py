"""In CI, plain `pytest` lets no model call of a configured project out, whether it has snapshots yet or not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import PLAIN_PYTEST
from support.model_servers import ModelServer, model_server

TESTS = """
import os

import httpx


def test_it():
    body = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "Name a fish."}]}
    assert 200 == httpx.post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body).status_code
"""
CONFIGURATION = "traceforge.config.json"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package in a repository that has no snapshots."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    package = tmp_path / "packages" / "a"
    package.mkdir(parents=True)
    (package / "test_it.py").write_text(TESTS)
    return tmp_path


def run_pytest(folder: Path, server: ModelServer, *words: str, **variables: str) -> tuple[int, int, str]:
    """The exit code of pytest, how many calls reached the provider, and the output."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    base_url = {"OPENAI_BASE_URL": f"{server.url}/v1"}
    before = server.served
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words], cwd=folder, text=True,
        env={**inherited, **PLAIN_PYTEST, **base_url, **variables}, capture_output=True, check=False,
    )  # fmt: skip
    return ran.returncode, server.served - before, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (CONFIGURATION, "{}", []),
        pytest.param(CONFIGURATION, "{}", ["-n", "1"], marks=pytest.mark.slow),
        pytest.param("pyproject.toml", "[tool.traceforge]\n", [], marks=pytest.mark.slow),
        (f"packages/a/{CONFIGURATION}", "{}", []),
        pytest.param(f"packages/a/{CONFIGURATION}", "{}", ["packages/a"], marks=pytest.mark.slow),
    ],
)
def test_no_call_of_a_configured_project_without_snapshots_goes_out(
    folder: Path, server: ModelServer, file: str, text: str, words: list[str]
) -> None:
    (folder / file).write_text(text)

    code, served, output = run_pytest(folder, server, *words, CI="true")

    assert (1, 0) == (code, served), output
    assert "GT2 no recorded call matches: nothing was recorded" in output
    assert "to approve the changes, on your machine: pytest --traceforge=record, then traceforge approve" in output
    assert "if the tests of this build should call the provider: pytest --traceforge=off" in output


def test_calls_go_out_where_the_command_line_asks_for_it(folder: Path, server: ModelServer) -> None:
    (folder / CONFIGURATION).write_text("{}")

    code, served, output = run_pytest(folder, server, "--traceforge=off", CI="true")

    assert (0, 1, False) == (code, served, "traceforge" in output), output


@pytest.mark.parametrize(("file", "variables"), [("README.md", {"CI": "true"}), (CONFIGURATION, {})])
def test_a_project_that_is_not_configured_or_no_build_is_left_alone(
    folder: Path, server: ModelServer, file: str, variables: dict[str, str]
) -> None:
    """TraceForge may be installed and not used; and on your machine, plain pytest calls the provider as before."""
    (folder / file).write_text("{}")

    code, served, output = run_pytest(folder, server, **variables)

    assert (0, 1, False) == (code, served, "traceforge" in output), output
    assert not (folder / ".ai-tests").exists()


@pytest.mark.slow
def test_a_configured_project_without_model_calls_passes(folder: Path, server: ModelServer) -> None:
    (folder / CONFIGURATION).write_text("{}")
    (folder / "packages" / "a" / "test_it.py").write_text("def test_it():\n    pass\n")

    code, served, output = run_pytest(folder, server, CI="true")

    assert (0, 0) == (code, served), output
