"""Agents of three frameworks with three tool servers and two models: recorded, and replayed with none of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.agents_with_servers import AGENTS, QUESTIONS
from support.command import COMMAND, CommandResult, traceforge
from support.environments import installed_python
from support.model_servers import model_server
from support.tool_servers import approve_all, copy_tool_servers, serve_over_http

pytestmark = pytest.mark.slow

TRACED_S_MAX = 300
# Port 0 is no connection: Python asks the kernel for its route so.
CONNECTION = re.compile(r"connect\(.*sin6?_port=htons\([1-9]")


def told(result: CommandResult) -> list[str]:
    """What the agent printed; the library of a server prints a log, too."""
    return [line for line in result.out.splitlines() if "INFO" not in line and "Request" not in line]


@pytest.mark.parametrize("framework", list(AGENTS))
def test_an_agent_with_three_tool_servers_and_two_models_runs_with_none(framework: str, tmp_path: Path) -> None:
    """One server over stdio, one over HTTP, and one that dies. `strace` sees no connection, and no server start."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is not on PATH: `make strace` installs it"
    environment, program = AGENTS[framework]
    python = str(installed_python(environment))
    copy_tool_servers(tmp_path)
    (tmp_path / "agent.py").write_text(program)
    keys = {"OPENAI_API_KEY": "none"}
    with serve_over_http([python, "-W", "ignore", "one_tool_server.py", "find_price"], tmp_path) as url:
        command = ["--", python, "-W", "ignore", "agent.py", url]
        with model_server() as model:
            keys["OPENAI_BASE_URL"] = f"{model.url}/v1"
            recorded = traceforge("record", *command, *QUESTIONS, cwd=tmp_path, **keys)
    used = {line.split()[0] for line in (tmp_path / "server.log").read_text().splitlines()}
    assert (0, {"started", "add", "find_price", "open_cellar"}) == (recorded.code, used), recorded
    models = {line for line in told(traceforge("trace", "list", cwd=tmp_path)) if "gpt-4.1" in line}
    assert {"gpt-4.1-mini", "gpt-4.1"} == {word for line in models for word in line.split() if "gpt" in word}, models
    approve_all(tmp_path)
    for name in ("notes_server.py", "one_tool_server.py", "server.log"):
        (tmp_path / name).unlink()

    log = tmp_path / "calls"
    tracer = (strace, "-f", "-qq", "-s", "4096", "-e", "trace=connect,execve", "-o", str(log))
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **keys}
    ran = subprocess.run(
        [*tracer, COMMAND, "test", *command, *QUESTIONS], cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=TRACED_S_MAX, check=False,
    )  # fmt: skip
    replayed = CommandResult(ran.returncode, ran.stdout, ran.stderr)
    calls = log.read_text(errors="replace").splitlines()
    changed = traceforge("test", *command, QUESTIONS[0], "Open the deep cellar", cwd=tmp_path, **keys)

    assert (0, told(recorded)) == (replayed.code, told(replayed)), replayed
    assert "GREEN" in replayed.err
    assert ("12.50" in recorded.out, "onnection closed" in recorded.out) == (True, True), recorded
    assert any("execve(" in call and "agent.py" in call for call in calls)
    assert [] == [call for call in calls if "_server.py" in call and "execve(" in call]
    assert [] == [call for call in calls if CONNECTION.search(call)]
    assert (1, True) == (changed.code, "Open the deep cellar" in changed.err), changed
