"""The agent of `examples/`: its own tests pass against the model server, and nothing in it knows us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

from support.model_servers import EXAMPLES, model_server_process


def test_the_agent_keeps_its_promises(tmp_path: Path) -> None:
    """In a folder of its own, with 14 calls: always the same ones."""
    project = copytree(EXAMPLES / "agent", tmp_path / "agent")
    with model_server_process() as server:
        variables = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        ran = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)
        served = server.count_served()

    assert "6 passed" in ran.stdout
    assert 14 == served


def test_the_agent_knows_nothing_of_us() -> None:
    """People copy it, and what they copy must be what they would write."""
    code = "".join(file.read_text() for file in (EXAMPLES / "agent").glob("*.py") if file.name != "test_agent.py")

    assert "traceforge" not in code.lower()
