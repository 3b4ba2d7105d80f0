"""The gate of a project: what it answers from is what it has checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.sample_files import raw_error_response, raw_response_of, snapshot_body, write_approval_file, write_tree
from traceforge.canon import digest_bytes
from traceforge.config import load_config
from traceforge.errors import BrokenJournal
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import RawResponse
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.formats.snapshot_manifest import RecordEntry, write_manifest
from traceforge.snapshots.tree import approved_calls, tree_verification
from traceforge.snapshots.tree.approved_calls import ApprovedCall, load_approved_calls
from traceforge.snapshots.tree.project_snapshots import find_recorded_variables, open_snapshots


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Three records written by hand, one with a raw response, and a raw response without a record."""
    root = write_tree(tmp_path / ".ai-snapshots", 3, "openai")
    (root / "wire").mkdir()
    body = snapshot_body(id="wired", timestamp="2026-01-09T11:00:00Z")
    body["request"] |= {"top_p": 1.0, "presence_penalty": 1e-7, "seed": 2**60}  # Hashed in another spelling.
    data = raw_response_of(body)
    (root / "wire/wired.json").write_bytes(data)
    body["response"]["wire"] = {"file": "wire/wired.json", "sha256": digest_bytes(data)}
    (root / "openai/wired.json").write_bytes(write_document([body]))
    (root / "wire/oops.json").write_bytes(raw_error_response())
    files = sorted((root / "openai").glob("*.json"))
    records = [(file.name, *read_document(file.read_bytes())) for file in files]
    entries = [
        RecordEntry("openai", record.id, f"openai/{name}", record.hash, record.timestamp) for name, record in records
    ]
    (root / "manifest.json").write_bytes(write_manifest(entries))
    (wired,) = [record.hash for _, record in records if record.id == "wired"]
    write_approval_file(root, ("wired", "openai/wired.json", None, wired))
    write_approval_file(root, ("oops", "wire/oops.json", None, digest_bytes(raw_error_response())))
    (tmp_path / "traceforge.config.json").write_text("{}")
    return tmp_path


def test_the_verified_calls_are_the_loaded_ones(project: Path) -> None:
    """The same approved calls as reading the tree again."""
    loaded = load_config(str(project))
    gate = open_snapshots(loaded)

    assert () == tuple(gate.findings)
    assert 5 == len(gate.approved_calls)
    assert load_approved_calls(str(project), ModelPolicy.from_config(loaded.config)) == gate.approved_calls
    assert {"wired", "oops"} == {call.id for call in gate.approved_calls if call.raw_response is not None}


def test_every_file_is_read_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes between the check and its use has no effect."""
    read: list[str] = []

    def counted(path: str, **options: Any) -> bytes:
        read.append(Path(path).name)
        return read_file(path, **options)

    read_file = tree_verification.read_file
    for module in (tree_verification, approved_calls):
        monkeypatch.setattr(module, "read_file", counted)
    open_snapshots(load_config(str(project)))

    documents = ["snap-0000.json", "snap-0001.json", "snap-0002.json", "wired.json"]
    assert sorted([*documents, "manifest.json", "wired.json", "oops.json"]) == sorted(read)


def test_nothing_answers_from_a_tree_with_a_finding(project: Path) -> None:
    """Not even what is in order."""
    (project / ".ai-snapshots/openai/snap-0001.json").write_bytes(b"{}")
    gate = open_snapshots(load_config(str(project)))

    assert gate.findings
    assert [] == gate.approved_calls
    assert 0 == len(gate.player._library)


def test_an_interrupted_approval_is_finished_first(project: Path) -> None:
    """An invalid journal is an error, not ignored."""
    (project / ".ai-tests").mkdir()
    (project / ".ai-tests/approve.journal").write_bytes(b"traceforge journal 1 nothing")

    with pytest.raises(BrokenJournal):
        open_snapshots(load_config(str(project)))


def test_a_run_without_calls_imports_no_recording_code(project: Path) -> None:
    """Modules for live calls, records and unmatched calls are imported when needed."""
    process = subprocess.run([sys.executable, "-c", OPENS], cwd=project, capture_output=True, text=True, check=True)
    imported = set(process.stdout.split())

    assert "traceforge.snapshots.gate.suite_process" in imported
    assert set() == imported & {
        "re2",
        "traceforge.capture.hook.client_aiohttp",
        "traceforge.capture.hook.client_httpx",
        "traceforge.capture.hook.client_requests",
        "traceforge.redact.redactor",
        "traceforge.redact.stream_redaction",
        "traceforge.replay.echoes",
        "traceforge.replay.request_redactor",
        "traceforge.ssh_signing",
        "traceforge.snapshots.tree.tree_transaction",
        "traceforge.traces.body_reader",
        "traceforge.wire.anthropic",
        "traceforge.wire.gemini",
        "traceforge.wire.ollama",
    }


OPENS = """
import sys
from traceforge.config import load_config
from traceforge.snapshots.gate.suite_process import SuiteProcess

suite = SuiteProcess(load_config("."), "test")
suite.start()
suite.stop()
print(*sys.modules)
"""


@pytest.mark.parametrize(
    ("upstreams", "region"),
    [
        (["bedrock/eu-west-1", "bedrock/us-east-1", "bedrock/eu-west-1"], "eu-west-1"),
        (["local", "bedrock/us-west-2"], "us-west-2"),
        (["local"], "us-east-1"),
        ([], ""),
    ],
)
def test_a_test_has_the_region_of_most_calls_to_bedrock(upstreams: list[str], region: str) -> None:
    """At a gateway any will do, because no request says it; without such calls there is none."""
    approved = [
        ApprovedCall("id", "bedrock", "f.json", digest_bytes(b""), None, _raw_response(upstream), "request")
        for upstream in upstreams
    ]
    other = ApprovedCall("id", "openai", "f.json", digest_bytes(b""), None, _raw_response("openai"), "request")

    assert region == find_recorded_variables([*approved, other]).bedrock_region


def _raw_response(upstream: str) -> RawResponse:
    return RawResponse("POST", "/model/m/converse", "", (), {}, 200, (), (), upstream=upstream)
