"""The commands of `traceforge context`, run in this process."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command import CommandResult
from traceforge.cli.main import _run as command_line


def run_json(*arguments: str, cwd: Path, **variables: str) -> Any:
    """Run a command with --json; its parsed output."""
    return json.loads(run(*arguments, "--json", cwd=cwd, **variables).out)


def run(*arguments: str, cwd: Path, code: int = 0, **variables: str) -> CommandResult:
    """Run a command in this process: these tests run many, and a new process takes half a second to start."""
    out, err = _Stream(), _Stream()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name in ("TRACEFORGE_CONTEXT_DB", "TRACEFORGE_CONTEXT_KEYS", "TRACEFORGE_CONTEXT_API_KEY"):
            patch.delenv(name, raising=False)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        exit_code = command_line(["context", *arguments])
    ran = CommandResult(exit_code, out.text(), err.text())
    assert code == ran.code, ran.err + ran.out
    return ran


class _Stream(io.TextIOWrapper):
    """An in-memory stream that is not a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


def create_history(cwd: Path, **variables: str) -> dict[str, str]:
    """A session with two branches and two snapshots; their ids."""
    (cwd / "policy.md").write_text("Be careful.\n")
    artifact = run_json("artifact", "create", "policy.md", "--type", "policy", cwd=cwd, **variables)["id"]
    bundle = run_json("bundle", "create", f"system={artifact}", cwd=cwd, **variables)["id"]
    session = run_json("session", "create", "--bundle", bundle, "--metadata", '{"who": "me"}', cwd=cwd, **variables)[
        "id"
    ]
    run_json("event", "append", session, "--content", "How do I return a kettle?", cwd=cwd, **variables)
    first = run_json("snapshot", "create", session, cwd=cwd, **variables)["id"]
    fork = run_json("branch", "fork", session, "--label", "another way", cwd=cwd, **variables)["id"]
    run_json("event", "append", session, "--branch", fork, "--content", "Send it back.",
             "--type", "assistant_message", cwd=cwd, **variables)  # fmt: skip
    run_json("event", "append", session, "--content", '{"a": [1]}', "--json-content", "--type", "tool_result",
             cwd=cwd, **variables)  # fmt: skip
    second = run_json("snapshot", "create", session, "--branch", fork, cwd=cwd, **variables)["id"]
    return {"artifact": artifact, "bundle": bundle, "session": session, "fork": fork, "one": first, "two": second}
