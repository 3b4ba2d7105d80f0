"""A whole recording, from the command line to the approved snapshot, leaves no secret in the project."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import pytest

from support.command import traceforge
from support.fake_secrets import draw
from support.model_servers import model_server
from support.secret_shapes import VENDOR_KEYS, make_shape
from traceforge.redact.redactor import Redactor

AGENT = """
import json, os, httpx

for number, call in enumerate(json.load(open(os.environ["CALLS_FILE"]))):
    body = {"model": "m", "messages": [{"role": "user", "content": call["text"]}], "temperature": 0, "seed": 1}
    body |= {"max_tokens": 50}
    body |= {"stream": True, "stream_options": {"include_usage": True}} if number % 2 else {}
    headers = {
        "Authorization": "Bearer " + call["key"], "X-Acme-Key": call["key"],
        "X-TraceForge-Source": f"agent.py:7:{call['name']}",
    }
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions?token=" + call["key"]
    httpx.post(url, json=body, headers=headers).raise_for_status()
"""
COMMANDS = (
    ["--api-key", "{}"],
    ["--token={}", "--max-tokens", "5"],
    ["--db-password", "{}", "run"],
    ["-Dsonar.login-token={}"],
    ["--header", "X-Acme-Secret: {}"],
    ["sh", "-c", "agent --access-token {} --quiet"],
    ["OPENAI_KEY={}"],
    ["--url", "https://ann:{}@db/app"],
)


def _list_bytes(folder: Path) -> bytes:
    """Every byte of the project, except of the agent itself."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.mark.slow
def test_a_recorded_command_leaves_no_secret_and_replays(tmp_path: Path) -> None:
    """The secrets are in the prompts, in headers, in the query, in the call sites and in the command line."""
    source = Random(11)
    project = tmp_path / "project"
    project.mkdir()
    (project / "agent.py").write_text(AGENT)
    (project / "traceforge.config.json").write_text("{}")
    shapes = [make_shape(name, source) for name in list(VENDOR_KEYS)[::12]]
    calls = [
        {"text": f"call {number}: {shape.text}", "key": draw(source, 12), "name": "ghp_" + draw(source, 36)}
        for number, shape in enumerate(shapes)
    ]
    calls_file = tmp_path / "calls.json"
    calls_file.write_text(json.dumps(calls))
    option = draw(source, 12)
    command = [sys.executable, "agent.py", "--api-key", option, f"--token={option}"]

    with model_server() as server:
        environ = {
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "CALLS_FILE": str(calls_file),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        recorded = traceforge("record", "--", *command, cwd=project, **environ)
        recorded_bytes = _list_bytes(project)
        approved = traceforge("approve", "--all", "--reason", "it is right", cwd=project, **environ)
        tested = traceforge("test", "--", *command, cwd=project, **environ)

    secrets = [option, *(shape.secret for shape in shapes), *(call["key"] for call in calls)]
    secrets += [call["name"] for call in calls]
    disk = recorded_bytes + _list_bytes(project)
    assert (0, 0, 0) == (recorded.code, approved.code, tested.code), (recorded, approved, tested)
    assert f"{len(calls)} calls replayed" in tested.err
    assert [] == [secret for secret in secrets if secret.encode() in disk]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_secret_on_a_command_line_is_not_in_its_scope(words: list[str]) -> None:
    """By the name of the option, variable or header before it; its look does not matter."""
    scope = Redactor().redact_command([word.format("mellon") for word in ["python", "agent.py", *words]])

    assert ("mellon" in scope, "[REDACTED]" in scope) == (False, True)
    assert scope == Redactor().redact_text(scope)


def test_a_command_line_without_secrets_is_unchanged() -> None:
    """Names of tests, counts and paths."""
    words = [
        "pytest",
        "-k",
        "token or key",
        "tests/a.py::test_b[key=1]",
        "--max-tokens",
        "5",
        "--tokenizer",
        "gpt2",
        "-x",
    ]

    assert "pytest -k 'token or key' 'tests/a.py::test_b[key=1]' --max-tokens 5 --tokenizer gpt2 -x" == (
        Redactor().redact_command(words)
    )
