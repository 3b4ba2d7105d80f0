"""Version 0.9.0 becomes 1.0.0: nothing guessed, nothing lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from traceforge.snapshots.formats.snapshot_format import write_document
from traceforge.snapshots.tree.snapshot_migration import REQUIRED_FIELDS, migrate_document

FULL: dict[str, Any] = {
    "id": "greeting", "timestamp": "2025-06-01T08:00:00Z", "file": "app.py", "line": 3, "function": "ask",
    "model": "gpt-4-turbo", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 9,
    "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "seed": 1, "stop": ["x"], "tools": [{"type": "f"}],
    "response": "Hello", "tokens_used": 2, "latency_ms": 5, "finish_reason": "stop", "tool_calls": [{"id": "c"}],
}  # fmt: skip
VALUES: dict[str, Any] = {
    "file": "old.py", "line": 0, "function": "", "temperature": 1, "max_tokens": 7, "tokens_used": 3,
    "latency_ms": 4, "finish_reason": "length",
}  # fmt: skip


def _document(**changes: Any) -> Any:
    record = {name: value for name, value in {**copy.deepcopy(FULL), **changes}.items() if value is not ...}
    return {"version": "0.9.0", "snapshots": [record]}


def test_every_field_finds_its_place() -> None:
    """A full record needs nothing, and loses nothing."""
    (body,), findings = migrate_document(_document(), {})
    record: Any = body

    assert [] == findings
    assert {"file": "app.py", "line": 3, "function": "ask"} == record["source"]
    assert "declared" not in record["request"]
    assert "Hello" == record["response"]["content"]
    fields = {**record, **record["source"], **record["request"], **record["response"]}
    assert {name: value for name, value in FULL.items() if name != "response"} == {
        name: fields[name] for name in FULL if name != "response"
    }
    write_document([body])


@pytest.mark.parametrize("name", REQUIRED_FIELDS)
def test_a_missing_field_is_refused_or_supplied_and_declared(name: str) -> None:
    """The error names the field and the option that supplies it; supplied values are listed."""
    _, (finding,) = migrate_document(_document(**{name: ...}), {}, "openai/greeting.json")
    assert ("openai/greeting.json", f"$.snapshots[0].{name}", "SN1") == finding[:3]
    assert f"--set {name}=VALUE" in finding.hint

    (body,), findings = migrate_document(_document(**{name: ...}), VALUES)
    record: Any = body
    assert [] == findings
    assert VALUES[name] == record[REQUIRED_FIELDS[name]][name]
    assert [name if REQUIRED_FIELDS[name] == "request" else f"{REQUIRED_FIELDS[name]}.{name}"] == record["request"][
        "declared"
    ]
    write_document([body])


def test_an_existing_value_is_never_replaced() -> None:
    """A supplied value is only for records that lack it."""
    assert migrate_document(_document(), {}) == migrate_document(_document(), VALUES)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": "X"}, "$.snapshots[0].id"),
        ({"timestamp": "2025-02-30T00:00:00Z"}, "$.snapshots[0].timestamp"),
        ({"response": {"content": "x"}}, "$.snapshots[0].response"),
        ({"response": ...}, "$.snapshots[0].response"),
        ({"model": ...}, "$.snapshots[0].model"),
        ({"messages": ...}, "$.snapshots[0]"),
        ({"messages": "Hi"}, "$.snapshots[0].messages"),
        ({"temperature": "0"}, "$.snapshots[0].temperature"),
        ({"temperature": None}, "$.snapshots[0].temperature"),
        ({"provider_own": 1}, "$.snapshots[0].provider_own"),
    ],
)
def test_an_undocumented_shape_is_refused(change: dict[str, Any], path: str) -> None:
    """It is not guessed, and an unknown field is not lost."""
    bodies, findings = migrate_document(_document(**change), VALUES)

    assert ([], [path]) == (bodies, [finding.path for finding in findings])


def test_every_record_has_its_findings() -> None:
    """Not only the first."""
    document = _document(temperature=...)
    document["snapshots"] *= 3
    _, findings = migrate_document(document, {})

    assert [f"$.snapshots[{place}].temperature" for place in range(3)] == [finding.path for finding in findings]
