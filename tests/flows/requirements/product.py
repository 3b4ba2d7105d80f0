"""The product in use, as the checks of the specifications see it."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from flows.requirements.requirement import RecordingCase, SnapshotCase, TraceCase
from support.chat_servers import ChatProcess, chat_process, write_prompts
from support.command import CommandResult, traceforge
from support.format_examples import with_hashes
from support.model_servers import model_server
from traceforge.context import Client
from traceforge.context.api.embedded_transport import EmbeddedTransport
from traceforge.context.api.open_store import open_store
from traceforge.context.model_calls import ModelClients

PROGRAM = """
    import os, httpx
    URL = os.environ["URL"]
    CHAT = [{"role": "user", "content": "Where is Lyon?"}]
    def ask(path, body, **headers):
        httpx.post(URL + path, json=body, headers=headers).raise_for_status()
    sure = {"temperature": 0, "seed": 42, "max_tokens": 20}
    def summarize():
        ask("/v1/chat/completions", {"model": "gpt-x", "messages": CHAT, **sure})
        ask("/v1/chat/completions", {"model": "gpt-x", "messages": CHAT, "stream": True, **sure})
        ask("/v1/messages", {"model": "claude-x", "max_tokens": 20, "messages": CHAT, "temperature": 0})
        ask("/v1beta/models/gemini-x:generateContent", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
        ask("/api/chat", {"model": "llama-x", "messages": CHAT, "stream": False})
        ask("/v1/chat/completions", {"model": "gone", "messages": 5}, authorization="Bearer sk-proj-" + "Ab1" * 16)
    if __name__ == "__main__":
        try:
            summarize()
        except httpx.HTTPStatusError:
            pass
"""
SECRETS = """
    import os, httpx
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
    text = "ann@example.org, (415) 555-0132, 078-05-1120, 4111 1111 1111 1111, sk-proj-" + "Ab1" * 16 + ", " + jwt
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "api_key": "in-the-body",
            "custom_secret_field": "hidden-by-setting"}
    headers = {"authorization": "Bearer abc.def-ghi", "x-api-key": "key-in-a-header"}
    httpx.post(os.environ["URL"] + "/v1/chat/completions", json=body, headers=headers)
"""
RESERVED_FOLDERS = ("wire", "approvals")


class Product:
    """The product in use: a project, a model, and what its commands have made. Everything is made at first use."""

    def __init__(self, folder: Path, stack: ExitStack, checks: Sequence[object]) -> None:
        """`checks` are those of the table, in its order: its documents are written and verified at once."""
        self.folder = folder
        self._checks = checks
        self._stack = stack
        self.url = stack.enter_context(model_server()).url

    def project(self, name: str, program: str = PROGRAM, **config: Any) -> Path:
        """A folder with a program and a configuration."""
        folder = self.folder / name
        (folder / "app").mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        (folder / "app" / "main.py").write_text(textwrap.dedent(program))
        (folder / "traceforge.config.json").write_text(json.dumps(config))
        return folder

    def run(self, folder: Path, *words: str | Path, code: int = 0, **variables: str) -> CommandResult:
        ran = traceforge(*words, cwd=folder, URL=self.url, **variables)
        assert code == ran.code, ran
        return ran

    @cached_property
    def recorded(self) -> Path:
        """A project whose calls were recorded and approved."""
        rule = {"gate": "request", "temperature": 1, "max_tokens": 0, "usage_in_answers": "absent"}
        others = dict.fromkeys(("claude-*", "gemini-*", "llama-*"), rule)
        models = {"gpt-x": {"gate": "behaviour", "usage_in_answers": "absent"}, **others}
        folder = self.project("recorded", models=models)
        self.run(folder, "init")
        self.run(folder, "record", "--", sys.executable, "app/main.py")
        self.run(folder, "approve", "--all", "--policy", "--reason", "as agreed")
        return folder

    @cached_property
    def snapshots(self) -> list[dict[str, Any]]:
        """The records of the recorded project."""
        files = sorted(
            path for path in self.recorded.glob(".ai-snapshots/*/*.json") if path.parent.name not in RESERVED_FOLDERS
        )
        return [json.loads(path.read_text())["snapshots"][0] for path in files]

    @cached_property
    def manifest(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.recorded / ".ai-snapshots" / "manifest.json").read_text())
        return value

    @cached_property
    def traces(self) -> dict[str, dict[str, Any]]:
        """The traces of the recorded project, by file name."""
        self.run(self.recorded, "trace", "list")  # Writes what is still in the spool.
        files = sorted((self.recorded / ".ai-tests" / "traces").glob("*.json"))
        return {path.name: json.loads(path.read_text()) for path in files}

    def trace_of(self, model: str, *, stream: bool = False) -> dict[str, Any]:
        (trace,) = [
            trace
            for trace in self.traces.values()
            if trace["request"]["model"] == model and bool(trace["request"].get("stream")) is stream
        ]
        return trace

    @cached_property
    def redacted(self) -> Path:
        """A project in which a program sent every kind of secret."""
        folder = self.project(
            "redacted", SECRETS, redact_fields=["Authorization", "X-API-Key", "custom_secret_field"]
        )
        self.run(folder, "run", "--", sys.executable, "app/main.py")
        self.run(folder, "trace", "list")
        return folder

    @cached_property
    def chat(self) -> ChatProcess:
        folder = self.folder / "chat"
        folder.mkdir()
        prompts = write_prompts(folder / "prompts")
        words = ("--upstream", f"{self.url}/v1", "--model", "gpt-x", "--prompts", str(prompts))
        return self._stack.enter_context(chat_process(folder, *words))

    @cached_property
    def context(self) -> Client:
        store = open_store(str(self.folder / "context.db"))
        store.models = ModelClients({"openai": self.url})
        return self._stack.enter_context(Client(EmbeddedTransport(store)))

    @cached_property
    def conversation(self) -> dict[str, Any]:
        """A session with a policy and one question; a snapshot of it; and an answer."""
        client = self.context
        artifact = client.create_artifact(artifact_type="policy", content="Be brief.")
        bundle = client.create_bundle(items=[{"role": "system", "artifact_id": artifact.id}])
        session = client.create_session(base_bundle_ids=[bundle.id])
        client.create_alias(name="helper", targets=[{"provider": "openai", "model": "old"}])
        response = client.create_response(model="helper", session_id=session.id, input="Where is Lyon?")
        return {"session": session, "response": response, "snapshot": client.get_snapshot(response.snapshot_id)}

    @cached_property
    def verdicts(self) -> dict[int, set[str]]:
        """What the commands say about each file of the table: rule and place, by row."""
        cases = self.folder / "cases"
        (cases / ".ai-snapshots" / "openai").mkdir(parents=True)
        (cases / ".git").mkdir()
        (cases / "traceforge.config.json").write_text('{"models": {"gpt-*": {"gate": "request"}}}')
        for number, check in enumerate(self._checks):
            self._write_case(cases, number, check)
        findings: list[dict[str, Any]] = []
        for words in (("snapshot", "verify"), ("trace", "verify")):
            findings += json.loads(self.run(cases, *words, "--json", code=1).out)["findings"]
        verdicts: dict[int, set[str]] = {}
        for finding in findings:
            if match := re.search(r"case-0*(\d+)|-([0-9a-f]{12})\.json", finding["file"]):
                number = int(match[1]) if match[1] else int(match[2], 16)
                verdicts.setdefault(number, set()).add(f"{finding['rule']} {finding['path']}")
        files = sorted(cases.glob("recording-*.json"))
        lines = self.run(
            cases, "modelio", "verify", "--json", *[file.name for file in files], code=1
        ).out.splitlines()
        for file, line in zip(files, map(json.loads, lines), strict=True):
            number = int(file.stem.partition("-")[2])
            verdicts[number] = {f"{item['rule_id']} {item['path']}" for item in line.get("violations", [])}
        return verdicts

    def _write_case(self, cases: Path, number: int, check: object) -> None:
        if isinstance(check, SnapshotCase):
            document = copy.deepcopy(check.document)
            name = f"case-{number:04}"
            if not check.refused:
                document["snapshots"][0]["id"] = name
                with_hashes(document)
            (cases / ".ai-snapshots" / "openai" / f"{name}.json").write_text(json.dumps(document))
        elif isinstance(check, TraceCase):
            document = {**check.document}
            if "id" in document and check.refused != "TR1 $.id":
                document["id"] = f"a1b2c3d4-e5f6-7890-abcd-{number:012x}"
            time = str(document.get("timestamp", "2025-12-20T15:30:45.123Z")).replace(":", "-").replace(".", "-")
            folder = cases / ".ai-tests" / "traces"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{time}_a1b2c3d4-e5f6-7890-abcd-{number:012x}.json").write_text(json.dumps(document))
        elif isinstance(check, RecordingCase):
            (cases / f"recording-{number:04}.json").write_text(json.dumps(check.document))
