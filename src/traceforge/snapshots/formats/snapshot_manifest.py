"""The manifest, version 1.0.0: one line for every record of a snapshot tree.

A pure function of the files: entries sorted by provider, then id; an entry's `hash` is its record's;
the manifest's `hash` is the digest over `{version, snapshots: [entry hashes]}`; `created_at` and `updated_at` are
the earliest and the latest record timestamp.

In: entries. Out: the manifest's bytes, or every difference between a manifest and the files. Never: reads the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from msgspec import Struct

from traceforge.canon import JSON, ecmascript_bytes, parse_json
from traceforge.clock import find_instant
from traceforge.errors import NotJSON
from traceforge.findings import Finding, printable_name
from traceforge.shape import DigestText, NonEmptyText, Timestamp, find_problems
from traceforge.snapshots.formats.snapshot_format import VERSION, SnapshotIdText, document_hash, unsupported_version

MANIFEST_NAME = "manifest.json"

MISSING_RULE = "MF1"
SHAPE_RULE = "MF2"
NO_FILE_RULE = "MF3"
NO_ENTRY_RULE = "MF4"
ENTRY_RULE = "MF5"
ORDER_RULE = "MF6"
HASH_RULE = "MF7"
TIME_RULE = "MF8"
TRAVERSAL_RULE = "MF9"

REBUILD_HINT = "Rebuild it: traceforge snapshot manifest"
_RESTORE_HINT = "Restore the file from Git, or rebuild the manifest: traceforge snapshot manifest"


class ManifestEntry(Struct, forbid_unknown_fields=True):
    """One line of the manifest."""

    id: SnapshotIdText
    provider: NonEmptyText
    file: NonEmptyText
    hash: DigestText


class Manifest(Struct, forbid_unknown_fields=True):
    """`manifest.json`: every approved record of the tree, with its hash."""

    version: str
    created_at: Timestamp
    updated_at: Timestamp
    snapshots: list[ManifestEntry]
    hash: DigestText


class RecordEntry(NamedTuple):
    """What the manifest must say about one record. Sorts in the manifest's order."""

    provider: str
    id: str
    file: str
    hash: str
    timestamp: str


def write_manifest(entries: list[RecordEntry]) -> bytes:
    """Write the manifest of a tree that holds these records (at least one)."""
    ordered = sorted(entries)
    first, last = _time_span(ordered)
    document: JSON = {
        "version": VERSION,
        "created_at": first,
        "updated_at": last,
        "snapshots": [
            {"id": entry.id, "provider": entry.provider, "file": entry.file, "hash": entry.hash} for entry in ordered
        ],
        "hash": document_hash(VERSION, [entry.hash for entry in ordered]),
    }
    return ecmascript_bytes(document, indent=2) + b"\n"


def check_manifest(
    data: bytes, entries: list[RecordEntry], unknown_files: frozenset[str] = frozenset(), file: str = MANIFEST_NAME
) -> list[Finding]:
    """Every difference between a manifest and the records in the tree.

    `unknown_files` names files (and folders, with a final slash) whose records could not be read. Entries for those
    are not judged; the files have findings of their own.
    """
    try:
        value = parse_json(data)
    except NotJSON as exc:
        finding = exc.finding(file)
        return [finding._replace(hint=REBUILD_HINT) if exc.is_conflict else finding]
    version = value.get("version") if isinstance(value, dict) else None
    if isinstance(version, str) and version != VERSION:
        return [unsupported_version(file, version)]
    findings = [
        Finding(file, problem.path, SHAPE_RULE, problem.message, REBUILD_HINT)
        for problem in find_problems(value, Manifest)
    ]
    if findings:
        return findings
    manifest = cast("dict[str, Any]", value)
    return [
        *_check_entries(manifest["snapshots"], sorted(entries), unknown_files, file),
        *_check_hash(manifest, file),
        *([] if unknown_files else _check_times(manifest, entries, file)),
    ]


def _check_entries(
    listed_entries: list[dict[str, str]], actual_entries: list[RecordEntry], unknown_files: frozenset[str], file: str
) -> Iterator[Finding]:
    if len(listed_entries) == len(actual_entries) and all(map(_matches, listed_entries, actual_entries)):
        return
    by_key = {(entry.provider, entry.id): entry for entry in actual_entries}
    seen_keys: set[tuple[str, str]] = set()
    previous_key = ("", "")
    for index, entry in enumerate(listed_entries):
        path = f"$.snapshots[{index}]"
        key = (entry["provider"], entry["id"])
        if _leaves_tree(entry["file"]):
            yield Finding(file, f"{path}.file", TRAVERSAL_RULE, "leads out of the snapshot tree", REBUILD_HINT)
        if key in seen_keys:
            yield Finding(file, path, ORDER_RULE, f"lists {printable_name(key[1])} a second time", REBUILD_HINT)
        elif key < previous_key:
            yield Finding(
                file, path, ORDER_RULE, f"{printable_name(key[1])} is out of order (provider, then id)", REBUILD_HINT
            )
        seen_keys.add(key)
        previous_key = max(key, previous_key)
        if key not in by_key:
            if entry["file"] in unknown_files or f"{entry['file'].partition('/')[0]}/" in unknown_files:
                continue
            yield Finding(
                file,
                path,
                NO_FILE_RULE,
                f"lists {printable_name('/'.join(key))}, and no file holds it",
                _RESTORE_HINT,
            )
            continue
        actual = by_key[key]
        for name, stated, correct in (("file", entry["file"], actual.file), ("hash", entry["hash"], actual.hash)):
            if stated != correct:
                yield Finding(
                    file,
                    f"{path}.{name}",
                    ENTRY_RULE,
                    f"says {printable_name(stated)}, and it is {printable_name(correct)}",
                    _RESTORE_HINT,
                )
    for key, actual in by_key.items():
        if key not in seen_keys:
            yield Finding(
                file, "$.snapshots", NO_ENTRY_RULE, f"{printable_name(actual.file)} is not listed", _RESTORE_HINT
            )


def _matches(entry: dict[str, str], actual: RecordEntry) -> bool:
    return (entry["provider"], entry["id"], entry["file"], entry["hash"]) == actual[:4]


def _leaves_tree(file: str) -> bool:
    return file.startswith("/") or "\\" in file or ".." in file.split("/")


def _check_hash(manifest: dict[str, Any], file: str) -> Iterator[Finding]:
    computed = document_hash(manifest["version"], [entry["hash"] for entry in manifest["snapshots"]])
    if manifest["hash"] != computed:
        message = f"hash mismatch: the entries give {computed}, the file says {manifest['hash']}"
        yield Finding(file, "$.hash", HASH_RULE, message, REBUILD_HINT)


def _check_times(manifest: dict[str, Any], entries: list[RecordEntry], file: str) -> Iterator[Finding]:
    if not entries:
        return
    for name, correct in zip(("created_at", "updated_at"), _time_span(entries), strict=True):
        if find_instant(manifest[name]) != find_instant(correct):
            message = f"says {manifest[name]}, and the records say {correct}"
            yield Finding(file, f"$.{name}", TIME_RULE, message, REBUILD_HINT)


def _time_span(entries: list[RecordEntry]) -> tuple[str, str]:
    texts = {entry.timestamp for entry in entries}
    ordered = sorted(texts, key=lambda text: (find_instant(text), text))
    return ordered[0], ordered[-1]
