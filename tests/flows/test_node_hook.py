"""Node.js under `traceforge run`, `record` and `test`: its calls are seen wherever they go, with their call site."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.application import find_files_with, read_traces
from support.certificates import make_certificate, server_context
from support.command import CommandResult, traceforge
from support.corpus import PROJECT
from support.environments import node_modules
from support.provider_answers import Answers, handwritten_body
from support.upstream import Upstream, upstream
from support.websocket_server import models, websocket_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here"),
]

KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
FUNCTIONS = {
    "openai-plain.0": "viaOpenai", "openai-stream.0": "viaOpenaiStream", "genai-plain.0": "viaGenai",
    "ollama-plain.0": "viaOllama", "fetch-plain.0": "viaFetch", "request-plain.0": "viaFetchRequest",
    "blob-plain.0": "viaFetchBodyStream", "http-plain.0": "", "named-plain.0": "", "axios-plain.0": "viaAxios",
    "axiosfetch-plain.0": "viaAxiosFetch", "undici-plain.0": "viaUndici", "pool-plain.0": "ask",
    "fetch7-plain.0": "viaUndiciFetch",
}  # fmt: skip
WITHOUT_LINE = {
    "anthropic-plain.0",
    "worker-plain.0",
}  # The SDK hides who waits for it; a script in a text has no file.


class Project(NamedTuple):
    """A folder with the application, and the server that it knows by a URL of its own."""

    folder: Path
    server: Upstream

    def run(self, *words: str, **variables: str) -> CommandResult:
        names = {"SERVER": self.server.url, "KEY": KEY, "MODULES": str(node_modules("node"))}
        return traceforge(*words, cwd=self.folder, **{**names, **variables})

    def write(self, script: str, name: str = "app.mjs") -> None:
        (self.folder / name).write_text(script)

    def approve(self) -> None:
        assert 0 == self.run("approve", "--all", "--reason", "it is right").code


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A provider of everything, which no base-URL variable names."""
    answers = Answers(None, 0)
    with upstream() as server:
        server.choose = answers.answer
        yield Project(tmp_path, server)


def test_every_client_is_recorded_approved_and_replayed(project: Project) -> None:
    """The same output with and without a network, one trace a call with its line, and red for an edited prompt."""
    shutil.copy(PROJECT / "tests" / "apps" / "node" / "clients.mjs", project.folder)
    recorded = project.run("record", "--", "node", "clients.mjs")
    heads = b"".join(request.head for request in project.server.received)
    stored = {
        trace.trace["provider_request"].get("model", "genai-plain.0"): trace for trace in read_traces(project.folder)
    }
    project.approve()
    project.server.received.clear()
    tested = project.run("test", "--", "node", "clients.mjs")
    edited = project.run("test", "--json", "--", "node", "clients.mjs", PROMPT="What is the capital of Spain?")

    lines = recorded.out.splitlines()
    assert (0, 16) == (recorded.code, len(lines)), recorded
    assert all(line.endswith(("Paris.", "Pa|ris.||")) for line in lines), recorded.out
    assert b"traceforge" not in heads.lower()
    assert (0, recorded.out) == (tested.code, tested.out), tested
    assert "GREEN: 17 calls replayed" in tested.err
    assert [] == project.server.received
    findings = json.loads(edited.err.splitlines()[-1])["findings"]
    assert (1, {"GT1"}) == (edited.code, {finding["rule"] for finding in findings}), edited
    assert (16, False) == (len(edited.out.splitlines()), "Paris." in edited.out), edited.out
    assert {"clients.mjs"} == {trace.trace["source"]["file"] for trace in stored.values()}
    assert FUNCTIONS == {
        name: trace.trace["source"]["function"] for name, trace in stored.items() if trace.trace["source"]["line"]
    }
    assert WITHOUT_LINE == stored.keys() - FUNCTIONS.keys()
    stream = stored["openai-stream.0"]
    assert handwritten_body("chat", True, False).data == b"".join(stream.chunks)
    assert [] == find_files_with(project.folder, KEY.encode())


MIXED_PARTS = """
const http = require("http"), {hostname, port} = new URL(process.env.SERVER);
const post = (options) => new Promise((resolve) => {
  try {
    const asked = {method: "POST", path: "/v1/chat/completions", ...options};
    const sent = http.request(asked, (answer) => resolve(answer.statusCode));
    sent.on("error", (error) => resolve(error.code)).end("{}");
  } catch (error) { resolve(error.code) }
});
(async () => {
  for (const options of [
    {host: `${hostname}:${port}/.openai.com`}, {host: `${hostname}:${port}?.openai.com`},
    {host: `x@${hostname}`, port}, {host: "api.openai.com", port: `1@${hostname}:${port}`},
    {protocol: `http://${hostname}:${port}/?`}, {host: `${hostname}:${port}\\\\.openai.com`},
    {host: `${hostname}:${port}#.openai.com`},
  ]) console.log(await post(options));
})();
"""


def test_no_part_of_an_address_becomes_another_one(project: Project) -> None:
    """An application that appends `.openai.com` to what a stranger typed asks no other host because of the hook."""
    project.write(MIXED_PARTS, "app.cjs")
    alone = subprocess.run(
        ["node", "app.cjs"], cwd=project.folder, env={**os.environ, "SERVER": project.server.url},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    ran = project.run("run", "--", "node", "app.cjs")

    assert (alone, []) == (ran.out, [*project.server.received])


def test_every_websocket_is_recorded_approved_and_replayed(tmp_path: Path) -> None:
    """That of openai over TLS, of `ws`, of undici, and the built-in one; red for an edit, and no key is kept."""
    certificate = make_certificate(tmp_path)
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(PROJECT / "tests" / "apps" / "node" / "sockets.mjs", folder)
    node = ("node", "--experimental-websocket", "sockets.mjs")
    tls = server_context(certificate)
    with (
        websocket_server(models, select_subprotocol=take_first) as server,
        websocket_server(models, ssl=tls) as tls_server,
    ):
        variables = {
            "SERVER": server.url, "TLS_SERVER": f"https://localhost:{tls_server.port}", "KEY": KEY,
            "SSL_CERT_FILE": str(certificate), "MODULES": str(node_modules("node")),
        }  # fmt: skip
        recorded = traceforge("record", "--", *node, cwd=folder, **variables)
        traces = read_traces(folder)
        approved = traceforge("approve", "--all", "--reason", "it is right", cwd=folder, **variables)
        live = server.connections + tls_server.connections
        tested = traceforge("test", "--", *node, cwd=folder, **variables)
        edited = traceforge("test", "--", *node, cwd=folder, **variables, PROMPT="Be rude.")

        assert live == server.connections + tls_server.connections
    lines = recorded.out.splitlines()
    assert (0, 0, 4) == (recorded.code, approved.code, live), recorded
    assert [f"{name} Hello there" for name in SOCKETS] == lines
    assert (0, recorded.out, True) == (tested.code, tested.out, "GREEN: 4 calls replayed" in tested.err), tested
    assert [f"{name} Error: closed: 1011" for name in SOCKETS] == edited.out.splitlines()
    assert (1, True) == (edited.code, "client_frames[0]" in edited.err), edited
    assert set(SOCKETS) == {trace.trace["source"]["function"] for trace in traces}
    assert [] == find_files_with(folder, KEY.encode())


SOCKETS = ("viaOpenai", "viaWs", "viaUndici", "viaBuiltIn")


def take_first(connection: Any, offered: Sequence[str]) -> str | None:
    """A server that agrees to the first protocol that is offered, if one is."""
    return offered[0] if offered else None
