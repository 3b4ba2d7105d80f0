"""Programs that no hook can enter, under `traceforge run`: curl and Node.js, and Python beside them.

They are pointed at a proxy of the run by the base-URL variables that they read; a value that the user had set is
where the proxy goes. Python sees the user's own value, and asks by itself.
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
    """A provider of everything, with answers that we wrote."""
    answers = Answers(None, 0)

    def choose(received: ReceivedRequest) -> ScriptedResponse:
        if b"node-error" in received.body:
            return ScriptedResponse([b'{"error": {"message": "no such model", "type": "x", "code": "y"}}'], 404)
        return answers.answer(received)

    with upstream() as one:
        one.choose = choose
        yield one


def run(project: Path, *words: str, watched: bool, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with or without us."""
    command = [str(COMMAND), "run", "--json", "--", *words] if watched else list(words)
    ran = subprocess.run(
        command, cwd=project, env=clean_environment(**variables), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    return ran


def wire(received: list[ReceivedRequest]) -> list[tuple[list[bytes], bytes]]:
    """What a provider got; through a proxy, all but what speaks about one connection."""
    return [
        ([line for line in one.head.split(b"\r\n") if not line.lower().startswith(b"connection:")], one.body)
        for one in received
    ]


def both(
    server: Upstream, project: Path, *words: str, **variables: str
) -> tuple[str, list[TraceOnDisk], dict[str, Any]]:
    """Run it without and with us: it prints the same, and the provider gets the same; what is on the disk then."""
    server.respond_with(ScriptedResponse([b"{}"]))
    bare, sent = run(project, *words, watched=False, **variables), wire(server.received)
    server.respond_with(ScriptedResponse([b"{}"]))
    seen = run(project, *words, watched=True, **variables)

    assert sent
    assert (bare.stdout, bare.stderr.strip()) == (seen.stdout, "\n".join(seen.stderr.splitlines()[:-1]).strip())
    assert sent == wire(server.received)
    stored = read_traces(project)
    assert len(stored) == len(sent) == len({one.trace["id"] for one in stored})
    assert [] == find_files_with(project / ".ai-tests", KEY.encode())
    return seen.stdout, stored, json.loads(seen.stderr.splitlines()[-1])


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


@need_curl
@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("name", CURLS)
def test_curl_is_seen_where_it_reads_a_base_url(server: Upstream, tmp_path: Path, name: str, streaming: bool) -> None:
    """The user's own value becomes the upstream, path and all; a stream has its bytes."""
    variable, base, path, shape = CURLS[name]
    if shape == "gemini" and not streaming:
        path = "/v1beta/models/curl-plain.0:generateContent"
    way = "curl-stream.0" if streaming else "curl-plain.0"
    place = f"${variable}{path}" if not base.endswith("/") else f"${{{variable}%/}}{path}"
    script = curl(place, {**CHAT, "model": way, "stream": streaming}, "-N")
    said = handwritten_body(shape, streaming, False).data
    out, (stored,), told = both(server, tmp_path, "sh", "-c", script, **{variable: server.url + base})

    assert said.decode() == out
    trace = stored.trace
    assert f"{server.url}{base.rstrip('/')}{path}" == trace["wire"]["url"]
    assert ("success", "complete", 200) == (
        trace["metadata"]["status"],
        trace["wire"]["ending"],
        trace["wire"]["status"],
    )
    assert (said if streaming else b"") == b"".join(stored.chunks)
    assert {"file": "sh", "line": 0, "function": ""} == trace["source"]
    assert {server.url[7:]: 1} == told["calls"]


@need_curl
def test_python_asks_by_itself_and_its_children_through_us(server: Upstream, tmp_path: Path) -> None:
    """One call, one trace: the SDK in Python sees what the user had set, curl that Python starts sees a proxy."""
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
    out, stored, told = both(
        server, tmp_path, sys.executable, "app.py", OPENAI_BASE_URL=f"{server.url}/v1", HTTP_PROXY="http://127.0.0.1:9",
        NO_PROXY=server.url[7:].partition(":")[0],
    )  # fmt: skip

    assert out.startswith("True None\nParis.\n")
    assert ["python-plain.0", "curl-plain.0", "curl-plain.0"] == [
        one.trace["provider_request"]["model"] for one in stored
    ]
    assert {"file": "app.py", "line": 7, "function": "<module>"} == stored[0].trace["source"]
    assert ({server.url[7:]: 3}, 3, 1) == (told["calls"], told["recorded"], told["processes"])
    assert [0, 1, 2] == [one.trace["step_index"] for one in stored]


@pytest.mark.slow
def test_the_sdk_for_node_notices_nothing(server: Upstream, tmp_path: Path) -> None:
    """Plain, as a stream, with a tool, and an error: the same output, the same requests, one trace each."""
    if shutil.which("node") is None:
        pytest.skip("there is no node here")
    modules = node_modules("node")
    shutil.copy(PROJECT / "tests" / "apps" / "node" / "app.mjs", tmp_path)
    out, stored, told = both(
        server, tmp_path, "node", "app.mjs", OPENAI_BASE_URL=f"{server.url}/v1", KEY=KEY, MODULES=str(modules)
    )

    lines = [json.loads(line) for line in out.splitlines()]
    assert {"name": "NotFoundError", "status": 404, "message": "404 no such model"} == lines[-1]
    assert ["node-plain.0", "node-stream.0", "node-tools.0", "node-tools.0", "node-error.0"] == [
        one.trace["provider_request"]["model"] for one in stored
    ]
    plain, stream, tool, after, failed = (one.trace for one in stored)
    assert handwritten_body("chat", True, False).data == b"".join(stored[1].chunks)
    assert ["Paris."] * 3 == [one["response"]["choices"][0]["message"]["content"] for one in (plain, stream, after)]
    assert TOOL == tool["response"]["choices"][0]["message"]["tool_calls"][0]["function"]["name"]
    assert ("error", "no such model") == (failed["metadata"]["status"], failed["metadata"]["error"])
    assert {"app.mjs"} == {one.trace["source"]["file"] for one in stored}
    assert {server.url[7:]: 5} == told["calls"]


def test_the_websocket_mode_of_openai_is_said_to_be_unseen(server: Upstream, tmp_path: Path) -> None:
    """Nothing is recorded of it, and the summary says so."""
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
    ran = run(tmp_path, sys.executable, "app.py", watched=True)

    assert ran.stdout.strip()
    assert {f"a WebSocket to {server.url[7:]}": 1} == json.loads(ran.stderr.splitlines()[-1])["not_seen"]
    assert [] == read_traces(tmp_path)


def test_an_application_may_tell_the_proxy_where_it_asked(server: Upstream, tmp_path: Path) -> None:
    """In a header, which the provider never sees."""
    import openai

    source = {"X-TraceForge-Source": "src/billing.py:41:ask", "X-TraceForge-Session-ID": "order-17"}
    with (
        proxy_process(tmp_path, {"openai": server.url}) as (base, _),
        openai.OpenAI(api_key=KEY, base_url=f"{base}/openai/v1", default_headers=source) as client,
    ):
        client.chat.completions.create(model="sdk-plain.0", messages=[])
        list(client.chat.completions.create(model="sdk-stream.0", messages=[], stream=True))

    assert all(b"traceforge" not in one.head.lower() for one in server.received)
    stored = read_traces(tmp_path)
    assert [("src/billing.py", 41, "ask", "order-17", step) for step in (0, 1)] == [
        (
            *(one.trace["source"][name] for name in ("file", "line", "function")),
            one.trace["session_id"],
            one.trace["step_index"],
        )
        for one in stored
    ]
    assert ["sdk-plain.0", "sdk-stream.0"] == [read_request(one).model for one in server.received]
