"""Valid snapshot trees, approvals, recordings and packs, for tests that change one thing and check the findings."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from traceforge.canon import digest_canonical_line, digest_text
from traceforge.exchange import Chunk
from traceforge.modelio import model_io_hash, write_session
from traceforge.packs.pack_format import write_member
from traceforge.snapshots.formats.approval_format import ApprovedChange, Approver, write_approval
from traceforge.snapshots.formats.raw_response import RawResponse, write_raw_response
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.formats.snapshot_manifest import RecordEntry, write_manifest

BODY: dict[str, Any] = {
    "id": "abc123def456",
    "timestamp": "2026-01-09T10:30:00Z",
    "source": {"file": "src/agents/summarizer.py", "line": 12, "function": "generate_summary"},
    "request": {
        "model": "gpt-4-turbo",
        "messages": [{"role": "user", "content": "Summarize: AI is transforming software development"}],
        "temperature": 0,
        "max_tokens": 100,
        "seed": 42,
    },
    "response": {"content": "It is.", "tokens_used": 12, "latency_ms": 450, "finish_reason": "stop"},
}


def snapshot_body(**changes: Any) -> dict[str, Any]:
    """A record body; `changes` replace top-level fields."""
    return {**copy.deepcopy(BODY), **changes}


def raw_response_of(body: dict[str, Any]) -> bytes:
    """A raw response with the content of this record."""
    response = body["response"]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": response["content"]},
        "finish_reason": response["finish_reason"],
    }
    answer = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1767954600, "model": body["request"]["model"],
        "choices": [choice],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": response["tokens_used"]},
    }  # fmt: skip
    headers = (("content-type", "application/json"),)
    chunk = Chunk(12.5, json.dumps(answer).encode())
    return write_raw_response(
        RawResponse("POST", "/v1/chat/completions", "", (), copy.deepcopy(body["request"]), 200, headers, (chunk,))
    )


def raw_error_response(prompt: str = "Hi", *, source: dict[str, Any] | None = None) -> bytes:
    """A raw error response, which no record can represent."""
    request = {"model": "gpt-4-turbo", "messages": [{"role": "user", "content": prompt}], "max_tokens": 5}
    answer = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
    headers = (("content-type", "application/json"),)
    chunk = Chunk(3.5, json.dumps(answer).encode())
    return write_raw_response(
        RawResponse("POST", "/v1/chat/completions", "", (), request, 429, headers, (chunk,), source)
    )


def write_tree(root: Path, count: int = 3, provider: str = "openai") -> Path:
    """A valid snapshot tree of `count` documents."""
    entries = []
    (root / provider).mkdir(parents=True)
    for number in range(count):
        body = snapshot_body(id=f"snap-{number:04d}", timestamp=f"2026-01-09T10:{number % 60:02d}:00Z")
        body["request"]["messages"][0]["content"] += f" ({number})"
        document = write_document([body])
        (root / provider / f"{body['id']}.json").write_bytes(document)
        (record,) = read_document(document)
        entries.append(
            RecordEntry(provider, record.id, f"{provider}/{record.id}.json", record.hash, record.timestamp)
        )
    (root / "manifest.json").write_bytes(write_manifest(entries))
    return root


def write_approval_file(
    root: Path, *changes: tuple[str, str, str | None, str | None], at: str = "2026-01-10T09:00:00.000Z"
) -> Path:
    """Write an approval of these changes (id, file, before, after) into a tree."""
    approver = Approver("Ada", "ada@example.org")
    file, data = write_approval(at, approver, "as agreed", [ApprovedChange(*change) for change in changes])
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_bytes(data)
    return root / file


def sample_session(count: int = 2) -> dict[str, Any]:
    """A valid Model IO session."""
    return {
        "model_io_schema_version": "1.0.0",
        "adapter_id": "openai-chat",
        "model_id": "gpt-4-turbo",
        "mode": "record",
        "interactions": [
            {
                "i": number,
                "prompt_hash": digest_text(f"prompt {number}"),
                "response_hash": digest_text(f"answer {number}"),
                "response_content": f"answer {number}",
            }
            for number in range(count)
        ],
    }


def write_pack(folder: Path) -> Path:
    """A valid pack with a bundle and a recording."""
    bundle = {"bundle_id": "bundle-1", "outputs": {}}
    run = {
        "run_schema_version": "1.0.0",
        "run_id": "run-1",
        "started_at": "2026-01-09T10:30:00Z",
        "completed_at": "2026-01-09T10:31:00Z",
        "kernel_version": "0.1.0",
        "policy": {"name": "default"},
        "intent": {"path": "intent.json"},
        "kernel_result_kind": "BUNDLE",
        "decision": {"accepted": True},
        "model_mode": "record",
        "bundle": {"bundle_id": "bundle-1", "sha256": digest_canonical_line(bundle)},
        "model_io_hash": model_io_hash(sample_session()),
    }
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(write_member(run))
    (folder / "bundle.json").write_bytes(write_member(bundle))
    (folder / "model_io.json").write_bytes(write_session(sample_session()))
    return folder
