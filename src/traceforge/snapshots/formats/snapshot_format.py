"""The snapshot document, version 1.0.0: the approved calls.

A document is one JSON object in one file, two-space indent, raw UTF-8, a final newline:

    {"version": "1.0.0", "snapshots": [record, …], "hash": digest}

A record's `hash` is the digest of the `JSON.stringify` text of its `id`, `timestamp`, `source`, `request` and
`response`, in that order, each with its members in file order. The document's `hash` is the digest
of the `JSON.stringify` text of `{version, snapshots: [record hashes]}`.

In: bytes. Out: records, or every broken rule. Never: fills in a field, accepts another version, or decides whether
behaviour changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.canon import (
    JSON,
    Digest,
    JSONObject,
    digest_bytes,
    digest_ecmascript,
    exact_ecmascript_bytes,
    json_path,
    parse_exact_json,
)
from traceforge.errors import InvalidFile
from traceforge.findings import Finding, printable_name
from traceforge.shape import (
    DigestText,
    NonEmptyText,
    NonNegative,
    OpenObject,
    ShapeProblem,
    Timestamp,
    WholeNumber,
    find_problems,
    find_timestamp_problems,
)

VERSION = "1.0.0"
ID_PATTERN = r"^[a-z0-9_-]{3,64}$(?!\n)"
# Relative, on every system, and without a `..` that could leave the project.
SOURCE_FILE_PATTERN = r"^(?![/\\]|[A-Za-z]:|(?:[\s\S]*[/\\])?\.\.(?:[/\\]|$(?!\n)))[\s\S]"
RECORD_FIELDS = ("id", "timestamp", "source", "request", "response")
# Of a record's request, what the record says about it: which fields were not sent, and what is compared.
OWN_REQUEST_FIELDS = ("declared", "gate", "gate_reason")

SHAPE_RULE = "SN1"
VERSION_RULE = "SN2"
RECORD_HASH_RULE = "SN3"
DOCUMENT_HASH_RULE = "SN4"

NO_OWN_ID = "a record without an id of its own"

REPLACE_HINT = "Re-record all snapshots: traceforge record --replace-old -- COMMAND"
UPGRADE_HINT = "Upgrade TraceForge: a newer one wrote this file."
RERECORD_HINT = (
    'Re-record the snapshot, a partial one is invalid: traceforge snapshot rm ID --reason "…", then traceforge '
    "record -- COMMAND. One that was edited by hand: restore it from Git."
)
RESTORE_HINT = "Restore the file from Git. To change a snapshot, record and approve it again; never edit it by hand."

_ID = re.compile(ID_PATTERN)
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})\Z")
_SOURCE_FILE = re.compile(SOURCE_FILE_PATTERN)

SnapshotIdText = Annotated[str, Meta(pattern=ID_PATTERN, description="3 to 64 of a-z, 0-9, _ and -")]
SourceFile = Annotated[
    str, Meta(min_length=1, pattern=SOURCE_FILE_PATTERN, description="a path in the project: relative, without ..")
]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
TokenLimit = Annotated[float, Meta(ge=-1, multiple_of=1)]  # -1: unlimited, in the words of several providers
CallCount = Annotated[float, Meta(ge=1, multiple_of=1)]


class SourceScope(Struct, forbid_unknown_fields=True):
    """The test that made the call, or the command after `$ `; which of its identical calls it was, and how many calls
    this snapshot answers there. Without `calls`, their number is unknown. `per_worker`: another worker of the suite
    made the same call in another test, so a process with a cache may make it once for both.
    """

    scope: str
    turn: WholeNumber | UnsetType = UNSET
    calls: CallCount | UnsetType = UNSET
    per_worker: bool | UnsetType = UNSET


class CallSource(Struct, forbid_unknown_fields=True):
    """Where in the codebase the call was made."""

    file: SourceFile
    line: WholeNumber
    function: str
    scopes: list[SourceScope] | UnsetType = UNSET


class SnapshotMessage(Struct):
    """One chat message. Every field but the role is the provider's."""

    role: NonEmptyText


class SnapshotRequest(Struct):
    """The request. A provider's own fields are allowed."""

    model: NonEmptyText
    temperature: Annotated[float, Meta(ge=0, le=2)]
    max_tokens: TokenLimit
    messages: Annotated[list[SnapshotMessage], Meta(min_length=1)] | UnsetType = UNSET
    prompt: NonEmptyText | UnsetType = UNSET
    top_p: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    frequency_penalty: Penalty | UnsetType = UNSET
    presence_penalty: Penalty | UnsetType = UNSET
    seed: float | UnsetType = UNSET
    stop: list[str] | UnsetType = UNSET
    tools: list[OpenObject] | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    declared: list[NonEmptyText] | UnsetType = UNSET
    gate: Literal["behaviour", "request"] | UnsetType = UNSET
    gate_reason: NonEmptyText | UnsetType = UNSET


class RawResponseReference(Struct, forbid_unknown_fields=True):
    """The file of the approved raw response, and the digest of its bytes."""

    file: NonEmptyText
    sha256: DigestText


class SnapshotResponse(Struct, forbid_unknown_fields=True):
    """The model's answer in an approved call."""

    content: str
    tokens_used: NonNegative
    latency_ms: NonNegative
    finish_reason: NonEmptyText
    tool_calls: list[OpenObject] | UnsetType = UNSET
    adopted_from: DigestText | UnsetType = UNSET
    wire: RawResponseReference | UnsetType = UNSET


class SnapshotRecord(Struct, forbid_unknown_fields=True):
    """One approved call of a snapshot document."""

    id: SnapshotIdText
    timestamp: Timestamp
    source: CallSource
    request: SnapshotRequest
    response: SnapshotResponse
    hash: DigestText


class SnapshotDocument(Struct, forbid_unknown_fields=True):
    """The content of a snapshot file."""

    version: str
    snapshots: list[SnapshotRecord]
    hash: DigestText


class ReadSnapshot(Struct, frozen=True):
    """One record that passed every rule of the format. `body` is its JSON, unchanged."""

    id: str
    timestamp: str
    hash: Digest
    body: JSONObject


def read_document(data: bytes) -> tuple[ReadSnapshot, ...]:
    """Read a document.

    Raises:
        NotJSON: the data is not JSON.
        InvalidFile: the document breaks a rule; the error holds every finding.
    """
    value = parse_exact_json(data)
    findings = check_document(value)
    if findings:
        raise InvalidFile(tuple(sorted(findings)))
    records = cast("list[JSONObject]", cast("JSONObject", value)["snapshots"])
    return tuple(
        ReadSnapshot(
            cast("str", record["id"]), cast("str", record["timestamp"]), Digest(cast("str", record["hash"])), record
        )
        for record in records
    )


def write_document(bodies: list[JSONObject]) -> bytes:
    """Write a document with these records (their five fields); every hash is computed here.

    The text holds integers exactly, the hashes cover them as doubles.

    Raises:
        InvalidFile: a body breaks a rule of the format.
    """
    records: list[JSON] = []
    for body in bodies:
        ordered: JSONObject = {field: body[field] for field in RECORD_FIELDS if field in body}
        records.append({**ordered, "hash": record_hash(body)})
    hashes = [cast("str", cast("JSONObject", record)["hash"]) for record in records]
    document: JSONObject = {"version": VERSION, "snapshots": records, "hash": document_hash(VERSION, hashes)}
    findings = check_document(document)
    if findings:
        raise InvalidFile(tuple(sorted(findings)))
    return exact_ecmascript_bytes(document, indent=2) + b"\n"


def record_hash(record: JSONObject, *, owned: bool = False) -> Digest:
    """The digest of a record's five fields."""
    return digest_ecmascript({field: record[field] for field in RECORD_FIELDS if field in record}, may_modify=owned)


def document_hash(version: str, hashes: list[str]) -> Digest:
    """The digest over a version and the hashes of its records. Neither needs JSON escapes."""
    quoted_hashes = ",".join([f'"{digest}"' for digest in hashes])
    return digest_bytes(f'{{"version":"{version}","snapshots":[{quoted_hashes}]}}'.encode())


def computed_hash(data: bytes) -> Digest:
    """The hash that this document should state, computed from its records.

    Raises:
        NotJSON: the data is not JSON.
        InvalidFile: the data has not the shape of a document.
    """
    value = parse_exact_json(data)
    findings = [finding for finding in check_document(value) if finding.rule in (SHAPE_RULE, VERSION_RULE)]
    if findings:
        raise InvalidFile(tuple(findings))
    document = cast("dict[str, Any]", value)
    return document_hash(document["version"], [record_hash(record) for record in document["snapshots"]])


def is_snapshot_id(value: JSON) -> bool:
    """Whether the value is a valid snapshot id."""
    return isinstance(value, str) and _ID.match(value) is not None


def list_record_ids(value: JSON) -> tuple[str, ...]:
    """The ids of a document's records, in any version; "" for one without a valid id."""
    records = value.get("snapshots") if isinstance(value, dict) else None
    items = records if isinstance(records, list) else []
    names = [item.get("id") if isinstance(item, dict) else None for item in items]
    return tuple(cast("str", name) if is_snapshot_id(name) else "" for name in names)


def check_document(value: JSON, file: str = "", *, owned: bool = False) -> list[Finding]:
    """Every broken rule of a parsed document; `owned` as for the writers of `canon`."""
    if (version := find_other_version(value)) is not None:
        return [unsupported_version(file, version)]
    findings = [Finding(file, *_shape(problem)) for problem in find_problems(value, SnapshotDocument)]
    findings += [Finding(file, *_shape(problem)) for problem in _check_beyond_types(value)]
    return findings or _check_hashes(cast("dict[str, Any]", value), file, owned)


def find_other_version(value: JSON) -> str | None:
    """The version of a parsed document that is not of the current one; None for any other document."""
    version = value.get("version") if isinstance(value, dict) else None
    return version if isinstance(version, str) and version != VERSION else None


def unsupported_version(file: str, version: str) -> Finding:
    """The finding for a document of another version, in the words of the specification."""
    name = printable_name(version)
    match = _VERSION.match(version)
    if match and tuple(map(int, match.groups())) > tuple(map(int, VERSION.split("."))):
        message = f"Snapshot version {name} is newer than the current version: {VERSION}"
        return Finding(file, "$.version", VERSION_RULE, message, UPGRADE_HINT)
    message = f"Snapshot version {name} is no longer supported. Current version: {VERSION}"
    return Finding(file, "$.version", VERSION_RULE, message, REPLACE_HINT)


def is_old_version(finding: Finding) -> bool:
    """Whether a finding says that a file has an older version, which can be recorded again."""
    return finding.rule == VERSION_RULE and finding.hint != UPGRADE_HINT


def _shape(problem: ShapeProblem) -> tuple[str, str, str, str]:
    return (problem.path, SHAPE_RULE, problem.message, RERECORD_HINT)


def _check_beyond_types(value: JSON) -> list[ShapeProblem]:
    """Rules that types cannot express: a timestamp is a real day, and a request asks one thing."""
    violations: list[ShapeProblem] = []
    records = value.get("snapshots") if isinstance(value, dict) else None
    for index, record in enumerate(records if isinstance(records, list) else []):
        if not isinstance(record, dict):
            continue
        path = json_path("$.snapshots", index)
        request = record.get("request")
        violations += find_timestamp_problems(record.get("timestamp"), json_path(path, "timestamp"))
        if isinstance(request, dict):
            violations += _check_request_beyond_types(request, json_path(path, "request"))
    return violations


def is_source_file(file: str) -> bool:
    """Whether a record may name this path: relative, on every system, and within the project."""
    return _SOURCE_FILE.search(file) is not None


def find_request_problems(request: JSONObject) -> list[ShapeProblem]:
    """Every broken rule of a record's request; paths begin with `$`."""
    return [*find_problems(request, SnapshotRequest), *_check_request_beyond_types(request, "$")]


def find_response_problems(response: JSONObject) -> list[ShapeProblem]:
    """Every broken rule of a record's response; paths begin with `$`."""
    return find_problems(response, SnapshotResponse)


def _check_request_beyond_types(request: JSONObject, path: str) -> Iterator[ShapeProblem]:
    if "messages" not in request and "prompt" not in request:
        yield ShapeProblem(path, "required field messages (or prompt) is missing")
    if "messages" in request and "prompt" in request:
        yield ShapeProblem(path, "has messages and a prompt; a request has one of them")
    declared = request.get("declared")
    limit = request.get("max_tokens")
    is_declared = isinstance(declared, list) and "max_tokens" in declared
    if limit == 0 and not isinstance(limit, bool) and not is_declared:
        yield ShapeProblem(json_path(path, "max_tokens"), "must be 1 or more, or -1 for unlimited; or a declared 0")


def _check_hashes(document: dict[str, Any], file: str, owned: bool) -> list[Finding]:
    findings = []
    for index, record in enumerate(document["snapshots"]):
        computed = record_hash(record, owned=owned)
        if record["hash"] != computed:
            findings.append(
                Finding(
                    file,
                    f"$.snapshots[{index}].hash",
                    RECORD_HASH_RULE,
                    f"hash mismatch: the record's content gives {computed}, the file says {record['hash']}",
                    RESTORE_HINT,
                )
            )
    computed = document_hash(document["version"], [record["hash"] for record in document["snapshots"]])
    if not findings and document["hash"] != computed:  # With a wrong record hash, the right document hash is unknown.
        findings.append(
            Finding(
                file,
                "$.hash",
                DOCUMENT_HASH_RULE,
                f"hash mismatch: the records give {computed}, the file says {document['hash']}",
                RESTORE_HINT,
            )
        )
    return findings
