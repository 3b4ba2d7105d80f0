"""Migration of snapshot documents from version 0.9.0 to 1.0.0.

A record of 0.9.0 is flat, and has no hash that could be checked:

    {"version": "0.9.0", "snapshots": [{"id", "timestamp", "model", "prompt" or "messages", "response", …}, …]}

`response` is the answer's text. Where the call was made (`file`, `line`, `function`), its settings (`temperature`,
`max_tokens`, …) and the answer's figures (`tokens_used`, `latency_ms`, `finish_reason`) are optional.

In: a document of 0.9.0, and values that the user supplies for missing fields. Out: records of 1.0.0, or every missing
field. Never: guesses a value (a supplied one is listed in `request.declared`), replaces one, or loses one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.errors import NotJSON
from traceforge.files import read_file
from traceforge.findings import Finding
from traceforge.shape import (
    NonEmptyText,
    NonNegative,
    OpenObject,
    Timestamp,
    WholeNumber,
    find_problems,
    find_timestamp_problems,
)
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.record_draft import REQUEST_FIELDS
from traceforge.snapshots.formats.snapshot_format import (
    SHAPE_RULE,
    VERSION,
    SnapshotIdText,
    SnapshotMessage,
    list_record_ids,
)

OLD_VERSION = "0.9.0"
MIGRATIONS = ((OLD_VERSION, VERSION),)  # every migration there is
MIGRATE_COMMAND = f"traceforge snapshot migrate --from {OLD_VERSION} --to {VERSION}"

SOURCE_FIELDS = ("file", "line", "function")
RESPONSE_FIELDS = ("content", "tokens_used", "latency_ms", "finish_reason", "tool_calls")

# Fields that 1.0.0 requires and a record of 0.9.0 may lack, with the part of a record they belong to.
REQUIRED_FIELDS = {
    "file": "source", "line": "source", "function": "source",
    "temperature": "request", "max_tokens": "request",
    "tokens_used": "response", "latency_ms": "response", "finish_reason": "response",
}  # fmt: skip

_HINT = "Record the call again: only documented fields of 0.9.0 can be migrated."


class OldRecord(Struct, forbid_unknown_fields=True):
    """One record of a snapshot file of version 0.9.0."""

    id: SnapshotIdText
    timestamp: Timestamp
    model: NonEmptyText
    response: str
    messages: list[SnapshotMessage] | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    file: NonEmptyText | UnsetType = UNSET
    line: WholeNumber | UnsetType = UNSET
    function: str | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    max_tokens: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    seed: float | UnsetType = UNSET
    stop: list[str] | UnsetType = UNSET
    tools: list[OpenObject] | UnsetType = UNSET
    tokens_used: NonNegative | UnsetType = UNSET
    latency_ms: NonNegative | UnsetType = UNSET
    finish_reason: NonEmptyText | UnsetType = UNSET
    tool_calls: list[OpenObject] | UnsetType = UNSET


class OldDocument(Struct, forbid_unknown_fields=True):
    """A whole file of 0.9.0."""

    version: str
    snapshots: list[OldRecord]


class MigratedTree(Struct, frozen=True):
    """The old documents of a tree, their records of 1.0.0 by provider, and what prevents the migration."""

    files: list[str]
    records: list[tuple[str, JSONObject]]
    findings: list[Finding]
    left_out: list[str]  # ids of records that this version has already


def migrate_tree(root: str, supplied: Mapping[str, JSON]) -> MigratedTree:
    """Read every document of 0.9.0 in a tree; nothing is written.

    Raises:
        CannotRead: the tree, or a document, cannot be read.
    """
    old_documents: list[tuple[str, str, JSONObject]] = []
    current_ids = {name.removesuffix(".json") for name in _list_files(root, tree_layout.WIRE_DIR)}
    for provider in tree_layout.list_providers(root):
        for name in tree_layout.list_json_files(root, provider, []):
            file = f"{provider}/{name}"
            try:
                value = parse_json(read_file(f"{root}/{file}", follow_links=False))
            except NotJSON:
                continue  # Its version is unknown; the commit refuses the tree.
            if isinstance(value, dict) and value.get("version") == OLD_VERSION:
                old_documents.append((provider, file, value))
            elif isinstance(value, dict) and value.get("version") == VERSION:
                current_ids.update(filter(None, list_record_ids(value)))
    migrated = MigratedTree([], [], [], [])
    for provider, file, document in old_documents:
        bodies, document_findings = migrate_document(document, supplied, file, current_ids)
        migrated.files.append(file)
        migrated.records.extend((provider, body) for body in bodies)
        migrated.findings.extend(document_findings)
        migrated.left_out.extend(name for name in list_record_ids(document) if name in current_ids)
    return migrated


def _list_files(root: str, folder: str) -> list[str]:
    return tree_layout.list_json_files(root, folder, []) if tree_layout.is_folder(f"{root}/{folder}") else []


def migrate_document(
    value: JSON, supplied: Mapping[str, JSON], file: str = "", current_ids: Collection[str] = ()
) -> tuple[list[JSONObject], list[Finding]]:
    """The records of 1.0.0 for a document of 0.9.0, and a finding for each that cannot be migrated. Records with
    one of `current_ids` are left out.
    """
    findings = [
        Finding(file, problem.path, SHAPE_RULE, problem.message, _HINT)
        for problem in find_problems(value, OldDocument)
    ]
    if findings:
        return [], findings
    bodies: list[JSONObject] = []
    for index, record in enumerate(cast("dict[str, Any]", value)["snapshots"]):
        if record["id"] in current_ids:
            continue
        path = f"$.snapshots[{index}]"
        missing = list(_find_missing(record, supplied, file, path))
        findings += missing
        if not missing:
            bodies.append(_migrate_record(record, supplied))
    return bodies, findings


def _find_missing(record: JSONObject, supplied: Mapping[str, JSON], file: str, path: str) -> list[Finding]:
    findings = [
        Finding(file, problem.path, SHAPE_RULE, problem.message, _HINT)
        for problem in find_timestamp_problems(record["timestamp"], f"{path}.timestamp")
    ]
    if "messages" not in record and "prompt" not in record:
        message = "required field messages (or prompt) is missing"
        findings.append(Finding(file, path, SHAPE_RULE, message, _HINT))
    for name, part in REQUIRED_FIELDS.items():
        if name not in record and name not in supplied:
            message = f"version {VERSION} requires {part}.{name}, and the record has no {name}"
            hint = f"Supply it with --set {name}=VALUE, or record the call again."
            findings.append(Finding(file, f"{path}.{name}", SHAPE_RULE, message, hint))
    return findings


def _migrate_record(record: JSONObject, supplied: Mapping[str, JSON]) -> JSONObject:
    fields: JSONObject = {**supplied, **record, "content": record["response"]}
    declared: list[JSON] = [
        name if part == "request" else f"{part}.{name}"
        for name, part in REQUIRED_FIELDS.items()
        if name not in record
    ]
    request: JSONObject = {name: fields[name] for name in REQUEST_FIELDS if name in fields}
    if declared:
        request["declared"] = declared
    return {
        "id": record["id"],
        "timestamp": record["timestamp"],
        "source": {name: fields[name] for name in SOURCE_FIELDS},
        "request": request,
        "response": {name: fields[name] for name in RESPONSE_FIELDS if name in fields},
    }
