"""Valid example values of every file format: the fullest and the smallest that each allows.

`FORMATS` has one entry per packaged schema: the type, the shape check of its reader, and the examples.
Each call of an example returns a new value, so that a test may change it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

from traceforge.canon import JSON, canonical_bytes, digest_text, ecmascript_bytes
from traceforge.chat.execution_trace import ExecutionTrace, check_execution_trace
from traceforge.context.model.context_snapshot import ContextSnapshot, check_context_snapshot
from traceforge.errors import InvalidFile
from traceforge.findings import Finding
from traceforge.modelio import verify_session
from traceforge.modelio.recording_format import ModelIOSession
from traceforge.packs.pack_format import LedgerEntry, PackRun, find_ledger_problems, read_run
from traceforge.snapshots.formats.approval_format import Approval, approval_hash, check_approval
from traceforge.snapshots.formats.snapshot_format import SnapshotDocument, check_document, document_hash, record_hash
from traceforge.snapshots.formats.snapshot_manifest import Manifest, check_manifest
from traceforge.traces.trace_format import TraceShape, check_trace

DIGEST = "sha256:" + "0123456789abcdef" * 4
HEX = "fedcba9876543210" * 4

# The complete structure of the specification, word for word: its hashes are placeholders.
SPECIFIED_DOCUMENT: dict[str, Any] = {
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
            "hash": "sha256:abcd1234ef567890abcd1234ef567890abcd1234ef567890abcd1234ef567890",
        }
    ],
    "hash": "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
}

# The example file of the specification, word for word.
SPECIFIED_TRACE: dict[str, Any] = {
    "schema_version": "1.0.0",
    "id": "a1b2c3d4-e5f6-7890-abcd-ef1234567890",
    "timestamp": "2025-12-20T15:30:45.123Z",
    "endpoint": "/v1/chat/completions",
    "request": {
        "model": "gpt-4",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "What is the capital of France?"},
        ],
        "temperature": 0.7,
        "max_tokens": 100,
    },
    "response": {
        "id": "chatcmpl-abc123",
        "object": "chat.completion",
        "created": 1703089845,
        "model": "gpt-4-0613",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The capital of France is Paris."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 25, "completion_tokens": 8, "total_tokens": 33},
    },
    "metadata": {"duration_ms": 1234, "tokens_used": 33, "model": "gpt-4-0613", "status": "success"},
}

_LEAST_RECORD: dict[str, Any] = {
    "id": "abc",
    "timestamp": "2026-01-09T10:30:00Z",
    "source": {"file": "a.py", "line": 0, "function": ""},
    "request": {"model": "m", "prompt": "p", "temperature": 2, "max_tokens": 1},
    "response": {"content": "", "tokens_used": 0, "latency_ms": 0, "finish_reason": "stop"},
}
_FULL_RECORD: dict[str, Any] = {
    "id": "abc123def456",
    "timestamp": "2026-01-09T10:30:00.123456789+01:00",
    "source": {
        "file": "src/agents/summarizer.py",
        "line": 12,
        "function": "generate_summary",
        "scopes": [{"scope": "tests/test_summary.py::test_it", "turn": 3, "calls": 2}, {"scope": ""}],
    },
    "request": {
        "model": "gpt-4-turbo",
        "messages": [{"role": "system", "content": None}, {"role": "user", "content": [{"type": "text"}]}],
        "temperature": 0.0,
        "max_tokens": 100,
        "top_p": 1.0,
        "frequency_penalty": -2,
        "presence_penalty": 2.0,
        "seed": 42,
        "stop": ["\n", ""],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"10": 1, "9": 2}}}],
        "stream": True,
        "declared": ["temperature"],
        "gate": "request",
        "gate_reason": "no temperature, a seed",
        "provider_own": {"any": [1, None, True]},
    },
    "response": {
        "content": "AI is.",
        "tokens_used": 12,
        "latency_ms": 450.5,
        "finish_reason": "tool_calls",
        "tool_calls": [{"id": "call_1", "function": {"name": "look", "arguments": "{}"}}],
        "wire": {"file": "wire/abc123def456.json", "sha256": DIGEST},
    },
}


def with_hashes(document: dict[str, Any]) -> dict[str, Any]:
    """Recompute every hash of a snapshot document, in place."""
    for record in document["snapshots"]:
        record["hash"] = record_hash(record)
    document["hash"] = document_hash(document["version"], [record["hash"] for record in document["snapshots"]])
    return document


def full_record() -> dict[str, Any]:
    """A record body with every known field and one unknown field."""
    return copy.deepcopy(_FULL_RECORD)


def least_record() -> dict[str, Any]:
    """A record body with the required fields only."""
    return copy.deepcopy(_LEAST_RECORD)


def _document(*bodies: dict[str, Any]) -> dict[str, Any]:
    return with_hashes({"version": "1.0.0", "snapshots": list(bodies), "hash": ""})


def _manifest(*entries: tuple[str, str]) -> dict[str, Any]:
    listed = [
        {"id": name, "provider": provider, "file": f"{provider}/{name}.json", "hash": DIGEST}
        for provider, name in entries
    ]
    return {
        "version": "1.0.0",
        "created_at": "2026-01-09T10:00:00Z",
        "updated_at": "2026-01-09T14:30:00.5+02:00",
        "snapshots": listed,
        "hash": document_hash("1.0.0", [DIGEST] * len(listed)),
    }


def _full_trace() -> dict[str, Any]:
    trace = copy.deepcopy(SPECIFIED_TRACE)
    trace["request"] |= {
        "prompt": ["a", [1, 2]],
        "top_p": None,
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "stop": ["x"],
        "stream": True,
        "n": 1,
    }
    trace["request"]["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]},
        {"role": "tool", "content": [{"type": "text", "text": "12"}], "name": "look", "tool_call_id": "call_1"},
        {"role": "developer"},
        {"role": "function", "content": "", "tool_calls": None},
    ]
    trace["response"]["choices"].append({"index": 1.0, "text": "or Lyon", "finish_reason": None})
    trace["metadata"]["error"] = "none"
    return trace | {
        "session_id": "s-1",
        "step_index": 0,
        "parent_trace_id": "p-1",
        "state_snapshot": {"tool": [1, {"deep": None}]},
        "provider": "openai",
    }


def _least_trace() -> dict[str, Any]:
    return {
        "schema_version": "1.0.0",
        "id": "A1B2C3D4-e5f6-7890-abcd-ef1234567890",
        "timestamp": "2025-12-20T15:30:45Z",
        "endpoint": "/",
        "request": {"model": ""},
        "response": None,
        "metadata": {"duration_ms": 0, "status": "error"},
    }


def _bare_trace() -> dict[str, Any]:
    return _least_trace() | {"response": {"object": "list", "id": None, "usage": None, "data": [[0.1]]}}


def example_session(*contents: str) -> dict[str, Any]:
    """A Model IO session with one interaction per content and every ephemeral field."""
    return {
        "model_io_schema_version": "1.0.0",
        "adapter_id": "openai-chat",
        "model_id": "gpt-4",
        "mode": "record",
        "interactions": [
            {
                "i": place,
                "prompt_hash": digest_text(f"prompt {place}"),
                "response_hash": digest_text(content),
                "response_content": content,
                "tokens_input": 3,
                "tokens_output": 4,
                "latency_ms": 5.5,
            }
            for place, content in enumerate(contents)
        ],
        "created_at_utc": "2026-01-05T00:00:00Z",
        "ended_at_utc": "2026-01-05T00:00:01Z",
        "stats": {
            "total_interactions": len(contents),
            "total_tokens_input": 3,
            "total_tokens_output": 4,
            "total_latency_ms": 5.5,
        },
    }


def _least_session() -> dict[str, Any]:
    return {
        "model_io_schema_version": "0.00.10",
        "adapter_id": "a",
        "model_id": "m",
        "mode": "replay",
        "interactions": [],
    }


def least_run() -> dict[str, Any]:
    """A `run.json` with the required fields only, of a run that refused."""
    return {
        "run_schema_version": "1.0.0",
        "run_id": "run-1",
        "started_at": "2026-01-09T10:30:00Z",
        "completed_at": "2026-01-09T10:31:00Z",
        "kernel_version": "0.3.10",
        "policy": None,
        "intent": None,
        "kernel_result_kind": "REFUSE",
        "decision": None,
        "model_mode": None,
    }


def _full_run() -> dict[str, Any]:
    return least_run() | {
        "policy": {"name": "default"},
        "intent": {"text": "do it"},
        "kernel_result_kind": "BUNDLE",
        "decision": {"accepted": True},
        "model_mode": "record",
        "bundle": {"bundle_id": "bundle-1", "sha256": DIGEST, "size": 3},
        "model_io_hash": DIGEST,
        "engine": {"own": 1},
    }


def example_ledger_entry() -> dict[str, Any]:
    """One line of a ledger."""
    return {
        "run_id": "run-1",
        "timestamp": "2026-01-09T10:30:00Z",
        "intent_sha256": DIGEST,
        "result_kind": "BUNDLE",
        "accepted": True,
        "mode": "record",
        "policy": {"name": "default"},
    }


def example_context_snapshot(*blocks: str) -> dict[str, Any]:
    """A context snapshot of blocks whose ids end in these characters."""
    return {
        "id": "snp_" + "0" * 26,
        "object": "snapshot",
        "session_id": "ses_" + "1" * 26,
        "branch_id": "br_" + "z" * 26,
        "branch_version": 17,
        "prompt_compiler_revision": "pc_11",
        "ordered_block_manifest": ["blk_" + "0" * 25 + block for block in blocks],
        "ordered_block_manifest_digest": DIGEST,
        "created_at": "2026-06-09T20:15:00Z",
    }


def example_execution_trace() -> dict[str, Any]:
    """The execution trace of the specification."""
    return {
        "trace_id": "tr_1",
        "timestamp": "2026-01-09T10:30:00Z",
        "model": "gpt-4",
        "session_id": "s-1",
        "inputs": {
            "system_prompt_hash": HEX,
            "developer_prompt_hash": "0" * 64,
            "session_prompt_hash": "a" * 64,
            "user_message": "What is the capital of France?",
        },
        "output": {"assistant_message": "Paris."},
    }


class Format(NamedTuple):
    """One format: its type, the shape check of its reader, and valid examples."""

    shape: Any
    check: Callable[[JSON], list[Finding]]
    examples: tuple[Callable[[], Any], ...]


def _check_manifest_shape(value: JSON) -> list[Finding]:
    return [finding for finding in check_manifest(ecmascript_bytes(value), []) if finding.rule in ("MF2", "SN2")]


def _check_session_shape(value: JSON) -> list[Finding]:
    """The violations about types and notation, without those about how values relate."""
    findings = []
    for violation in verify_session(value).violations:
        if violation.rule_id in ("MI8", "MI9", "MI11") or "mismatch" in violation.message:
            continue
        if violation.rule_id == "MI5" and _is_whole(violation.message.rpartition("got ")[2]):
            continue  # A number that an index can be, at the wrong place.
        findings.append(Finding("", violation.path, violation.rule_id, violation.message))
    return findings


def _is_whole(text: str) -> bool:
    try:
        return float(text) >= 0 and float(text).is_integer()
    except ValueError:
        return False


def _check_run(value: JSON) -> list[Finding]:
    try:
        read_run(ecmascript_bytes(value))
    except InvalidFile as exc:
        return list(exc.findings)
    return []


def _check_ledger_entry(value: JSON) -> list[Finding]:
    problems = find_ledger_problems(canonical_bytes(value))
    return [Finding("", problem.path, "PK9", problem.message) for problem in problems]


def _check_snapshot_shape(value: JSON) -> list[Finding]:
    return [finding for finding in check_document(value) if finding.rule in ("SN1", "SN2")]


def _check_approval_shape(value: JSON) -> list[Finding]:
    return [finding for finding in check_approval(value) if finding.rule == "AP1"]


def example_approval(**more: Any) -> dict[str, Any]:
    """An approval of two changes; `more` are its optional fields."""
    document: dict[str, Any] = {
        "version": "1.0.0",
        "approved_at": "2026-01-10T09:00:00.250Z",
        "approved_by": {"name": "Ada", "email": ""},
        "reason": "shorter answers",
        "changes": [
            {"id": "abc", "file": "openai/abc.json", "before": None, "after": DIGEST},
            {"id": "oops", "file": "wire/oops.json", "before": DIGEST, "after": None},
        ],
        **more,
    }
    return {**document, "hash": approval_hash(document)}


FORMATS: dict[str, Format] = {
    "approval": Format(
        Approval,
        _check_approval_shape,
        (example_approval, lambda: example_approval(tag="v2", key="SHA256:x", signature="s")),
    ),
    "context-snapshot": Format(
        ContextSnapshot,
        check_context_snapshot,
        (lambda: example_context_snapshot("1", "2", "3"), example_context_snapshot),
    ),
    "execution-trace": Format(ExecutionTrace, check_execution_trace, (example_execution_trace,)),
    "manifest": Format(
        Manifest,
        _check_manifest_shape,
        (lambda: _manifest(("anthropic", "abc"), ("openai", "abc123def456")), _manifest),
    ),
    "modelio": Format(
        ModelIOSession,
        _check_session_shape,
        (lambda: example_session("Paris.", "", "é\ud800😀"), _least_session),
    ),
    "pack-ledger-entry": Format(LedgerEntry, _check_ledger_entry, (example_ledger_entry,)),
    "pack-run": Format(PackRun, _check_run, (_full_run, least_run)),
    "snapshot": Format(
        SnapshotDocument,
        _check_snapshot_shape,
        (
            lambda: _document(full_record(), least_record()),
            lambda: _document(least_record()),
            lambda: with_hashes(copy.deepcopy(SPECIFIED_DOCUMENT)),
            _document,
        ),
    ),
    "trace": Format(
        TraceShape, check_trace, (_full_trace, _least_trace, _bare_trace, lambda: copy.deepcopy(SPECIFIED_TRACE))
    ),
}
