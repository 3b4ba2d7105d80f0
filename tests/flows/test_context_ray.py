"""Replay runs as tasks of a local Ray, in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.corpus import PROJECT
from support.environments import installed_python
from support.loopback_models import model_server
from traceforge.canon import digest_canonical


@pytest.mark.slow
def test_ray_and_threads_give_the_same_items(tmp_path: Path) -> None:
    """Lane by lane, and a report whose evidence can be computed."""
    python = installed_python("ray")
    (tmp_path / ".git").mkdir()
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environ |= {"PYTHONPATH": str(PROJECT / "src"), "RAY_USAGE_STATS_ENABLED": "0"}

    def ask(*arguments: str) -> Any:
        command = [str(python), "-m", "traceforge", "context", *arguments, "--json"]
        ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=300, check=False)
        assert 0 == ran.returncode, ran.stderr.decode()
        return json.loads(ran.stdout)

    with model_server() as model:
        upstream_option = ("--upstream", f"openai={model.url}")
        session = ask("session", "create")["id"]
        names = [
            ask(
                "response", "create", "--model", "openai/old", "--session", session, "--input", text, *upstream_option
            )
            for text in ("One?", "Two?", "Three?")
        ]
        run = ("--baseline", "openai/old", "--candidate", "openai/new", *upstream_option)
        run += tuple(option for result in names for option in ("--snapshot", result["snapshot_id"]))
        runs = [ask("replay", "run", *run, "--engine", engine) for engine in ("asyncio", "ray")]
        reports = [ask("replay", "report", result["id"]) for result in runs]

    assert ["completed", "completed"] == [result["status"] for result in runs]
    assert reports[1]["evidence_digest"] == digest_canonical(reports[1]["items"])
    assert _without_traces(reports[0]["items"]) == _without_traces(reports[1]["items"])


def _without_traces(items: list[Any]) -> list[Any]:
    for item in items:
        for lane in item["lanes"].values():
            lane.pop("trace_id", None)
    return items
