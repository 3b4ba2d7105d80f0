"""Specification 000: snapshots."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.requirements.product import Product
from flows.requirements.requirement import Requirement, SnapshotCase
from support.command import traceforge
from support.format_examples import SPECIFIED_DOCUMENT, with_hashes
from support.json_places import Place, json_path_of, remove_at, replace_at
from support.model_servers import ModelServer, Reply, serve_in_thread

SNAPSHOT = SPECIFIED_DOCUMENT
HASHED = with_hashes(copy.deepcopy(SNAPSHOT))
RECORD: Place = ("snapshots", 0)
REQUEST: Place = (*RECORD, "request")
SOURCE_FILE: Place = (*RECORD, "source", "file")


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
            refused = f"SN1 {json_path_of(path)}"
            yield Requirement("000", heading, f"{name} is required", SnapshotCase(remove_at(SNAPSHOT, path), refused))
            yield Requirement(
                "000", heading, f"{name} has its type", SnapshotCase(replace_at(SNAPSHOT, path, wrong), refused)
            )
    optional: dict[str, list[Any]] = {
        "top_p": ["1", 1.1, -0.1], "frequency_penalty": ["0", -2.1, 2.1], "presence_penalty": ["0", -2.1, 2.1],
        "seed": ["42"], "stop": ["x", [1]], "tools": [{}, ["look"]],
    }  # fmt: skip
    for name, wrong_values in optional.items():
        text = f"{name} is optional"
        document = remove_at(SNAPSHOT, (*REQUEST, name)) if name in SNAPSHOT["snapshots"][0]["request"] else SNAPSHOT
        yield Requirement("000", "Request Fields", text, SnapshotCase(document))
        for wrong in wrong_values:
            place = (*REQUEST, name, 0) if isinstance(wrong, list) else (*REQUEST, name)
            case = SnapshotCase(replace_at(SNAPSHOT, (*REQUEST, name), wrong), f"SN1 {json_path_of(place)}")
            yield Requirement("000", "Request Fields", f"{name} is not {wrong!r}", case)
    for wrong in (-0.1, 2.1):
        case = SnapshotCase(
            replace_at(SNAPSHOT, (*REQUEST, "temperature"), wrong), f"SN1 {json_path_of(REQUEST)}.temperature"
        )
        yield Requirement("000", "Request Fields", f"temperature is 0 to 2, and not {wrong}", case)
    for wrong in (0, -2, 0.5):
        case = SnapshotCase(
            replace_at(SNAPSHOT, (*REQUEST, "max_tokens"), wrong), f"SN1 {json_path_of(REQUEST)}.max_tokens"
        )
        yield Requirement("000", "Request Fields", f"max_tokens is a number of tokens, and not {wrong}", case)
    tool_calls = (*RECORD, "response", "tool_calls")
    yield Requirement(
        "000", "Response Fields", "tool_calls is an array",
        SnapshotCase(replace_at(SNAPSHOT, tool_calls, {}), f"SN1 {json_path_of(tool_calls)}"),
    )  # fmt: skip


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


class VaryingServer(ModelServer):
    """A model that never says the same again."""

    def reply(self, path: str, query: str, data: bytes) -> Reply:
        self.salt += "x"
        return super().reply(path, query, data)


def _check_variance(product: Product) -> None:
    (approved,) = [
        record for record in product.snapshots
        if record["request"]["model"] == "gpt-x" and not record["request"].get("stream")
    ]  # fmt: skip
    with serve_in_thread(VaryingServer()) as server:
        target = ("--target", f"openai={server.url}")
        ran = product.run(
            product.recorded, "check-live", "--yes", "--runs", "10", *target, approved["id"], code=1,
            OPENAI_API_KEY="k",
        )  # fmt: skip
    assert re.search(
        r"❌ Non-deterministic behavior detected\n   \d+/10 runs produced different outputs\n   → CI fails",
        ran.err + ran.out,
    )


def _check_unique_ids(product: Product) -> None:
    folder = product.project("twice")
    for provider in ("openai", "anthropic"):
        path = folder / ".ai-snapshots" / provider / "abc123def456.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(HASHED))
    findings = json.loads(product.run(folder, "snapshot", "verify", "--json", code=1).out)["findings"]
    assert "SN5" in {finding["rule"] for finding in findings}


SNAPSHOT_REQUIREMENTS: list[Requirement] = [
    Requirement("000", "Complete Snapshot Structure", "the whole structure is valid", SnapshotCase(SNAPSHOT)),
    *_snapshot_rows(),
    Requirement("000", "Overview", "an invalid snapshot is refused and CI fails", _check_refusal_stops_ci),
    Requirement("000", "Source Fields", "file is a relative path",
                SnapshotCase(replace_at(SNAPSHOT, SOURCE_FILE, "/app/a.py"), f"SN1 {json_path_of(SOURCE_FILE)}")),
    Requirement("000", "Source Fields", "file does not leave the project",
                SnapshotCase(replace_at(SNAPSHOT, SOURCE_FILE, "../a.py"), f"SN1 {json_path_of(SOURCE_FILE)}")),
    Requirement("000", "Request Fields", "messages or prompt is required",
                SnapshotCase(remove_at(SNAPSHOT, (*REQUEST, "messages")), "SN1 $.snapshots[0].request")),
    Requirement("000", "Request Fields", "prompt can stand for messages",
                SnapshotCase(replace_at(remove_at(SNAPSHOT, (*REQUEST, "messages")), (*REQUEST, "prompt"), "Hi"))),
    Requirement("000", "Request Fields", "not messages and prompt",
                SnapshotCase(replace_at(SNAPSHOT, (*REQUEST, "prompt"), "Hi"), "SN1 $.snapshots[0].request")),
    Requirement("000", "Request Fields", "messages is not empty",
                SnapshotCase(replace_at(SNAPSHOT, (*REQUEST, "messages"), []),
                             "SN1 $.snapshots[0].request.messages")),
    Requirement("000", "Request Fields", "prompt is not empty",
                SnapshotCase(replace_at(remove_at(SNAPSHOT, (*REQUEST, "messages")), (*REQUEST, "prompt"), ""),
                             "SN1 $.snapshots[0].request.prompt")),
    Requirement("000", "Request Fields", "the request is complete, also where a value was not sent (decision 5)",
                _check_declared_fields),
    Requirement("000", "Request Fields", "the request says whether it was a stream", _check_stream_is_shown),
    Requirement("000", "Overview", "a snapshot has every detail of the call", _check_complete_capture),
    Requirement("000", "Individual Snapshot Hash", "it is SHA-256 of JSON.stringify of five fields",
                _check_record_hash),
    Requirement("000", "Combined Hash", "it covers the version and the record hashes", _check_combined_hash),
    Requirement("000", "Validation Rules", "a record that was changed has a wrong hash",
                SnapshotCase(replace_at(HASHED, (*RECORD, "response", "content"), "No."),
                             "SN3 $.snapshots[0].hash")),
    Requirement("000", "Validation Rules", "a wrong combined hash is refused",
                SnapshotCase(replace_at(HASHED, ("hash",), "sha256:" + "0" * 64), "SN4 $.hash")),
    Requirement("000", "Validation Rules", "messages that are a text are a partial capture",
                SnapshotCase(replace_at(SNAPSHOT, (*REQUEST, "messages"), "..."),
                             "SN1 $.snapshots[0].request.messages")),
    Requirement("000", "Valid Snapshots", "the required fields alone are valid",
                SnapshotCase(replace_at(SNAPSHOT, REQUEST, {"model": "gpt-4-turbo", "temperature": 0.0,
                                                           "max_tokens": 100,
                                                           "messages": [{"role": "user", "content": "Hello"}]}))),
    Requirement("000", "Storage Format", "a file for each snapshot, in a folder for each provider", _check_storage),
    Requirement("000", "Manifest File", "it lists every snapshot with its hash (decision 2)", _check_manifest),
    Requirement("000", "Determinism Requirements",
                "a temperature, or no seed, is refused by a strict project, else gated on the prompt (decision 4)",
                _check_strict_determinism),
    Requirement("000", "Detection", "runs of a prompt that differ fail the build", _check_variance, is_slow=True),
    Requirement("000", "Snapshot Record Fields", "an id is unique", _check_unique_ids),
    Requirement("000", "Backward Compatibility", "no default fills in a missing field",
                SnapshotCase(remove_at(SNAPSHOT, (*REQUEST, "temperature")),
                             "SN1 $.snapshots[0].request.temperature")),
    Requirement("000", "Backward Compatibility", "an unknown field is not ignored",
                SnapshotCase(replace_at(SNAPSHOT, (*RECORD, "response", "tokens"), 5),
                             "SN1 $.snapshots[0].response.tokens")),
    Requirement("000", "Migration Path", "an old version is refused, with these words", _check_old_version),
    Requirement("000", "Migration Path", "a newer version is told to upgrade", _check_newer_version),
    Requirement("000", "Migration Path", "a tool migrates, and guesses nothing", _check_migration),
    Requirement("000", "Migration Path", "nothing migrates in CI", _check_no_migration_in_ci),
    Requirement("000", "Design Principles", "files are readable, and made for diffs by line", _check_readable_files),
    Requirement("000", "Design Principles", "what is approved passes", _check_approved_calls, is_slow=True),
    Requirement("000", "Design Principles", "what is not approved fails", _check_unapproved_call, is_slow=True),
]  # fmt: skip
