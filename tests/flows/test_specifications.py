"""The five specifications, a requirement a line, each tried on the product as a user would.

A row has the specification, the heading of the requirement there, the requirement in our words, and the check: a file
that a command accepts or refuses, or a function that runs commands, sends requests or imports the package. Where the
design decided something else than the letter of the specification, the row names the decision.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.chat_servers import PROMPTS, ChatProcess, chat_process, write_prompts
from support.command import CommandResult, traceforge
from support.format_examples import SPECIFIED_TRACE, with_hashes
from support.model_servers import model_server
from traceforge.canon import digest_text
from traceforge.context import Client
from traceforge.context.model.inputs import NewEvent
from traceforge.errors import BranchConflict
from traceforge.modelio import MockAdapter, RecordingSession, ReplayAdapter
from traceforge.traces import migrate_trace, needs_migration

Place = tuple[str | int, ...]

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
HIDDEN = (
    "ann@example.org", "555-0132", "078-05-1120", "4111 1111 1111 1111", "Ab1Ab1", "dozjgNry", "in-the-body",
    "hidden-by-setting", "abc.def-ghi", "key-in-a-header",
)  # fmt: skip

SNAPSHOT: dict[str, Any] = {
    "version": "1.0.0",
    "snapshots": [
        {
            "id": "abc123def456",
            "timestamp": "2026-01-09T10:30:00Z",
            "source": {"file": "src/agents/summarizer.py", "line": 12, "function": "generate_summary"},
            "request": {
                "model": "gpt-4-turbo",
                "messages": [
                    {"role": "system", "content": "You are a precise summarization assistant."},
                    {"role": "user", "content": "Summarize: AI is transforming software development"},
                ],
                "temperature": 0.0,
                "max_tokens": 100,
                "top_p": 1.0,
                "frequency_penalty": 0.0,
                "presence_penalty": 0.0,
                "seed": 42,
            },
            "response": {
                "content": "AI is revolutionizing software development through automation.",
                "tokens_used": 12,
                "latency_ms": 450,
                "finish_reason": "stop",
            },
            "hash": "",
        }
    ],
    "hash": "",
}
HASHED = with_hashes(copy.deepcopy(SNAPSHOT))
RECORD: Place = ("snapshots", 0)
REQUEST: Place = (*RECORD, "request")
SOURCE_FILE: Place = (*RECORD, "source", "file")


def _interaction(i: int, content: str = "Paris.", **changes: Any) -> dict[str, Any]:
    hashes = {"prompt_hash": digest_text(f"prompt {i}"), "response_hash": digest_text(content)}
    return {"i": i, **hashes, "response_content": content, **changes}


RECORDING: dict[str, Any] = {
    "model_io_schema_version": "1.0.0", "adapter_id": "openai-chat", "model_id": "gpt-x", "mode": "record",
    "interactions": [_interaction(0), _interaction(1)],
}  # fmt: skip


class SnapshotCase(NamedTuple):
    """A document of 000; `refused` is the rule and the place of the finding, or "" if it is valid."""

    document: dict[str, Any]
    refused: str = ""


class TraceCase(NamedTuple):
    """A trace of 002; as above."""

    document: dict[str, Any]
    refused: str = ""


class RecordingCase(NamedTuple):
    """A recording of 003; as above."""

    document: Any
    refused: str = ""


class Requirement(NamedTuple):
    """One line of a specification."""

    specification: str
    place: str
    text: str
    check: SnapshotCase | TraceCase | RecordingCase | Callable[[Product], None]
    is_slow: bool = False

    @property
    def name(self) -> str:
        return f"{self.specification} {self.place}: {self.text}"


class Product:
    """The product in use: a project, a model, and what its commands have made. Everything is made at first use."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
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
            path for path in self.recorded.glob(".ai-snapshots/*/*.json") if path.parent.name not in OTHERS
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
        patch = self._stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("TRACEFORGE_UPSTREAM_OPENAI", self.url)
        return self._stack.enter_context(Client.open(str(self.folder / "context.db")))

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
        for number, row in enumerate(REQUIREMENTS):
            self._write_case(cases, number, row.check)
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


OTHERS = ("wire", "approvals")


# ---------------------------------------------------------------------------------------------
# How a document is changed


def _changed(document: Any, place: Place, value: Any) -> Any:
    changed = copy.deepcopy(document)
    target = changed
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return changed


def _without(document: Any, place: Place) -> Any:
    changed = copy.deepcopy(document)
    target = changed
    for key in place[:-1]:
        target = target[key]
    del target[place[-1]]
    return changed


def _path(place: Place) -> str:
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)


def _snapshot_rows() -> Iterator[Requirement]:
    """The field tables of 000: what is required, and of which type."""
    tables: dict[str, tuple[Place, dict[str, Any]]] = {
        "Top-Level Fields": ((), {"version": 1, "snapshots": "none", "hash": 5}),
        "Snapshot Record Fields": (
            RECORD,
            {"id": 5, "timestamp": "today", "source": "a.py", "request": [], "response": "Hello", "hash": "abc123"},
        ),
        "Source Fields": ((*RECORD, "source"), {"file": 5, "line": "12", "function": None}),
        "Request Fields": (REQUEST, {"model": None, "temperature": "0.7", "max_tokens": "100"}),
        "Response Fields": (
            (*RECORD, "response"),
            {"content": None, "tokens_used": "12", "latency_ms": -1, "finish_reason": ""},
        ),
    }
    for heading, (place, fields) in tables.items():
        for name, wrong in fields.items():
            path = (*place, name)
            refused = f"SN1 {_path(path)}"
            yield Requirement("000", heading, f"{name} is required", SnapshotCase(_without(SNAPSHOT, path), refused))
            yield Requirement(
                "000", heading, f"{name} has its type", SnapshotCase(_changed(SNAPSHOT, path, wrong), refused)
            )
    optional: dict[str, list[Any]] = {
        "top_p": ["1", 1.1, -0.1], "frequency_penalty": ["0", -2.1, 2.1], "presence_penalty": ["0", -2.1, 2.1],
        "seed": ["42"], "stop": ["x", [1]], "tools": [{}, ["look"]],
    }  # fmt: skip
    for name, wrong_values in optional.items():
        text = f"{name} is optional"
        document = _without(SNAPSHOT, (*REQUEST, name)) if name in SNAPSHOT["snapshots"][0]["request"] else SNAPSHOT
        yield Requirement("000", "Request Fields", text, SnapshotCase(document))
        for wrong in wrong_values:
            place = (*REQUEST, name, 0) if isinstance(wrong, list) else (*REQUEST, name)
            case = SnapshotCase(_changed(SNAPSHOT, (*REQUEST, name), wrong), f"SN1 {_path(place)}")
            yield Requirement("000", "Request Fields", f"{name} is not {wrong!r}", case)
    for wrong in (-0.1, 2.1):
        case = SnapshotCase(_changed(SNAPSHOT, (*REQUEST, "temperature"), wrong), f"SN1 {_path(REQUEST)}.temperature")
        yield Requirement("000", "Request Fields", f"temperature is 0 to 2, and not {wrong}", case)
    for wrong in (0, -2, 0.5):
        case = SnapshotCase(_changed(SNAPSHOT, (*REQUEST, "max_tokens"), wrong), f"SN1 {_path(REQUEST)}.max_tokens")
        yield Requirement("000", "Request Fields", f"max_tokens is a number of tokens, and not {wrong}", case)
    tool_calls = (*RECORD, "response", "tool_calls")
    yield Requirement(
        "000", "Response Fields", "tool_calls is an array",
        SnapshotCase(_changed(SNAPSHOT, tool_calls, {}), f"SN1 {_path(tool_calls)}"),
    )  # fmt: skip


def _trace_rows() -> Iterator[Requirement]:
    """The interfaces of 002: what is required, and of which type."""
    wrong_types: dict[str, Any] = {
        "schema_version": 1, "id": "7", "timestamp": "today", "endpoint": 5, "request": [], "response": "Paris",
        "metadata": None,
    }  # fmt: skip
    for name, wrong in wrong_types.items():
        rule = "TR2" if name == "schema_version" else "TR1"
        missing, typed = f"{rule} $.{name}", f"TR1 $.{name}"
        yield Requirement(
            "002", "Trace", f"{name} is required", TraceCase(_without(SPECIFIED_TRACE, (name,)), missing)
        )
        yield Requirement(
            "002", "Trace", f"{name} has its type", TraceCase(_changed(SPECIFIED_TRACE, (name,), wrong), typed)
        )
    nested: dict[str, tuple[str, Place, Any]] = {
        "model is required": ("LLMRequest", ("request", "model"), None),
        "messages is an array": ("LLMRequest", ("request", "messages"), "Hi"),
        "temperature is a number": ("LLMRequest", ("request", "temperature"), "0.7"),
        "max_tokens is a number": ("LLMRequest", ("request", "max_tokens"), "100"),
        "stream is a boolean": ("LLMRequest", ("request", "stream"), "yes"),
        "n is a number": ("LLMRequest", ("request", "n"), "1"),
        "a role is one of the known ones": ("ChatMessage", ("request", "messages", 0, "role"), "robot"),
        "object is a string": ("LLMResponse", ("response", "object"), None),
        "choices is an array": ("LLMResponse", ("response", "choices"), {}),
        "index is a number": ("Choice", ("response", "choices", 0, "index"), "0"),
        "total_tokens is a number": ("Usage", ("response", "usage", "total_tokens"), "33"),
        "duration_ms is a number": ("TraceMetadata", ("metadata", "duration_ms"), "12"),
        "status is success or error": ("TraceMetadata", ("metadata", "status"), "maybe"),
        "step_index is a number": ("Session Tracking Fields", ("step_index",), "0"),
        "session_id is a string": ("Session Tracking Fields", ("session_id",), 5),
        "state_snapshot is an object": ("Session Tracking Fields", ("state_snapshot",), []),
    }
    for text, (heading, place, wrong) in nested.items():
        case = TraceCase(_changed(SPECIFIED_TRACE, place, wrong), f"TR1 {_path(place)}")
        yield Requirement("002", heading, text, case)
    valid: dict[str, Any] = {
        "an error has a null response": {"response": None, "metadata": {"duration_ms": 1, "status": "error"}},
        "the session fields are optional": {
            "session_id": "s", "step_index": 0, "parent_trace_id": "p", "state_snapshot": {"tool": 1},
        },
        "a prompt may be a list": {"request": {"model": "m", "prompt": ["a", "b"]}},
        "a provider's own fields are kept": {"request": {**SPECIFIED_TRACE["request"], "logit_bias": {"1": 2}}},
        "the version may be a newer minor one": {"schema_version": "1.1.0"},
    }  # fmt: skip
    for text, fields in valid.items():
        yield Requirement("002", "Trace", text, TraceCase({**copy.deepcopy(SPECIFIED_TRACE), **fields}))


def _recording_rows() -> Iterator[Requirement]:
    """The fields and the invariants of 003."""
    for name in ("adapter_id", "model_id", "mode", "interactions"):
        case = RecordingCase(_without(RECORDING, (name,)), f"SCHEMA $.{name}")
        yield Requirement("003", "3.1 Required Fields", f"{name} is required", case)
    first: Place = ("interactions", 0)
    broken: list[tuple[str, Place, Any, str]] = [
        ("MI1: the schema version is present", ("model_io_schema_version",), None, "MI1 $.model_io_schema_version"),
        ("MI1: the schema version is not empty", ("model_io_schema_version",), "", "MI1 $.model_io_schema_version"),
        ("MI1: the schema version is X.Y.Z", ("model_io_schema_version",), "1.0", "MI1 $.model_io_schema_version"),
        ("MI2: the adapter id is not empty", ("adapter_id",), "", "MI2 $.adapter_id"),
        ("MI2: the model id is not empty", ("model_id",), "", "MI2 $.model_id"),
        ("MI3: the mode is record or replay", ("mode",), "live", "MI3 $.mode"),
        ("MI4: interactions is an array", ("interactions",), {}, "SCHEMA $.interactions"),
        ("MI5: indices begin at 0", (*first, "i"), 1, "MI5 $.interactions[0].i"),
        ("MI5: an index is a number", (*first, "i"), "0", "MI5 $.interactions[0].i"),
        ("MI6: a prompt hash is sha256 and lower case", (*first, "prompt_hash"), "sha256:" + "A" * 64,
         "MI6 $.interactions[0].prompt_hash"),
        ("MI7: a response hash has its format", (*first, "response_hash"), "abc",
         "MI7 $.interactions[0].response_hash"),
        ("MI7: a response hash is that of the content", (*first, "response_content"), "Rome.",
         "MI7 $.interactions[0].response_hash"),
        ("MI8: prompt hash and index are unique", ("interactions",), [_interaction(0), _interaction(0)],
         "MI8 $.interactions[1]"),
        ("MI9: interactions are sorted", ("interactions",), [_interaction(1), _interaction(0)],
         "MI9 $.interactions[1]"),
        ("MI11: a response has at most 1,000,000 bytes", ("interactions",), [_interaction(0, "x" * 1_000_001)],
         "MI11 $.interactions[0].response_content"),
    ]  # fmt: skip
    for text, place, value, refused in broken:
        case = RecordingCase(_changed(RECORDING, place, value), refused)
        yield Requirement("003", "5. Invariants", text, case)
    twice = [_interaction(0), {**_interaction(1), "prompt_hash": digest_text("prompt 0")}]
    ephemeral = {"created_at_utc": "2026-01-05T00:00:00Z", "stats": {"total_interactions": 2}}
    valid: list[tuple[str, str, dict[str, Any]]] = [
        ("3.1 Required Fields", "a session of the required fields is valid", {}),
        ("3.2 Optional Fields", "times and statistics are optional", ephemeral),
        ("3.5 Mode Values", "a session may be for replay", {"mode": "replay"}),
        ("5. Invariants", "MI4: there may be no interaction", {"interactions": []}),
        ("5. Invariants", "MI8: the same prompt may be asked twice", {"interactions": twice}),
        ("5. Invariants", "MI11: a response may have 1,000,000 bytes",
         {"interactions": [_interaction(0, "x" * 10**6)]}),
        ("6.2 Backwards Compatibility", "a newer minor version is valid", {"model_io_schema_version": "1.1.0"}),
    ]  # fmt: skip
    for heading, text, fields in valid:
        yield Requirement("003", heading, text, RecordingCase({**RECORDING, **fields}))


# ---------------------------------------------------------------------------------------------
# 000: snapshots


def _check_refusal_stops_ci(product: Product) -> None:
    folder = _broken_copy(product)
    product.run(folder, "verify", code=1, CI="true")
    product.run(folder, "test", "--", sys.executable, "app/main.py", code=1, CI="true")


def _broken_copy(product: Product) -> Path:
    """The recorded project, with one character of an answer changed by hand."""
    folder = product.folder / f"broken-{len(list(product.folder.glob('broken-*')))}"
    subprocess.run(["cp", "-r", product.recorded, folder], check=True)
    file = next(folder.glob(".ai-snapshots/openai/*.json"))
    file.write_text(file.read_text().replace('"content": "Where', '"content": "where'))
    return folder


def _check_record_hash(product: Product) -> None:
    record = product.snapshots[0]
    data = {name: record[name] for name in ("id", "timestamp", "source", "request", "response")}
    text = subprocess.run(
        ["node", "-e", "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0))))"],
        input=json.dumps(data).encode(), capture_output=True, check=True,
    ).stdout  # fmt: skip
    assert record["hash"] == f"sha256:{hashlib.sha256(text).hexdigest()}"


def _check_combined_hash(product: Product) -> None:
    manifest = product.manifest
    hashes = [entry["hash"] for entry in manifest["snapshots"]]
    text = json.dumps({"version": manifest["version"], "snapshots": hashes}, separators=(",", ":"))
    assert manifest["hash"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _check_complete_capture(product: Product) -> None:
    record = next(item for item in product.snapshots if item["request"]["model"] == "gpt-x")
    assert ("app/main.py", "ask") == (record["source"]["file"], record["source"]["function"])
    assert record["source"]["line"] > 0
    assert (0, 20, 42) == tuple(record["request"][name] for name in ("temperature", "max_tokens", "seed"))
    assert [{"role": "user", "content": "Where is Lyon?"}] == record["request"]["messages"]
    assert record["response"]["content"]
    assert record["response"]["finish_reason"] in ("stop", "length")
    assert record["response"]["latency_ms"] >= 0


def _check_stream_is_shown(product: Product) -> None:
    streams = [
        item["request"].get("stream", False) for item in product.snapshots if item["request"]["model"] == "gpt-x"
    ]
    assert [False, True] == sorted(streams)


def _check_storage(product: Product) -> None:
    root = product.recorded / ".ai-snapshots"
    for entry in product.manifest["snapshots"]:
        assert f"{entry['provider']}/{entry['id']}.json" == entry["file"]
        assert (root / entry["file"]).is_file()
    assert {"openai", "anthropic", "gemini", "ollama"} <= {path.name for path in root.iterdir()}


def _check_manifest(product: Product) -> None:
    manifest = product.manifest
    assert ["version", "created_at", "updated_at", "snapshots", "hash"] == list(manifest)
    assert {item["id"]: item["hash"] for item in product.snapshots} == {
        entry["id"]: entry["hash"] for entry in manifest["snapshots"]
    }
    times = [item["timestamp"] for item in product.snapshots]
    assert (min(times), max(times)) == (manifest["created_at"], manifest["updated_at"])


def _check_readable_files(product: Product) -> None:
    for path in product.recorded.glob(".ai-snapshots/openai/*.json"):
        text = path.read_text()
        assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


def _check_declared_fields(product: Product) -> None:
    record = next(item for item in product.snapshots if item["request"]["model"] == "gemini-x")
    assert ["temperature", "max_tokens"] == record["request"]["declared"][:2]
    assert (1, 0) == (record["request"]["temperature"], record["request"]["max_tokens"])


def _check_strict_determinism(product: Product) -> None:
    for name, change in (("warm", {"temperature": 0.7}), ("seedless", {"seed": None})):
        folder = product.project(f"strict-{name}", determinism="strict")
        document = copy.deepcopy(SNAPSHOT)
        request = document["snapshots"][0]["request"] | change
        document["snapshots"][0]["request"] = {key: value for key, value in request.items() if value is not None}
        path = folder / ".ai-snapshots" / "openai" / "abc123def456.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(with_hashes(document)))
        assert "SN8" in product.run(folder, "snapshot", "verify", code=1).out
        (folder / "traceforge.config.json").write_text("{}")
        product.run(folder, "snapshot", "manifest")
        assert "(1 prompt only): all valid" in product.run(folder, "snapshot", "verify").out


def _check_old_version(product: Product) -> None:
    ran = product.run(_old_tree(product), "verify", code=1)
    for words in (
        "Snapshot version 0.9.0 is no longer supported",
        "Current version: 1.0.0",
        "Re-record all snapshots",
    ):
        assert words in ran.out


def _old_tree(product: Product) -> Path:
    folder = product.project(f"old-{len(list(product.folder.glob('old-*')))}")
    path = folder / ".ai-snapshots" / "openai" / "capital.json"
    path.parent.mkdir(parents=True)
    record = {
        "id": "capital", "timestamp": "2025-06-01T08:00:00Z", "file": "a.py", "line": 1, "function": "f",
        "model": "m", "prompt": "Capital?", "seed": 1, "response": "Paris", "tokens_used": 2, "latency_ms": 5,
        "finish_reason": "stop", "max_tokens": 20,
    }  # fmt: skip
    path.write_text(json.dumps({"version": "0.9.0", "snapshots": [record]}))
    return folder


def _check_migration(product: Product) -> None:
    folder = _old_tree(product)
    words = ("snapshot", "migrate", "--from", "0.9.0", "--to", "1.0.0")
    assert "requires request.temperature" in product.run(folder, *words, code=1).out
    product.run(folder, *words, "--set", "temperature=0")
    product.run(folder, "verify")


def _check_no_migration_in_ci(product: Product) -> None:
    folder = _old_tree(product)
    words = ("snapshot", "migrate", "--from", "0.9.0", "--to", "1.0.0", "--set", "temperature=0")
    assert 0 != traceforge(*words, cwd=folder, CI="true").code
    assert '"0.9.0"' in (folder / ".ai-snapshots" / "openai" / "capital.json").read_text()


def _check_newer_version(product: Product) -> None:
    folder = _old_tree(product)
    path = folder / ".ai-snapshots" / "openai" / "capital.json"
    path.write_text(path.read_text().replace("0.9.0", "2.0.0"))
    assert "Upgrade TraceForge" in product.run(folder, "verify", code=1).out


def _check_unapproved_call(product: Product) -> None:
    folder = product.folder / "unapproved"
    subprocess.run(["cp", "-r", product.recorded, folder], check=True)
    program = folder / "app" / "main.py"
    program.write_text(program.read_text().replace("Where is Lyon?", "Where is Turin?"))
    product.run(folder, "test", "--", sys.executable, "app/main.py", code=1)


def _check_approved_calls(product: Product) -> None:
    ran = product.run(product.recorded, "test", "--", sys.executable, "app/main.py")
    assert "GREEN" in ran.err


# ---------------------------------------------------------------------------------------------
# 001: the chat


def _check_reply_alone(product: Product) -> None:
    for more in ({}, {"trace": False}):
        assert ["reply"] == list(product.chat.ask("Hello", "alone", **more))


def _check_trace_fields(product: Product) -> None:
    trace = product.chat.ask("Hello", "fields", trace=True)["trace"]
    assert ["trace_id", "timestamp", "model", "session_id", "inputs", "output"] == list(trace)
    hashes = ["system_prompt_hash", "developer_prompt_hash", "session_prompt_hash"]
    assert [*hashes, "user_message"] == list(trace["inputs"])
    assert ["assistant_message"] == list(trace["output"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", trace["timestamp"])


def _check_trace_values(product: Product) -> None:
    body = product.chat.ask("Where is Lyon?", "values", trace=True)
    trace = body["trace"]
    assert ("gpt-x", "values") == (trace["model"], trace["session_id"])
    assert "Where is Lyon?" == trace["inputs"]["user_message"]
    assert body["reply"] == trace["output"]["assistant_message"]


def _check_prompt_hashes(product: Product) -> None:
    inputs = product.chat.ask("Hello", "hashes", trace=True)["trace"]["inputs"]
    for layer in ("system", "developer", "session"):
        text = PROMPTS[f"{layer}.md"]
        assert hashlib.sha256(text.encode()).hexdigest() == inputs[f"{layer}_prompt_hash"]
        assert text.strip() not in json.dumps(inputs)


def _check_required_fields(product: Product) -> None:
    for body in (
        {"session_id": "s"},
        {"message": "Hi"},
        {"message": "", "session_id": "s"},
        {"message": 5, "session_id": "s"},
    ):
        assert 400 == product.chat.post(body).status_code


def _check_trace_is_a_boolean(product: Product) -> None:
    for value in ("true", 1, None, {}):
        assert 400 == product.chat.post({"message": "Hi", "session_id": "s", "trace": value}).status_code


def _check_trace_changes_nothing(product: Product) -> None:
    replies = [
        [product.chat.ask(text, session, **more)["reply"] for text in ("Where is Lyon?", "And Turin?")]
        for session, more in (("with", {"trace": True}), ("none", {}))
    ]
    assert replies[0] == replies[1]


def _check_nothing_is_kept(product: Product) -> None:
    product.chat.ask("Hello", "kept", trace=True)
    names = {str(path.relative_to(product.folder / "chat")) for path in (product.folder / "chat").rglob("*")}
    assert {"prompts", *(f"prompts/{name}" for name in PROMPTS)} == names


def _check_traces_are_of_one_response(product: Product) -> None:
    ids = {product.chat.ask("Hello", "ids", trace=True)["trace"]["trace_id"] for _ in range(3)}
    assert 3 == len(ids)


def _check_page(product: Product) -> None:
    assert 200 == product.chat.get("/").status_code


def _check_directories(product: Product) -> None:
    package = Path(sys.modules["traceforge"].__file__ or "").parent / "chat"
    assert {"frontend", "prompts"} <= {path.name for path in package.iterdir()}


# ---------------------------------------------------------------------------------------------
# 002: traces


def _check_file_names(product: Product) -> None:
    for name, trace in product.traces.items():
        time = trace["timestamp"].replace(":", "-").replace(".", "-")
        assert f"{time}_{trace['id']}.json" == name
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", trace["id"])


def _check_every_call_is_traced(product: Product) -> None:
    models = sorted(trace["provider_request"].get("model", "gemini-x") for trace in product.traces.values())
    assert ["claude-x", "gemini-x", "gone", "gpt-x", "gpt-x", "llama-x"] == models
    product.run(product.recorded, "trace", "verify")


def _check_error_trace(product: Product) -> None:
    (trace,) = [trace for trace in product.traces.values() if trace["metadata"]["status"] == "error"]
    assert trace["response"] is None
    assert trace["metadata"]["error"]


def _check_success_metadata(product: Product) -> None:
    trace = product.trace_of("gpt-x")
    usage = trace["response"]["usage"]
    assert ("success", usage["total_tokens"]) == (trace["metadata"]["status"], trace["metadata"]["tokens_used"])
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]
    assert trace["metadata"]["duration_ms"] >= 0


def _check_stream_is_assembled(product: Product) -> None:
    trace = product.trace_of("gpt-x", stream=True)
    events = re.findall(r"^data: (\{.*\})$", _stream_text(product, trace), re.MULTILINE)
    deltas = [choice["delta"].get("content") or "" for event in events for choice in json.loads(event)["choices"]]
    assert len(deltas) > 2
    assert "".join(deltas) == trace["response"]["choices"][0]["message"]["content"]


def _stream_text(product: Product, trace: dict[str, Any]) -> str:
    """The chunks of a trace, joined."""
    path = product.recorded / ".ai-tests" / "traces" / "chunks" / f"{trace['id']}.jsonl"
    return "".join(json.loads(line)["data"] for line in path.read_text().splitlines())


def _check_chunks(product: Product) -> None:
    trace = product.trace_of("gpt-x", stream=True)
    path = product.recorded / ".ai-tests" / "traces" / "chunks" / f"{trace['id']}.jsonl"
    chunks = [json.loads(line) for line in path.read_text().splitlines()]
    assert [*range(len(chunks))] == [chunk["i"] for chunk in chunks]
    assert "data: [DONE]" in "".join(chunk["data"] for chunk in chunks)


def _check_providers(product: Product) -> None:
    for model in ("claude-x", "gemini-x", "llama-x"):
        trace = product.trace_of(model)
        (choice,) = trace["response"]["choices"]
        assert "user" == trace["request"]["messages"][-1]["role"]
        assert ("assistant", True) == (choice["message"]["role"], bool(choice["message"]["content"]))
        assert trace["provider_response"]


def _check_sessions(product: Product) -> None:
    traces = sorted(product.traces.values(), key=lambda trace: int(trace["step_index"]))
    assert 1 == len({trace["session_id"] for trace in traces})
    assert [*range(len(traces))] == [trace["step_index"] for trace in traces]


def _check_redaction(product: Product) -> None:
    texts = [path.read_text() for path in (product.redacted / ".ai-tests").rglob("*.json*")]
    assert any("[REDACTED]" in text for text in texts)
    assert [] == [secret for secret in HIDDEN for text in texts if secret in text]


def _check_gitignore(product: Product) -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", ".ai-tests/traces/a.json"], cwd=product.recorded, check=False
    )
    assert 0 == ignored.returncode


def _check_retention(product: Product) -> None:
    folder = product.project("retention", max_trace_retention=30)
    traces = folder / ".ai-tests" / "traces"
    traces.mkdir(parents=True)
    (traces / f"2025-12-20T15-30-45-123Z_{SPECIFIED_TRACE['id']}.json").write_text(json.dumps(SPECIFIED_TRACE))
    product.run(folder, "trace", "prune")
    assert [] == list(traces.glob("*.json"))


def _check_compression(product: Product) -> None:
    folder = product.project("compression")
    traces = folder / ".ai-tests" / "traces"
    traces.mkdir(parents=True)
    (traces / f"2025-12-20T15-30-45-123Z_{SPECIFIED_TRACE['id']}.json").write_text(json.dumps(SPECIFIED_TRACE))
    product.run(folder, "trace", "compress", "--older-than", "1")
    assert [] == list(traces.glob("*.json"))
    shown = json.loads(product.run(folder, "trace", "show", SPECIFIED_TRACE["id"], "--json").out)
    assert SPECIFIED_TRACE["request"] == shown["request"]


def _check_environments(product: Product) -> None:
    folder = product.project("environments", traces_dir="traces-of-staging")
    product.run(folder, "run", "--", sys.executable, "app/main.py")
    product.run(folder, "trace", "list")
    assert list((folder / "traces-of-staging").glob("*.json"))
    assert not (folder / ".ai-tests" / "traces").exists()


def _check_trace_migration(product: Product) -> None:
    old = {name: value for name, value in SPECIFIED_TRACE.items() if name != "schema_version"}
    upgraded, result = migrate_trace(old)
    assert (True, False) == (needs_migration(old), needs_migration(upgraded))
    assert ("0.0.0", "1.0.0", SPECIFIED_TRACE) == (result.original_version, result.new_version, upgraded)
    folder = product.project("migration")
    traces = folder / ".ai-tests" / "traces"
    traces.mkdir(parents=True)
    path = traces / f"2025-12-20T15-30-45-123Z_{SPECIFIED_TRACE['id']}.json"
    path.write_text(json.dumps(old))
    assert "older version" in product.run(folder, "trace", "show", SPECIFIED_TRACE["id"]).err
    product.run(folder, "trace", "migrate")
    assert SPECIFIED_TRACE == json.loads(path.read_text())


# ---------------------------------------------------------------------------------------------
# 003: recordings


def _recording(product: Product, name: str, **changes: Any) -> Path:
    path = product.folder / f"{name}.json"
    path.write_text(json.dumps({**RECORDING, **changes}))
    return path


def _hash(product: Product, path: Path) -> str:
    return product.run(product.folder, "modelio", "hash", path).out.strip()


def _check_core_hash(product: Product) -> None:
    names = ("i", "prompt_hash", "response_content", "response_hash")
    core = {**RECORDING, "interactions": [{name: item[name] for name in names} for item in RECORDING["interactions"]]}
    text = json.dumps(core, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" == _hash(product, _recording(product, "core"))


def _check_ephemeral_fields(product: Product) -> None:
    measured = [
        {**item, "tokens_input": 5, "tokens_output": 7, "latency_ms": 9} for item in RECORDING["interactions"]
    ]
    other = _recording(
        product, "ephemeral", interactions=measured, created_at_utc="2026-01-05T00:00:00Z",
        ended_at_utc="2026-01-06T00:00:00Z", stats={"total_interactions": 2},
    )  # fmt: skip
    assert _hash(product, _recording(product, "plain")) == _hash(product, other)


def _check_sorted_violations(product: Product) -> None:
    path = _recording(product, "unsorted", adapter_id="", mode="x", interactions=[_interaction(3), _interaction(1)])
    ran = product.run(product.folder, "modelio", "verify", "--json", path, code=1)
    violations = [(item["rule_id"], item["path"], item["message"]) for item in json.loads(ran.out)["violations"]]
    assert sorted(violations) == violations
    assert len({rule for rule, _, _ in violations}) > 2


def _check_count_limit(product: Product) -> None:
    path = _recording(product, "many", interactions=[_interaction(i, "") for i in range(10_001)])
    assert "MI4" in product.run(product.folder, "modelio", "verify", path, code=1).out


def _check_live_recording(product: Product) -> None:
    path = product.folder / "live.json"
    with RecordingSession(path, MockAdapter(["Paris.", "Rome.", "Paris."])) as session:
        for prompt in ("France?", "Italy?", "France?"):
            session.adapter.complete(prompt)
    value = json.loads(path.read_text())
    assert ("record", [0, 1, 2]) == (value["mode"], [item["i"] for item in value["interactions"]])
    assert [digest_text(prompt) for prompt in ("France?", "Italy?", "France?")] == [
        item["prompt_hash"] for item in value["interactions"]
    ]
    assert {"total_interactions": 3}.items() <= value["stats"].items()
    product.run(product.folder, "modelio", "verify", path)
    replay = ReplayAdapter.load(path)
    assert ["Paris.", "Rome.", "Paris."] == [
        replay.complete(prompt).text for prompt in ("France?", "Italy?", "France?")
    ]


def _check_finished_recording(product: Product) -> None:
    path = _recording(product, "finished")
    before = path.read_bytes()
    ran = product.run(product.recorded, "modelio", "from-traces", "--out", path, code=3)
    assert ("already exists" in ran.err, before) == (True, path.read_bytes())


def _check_pack(product: Product) -> None:
    folder = product.folder
    run = {
        "run_schema_version": "1.0.0", "run_id": "run-1", "started_at": "2026-01-05T00:00:00Z",
        "completed_at": "2026-01-05T00:00:01Z", "kernel_version": "0.3.10", "policy": {"a": 1}, "intent": "x",
        "kernel_result_kind": "REFUSE", "decision": {}, "model_mode": "record",
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    path = _recording(product, "packed")
    product.run(folder, "pack", "create", "--run", "run.json", "--model-io", path, "--out", "pack-1")
    written = json.loads((folder / "pack-1" / "run.json").read_text())
    assert _hash(product, path) == written["model_io_hash"]
    product.run(folder, "pack", "verify", "pack-1")
    inside = folder / "pack-1" / "model_io.json"
    inside.write_text(inside.read_text().replace("Paris.", "Milan."))
    assert "PK8" in product.run(folder, "pack", "verify", "pack-1", code=1).out


# ---------------------------------------------------------------------------------------------
# 004: context snapshots


def _fields(value: object) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]


def _check_snapshot_object(product: Product) -> None:
    fields = _fields(product.conversation["snapshot"])
    assert {
        "id", "object", "session_id", "branch_id", "branch_version", "prompt_compiler_revision",
        "ordered_block_manifest", "created_at",
    } <= set(fields)  # fmt: skip
    assert "snapshot" == fields["object"]
    for name, prefix in (("id", "snp"), ("session_id", "ses"), ("branch_id", "br")):
        assert re.fullmatch(rf"{prefix}_[0-9a-z]{{26}}", fields[name])
    assert re.fullmatch(r"pc_\d+", fields["prompt_compiler_revision"])


def _check_pinned_version(product: Product) -> None:
    """The snapshot was taken after the question, and before the answer."""
    snapshot, response = product.conversation["snapshot"], product.conversation["response"]
    branch = product.context.get_branch(snapshot.session_id, snapshot.branch_id)
    assert (1, response.snapshot_id) == (snapshot.branch_version, snapshot.id)
    assert branch.version > snapshot.branch_version


def _check_block_order(product: Product) -> None:
    snapshot = product.conversation["snapshot"]
    blocks = list(product.context.iterate_blocks(snapshot.id))
    assert snapshot.ordered_block_manifest == [block.id for block in blocks]
    assert ["system", "user"] == [block.role for block in blocks]


def _check_logical_identity(product: Product) -> None:
    names = " ".join(_fields(product.conversation["snapshot"]))
    for word in ("tokenizer", "engine", "gpu", "model", "template", "key", "runtime"):
        assert word not in names


def _check_immutable(product: Product) -> None:
    snapshot = product.conversation["snapshot"]
    branch = product.context.get_branch(snapshot.session_id, snapshot.branch_id)
    product.context.append_event(
        snapshot.session_id, snapshot.branch_id, expected_version=branch.version,
        expected_head_event_id=branch.head_event_id, event=NewEvent(event_type="user_message", content="More."),
    )  # fmt: skip
    assert snapshot == product.context.get_snapshot(snapshot.id)
    assert product.context.verify_snapshot(snapshot.id).valid


def _check_binding(product: Product) -> None:
    response = product.conversation["response"]
    assert ("completed", product.conversation["snapshot"].id) == (response.status, response.snapshot_id)
    assert product.context.get_alias("helper").live_release_id == response.alias_release_id
    assert ("openai", "old") == (response.target.provider, response.target.model)


def _check_reproduction(product: Product) -> None:
    response = product.conversation["response"]
    again = product.context.create_response(model=response.alias_release_id, snapshot_id=response.snapshot_id)
    assert (response.snapshot_id, response.alias_release_id) == (again.snapshot_id, again.alias_release_id)
    assert (response.target, response.output) == (again.target, again.output)


def _check_other_model(product: Product) -> None:
    response = product.conversation["response"]
    other = product.context.create_response(model="openai/new", snapshot_id=response.snapshot_id)
    assert response.snapshot_id == other.snapshot_id
    assert "new" == other.target.model
    assert response.alias_release_id != other.alias_release_id


def _check_immutable_release(product: Product) -> None:
    response = product.conversation["response"]
    before = product.context.get_release(response.alias_release_id)
    product.context.create_release("helper", targets=[{"provider": "openai", "model": "newer"}])
    assert before.targets == product.context.get_release(response.alias_release_id).targets
    assert response.alias_release_id != product.context.get_alias("helper").live_release_id


def _check_comparison(product: Product) -> None:
    client = product.context
    run = client.create_replay_run(
        baseline=product.conversation["response"].alias_release_id, candidate="openai/new",
        snapshot_ids=[product.conversation["snapshot"].id],
    )  # fmt: skip
    while run.status in ("queued", "running"):
        run = client.get_replay_run(run.id)
    assert {"candidate_changed": 1} == client.get_replay_report(run.id).summary["verdicts"]


def _check_concurrency(product: Product) -> None:
    session = product.context.create_session()
    place, event = (session.id, session.default_branch_id), NewEvent(event_type="user_message", content="a")
    product.context.append_event(*place, expected_version=0, expected_head_event_id=None, event=event)
    with pytest.raises(BranchConflict):
        product.context.append_event(*place, expected_version=0, expected_head_event_id=None, event=event)


def _check_explicit_merge(product: Product) -> None:
    client = product.context
    session = client.create_session()
    main = session.default_branch_id
    event = NewEvent(event_type="user_message", content="a")
    client.append_event(session.id, main, expected_version=0, expected_head_event_id=None, event=event)
    fork = client.fork_branch(session.id, fork_from_branch_id=main, label="other")
    client.append_event(
        session.id, fork.id, expected_version=fork.version, expected_head_event_id=fork.head_event_id,
        event=NewEvent(event_type="user_message", content="b"),
    )  # fmt: skip
    before = client.get_branch(session.id, main)
    assert 1 == before.version
    merged = client.merge_branch(
        session.id, main, source_branch_id=fork.id, strategy="rebase", expected_version=before.version,
        expected_head_event_id=before.head_event_id,
    )  # fmt: skip
    assert (2, 1) == (merged.branch.version, len(merged.event_ids))


def _check_identity_layers(product: Product) -> None:
    """One snapshot; a key for its materialization, and one for the runtime on top of that."""
    snapshot = product.conversation["snapshot"].id
    keys = []
    runtimes = (
        {"tokenizer_revision": "1"},
        {"tokenizer_revision": "2"},
        {"tokenizer_revision": "2", "engine": "vllm"},
    )
    for number, runtime in enumerate(runtimes):
        path = product.folder / f"runtime-{number}.json"
        path.write_text(json.dumps(runtime))
        words = ("context", "cache-key", snapshot, "--runtime", path, "--db", product.folder / "context.db", "--json")
        keys.append(json.loads(product.run(product.folder, *words).out))
    assert {snapshot} == {key["snapshot_id"] for key in keys}
    first, second, third = (key["materialization_key"] for key in keys)
    assert first != second == third
    assert keys[1]["kv_compatibility_key"] != keys[2]["kv_compatibility_key"]


# ---------------------------------------------------------------------------------------------
# The table


REQUIREMENTS: list[Requirement] = [
    Requirement("000", "Complete Snapshot Structure", "the whole structure is valid", SnapshotCase(SNAPSHOT)),
    *_snapshot_rows(),
    Requirement("000", "Overview", "an invalid snapshot is refused and CI fails", _check_refusal_stops_ci),
    Requirement("000", "Source Fields", "file is a relative path",
                SnapshotCase(_changed(SNAPSHOT, SOURCE_FILE, "/app/a.py"), f"SN1 {_path(SOURCE_FILE)}")),
    Requirement("000", "Source Fields", "file does not leave the project",
                SnapshotCase(_changed(SNAPSHOT, SOURCE_FILE, "../a.py"), f"SN1 {_path(SOURCE_FILE)}")),
    Requirement("000", "Request Fields", "messages or prompt is required",
                SnapshotCase(_without(SNAPSHOT, (*REQUEST, "messages")), "SN1 $.snapshots[0].request")),
    Requirement("000", "Request Fields", "prompt can stand for messages",
                SnapshotCase(_changed(_without(SNAPSHOT, (*REQUEST, "messages")), (*REQUEST, "prompt"), "Hi"))),
    Requirement("000", "Request Fields", "not messages and prompt",
                SnapshotCase(_changed(SNAPSHOT, (*REQUEST, "prompt"), "Hi"), "SN1 $.snapshots[0].request")),
    Requirement("000", "Request Fields", "messages is not empty",
                SnapshotCase(_changed(SNAPSHOT, (*REQUEST, "messages"), []), "SN1 $.snapshots[0].request.messages")),
    Requirement("000", "Request Fields", "prompt is not empty",
                SnapshotCase(_changed(_without(SNAPSHOT, (*REQUEST, "messages")), (*REQUEST, "prompt"), ""),
                             "SN1 $.snapshots[0].request.prompt")),
    Requirement("000", "Request Fields", "the request is complete, also where a value was not sent (decision 5)",
                _check_declared_fields),
    Requirement("000", "Request Fields", "the request says whether it was a stream", _check_stream_is_shown),
    Requirement("000", "Overview", "a snapshot has every detail of the call", _check_complete_capture),
    Requirement("000", "Individual Snapshot Hash", "it is SHA-256 of JSON.stringify of five fields",
                _check_record_hash),
    Requirement("000", "Combined Hash", "it covers the version and the record hashes", _check_combined_hash),
    Requirement("000", "Validation Rules", "a record that was changed has a wrong hash",
                SnapshotCase(_changed(HASHED, (*RECORD, "response", "content"), "No."),
                             "SN3 $.snapshots[0].hash")),
    Requirement("000", "Validation Rules", "a wrong combined hash is refused",
                SnapshotCase(_changed(HASHED, ("hash",), "sha256:" + "0" * 64), "SN4 $.hash")),
    Requirement("000", "Validation Rules", "messages that are a text are a partial capture",
                SnapshotCase(_changed(SNAPSHOT, (*REQUEST, "messages"), "..."),
                             "SN1 $.snapshots[0].request.messages")),
    Requirement("000", "Valid Snapshots", "the required fields alone are valid",
                SnapshotCase(_changed(SNAPSHOT, REQUEST, {"model": "gpt-4-turbo", "temperature": 0.0,
                                                          "max_tokens": 100,
                                                          "messages": [{"role": "user", "content": "Hello"}]}))),
    Requirement("000", "Storage Format", "a file for each snapshot, in a folder for each provider", _check_storage),
    Requirement("000", "Manifest File", "it lists every snapshot with its hash (decision 2)", _check_manifest),
    Requirement("000", "Determinism Requirements",
                "a temperature, or no seed, is refused by a strict project, else gated on the prompt (decision 4)",
                _check_strict_determinism),
    Requirement("000", "Backward Compatibility", "no default fills in a missing field",
                SnapshotCase(_without(SNAPSHOT, (*REQUEST, "temperature")),
                             "SN1 $.snapshots[0].request.temperature")),
    Requirement("000", "Backward Compatibility", "an unknown field is not ignored",
                SnapshotCase(_changed(SNAPSHOT, (*RECORD, "response", "tokens"), 5),
                             "SN1 $.snapshots[0].response.tokens")),
    Requirement("000", "Migration Path", "an old version is refused, with these words", _check_old_version),
    Requirement("000", "Migration Path", "a newer version is told to upgrade", _check_newer_version),
    Requirement("000", "Migration Path", "a tool migrates, and guesses nothing", _check_migration),
    Requirement("000", "Migration Path", "nothing migrates in CI", _check_no_migration_in_ci),
    Requirement("000", "Design Principles", "files are readable, and made for diffs by line", _check_readable_files),
    Requirement("000", "Design Principles", "what is approved passes", _check_approved_calls, is_slow=True),
    Requirement("000", "Design Principles", "what is not approved fails", _check_unapproved_call, is_slow=True),

    Requirement("001", "API Behavior", "without trace, the response is the reply alone", _check_reply_alone),
    Requirement("001", "API Behavior", "message and session_id are required", _check_required_fields),
    Requirement("001", "API Behavior", "trace is a boolean", _check_trace_is_a_boolean),
    Requirement("001", "Trace Object", "it has exactly these fields", _check_trace_fields),
    Requirement("001", "Trace Object", "it explains the response", _check_trace_values),
    Requirement("001", "Trace Object", "each response has a trace of its own", _check_traces_are_of_one_response),
    Requirement("001", "Prompt Hashing Rules", "prompts are SHA-256, and never raw", _check_prompt_hashes),
    Requirement("001", "Trace Generation Rules", "a trace changes no reply and no memory",
                _check_trace_changes_nothing),
    Requirement("001", "Trace Generation Rules", "nothing is written", _check_nothing_is_kept),
    Requirement("001", "What v0.5 does not do", "the page works as it did", _check_page),
    Requirement("001", "Directory Structure", "backend, frontend and prompts are in the package (decision 23)",
                _check_directories),

    Requirement("002", "Example Trace File", "the example is valid", TraceCase(SPECIFIED_TRACE)),
    *_trace_rows(),
    Requirement("002", "Overview", "every call is a trace", _check_every_call_is_traced),
    Requirement("002", "File Naming Convention", "a file is named after its time and UUID", _check_file_names),
    Requirement("002", "Trace", "the response of an error is null", _check_error_trace),
    Requirement("002", "TraceMetadata", "duration, tokens and status are those of the call", _check_success_metadata),
    Requirement("002", "Session Tracking Fields", "steps of a session are numbered from 0", _check_sessions),
    Requirement("002", "Streaming Traces", "the response is assembled", _check_stream_is_assembled),
    Requirement("002", "Streaming Traces", "chunks are stored separately", _check_chunks),
    Requirement("002", "Multi-Provider Support", "four providers have one format (decision 13)", _check_providers),
    Requirement("002", "Sensitive Data Redaction", "no secret of the list is stored, nor of a custom field",
                _check_redaction),
    Requirement("002", "Schema Versioning", "old traces are upgraded, with a warning", _check_trace_migration),
    Requirement("002", "Schema Versioning", "a version nobody knows is refused",
                TraceCase({**SPECIFIED_TRACE, "schema_version": "0.5.0"}, "TR2 $.schema_version")),
    Requirement("002", "Storage Location", "Git ignores the traces", _check_gitignore),
    Requirement("002", "Retention Policy", "old traces are pruned", _check_retention),
    Requirement("002", "Best Practices", "old traces can be compressed", _check_compression),
    Requirement("002", "Best Practices", "environments have folders of their own", _check_environments, is_slow=True),

    *_recording_rows(),
    Requirement("003", "3.3 Interaction Structure", "live calls become interactions, and replay",
                _check_live_recording),
    Requirement("003", "3.3 Interaction Structure", "a finished recording is not overwritten",
                _check_finished_recording),
    Requirement("003", "4.4 Computing ModelIOHash", "it is SHA-256 of the canonical core", _check_core_hash),
    Requirement("003", "5. Invariants", "MI10: violations are sorted", _check_sorted_violations),
    Requirement("003", "5. Invariants", "MI4: at most 10,000 interactions", _check_count_limit),
    Requirement("003", "5. Invariants", "MI12: times and counts are not hashed", _check_ephemeral_fields),
    Requirement("003", "7. Integration with Pack Format", "a pack verifies its recording and refers to its hash",
                _check_pack),

    Requirement("004", "Snapshots", "a snapshot has these fields", _check_snapshot_object),
    Requirement("004", "What a snapshot pins", "the branch and its exact version", _check_pinned_version),
    Requirement("004", "What a snapshot pins", "the blocks, in their order", _check_block_order),
    Requirement("004", "Snapshots live at Layer 1", "no tokenizer, engine or model", _check_logical_identity),
    Requirement("004", "Snapshots live at Layer 1", "materialization and runtime are keys on top of it",
                _check_identity_layers),
    Requirement("004", "Why pinning enables reproducibility", "a snapshot never changes", _check_immutable),
    Requirement("004", "Why pinning enables reproducibility", "a response binds a snapshot and a release",
                _check_binding),
    Requirement("004", "Why pinning enables reproducibility", "the same pair resolves to the same target",
                _check_reproduction),
    Requirement("004", "Why pinning enables reproducibility", "a candidate is compared with the baseline",
                _check_comparison),
    Requirement("004", "A snapshot does not pin a model", "the same input can go to another model",
                _check_other_model),
    Requirement("004", "A snapshot does not pin a model", "a release never changes", _check_immutable_release),
    Requirement("004", "Branches", "an append with a stale head is refused", _check_concurrency),
    Requirement("004", "Branches", "a merge is explicit", _check_explicit_merge),
]  # fmt: skip


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One for all rows of the table."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        yield Product(tmp_path_factory.mktemp("product"), stack)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=row.name, marks=[pytest.mark.slow] if row.is_slow else [])
        for number, row in enumerate(REQUIREMENTS)
    ],
)
def test_the_product_does_what_the_specification_says(product: Product, number: int) -> None:
    """A case is accepted, or refused at its place; a function checks the rest."""
    check = REQUIREMENTS[number].check
    if not isinstance(check, SnapshotCase | TraceCase | RecordingCase):
        check(product)
    elif check.refused:
        assert check.refused in product.verdicts.get(number, set())
    else:
        assert set() == product.verdicts.get(number, set())


def test_every_specification_is_walked() -> None:
    """And no requirement is there twice."""
    names = [row.name for row in REQUIREMENTS]

    assert {"000", "001", "002", "003", "004"} == {row.specification for row in REQUIREMENTS}
    assert len(names) == len(set(names))
