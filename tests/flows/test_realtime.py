"""The WebSockets of the providers, with their official clients: recorded, approved, replayed, red on an edit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.application import clean_environment, find_files_with, read_traces
from support.certificates import make_certificate, server_context
from support.command import CommandResult, traceforge
from support.corpus import PROJECT
from support.websocket_server import WebSocketServer, models, websocket_server

pytestmark = pytest.mark.slow

KEYS = (b"sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1", b"AIzaSyD-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "realtime_app.py")


class Project(NamedTuple):
    """A folder with the application, and the servers of the models."""

    folder: Path
    server: WebSocketServer
    tls_server: WebSocketServer
    certificate: Path

    @property
    def connections(self) -> int:
        """How many WebSockets were opened."""
        return self.server.connections + self.tls_server.connections

    @property
    def variables(self) -> dict[str, str]:
        """What tells the application where the models are, and whom to trust."""
        return {
            "SERVER": f"http://127.0.0.1:{self.server.port}",
            "TLS_SERVER": f"https://localhost:{self.tls_server.port}",
            "SSL_CERT_FILE": str(self.certificate),
        }

    def run(self, *words: str, **variables: str) -> CommandResult:
        return traceforge(*words, cwd=self.folder, **{**self.variables, **variables})


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The application, and its models on loopback."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(PROJECT / "tests" / "apps" / "realtime_app.py", folder)
    certificate = make_certificate(tmp_path)
    tls = server_context(certificate)
    with websocket_server(models) as server, websocket_server(models, ssl=tls) as tls_server:
        yield Project(folder, server, tls_server, certificate)


def test_the_official_clients_are_recorded_approved_and_replayed(project: Project) -> None:
    """Four conversations: green without a connection, unchanged when they are recorded again, red for a prompt."""
    recorded = project.run("record", "--", *PYTEST)
    shown = project.run("diff")
    traces = read_traces(project.folder)
    approved = project.run("approve", "--all", "--reason", "it is right")
    again = project.run("record", "--", *PYTEST)
    live = project.connections
    tested = project.run("test", "--", *PYTEST)
    edited = project.run("test", "--json", "--", *PYTEST, PROMPT="Be rude.")

    assert (0, True) == (recorded.code, "new: 4" in recorded.err), recorded
    assert 0 == approved.code, approved
    assert (0, True) == (again.code, "unchanged: 4" in again.err), again
    assert (0, True) == (tested.code, "GREEN: 4 calls replayed" in tested.err), tested
    assert (8, 8) == (live, project.connections)
    findings = json.loads(edited.err.splitlines()[-1])["findings"]
    assert (1, {"GT1"}) == (edited.code, {finding["rule"] for finding in findings}), edited
    named = [finding for finding in findings if "client_frames[0]" in json.dumps(finding)]
    assert findings == named  # Two have the same edit, and are one finding where both had sent as much.
    assert len(findings) in (3, 4), findings
    for line in (
        'client: session.update {"session":{"type":"realtime","instructions":"Be kind."}}',
        "client: input_audio_buffer.append", "server: response.output_text.delta (2 frames) Hello there",
        'client: response.create {"input":"Be kind.","model":"gpt-5"}', "client: setup {", "server: setupComplete",
    ):  # fmt: skip
        assert line in shown.out, shown.out
    assert [] == [file for key in KEYS for file in find_files_with(project.folder / ".ai-tests", key)]
    assert [] == [file for key in KEYS for file in find_files_with(project.folder / ".ai-snapshots", key)]
    sound = [frame for trace in traces for frame in trace.trace["provider_request"]["client_frames"]]
    assert 5 == sum(frame["json"].get("type") == "input_audio_buffer.append" for frame in sound)


def test_plain_pytest_replays_them(project: Project) -> None:
    """In its own process; an edit is red, and names the frame."""
    for words in (("record", "--", *PYTEST), ("approve", "--all", "--reason", "it is right")):
        assert 0 == project.run(*words).code
    live = project.connections
    outputs = []
    for prompt in ("Be kind.", "Be rude."):
        environ = clean_environment(**project.variables, PROMPT=prompt)
        words = [word.replace("--tb=no", "--tb=short") for word in PYTEST]
        ran = subprocess.run(
            words, cwd=project.folder, env=environ, capture_output=True, text=True, timeout=120, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        outputs.append((ran.returncode, ran.stdout))

    assert 0 == outputs[0][0], outputs[0][1]
    assert (1, True) == (outputs[1][0], "client_frames[0]" in outputs[1][1]), outputs[1][1]
    assert live == project.connections
