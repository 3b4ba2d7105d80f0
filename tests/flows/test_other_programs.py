"""Programs without the hook under `traceforge run`: curl and Node.js, and Python next to them.

They reach a proxy of the run through the base-URL variables that they read; a value that the user had set becomes the
proxy's upstream. Python sees the user's own value, and its calls are recorded in process.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.application import TraceOnDisk, clean_environment, find_files_with, proxy_process, read_traces
from support.command import COMMAND
from support.corpus import PROJECT
from support.environments import node_modules
from support.provider_answers import TOOL, Answers, handwritten_body, read_request
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream, upstream

KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
CHAT = {"model": "curl-plain.0", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A provider of everything, with scripted answers."""
    answers = Answers(None, 0)

    def choose(received: ReceivedRequest) -> ScriptedResponse:
        if b"node-error" in received.body:
            return ScriptedResponse([b'{"error": {"message": "no such model", "type": "x", "code": "y"}}'], 404)
        return answers.answer(received)

    with upstream() as provider:
        provider.choose = choose
        yield provider


def run(project: Path, *words: str, recorded: bool, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with or without TraceForge."""
    command = [str(COMMAND), "run", "--json", "--", *words] if recorded else list(words)
    ran = subprocess.run(
        command, cwd=project, env=clean_environment(**variables), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    return ran


def requests_on_the_wire(received: list[ReceivedRequest]) -> list[tuple[list[bytes], bytes]]:
    """The requests that the provider received, without the headers about one connection."""
    return [
        ([line for line in request.head.split(b"\r\n") if not line.lower().startswith(b"connection:")], request.body)
        for request in received
    ]


def run_with_and_without(
    server: Upstream, project: Path, *words: str, **variables: str
) -> tuple[str, list[TraceOnDisk], dict[str, Any]]:
    """Run it without and with TraceForge: equal output and requests. The output, the traces and the summary."""
    server.respond_with(ScriptedResponse([b"{}"]))
    bare, sent = run(project, *words, recorded=False, **variables), requests_on_the_wire(server.received)
    server.respond_with(ScriptedResponse([b"{}"]))
    recorded_run = run(project, *words, recorded=True, **variables)

    assert sent
    assert (bare.stdout, bare.stderr.strip()) == (
        recorded_run.stdout,
        "\n".join(recorded_run.stderr.splitlines()[:-1]).strip(),
    )
    assert sent == requests_on_the_wire(server.received)
    stored = read_traces(project)
    assert len(stored) == len(sent) == len({stored_trace.trace["id"] for stored_trace in stored})
    assert [] == find_files_with(project / ".ai-tests", KEY.encode())
    return recorded_run.stdout, stored, json.loads(recorded_run.stderr.splitlines()[-1])


def curl(url: str, body: dict[str, Any], *options: str) -> str:
    """A line of shell."""
    quoted = json.dumps(body).replace("'", "'\\''")
    headers = f"-H 'Authorization: Bearer {KEY}' -H 'Content-Type: application/json'"
    return f"curl -sS {' '.join(options)} \"{url}\" {headers} -d '{quoted}'"


need_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")

CURLS = {
    "openai": ("OPENAI_BASE_URL", "/v1", "/chat/completions", "chat"),
    "openai without /v1": ("OPENAI_BASE_URL", "", "/v1/chat/completions", "chat"),
    "openai below a path": ("OPENAI_BASE_URL", "/corp/openai/v1/", "/chat/completions", "chat"),
    "responses": ("OPENAI_BASE_URL", "/v1", "/responses", "responses"),
    "anthropic": ("ANTHROPIC_BASE_URL", "", "/v1/messages", "messages"),
    "gemini": ("GOOGLE_GEMINI_BASE_URL", "", "/v1beta/models/curl-stream.0:streamGenerateContent?alt=sse", "gemini"),
    "ollama": ("OLLAMA_HOST", "", "/api/chat", "ollama"),
}
SHORT_CURLS = ("openai below a path", "anthropic")  # One for each way to join an address and a path.


@pytest.mark.slow
@need_curl
@pytest.mark.parametrize("streaming", [pytest.param(False, marks=pytest.mark.slow), True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "name", [name if name in SHORT_CURLS else pytest.param(name, marks=pytest.mark.slow) for name in CURLS]
)
def test_curl_with_a_base_url_variable_is_recorded(
    server: Upstream, tmp_path: Path, name: str, streaming: bool
) -> None:
    """The user's own value becomes the upstream, with its path; a stream has its bytes."""
    variable, base, path, shape = CURLS[name]
    if shape == "gemini" and not streaming:
        path = "/v1beta/models/curl-plain.0:generateContent"
    way = "curl-stream.0" if streaming else "curl-plain.0"
    place = f"${variable}{path}" if not base.endswith("/") else f"${{{variable}%/}}{path}"
    script = curl(place, {**CHAT, "model": way, "stream": streaming}, "-N")
    body_data = handwritten_body(shape, streaming, False).data
    out, (stored,), summary = run_with_and_without(
        server, tmp_path, "sh", "-c", script, **{variable: server.url + base}
    )

    assert body_data.decode() == out
    trace = stored.trace
    assert f"{server.url}{base.rstrip('/')}{path}" == trace["wire"]["url"]
    assert ("success", "complete", 200) == (
        trace["metadata"]["status"],
        trace["wire"]["ending"],
        trace["wire"]["status"],
    )
    assert (body_data if streaming else b"") == b"".join(stored.chunks)
    assert {"file": "sh", "line": 0, "function": ""} == trace["source"]
    assert {server.url[7:]: 1} == summary["calls"]


@pytest.mark.slow
@need_curl
def test_python_calls_directly_and_its_children_through_the_proxy(server: Upstream, tmp_path: Path) -> None:
    """One call, one trace: the SDK in Python sees the user's value, its child curl sees the proxy."""
    script = curl("$OPENAI_BASE_URL/chat/completions", {**CHAT, "model": "curl-plain.0"})
    (tmp_path / "app.py").write_text(
        f"""
import os, subprocess
import openai

print(os.environ["OPENAI_BASE_URL"] == {server.url + "/v1"!r}, os.environ.get("ANTHROPIC_BASE_URL"))
client = openai.OpenAI(api_key={KEY!r}, max_retries=0)
print(client.chat.completions.create(model="python-plain.0", messages=[]).choices[0].message.content, flush=True)
subprocess.run(["sh", "-c", {script!r}], check=True)
subprocess.run(["sh", "-c", {script!r}], check=True, env={{**os.environ, "MORE": "1"}})
"""
    )
    out, stored, summary = run_with_and_without(
        server, tmp_path, sys.executable, "app.py", OPENAI_BASE_URL=f"{server.url}/v1", HTTP_PROXY="http://127.0.0.1:9",
        NO_PROXY=server.url[7:].partition(":")[0],
    )  # fmt: skip

    assert out.startswith("True None\nParis.\n")
    assert ["python-plain.0", "curl-plain.0", "curl-plain.0"] == [
        stored_trace.trace["provider_request"]["model"] for stored_trace in stored
    ]
    assert {"file": "app.py", "line": 7, "function": "<module>"} == stored[0].trace["source"]
    assert ({server.url[7:]: 3}, 3, 1) == (summary["calls"], summary["recorded"], summary["processes"])
    assert [0, 1, 2] == [stored_trace.trace["step_index"] for stored_trace in stored]


@pytest.mark.slow
def test_the_sdk_for_node_notices_nothing(server: Upstream, tmp_path: Path) -> None:
    """Plain, as a stream, with a tool, and an error: the same output and requests, one trace each."""
    if shutil.which("node") is None:
        pytest.skip("there is no node here")
    modules = node_modules("node")
    shutil.copy(PROJECT / "tests" / "apps" / "node" / "app.mjs", tmp_path)
    out, stored, summary = run_with_and_without(
        server, tmp_path, "node", "app.mjs", OPENAI_BASE_URL=f"{server.url}/v1", KEY=KEY, MODULES=str(modules)
    )

    lines = [json.loads(line) for line in out.splitlines()]
    assert {"name": "NotFoundError", "status": 404, "message": "404 no such model"} == lines[-1]
    assert ["node-plain.0", "node-stream.0", "node-tools.0", "node-tools.0", "node-error.0"] == [
        record.trace["provider_request"]["model"] for record in stored
    ]
    plain, stream, tool, after, failed = (record.trace for record in stored)
    assert handwritten_body("chat", True, False).data == b"".join(stored[1].chunks)
    assert ["Paris."] * 3 == [
        trace["response"]["choices"][0]["message"]["content"] for trace in (plain, stream, after)
    ]
    assert TOOL == tool["response"]["choices"][0]["message"]["tool_calls"][0]["function"]["name"]
    assert ("error", "no such model") == (failed["metadata"]["status"], failed["metadata"]["error"])
    assert {"app.mjs"} == {record.trace["source"]["file"] for record in stored}
    assert {server.url[7:]: 5} == summary["calls"]


@pytest.mark.slow
def test_a_refused_websocket_of_openai_is_recorded(server: Upstream, tmp_path: Path) -> None:
    """The Responses API has a mode with WebSockets; the answer to the handshake is that of the call."""
    (tmp_path / "app.py").write_text(
        f"""
import openai
client = openai.OpenAI(api_key={KEY!r}, base_url={server.url + "/v1"!r}, max_retries=0)
try:
    with client.responses.connect() as connection:
        connection.recv()
except Exception as exc:
    print(type(exc).__name__)
"""
    )
    server.choose = lambda received: ScriptedResponse([b"{}"], 404)
    ran = run(tmp_path, sys.executable, "app.py", recorded=True)

    assert ran.stdout.strip()
    assert {} == json.loads(ran.stderr.splitlines()[-1])["not_seen"]
    (stored,) = read_traces(tmp_path)
    assert ({"client_frames": []}, 404) == (stored.trace["provider_request"], stored.trace["wire"]["status"])


def test_an_application_may_send_its_call_site_to_the_proxy(server: Upstream, tmp_path: Path) -> None:
    """In a header, which the provider never sees."""
    import openai

    source = {"X-TraceForge-Source": "src/billing.py:41:ask", "X-TraceForge-Session-ID": "order-17"}
    with (
        proxy_process(tmp_path, {"openai": server.url}) as (base, _),
        openai.OpenAI(api_key=KEY, base_url=f"{base}/openai/v1", default_headers=source) as client,
    ):
        client.chat.completions.create(model="sdk-plain.0", messages=[])
        list(client.chat.completions.create(model="sdk-stream.0", messages=[], stream=True))

    assert all(b"traceforge" not in item.head.lower() for item in server.received)
    stored = read_traces(tmp_path)
    assert [("src/billing.py", 41, "ask", "order-17", step) for step in (0, 1)] == [
        (
            *(item.trace["source"][name] for name in ("file", "line", "function")),
            item.trace["session_id"],
            item.trace["step_index"],
        )
        for item in stored
    ]
    assert ["sdk-plain.0", "sdk-stream.0"] == [read_request(item).model for item in server.received]
