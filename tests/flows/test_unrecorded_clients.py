"""gRPC and pycurl: not recorded, named where a call is made, and refused in a test; never a silent green."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import PLAIN_PYTEST, CommandResult, traceforge
from support.corpus import PROJECT
from support.environments import installed_python
from support.model_servers import model_server

pytestmark = pytest.mark.slow

APP = PROJECT / "tests" / "apps" / "unrecorded_clients.py"
ASK = """
import os, sys
import httpx
body = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 9,
        "messages": [{"role": "user", "content": "Name a soup."}]}
httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body).raise_for_status()
import unrecorded_clients
"""
AWAY = f"{ASK}\nif len(sys.argv) > 1:\n    unrecorded_clients.call_away()\n"
CALLS = (
    "a call of gRPC to api.x.ai, /xai_api.Chat/GetCompletion,",
    "a call of gRPC to api.x.ai, /xai_api.Chat/GetCompletionChunk,",
    "a call of gRPC to pubsub.example.com:443, /google.pubsub.v1.Publisher/Publish,",
    "a call of gRPC to pubsub.example.com:443, /google.pubsub.v1.Publisher/PublishStream,",
    "a call of pycurl to api.openai.com:443",
)


def write_project(folder: Path, text: str, **settings: object) -> None:
    (folder / ".git").mkdir()
    (folder / "ask.py").write_text(text)
    shutil.copy(APP, folder)
    (folder / "traceforge.config.json").write_text(json.dumps({"test": settings} if settings else {}))


def approve(folder: Path) -> None:
    approved = traceforge("approve", "--all", "--policy", "--reason", "as it is", cwd=folder)
    assert 0 == approved.code, approved


@pytest.mark.parametrize("seal", ["auto", "off"])
def test_a_call_is_named_while_recording_and_refused_in_a_test(tmp_path: Path, seal: str) -> None:
    """Each method, sealed and with hooks alone; without these calls, the same program is green."""
    write_project(tmp_path, AWAY, **({} if seal == "auto" else {"seal_network": seal}))
    python = installed_python("dialects")
    with model_server() as server:
        recorded = traceforge("record", "--", python, "ask.py", cwd=tmp_path, OPENAI_BASE_URL=f"{server.url}/v1")
        named = traceforge("record", "--", python, "ask.py", "x", cwd=tmp_path, OPENAI_BASE_URL=f"{server.url}/v1")
        approve(tmp_path)
        green = traceforge("test", "--", python, "ask.py", cwd=tmp_path, OPENAI_BASE_URL=f"{server.url}/v1")
        red = traceforge("test", "--", python, "ask.py", "x", cwd=tmp_path, OPENAI_BASE_URL=f"{server.url}/v1")

    assert (0, 0) == (recorded.code, green.code), (recorded, green)
    assert "could not record" not in recorded.err
    for call in (CALLS[0], CALLS[1], CALLS[4]):
        assert f"could not record {call.removesuffix(',')}" in named.err, named
    assert 1 == red.code, red
    for call in CALLS:
        assert f"{call} is not recorded, and cannot be replayed" in red.err, red
    assert "answered" not in red.out


def test_a_call_in_plain_pytest_fails_the_run(tmp_path: Path) -> None:
    """Without `traceforge test`, nothing else would stop compiled code."""
    write_project(tmp_path, "")
    clients = next(installed_python("dialects").parents[1].glob("lib/python*/site-packages"))
    test = f"def test_it():\n    import sys\n    sys.path.append({str(clients)!r})\n    import unrecorded_clients\n"
    (tmp_path / "test_away.py").write_text(f"{test}    unrecorded_clients.call_away()\n")

    result = run_pytest(tmp_path, "-s", "--traceforge=test")

    assert 1 == result.code, result
    for call in CALLS:
        assert f"{call} is not recorded, and cannot be replayed" in result.out, result
    assert "answered" not in result.out


def test_servers_of_this_machine_that_are_no_models_answer_as_ever(tmp_path: Path) -> None:
    """Such as the emulator of a database: the same values as without TraceForge, and nothing is noted."""
    write_project(tmp_path, "")
    python = installed_python("dialects")
    with model_server() as server:
        bare = subprocess.run(
            [python, APP.name, server.url], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
        )
        recorded = traceforge("record", "--", python, APP.name, server.url, cwd=tmp_path)

    assert bare.stdout == recorded.out
    assert 8 == recorded.out.count("answered"), recorded
    assert "could not record a call" not in recorded.err


def run_pytest(folder: Path, *words: str) -> CommandResult:
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | PLAIN_PYTEST
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words], cwd=folder, env=environ,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return CommandResult(ran.returncode, ran.stdout, ran.stderr)
