"""The agent of `examples/`: its own tests pass against the model server, and it does not depend on TraceForge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from support.model_servers import EXAMPLES, model_server_process


@pytest.mark.slow
def test_the_agent_s_tests_pass_with_the_same_calls_every_time(tmp_path: Path) -> None:
    """In an empty folder, with 14 calls."""
    project = copytree(EXAMPLES / "agent", tmp_path / "agent")
    with model_server_process() as server:
        variables = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        ran = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)
        served = server.count_served()

    assert "6 passed" in ran.stdout
    assert 14 == served


def test_the_agent_does_not_mention_traceforge() -> None:
    """People copy it, so it must be the code they would write."""
    code = "".join(file.read_text() for file in (EXAMPLES / "agent").glob("*.py") if file.name != "test_agent.py")

    assert "traceforge" not in code.lower()
