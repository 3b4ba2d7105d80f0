"""The snapshot format: the specification's field table without exception, and its hashes as Node computes them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpus import need_shared
from support.format_examples import DIGEST, SPECIFIED_DOCUMENT, full_record, least_record, with_hashes
from support.json_texts import fuzz, numbers, shallow_texts, strings
from support.node import Node
from traceforge.canon import ecmascript_bytes, parse_json
from traceforge.errors import InvalidFile, NotCanonical, NotJSON
from traceforge.findings import Finding
from traceforge.snapshots.formats.snapshot_format import (
    RECORD_FIELDS,
    RERECORD_HINT,
    check_document,
    computed_hash,
    document_hash,
    is_old_version,
    read_document,
    record_hash,
    write_document,
)

# What Node gives for the specification's complete structure: JSON.stringify of the parsed record, then SHA-256.
SPECIFIED_RECORD_HASH = "sha256:2ed218644388bc5118a4ddda4351cfe1e74598654753bbc71cb49f397d7bc960"
SPECIFIED_DOCUMENT_HASH = "sha256:600ea6b8c4818dae31ba16681115f86d2c4f1379b7be1d1c2860b049724539ad"


@pytest.fixture(scope="module")
def seed_snippet() -> Iterator[Node]:
    """The specification's own JavaScript, to compute hashes with."""
    node = Node("snapshot_hash.js")
    yield node
    node.close()


def _seed() -> dict[str, Any]:
    return with_hashes(copy.deepcopy(SPECIFIED_DOCUMENT))


def _full() -> dict[str, Any]:
    return with_hashes({"version": "1.0.0", "snapshots": [full_record()], "hash": ""})


def _rules(document: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in check_document(document)]


def _set(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


def _drop(document: Any, path: tuple[str | int, ...]) -> Any:
    place = document
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return document


def _spelled(path: tuple[str | int, ...]) -> str:
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


# ---------------------------------------------------------------------------------------------
# The examples of the specification


def test_the_example_of_the_specification_is_valid_here() -> None:
    """The constant is the specification's first JSON block, in its order."""
    text = need_shared("seeds/000_a7c11da574936ae6.txt").read_text(encoding="utf-8")
    block = text.partition("```json\n")[2].partition("```")[0]

    assert json.dumps(SPECIFIED_DOCUMENT) == json.dumps(json.loads(block))


def test_the_complete_structure_of_the_specification_is_valid_once_its_hashes_are_computed() -> None:
    """Its hashes are placeholders; with the real ones every rule holds."""
    document = _seed()

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
    document = _set(_seed(), ("snapshots", 0, "request"), {"model": "gpt-4"})

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
    findings = check_document(_set(_seed(), path, value))

    assert [("SN1", _spelled(path), message)] == [
        (finding.rule, finding.path, finding.message) for finding in findings
    ]
    with pytest.raises(InvalidFile):
        read_document(ecmascript_bytes(_set(_seed(), path, value)))


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
    assert [("SN2", "$.version")] == _rules(_set(_seed(), ("version",), version))


# ---------------------------------------------------------------------------------------------
# The field table

_RECORD = ("snapshots", 0)
REQUIRED: list[tuple[str | int, ...]] = [
    ("version",),
    ("snapshots",),
    ("hash",),
    *[(*_RECORD, name) for name in (*RECORD_FIELDS, "hash")],
    *[(*_RECORD, "source", name) for name in ("file", "line", "function")],
    *[(*_RECORD, "request", name) for name in ("model", "temperature", "max_tokens")],
    *[(*_RECORD, "response", name) for name in ("content", "tokens_used", "latency_ms", "finish_reason")],
    (*_RECORD, "request", "messages", 0, "role"),
    (*_RECORD, "source", "scopes", 0, "scope"),
    (*_RECORD, "response", "wire", "file"),
    (*_RECORD, "response", "wire", "sha256"),
]
OPTIONAL: list[tuple[str | int, ...]] = [
    *[
        (*_RECORD, "request", name)
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
    (*_RECORD, "request", "provider_own"),
    (*_RECORD, "source", "scopes"),
    (*_RECORD, "source", "scopes", 0, "turn"),
    (*_RECORD, "source", "scopes", 0, "calls"),
    (*_RECORD, "response", "tool_calls"),
    (*_RECORD, "response", "wire"),
]
STRINGS = [
    ("version",),
    ("hash",),
    *[(*_RECORD, name) for name in ("id", "timestamp", "hash")],
    (*_RECORD, "source", "file"),
    (*_RECORD, "source", "function"),
    (*_RECORD, "source", "scopes", 1, "scope"),
    (*_RECORD, "request", "model"),
    (*_RECORD, "request", "stop", 0),
    (*_RECORD, "request", "declared", 0),
    (*_RECORD, "request", "gate_reason"),
    (*_RECORD, "request", "messages", 0, "role"),
    (*_RECORD, "response", "content"),
    (*_RECORD, "response", "finish_reason"),
    (*_RECORD, "response", "wire", "file"),
    (*_RECORD, "response", "wire", "sha256"),
]
NUMBERS = [
    (*_RECORD, "source", "line"),
    (*_RECORD, "source", "scopes", 0, "turn"),
    (*_RECORD, "source", "scopes", 0, "calls"),
    *[
        (*_RECORD, "request", name)
        for name in ("temperature", "max_tokens", "top_p", "frequency_penalty", "presence_penalty", "seed")
    ],
    (*_RECORD, "response", "tokens_used"),
    (*_RECORD, "response", "latency_ms"),
]
ARRAYS = [
    ("snapshots",),
    (*_RECORD, "source", "scopes"),
    *[(*_RECORD, "request", name) for name in ("messages", "stop", "tools", "declared")],
    (*_RECORD, "response", "tool_calls"),
]
OBJECTS = [
    _RECORD,
    *[(*_RECORD, name) for name in ("source", "request", "response")],
    (*_RECORD, "source", "scopes", 0),
    (*_RECORD, "request", "messages", 0),
    (*_RECORD, "request", "tools", 0),
    (*_RECORD, "response", "tool_calls", 0),
    (*_RECORD, "response", "wire"),
]
VALUES: dict[str, Any] = {"null": None, "boolean": True, "number": 1, "string": "abc", "array": [], "object": {}}


@pytest.mark.parametrize("path", REQUIRED, ids=_spelled)
def test_a_required_field_that_is_missing_is_one_finding(path: tuple[str | int, ...]) -> None:
    """No default, no inference: every required field of the table."""
    (finding,) = check_document(_drop(_full(), path))

    assert ("SN1", _spelled(path)) == (finding.rule, finding.path)
    assert f"required field {path[-1]} is missing" == finding.message


@pytest.mark.parametrize("path", OPTIONAL, ids=_spelled)
def test_an_optional_field_may_be_missing(path: tuple[str | int, ...]) -> None:
    """The rest of the record stays valid, with hashes of its own."""
    assert [] == check_document(with_hashes(_drop(_full(), path)))


TYPES = [
    *[(path, "string") for path in STRINGS],
    *[(path, "number") for path in NUMBERS],
    *[(path, "array") for path in ARRAYS],
    *[(path, "object") for path in OBJECTS],
]


@pytest.mark.parametrize(
    ("path", "expected", "actual"),
    [(path, expected, actual) for path, expected in TYPES for actual in VALUES if actual != expected],
    ids=lambda case: case if isinstance(case, str) else _spelled(case),
)
def test_a_field_of_another_type_is_one_finding(path: tuple[str | int, ...], expected: str, actual: str) -> None:
    """Every field of the table with every other JSON type, null included; the value itself is not printed."""
    (finding,) = check_document(_set(_full(), path, VALUES[actual]))

    assert ("SN1", _spelled(path)) == (finding.rule, finding.path)
    assert f"must be {expected}, got {actual}" == finding.message


CLOSED = [
    (),
    _RECORD,
    (*_RECORD, "source"),
    (*_RECORD, "source", "scopes", 0),
    (*_RECORD, "response"),
    (*_RECORD, "response", "wire"),
]


@pytest.mark.parametrize("path", CLOSED, ids=_spelled)
def test_an_unknown_field_is_refused_where_the_format_is_closed(path: tuple[str | int, ...]) -> None:
    """Document, record, source, scope, response and wire reference hold exactly their fields."""
    assert [("SN1", _spelled((*path, "extra")))] == _rules(_set(_full(), (*path, "extra"), 1))


@pytest.mark.parametrize(
    "path", [(*_RECORD, "request"), (*_RECORD, "request", "messages", 0), (*_RECORD, "request", "tools", 0)]
)
def test_an_unknown_field_of_a_provider_is_preserved(path: tuple[str | int, ...]) -> None:
    """Requests, messages and tools are open, and what they hold is hashed."""
    document = _set(_full(), (*path, "extra"), {"deep": [1]})

    assert [("SN3", "$.snapshots[0].hash")] == _rules(document)
    assert [] == check_document(with_hashes(document))


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ((*_RECORD, "id"), ["abc", "a" * 64, "0_-"], ["ab", "a" * 65, "Abc", "a.b", "a/b", "abc\n", "äbc", "..", ""]),
        ((*_RECORD, "timestamp"), ["2026-01-09T10:30:00.1+01:00"], ["2026-01-09", "2026-02-30T00:00:00Z", ""]),
        (
            (*_RECORD, "source", "file"),
            ["a", "a/b.py", "...", "a..", "..a/b", "(unknown)", "a b\n", "c/d:e"],
            ["", "/a", "\\a", "C:\\a", "c:a", "..", "../a", "a/../b", "a\\..\\b", "a/.."],
        ),
        ((*_RECORD, "source", "line"), [0, 12.0, 1e6], [-1, 0.5]),
        ((*_RECORD, "source", "function"), ["", "<module>"], []),
        ((*_RECORD, "request", "model"), ["m"], [""]),
        ((*_RECORD, "request", "temperature"), [0, -0.0, 2, 2.0, 1e-9], [-0.1, 2.1, -1, 3]),
        ((*_RECORD, "request", "max_tokens"), [1, 1e6, 3.0, -1], [0, 0.0, 0.5, 1.5, -0.5, -2, -100]),
        ((*_RECORD, "request", "top_p"), [0, 1, 0.5], [-0.1, 1.1, 2]),
        ((*_RECORD, "request", "messages"), [[{"role": "user"}]], [[]]),
        ((*_RECORD, "request", "stream"), [True, False], ["true", 1, None]),
        ((*_RECORD, "request", "frequency_penalty"), [-2, 2], [-2.1, 2.1]),
        ((*_RECORD, "request", "presence_penalty"), [-2, 2], [-2.1, 2.1]),
        ((*_RECORD, "request", "messages", 0, "role"), ["tool"], [""]),
        ((*_RECORD, "response", "content"), ["", "\ud800"], []),
        ((*_RECORD, "response", "tokens_used"), [0, 0.5], [-1]),
        ((*_RECORD, "response", "latency_ms"), [0, 0.5], [-1]),
        ((*_RECORD, "response", "finish_reason"), ["length"], [""]),
        (
            (*_RECORD, "response", "wire", "sha256"),
            [DIGEST],
            [DIGEST.upper(), DIGEST[7:], DIGEST + "\n"],
        ),
    ],
    ids=lambda case: _spelled(case) if isinstance(case, tuple) else "",
)
def test_a_field_has_its_range(path: tuple[str | int, ...], good: list[Any], bad: list[Any]) -> None:
    """What the table and the id pattern allow passes; what lies just beyond is one finding."""
    for value in good:
        assert [] == check_document(with_hashes(_set(_full(), path, value)))
    for value in bad:
        assert [("SN1", _spelled(path))] == _rules(_set(_full(), path, value))


def test_a_request_has_messages_or_a_prompt() -> None:
    """Exactly one of them, and not an empty one: with both, or none, nobody knows what was asked."""
    both = _set(_full(), (*_RECORD, "request", "prompt"), "also")
    neither = _drop(_full(), (*_RECORD, "request", "messages"))
    prompt = _set(_drop(_full(), (*_RECORD, "request", "messages")), (*_RECORD, "request", "prompt"), "alone")
    empty = _set(copy.deepcopy(prompt), (*_RECORD, "request", "prompt"), "")

    assert [] == check_document(with_hashes(prompt))
    assert [("SN1", "$.snapshots[0].request")] == _rules(neither) == _rules(both)
    assert [("SN1", "$.snapshots[0].request.prompt")] == _rules(empty)


@pytest.mark.parametrize("gate", ["", "answer", None, 1, ["request"]])
def test_a_gate_is_one_of_two(gate: Any) -> None:
    """Anything else is one finding, at its place."""
    changed = with_hashes(_set(_full(), (*_RECORD, "request", "gate"), gate))

    assert [("SN1", "$.snapshots[0].request.gate", "must be 'behaviour' or 'request'")] == [
        (finding.rule, finding.path, finding.message) for finding in check_document(changed)
    ]


def test_a_token_limit_of_zero_is_declared() -> None:
    """Where the provider documents no limit, the record states 0 and says that nobody sent it."""
    declared = _set(_full(), (*_RECORD, "request", "declared"), ["max_tokens"])

    assert [] == check_document(with_hashes(_set(declared, (*_RECORD, "request", "max_tokens"), 0)))


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
    ] == _rules(document)


@pytest.mark.parametrize("value", [None, 5, "x", [], True])
def test_a_document_that_is_not_an_object_is_one_finding(value: Any) -> None:
    assert [("SN1", "$")] == _rules(value)


@pytest.mark.parametrize("text", [b"", b"{", b"{} {}", b"\xef\xbb\xbf{}", b'{"a": NaN}'])
def test_text_that_is_not_json_is_no_document(text: bytes) -> None:
    """The file is not invalid: it could not be checked."""
    with pytest.raises(NotJSON):
        read_document(text)
    with pytest.raises(NotJSON):
        computed_hash(text)


# ---------------------------------------------------------------------------------------------
# Hashes


@pytest.mark.parametrize(
    "path", [path for path in [*STRINGS, *NUMBERS] if path[:2] == _RECORD and path[-1] != "hash"], ids=_spelled
)
def test_a_changed_field_is_a_hash_mismatch(path: tuple[str | int, ...]) -> None:
    """Every field of a record is under its hash: change any to another valid value, and SN3 speaks."""
    changes: dict[str, Any] = {"id": "other-id", "timestamp": "2026-01-09T10:30:01Z", "sha256": "sha256:" + "0" * 64}
    value = 0.5 if path[-1] == "top_p" else 1 if path in NUMBERS else changes.get(str(path[-1]), "changed")

    assert [("SN3", "$.snapshots[0].hash")] == _rules(_set(_full(), path, value))


@pytest.mark.parametrize("path", [(*_RECORD, "request"), (*_RECORD, "source"), (*_RECORD, "response")])
def test_the_order_of_members_is_under_the_hash(path: tuple[str | int, ...]) -> None:
    """`JSON.stringify` prints members in file order, so moving one changes the hash."""
    document = _full()
    members: dict[str, Any] = document["snapshots"][0][path[-1]]

    assert [("SN3", "$.snapshots[0].hash")] == _rules(_set(document, path, dict(reversed(members.items()))))


def test_the_order_of_a_records_own_members_does_not_change_its_hash() -> None:
    """The five fields are always hashed in the specification's order, whatever their order in the file."""
    document = _full()
    document["snapshots"] = [dict(reversed(record.items())) for record in document["snapshots"]]

    assert [] == check_document(dict(reversed(document.items())))


def test_the_document_hash_detects_an_exchanged_record() -> None:
    """Two records that are valid by themselves, in another order or fewer of them: SN4."""
    document = with_hashes({"version": "1.0.0", "snapshots": [full_record(), least_record()], "hash": ""})
    swapped = document | {"snapshots": document["snapshots"][::-1]}
    fewer = document | {"snapshots": document["snapshots"][:1]}

    assert [] == check_document(document)
    assert [("SN4", "$.hash")] == _rules(swapped) == _rules(fewer)


def test_every_wrong_hash_is_reported() -> None:
    """Two records: two findings, not only the first. The document's hash is judged once theirs are right."""
    document = with_hashes({"version": "1.0.0", "snapshots": [full_record(), least_record()], "hash": ""})
    document["snapshots"][0]["request"]["seed"] = 43
    document["snapshots"][1]["response"]["content"] = "other"
    document["hash"] = DIGEST

    assert [("SN3", "$.snapshots[0].hash"), ("SN3", "$.snapshots[1].hash")] == _rules(document)[:2]
    assert ("SN4", "$.hash") == _rules(with_hashes(document) | {"hash": DIGEST})[0]


def test_a_document_without_records_is_valid() -> None:
    """Readers accept any number of records."""
    assert () == read_document(write_document([]))


def test_the_computed_hash_ignores_the_stated_ones() -> None:
    """It is computed from the content alone."""
    document = _set(_seed(), ("hash",), DIGEST)
    document["snapshots"][0]["hash"] = DIGEST

    assert SPECIFIED_DOCUMENT_HASH == computed_hash(ecmascript_bytes(document))
    with pytest.raises(InvalidFile):
        computed_hash(b'{"version": "1.0.0"}')
    with pytest.raises(InvalidFile):
        computed_hash(b'{"version": "0.9.0", "snapshots": [], "hash": ""}')


def test_checking_an_owned_document_finds_the_same() -> None:
    """`owned` is about speed: the findings are equal, whether the value may be used up or not."""
    document = _set(_full(), (*_RECORD, "request", "seed"), 1e21)

    assert check_document(copy.deepcopy(document)) == check_document(copy.deepcopy(document), owned=True)


# ---------------------------------------------------------------------------------------------
# Node, running the specification's own snippet on the file's bytes

# Members that providers add, with keys that JavaScript moves to the front.
EXTRA_KEYS = ("17", "4", "0", "4294967294", "4294967295", "-1", "01", "__proto__", "é", "😀", "\\ud83d", "\\u0031")
PLACEHOLDER = "sha256:" + "0" * 63


@st.composite
def _members(draw: st.DrawFn, fields: dict[str, str], *, extra: bool = False) -> str:
    """An object as text: members in any order, some written twice, some white space."""
    pairs = [f'"{key}"' + draw(st.sampled_from([":", ": ", " :\n"])) + text for key, text in fields.items()]
    if extra:
        for key in draw(st.lists(st.sampled_from(EXTRA_KEYS), max_size=4)):
            value = draw(numbers | strings(lone=True) | shallow_texts.map(bytes.decode))
            pairs.append(f'"{key}": {value}')
    return "{" + draw(st.sampled_from([",", ", ", ",\n  "])).join(draw(st.permutations(pairs))) + "}"


_notations = st.sampled_from(["0", "0.0", "-0", "1e-7", "0.000001", "1.5E0", "2", "20e-1", "1.0000000000000001"])
_counts = st.sampled_from(
    ["0", "12", "12.0", "1e3", "9007199254740993", "1e21", "123456789012345678901234567890", "0.1"]
)


@st.composite
def _record_texts(draw: st.DrawFn, number: int) -> str:
    messages = [
        draw(_members({"role": '"user"', "content": draw(strings(lone=True))}, extra=True))
        for _ in range(draw(st.integers(1, 2)))
    ]
    request = {
        "model": '"gpt-4"',
        "messages": f"[{','.join(messages)}]",
        "temperature": draw(_notations),
        "max_tokens": draw(st.sampled_from(["1", "12.0", "1e2", "9007199254740993", "-1"])),
        "seed": draw(numbers),
    }
    response = {
        "content": draw(strings(lone=True)),
        "tokens_used": draw(_counts),
        "latency_ms": draw(_counts),
        "finish_reason": '"stop"',
        "tool_calls": f"[{draw(_members({'id': draw(numbers)}, extra=True))}]",
    }
    source = {
        "file": '"a.py"',
        "line": draw(st.sampled_from(["0", "12.0", "1e2"])),
        "function": draw(strings(lone=True)),
    }
    record = {
        "id": f'"snap-{number}"',
        "timestamp": '"2026-01-09T10:30:00Z"',
        "source": draw(_members(source)),
        "request": draw(_members(request, extra=True)),
        "response": draw(_members(response)),
        "hash": f'"{PLACEHOLDER}{number}"',
    }
    return draw(_members(record))


@st.composite
def _document_texts(draw: st.DrawFn) -> str:
    records = [draw(_record_texts(number)) for number in range(draw(st.integers(1, 2)))]
    document = {"version": '"1.0.0"', "snapshots": f"[{', '.join(records)}]", "hash": f'"{PLACEHOLDER}f"'}
    return draw(_members(document))


def _assert_hashed_as_node_does(node: Node, texts: list[str]) -> None:
    for text, answer in zip(texts, node.ask([text.encode() for text in texts]), strict=True):
        value: Any = parse_json(text.encode())
        assert [f"sha256:{digest}" for digest in answer["records"]] == [record_hash(r) for r in value["snapshots"]]
        stated = [record["hash"] for record in value["snapshots"]]
        assert f"sha256:{answer['combined']}" == document_hash(value["version"], stated)
        sealed = text
        for number, digest in enumerate(answer["records"]):
            sealed = sealed.replace(f"{PLACEHOLDER}{number}", f"sha256:{digest}")
        (with_combined,) = node.ask([sealed.encode()])
        data = sealed.replace(f"{PLACEHOLDER}f", f"sha256:{with_combined['combined']}").encode()
        records = read_document(data)
        assert [f"sha256:{digest}" for digest in answer["records"]] == [record.hash for record in records]
        assert [] == check_document(parse_json(data), owned=True)
        assert f"sha256:{with_combined['combined']}" == computed_hash(data)


@settings(fuzz(60), suppress_health_check=list(HealthCheck))
@given(texts=st.lists(_document_texts(), min_size=1, max_size=4))
def test_every_document_has_the_hashes_that_the_seeds_snippet_gives(seed_snippet: Node, texts: list[str]) -> None:
    """Key order, integer-like keys, notation, big integers, lone surrogates: a file that Node hashed is valid."""
    _assert_hashed_as_node_does(seed_snippet, texts)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(_document_texts(), min_size=1, max_size=5))
def test_many_documents_have_the_hashes_that_the_seeds_snippet_gives(seed_snippet: Node, texts: list[str]) -> None:
    """The same for a thousand documents; `make soak` tries more."""
    _assert_hashed_as_node_does(seed_snippet, texts)


def test_the_seeds_snippet_agrees_on_the_seeds_structure(seed_snippet: Node) -> None:
    """The two literal hashes at the top of this file are Node's."""
    (answer,) = seed_snippet.ask([ecmascript_bytes(_seed())])

    assert [SPECIFIED_RECORD_HASH] == [f"sha256:{digest}" for digest in answer["records"]]
    assert SPECIFIED_DOCUMENT_HASH == f"sha256:{answer['combined']}"


# ---------------------------------------------------------------------------------------------
# Writing


@settings(fuzz(60), suppress_health_check=list(HealthCheck))
@given(texts=st.lists(_document_texts(), min_size=1, max_size=3))
def test_a_written_document_is_read_back_and_hashes_the_same_in_node(seed_snippet: Node, texts: list[str]) -> None:
    """Write, read, write: the same records, the same bytes, and Node agrees with every stated hash."""
    for text in texts:
        value: Any = parse_json(text.encode())
        data = write_document([{name: record[name] for name in RECORD_FIELDS} for record in value["snapshots"]])
        records = read_document(data)
        (answer,) = seed_snippet.ask([data])

        assert [record_hash(record) for record in value["snapshots"]] == [record.hash for record in records]
        assert [f"sha256:{digest}" for digest in answer["records"]] == [record.hash for record in records]
        assert f'"hash": "sha256:{answer["combined"]}"\n}}\n' == data.decode()[-len(answer["combined"]) - 20 :]
        assert data == write_document([record.body for record in records])


def test_a_file_has_two_spaces_the_seeds_order_raw_utf_8_and_a_final_newline() -> None:
    """The written form, byte for byte, however the body was ordered."""
    body = least_record()
    body["response"]["content"] = 'é😀/"\u2028\ud800'
    data = write_document([dict(reversed(body.items()))])
    lines = data.decode().split("\n")

    assert ["{", '  "version": "1.0.0",', '  "snapshots": [', "    {", '      "id": "abc",'] == lines[:5]
    assert ["id", "timestamp", "source", "request", "response", "hash"] == list(json.loads(data)["snapshots"][0])
    assert '"content": "é😀/\\"\u2028\\ud800"' in data.decode()
    assert data.endswith(b'"\n}\n')
    assert b"\r" not in data


def test_writing_the_seeds_body_gives_the_seeds_file() -> None:
    """Written by us, the complete structure differs from the specification's text in its hashes and in 0.0 alone."""
    (body,) = copy.deepcopy(SPECIFIED_DOCUMENT)["snapshots"]
    text = write_document([body]).decode()
    seed = json.dumps(SPECIFIED_DOCUMENT, indent=2).replace("0.0,", "0,").replace("1.0,", "1,") + "\n"
    for stated, computed in (
        (SPECIFIED_DOCUMENT["snapshots"][0]["hash"], SPECIFIED_RECORD_HASH),
        (SPECIFIED_DOCUMENT["hash"], SPECIFIED_DOCUMENT_HASH),
    ):
        seed = seed.replace(stated, computed)

    assert seed == text


@pytest.mark.parametrize("field", RECORD_FIELDS)
def test_a_body_that_lacks_a_field_is_not_written(field: str) -> None:
    """A partial snapshot never reaches a file."""
    body = full_record()
    del body[field]
    with pytest.raises(InvalidFile, match=f"required field {field} is missing"):
        write_document([body])


def test_a_body_that_json_cannot_hold_is_not_written() -> None:
    """NaN has no text."""
    body = full_record()
    body["request"]["top_p"] = float("nan")
    with pytest.raises(NotCanonical):
        write_document([body])


def test_writing_does_not_change_the_body() -> None:
    """The caller's value keeps every type and order."""
    body = full_record()
    before = repr(body)
    write_document([body])

    assert before == repr(body)


def test_a_stale_hash_in_a_body_is_never_believed() -> None:
    """Every hash is computed when a document is written."""
    (record,) = read_document(write_document([least_record()]))
    changed = copy.deepcopy(record.body)
    changed["response"]["content"] = "changed"  # type: ignore[index,call-overload]
    (written,) = read_document(write_document([changed]))

    assert record.hash != written.hash == record_hash(changed)


def test_a_lone_surrogate_in_a_key_of_a_request_is_preserved() -> None:
    """A provider's member may be called anything that JSON can write."""
    body = least_record()
    body["request"]["\ud800"] = 1
    (record,) = read_document(write_document([body]))

    assert body["request"] == record.body["request"]
