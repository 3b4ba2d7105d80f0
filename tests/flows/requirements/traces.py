"""Specification 002: traces."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from flows.requirements.product import Product
from flows.requirements.requirement import Requirement, TraceCase
from support.format_examples import SPECIFIED_TRACE
from support.json_places import Place, json_path_of, remove_at, replace_at
from traceforge.traces import migrate_trace, needs_migration

HIDDEN = (
    "ann@example.org", "555-0132", "078-05-1120", "4111 1111 1111 1111", "Ab1Ab1", "dozjgNry", "in-the-body",
    "hidden-by-setting", "abc.def-ghi", "key-in-a-header",
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
            "002", "Trace", f"{name} is required", TraceCase(remove_at(SPECIFIED_TRACE, (name,)), missing)
        )
        yield Requirement(
            "002", "Trace", f"{name} has its type", TraceCase(replace_at(SPECIFIED_TRACE, (name,), wrong), typed)
        )
    nested: dict[str, tuple[str, Place, Any]] = {
        "model is required": ("LLMRequest", ("request", "model"), None),
        "messages is an array": ("LLMRequest", ("request", "messages"), "Hi"),
        "temperature is a number": ("LLMRequest", ("request", "temperature"), "0.7"),
        "max_tokens is a number": ("LLMRequest", ("request", "max_tokens"), "100"),
        "top_p is a number": ("LLMRequest", ("request", "top_p"), "1"),
        "frequency_penalty is a number": ("LLMRequest", ("request", "frequency_penalty"), "0"),
        "presence_penalty is a number": ("LLMRequest", ("request", "presence_penalty"), "0"),
        "stop is a text or texts": ("LLMRequest", ("request", "stop"), 5),
        "a prompt is a text or texts": ("LLMRequest", ("request", "prompt"), 5),
        "stream is a boolean": ("LLMRequest", ("request", "stream"), "yes"),
        "n is a number": ("LLMRequest", ("request", "n"), "1"),
        "a role is one of the known ones": ("ChatMessage", ("request", "messages", 0, "role"), "robot"),
        "a name is a string": ("ChatMessage", ("request", "messages", 0, "name"), 5),
        "id is a string": ("LLMResponse", ("response", "id"), 5),
        "created is a number": ("LLMResponse", ("response", "created"), "now"),
        "the model of a response is a string": ("LLMResponse", ("response", "model"), 5),
        "object is a string": ("LLMResponse", ("response", "object"), None),
        "choices is an array": ("LLMResponse", ("response", "choices"), {}),
        "index is a number": ("Choice", ("response", "choices", 0, "index"), "0"),
        "finish_reason is a string": ("Choice", ("response", "choices", 0, "finish_reason"), 5),
        "a text is a string": ("Choice", ("response", "choices", 0, "text"), 5),
        "prompt_tokens is a number": ("Usage", ("response", "usage", "prompt_tokens"), "25"),
        "completion_tokens is a number": ("Usage", ("response", "usage", "completion_tokens"), "8"),
        "total_tokens is a number": ("Usage", ("response", "usage", "total_tokens"), "33"),
        "duration_ms is a number": ("TraceMetadata", ("metadata", "duration_ms"), "12"),
        "tokens_used is a number": ("TraceMetadata", ("metadata", "tokens_used"), "33"),
        "the model of a call is a string": ("TraceMetadata", ("metadata", "model"), 5),
        "an error is a string": ("TraceMetadata", ("metadata", "error"), 5),
        "status is success or error": ("TraceMetadata", ("metadata", "status"), "maybe"),
        "step_index is a number": ("Session Tracking Fields", ("step_index",), "0"),
        "session_id is a string": ("Session Tracking Fields", ("session_id",), 5),
        "parent_trace_id is a string": ("Session Tracking Fields", ("parent_trace_id",), 5),
        "state_snapshot is an object": ("Session Tracking Fields", ("state_snapshot",), []),
    }
    for text, (heading, place, wrong) in nested.items():
        case = TraceCase(replace_at(SPECIFIED_TRACE, place, wrong), f"TR1 {json_path_of(place)}")
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


TRACE_REQUIREMENTS: list[Requirement] = [
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
]  # fmt: skip
