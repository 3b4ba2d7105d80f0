"""The snapshot format: the specification's field table without exception, and its hashes as Node computes them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from support.corpus import need_shared
from support.format_examples import DIGEST, SPECIFIED_DOCUMENT, full_record, least_record, with_hashes
from support.json_places import json_path_of, remove_at, replace_at
from support.snapshot_documents import (
    RECORD,
    SPECIFIED_DOCUMENT_HASH,
    SPECIFIED_RECORD_HASH,
    full_document,
    list_rules,
    specified_document,
)
from traceforge.canon import ecmascript_bytes
from traceforge.errors import InvalidFile, NotJSON
from traceforge.findings import Finding
from traceforge.snapshots.formats.snapshot_format import (
    RECORD_FIELDS,
    RERECORD_HINT,
    check_document,
    computed_hash,
    is_old_version,
    read_document,
    write_document,
)

# ---------------------------------------------------------------------------------------------
# The examples of the specification


def test_the_example_of_the_specification_is_valid_here() -> None:
    """The constant is the specification's first JSON block, in its order."""
    text = need_shared("seeds/000_a7c11da574936ae6.txt").read_text(encoding="utf-8")
    block = text.partition("```json\n")[2].partition("```")[0]

    assert json.dumps(SPECIFIED_DOCUMENT) == json.dumps(json.loads(block))


def test_the_complete_structure_of_the_specification_is_valid_once_its_hashes_are_computed() -> None:
    """Its hashes are placeholders; with the real ones every rule holds."""
    document = specified_document()

    assert SPECIFIED_RECORD_HASH == document["snapshots"][0]["hash"]
    assert SPECIFIED_DOCUMENT_HASH == document["hash"]
    assert [] == check_document(document)
    (record,) = read_document(ecmascript_bytes(document))
    assert ("abc123def456", "2026-01-09T10:30:00Z", SPECIFIED_RECORD_HASH) == (
        record.id,
        record.timestamp,
        record.hash,
    )


def test_the_placeholder_hashes_of_the_specification_are_findings() -> None:
    """Taken as they stand, both hashes are wrong, and the findings say what they should be."""
    document = copy.deepcopy(SPECIFIED_DOCUMENT)
    record = check_document(document)[0]
    document["snapshots"][0]["hash"] = SPECIFIED_RECORD_HASH
    (finding,) = check_document(document)

    assert ("SN3", "$.snapshots[0].hash") == (record.rule, record.path)
    assert SPECIFIED_RECORD_HASH in record.message
    assert ("SN4", "$.hash") == (finding.rule, finding.path)
    assert SPECIFIED_DOCUMENT_HASH in finding.message


def test_the_valid_record_of_the_specification_is_valid() -> None:
    """The specification's second example, with the fields that are always required and no other."""
    body: dict[str, Any] = {
        "id": "abc123def456",
        "timestamp": "2026-01-09T10:30:00Z",
        "source": {"file": "src/agents/summarizer.py", "line": 12, "function": "generate_summary"},
        "request": {
            "model": "gpt-4-turbo",
            "messages": [{"role": "user", "content": "Hello"}],
            "temperature": 0.0,
            "max_tokens": 100,
        },
        "response": {
            "content": "Hello! How can I help you?",
            "tokens_used": 10,
            "latency_ms": 450,
            "finish_reason": "stop",
        },
    }

    assert 1 == len(read_document(write_document([body])))


def test_missing_fields_are_all_named() -> None:
    """The specification's first invalid example: a request with a model and nothing else."""
    document = replace_at(specified_document(), ("snapshots", 0, "request"), {"model": "gpt-4"})

    assert [
        Finding("", "$.snapshots[0].request.temperature", "SN1", "required field temperature is missing", _HINT),
        Finding("", "$.snapshots[0].request.max_tokens", "SN1", "required field max_tokens is missing", _HINT),
        Finding("", "$.snapshots[0].request", "SN1", "required field messages (or prompt) is missing", _HINT),
    ] == check_document(document)


_HINT = RERECORD_HINT


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("snapshots", 0, "hash"), "abc123...", "must be sha256: and 64 lower-case hex digits"),
        (("snapshots", 0, "request", "messages"), "...", "must be array, got string"),
        (("snapshots", 0, "request", "temperature"), "0.7", "must be number, got string"),
    ],
    ids=["hash mismatch", "partial capture", "invalid types"],
)
def test_an_invalid_example_of_the_specification_is_refused(
    path: tuple[str | int, ...], value: Any, message: str
) -> None:
    """The other invalid examples: each is one finding at its place."""
    findings = check_document(replace_at(specified_document(), path, value))

    assert [("SN1", json_path_of(path), message)] == [
        (finding.rule, finding.path, finding.message) for finding in findings
    ]
    with pytest.raises(InvalidFile):
        read_document(ecmascript_bytes(replace_at(specified_document(), path, value)))


def test_another_version_is_refused_with_the_words_of_the_specification() -> None:
    """Nothing else is looked at: a document of another version has other rules."""
    document: Any = {"version": "0.9.0", "records": "whatever that version had"}
    (finding,) = check_document(document, "openai/a.json")
    text = f"{finding.message} {finding.hint}"

    assert ("openai/a.json", "$.version", "SN2") == (finding.file, finding.path, finding.rule)
    for words in (
        "Snapshot version 0.9.0 is no longer supported",
        "Current version: 1.0.0",
        "Re-record all snapshots",
    ):
        assert words in text
    with pytest.raises(InvalidFile, match=r"Snapshot version 0\.9\.0 is no longer supported"):
        read_document(json.dumps(document).encode())
    assert is_old_version(finding)


@pytest.mark.parametrize("version", ["1.0.1", "1.1.0", "2.0.0", "10.0.0"])
def test_a_newer_version_is_told_to_upgrade(version: str) -> None:
    """Recording again would replace what a newer TraceForge wrote."""
    (finding,) = check_document({"version": version, "snapshots": []})

    assert ("SN2", f"Snapshot version {version} is newer than the current version: 1.0.0") == (
        finding.rule,
        finding.message,
    )
    assert "Upgrade TraceForge" in finding.hint
    assert not is_old_version(finding)


@pytest.mark.parametrize(
    "version", ["", "1", "1.0", "1.0.0 ", "1.0.0\n", "v1.0.0", "1.0.1", "2.0.0", "01.0.0"], ids=ascii
)
def test_only_the_current_version_is_read(version: str) -> None:
    """No best effort, no graceful degradation."""
    assert [("SN2", "$.version")] == list_rules(replace_at(specified_document(), ("version",), version))


# ---------------------------------------------------------------------------------------------
# The field table


REQUIRED: list[tuple[str | int, ...]] = [
    ("version",),
    ("snapshots",),
    ("hash",),
    *[(*RECORD, name) for name in (*RECORD_FIELDS, "hash")],
    *[(*RECORD, "source", name) for name in ("file", "line", "function")],
    *[(*RECORD, "request", name) for name in ("model", "temperature", "max_tokens")],
    *[(*RECORD, "response", name) for name in ("content", "tokens_used", "latency_ms", "finish_reason")],
    (*RECORD, "request", "messages", 0, "role"),
    (*RECORD, "source", "scopes", 0, "scope"),
    (*RECORD, "response", "wire", "file"),
    (*RECORD, "response", "wire", "sha256"),
]
OPTIONAL: list[tuple[str | int, ...]] = [
    *[
        (*RECORD, "request", name)
        for name in (
            "top_p",
            "frequency_penalty",
            "presence_penalty",
            "seed",
            "stop",
            "tools",
            "declared",
            "gate",
            "gate_reason",
            "stream",
        )
    ],
    (*RECORD, "request", "provider_own"),
    (*RECORD, "source", "scopes"),
    (*RECORD, "source", "scopes", 0, "turn"),
    (*RECORD, "source", "scopes", 0, "calls"),
    (*RECORD, "response", "tool_calls"),
    (*RECORD, "response", "wire"),
]
STRINGS = [
    ("version",),
    ("hash",),
    *[(*RECORD, name) for name in ("id", "timestamp", "hash")],
    (*RECORD, "source", "file"),
    (*RECORD, "source", "function"),
    (*RECORD, "source", "scopes", 1, "scope"),
    (*RECORD, "request", "model"),
    (*RECORD, "request", "stop", 0),
    (*RECORD, "request", "declared", 0),
    (*RECORD, "request", "gate_reason"),
    (*RECORD, "request", "messages", 0, "role"),
    (*RECORD, "response", "content"),
    (*RECORD, "response", "finish_reason"),
    (*RECORD, "response", "wire", "file"),
    (*RECORD, "response", "wire", "sha256"),
]
NUMBERS = [
    (*RECORD, "source", "line"),
    (*RECORD, "source", "scopes", 0, "turn"),
    (*RECORD, "source", "scopes", 0, "calls"),
    *[
        (*RECORD, "request", name)
        for name in ("temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty", "seed")
    ],
    (*RECORD, "response", "tokens_used"),
    (*RECORD, "response", "latency_ms"),
]
ARRAYS = [
    ("snapshots",),
    (*RECORD, "source", "scopes"),
    *[(*RECORD, "request", name) for name in ("messages", "stop", "tools", "declared")],
    (*RECORD, "response", "tool_calls"),
]
OBJECTS = [
    RECORD,
    *[(*RECORD, name) for name in ("source", "request", "response")],
    (*RECORD, "source", "scopes", 0),
    (*RECORD, "request", "messages", 0),
    (*RECORD, "request", "tools", 0),
    (*RECORD, "response", "tool_calls", 0),
    (*RECORD, "response", "wire"),
]
VALUES: dict[str, Any] = {"null": None, "boolean": True, "number": 1, "string": "abc", "array": [], "object": {}}


@pytest.mark.parametrize("path", REQUIRED, ids=json_path_of)
def test_a_required_field_that_is_missing_is_one_finding(path: tuple[str | int, ...]) -> None:
    """No default, no inference: every required field of the table."""
    (finding,) = check_document(remove_at(full_document(), path))

    assert ("SN1", json_path_of(path)) == (finding.rule, finding.path)
    assert f"required field {path[-1]} is missing" == finding.message


@pytest.mark.parametrize("path", OPTIONAL, ids=json_path_of)
def test_an_optional_field_may_be_missing(path: tuple[str | int, ...]) -> None:
    """The rest of the record stays valid, with hashes of its own."""
    assert [] == check_document(with_hashes(remove_at(full_document(), path)))


TYPES = [
    *[(path, "string") for path in STRINGS],
    *[(path, "number") for path in NUMBERS],
    *[(path, "array") for path in ARRAYS],
    *[(path, "object") for path in OBJECTS],
]


@pytest.mark.parametrize(
    ("path", "expected", "actual"),
    [(path, expected, actual) for path, expected in TYPES for actual in VALUES if actual != expected],
    ids=lambda case: case if isinstance(case, str) else json_path_of(case),
)
def test_a_field_of_another_type_is_one_finding(path: tuple[str | int, ...], expected: str, actual: str) -> None:
    """Every field of the table with every other JSON type, null included; the value itself is not printed."""
    (finding,) = check_document(replace_at(full_document(), path, VALUES[actual]))

    assert ("SN1", json_path_of(path)) == (finding.rule, finding.path)
    assert f"must be {expected}, got {actual}" == finding.message


CLOSED = [
    (),
    RECORD,
    (*RECORD, "source"),
    (*RECORD, "source", "scopes", 0),
    (*RECORD, "response"),
    (*RECORD, "response", "wire"),
]


@pytest.mark.parametrize("path", CLOSED, ids=json_path_of)
def test_an_unknown_field_is_refused_where_the_format_is_closed(path: tuple[str | int, ...]) -> None:
    """Document, record, source, scope, response and wire reference hold exactly their fields."""
    assert [("SN1", json_path_of((*path, "extra")))] == list_rules(replace_at(full_document(), (*path, "extra"), 1))


@pytest.mark.parametrize(
    "path", [(*RECORD, "request"), (*RECORD, "request", "messages", 0), (*RECORD, "request", "tools", 0)]
)
def test_an_unknown_field_of_a_provider_is_preserved(path: tuple[str | int, ...]) -> None:
    """Requests, messages and tools are open, and what they hold is hashed."""
    document = replace_at(full_document(), (*path, "extra"), {"deep": [1]})

    assert [("SN3", "$.snapshots[0].hash")] == list_rules(document)
    assert [] == check_document(with_hashes(document))


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ((*RECORD, "id"), ["abc", "a" * 64, "0_-"], ["ab", "a" * 65, "Abc", "a.b", "a/b", "abc\n", "äbc", "..", ""]),
        ((*RECORD, "timestamp"), ["2026-01-09T10:30:00.1+01:00"], ["2026-01-09", "2026-02-30T00:00:00Z", ""]),
        (
            (*RECORD, "source", "file"),
            ["a", "a/b.py", "...", "a..", "..a/b", "(unknown)", "a b\n", "c/d:e"],
            ["", "/a", "\\a", "C:\\a", "c:a", "..", "../a", "a/../b", "a\\..\\b", "a/.."],
        ),
        ((*RECORD, "source", "line"), [0, 12.0, 1e6], [-1, 0.5]),
        ((*RECORD, "source", "function"), ["", "<module>"], []),
        ((*RECORD, "request", "model"), ["m"], [""]),
        ((*RECORD, "request", "temperature"), [0, -0.0, 2, 2.0, 1e-9], [-0.1, 2.1, -1, 3]),
        ((*RECORD, "request", "max_tokens"), [1, 1e6, 3.0, -1], [0, 0.0, 0.5, 1.5, -0.5, -2, -100]),
        ((*RECORD, "request", "top_p"), [0, 1, 0.5], [-0.1, 1.1, 2]),
        ((*RECORD, "request", "messages"), [[{"role": "user"}]], [[]]),
        ((*RECORD, "request", "stream"), [True, False], ["true", 1, None]),
        ((*RECORD, "request", "frequency_penalty"), [-2, 2], [-2.1, 2.1]),
        ((*RECORD, "request", "presence_penalty"), [-2, 2], [-2.1, 2.1]),
        ((*RECORD, "request", "messages", 0, "role"), ["tool"], [""]),
        ((*RECORD, "response", "content"), ["", "\ud800"], []),
        ((*RECORD, "response", "tokens_used"), [0, 0.5], [-1]),
        ((*RECORD, "response", "latency_ms"), [0, 0.5], [-1]),
        ((*RECORD, "response", "finish_reason"), ["length"], [""]),
        (
            (*RECORD, "response", "wire", "sha256"),
            [DIGEST],
            [DIGEST.upper(), DIGEST[7:], DIGEST + "\n"],
        ),
    ],
    ids=lambda case: json_path_of(case) if isinstance(case, tuple) else "",
)
def test_a_field_has_its_range(path: tuple[str | int, ...], good: list[Any], bad: list[Any]) -> None:
    """What the table and the id pattern allow passes; what lies just beyond is one finding."""
    for value in good:
        assert [] == check_document(with_hashes(replace_at(full_document(), path, value)))
    for value in bad:
        assert [("SN1", json_path_of(path))] == list_rules(replace_at(full_document(), path, value))


def test_a_request_has_messages_or_a_prompt() -> None:
    """Exactly one of them, and not an empty one: with both, or none, nobody knows what was asked."""
    both = replace_at(full_document(), (*RECORD, "request", "prompt"), "also")
    neither = remove_at(full_document(), (*RECORD, "request", "messages"))
    prompt = replace_at(
        remove_at(full_document(), (*RECORD, "request", "messages")), (*RECORD, "request", "prompt"), "alone"
    )
    empty = replace_at(prompt, (*RECORD, "request", "prompt"), "")

    assert [] == check_document(with_hashes(prompt))
    assert [("SN1", "$.snapshots[0].request")] == list_rules(neither) == list_rules(both)
    assert [("SN1", "$.snapshots[0].request.prompt")] == list_rules(empty)


@pytest.mark.parametrize("gate", ["", "answer", None, 1, ["request"]])
def test_a_gate_is_one_of_two(gate: Any) -> None:
    """Anything else is one finding, at its place."""
    changed = with_hashes(replace_at(full_document(), (*RECORD, "request", "gate"), gate))

    assert [("SN1", "$.snapshots[0].request.gate", "must be 'behaviour' or 'request'")] == [
        (finding.rule, finding.path, finding.message) for finding in check_document(changed)
    ]


def test_a_token_limit_of_zero_is_declared() -> None:
    """Where the provider documents no limit, the record states 0 and says that nobody sent it."""
    declared = replace_at(full_document(), (*RECORD, "request", "declared"), ["max_tokens"])

    assert [] == check_document(with_hashes(replace_at(declared, (*RECORD, "request", "max_tokens"), 0)))


def test_every_broken_rule_of_every_record_is_a_finding() -> None:
    """One finding a place, over all records; hashes are not judged before the shape is right."""
    document = with_hashes({"version": "1.0.0", "snapshots": [full_record(), least_record()], "hash": ""})
    document["snapshots"][0]["id"] = "A"
    document["snapshots"][1]["response"]["content"] = None
    document["snapshots"].append(5)
    document["extra"] = 1

    assert [
        ("SN1", "$.snapshots[0].id"),
        ("SN1", "$.snapshots[1].response.content"),
        ("SN1", "$.snapshots[2]"),
        ("SN1", "$.extra"),
    ] == list_rules(document)


@pytest.mark.parametrize("value", [None, 5, "x", [], True])
def test_a_document_that_is_not_an_object_is_one_finding(value: Any) -> None:
    assert [("SN1", "$")] == list_rules(value)


@pytest.mark.parametrize("text", [b"", b"{", b"{} {}", b"\xef\xbb\xbf{}", b'{"a": NaN}'])
def test_text_that_is_not_json_is_no_document(text: bytes) -> None:
    """The file is not invalid: it could not be checked."""
    with pytest.raises(NotJSON):
        read_document(text)
    with pytest.raises(NotJSON):
        computed_hash(text)


@pytest.mark.parametrize(
    "path", [path for path in [*STRINGS, *NUMBERS] if path[:2] == RECORD and path[-1] != "hash"], ids=json_path_of
)
def test_a_changed_field_is_a_hash_mismatch(path: tuple[str | int, ...]) -> None:
    """Every field of a record is under its hash: change any to another valid value, and SN3 speaks."""
    changes: dict[str, Any] = {"id": "other-id", "timestamp": "2026-01-09T10:30:01Z", "sha256": "sha256:" + "0" * 64}
    value = 0.5 if path[-1] == "top_p" else 1 if path in NUMBERS else changes.get(str(path[-1]), "changed")

    assert [("SN3", "$.snapshots[0].hash")] == list_rules(replace_at(full_document(), path, value))
