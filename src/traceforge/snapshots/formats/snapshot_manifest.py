"""The manifest, version 1.0.0: one line for every record of a snapshot tree.

A pure function of the files: entries sorted by provider, then id; an entry's `hash` is its record's;
the manifest's `hash` is the digest over `{version, snapshots: [entry hashes]}`; `created_at` and `updated_at` are
the earliest and the latest record timestamp.

In: entries. Out: the manifest's bytes, or what a manifest gets wrong about the files. Never: reads
the files themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from msgspec import Struct

from traceforge.canon import JSON, ecmascript_bytes, parse_json
from traceforge.clock import find_instant
from traceforge.errors import NotJSON
from traceforge.findings import Finding, printable_name
from traceforge.shape import DigestText, NonEmptyText, Timestamp, find_problems
from traceforge.snapshots.formats.snapshot_format import VERSION, SnapshotIdText, document_hash, unsupported_version
from traceforge.tuples import NamedTuple

NAME = "manifest.json"

MISSING_RULE = "MF1"
SHAPE_RULE = "MF2"
NO_FILE_RULE = "MF3"
NO_ENTRY_RULE = "MF4"
ENTRY_RULE = "MF5"
ORDER_RULE = "MF6"
HASH_RULE = "MF7"
TIME_RULE = "MF8"
TRAVERSAL_RULE = "MF9"

REBUILD = "Rebuild it: traceforge snapshot manifest"
_RESTORE = "Restore the file from Git, or rebuild the manifest: traceforge snapshot manifest"


class ManifestEntry(Struct, forbid_unknown_fields=True):
    """One record of the tree."""

    id: SnapshotIdText
    provider: NonEmptyText
    file: NonEmptyText
    hash: DigestText


class Manifest(Struct, forbid_unknown_fields=True):
    """The whole manifest."""

    version: str
    created_at: Timestamp
    updated_at: Timestamp
    snapshots: list[ManifestEntry]
    hash: DigestText


class Entry(NamedTuple):
    """What the manifest has to say about one record; orders as the manifest does."""

    provider: str
    id: str
    file: str
    hash: str
    timestamp: str


def write_manifest(entries: list[Entry]) -> bytes:
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
    data: bytes, entries: list[Entry], unlisted: frozenset[str] = frozenset(), file: str = NAME
) -> list[Finding]:
    """Find everything a manifest gets wrong about the records that are really there.

    `unlisted` names files (and folders, with a final slash) whose records are not known; what the manifest says
    about those cannot be judged, and they have findings of their own.
    """
    try:
        value = parse_json(data)
    except NotJSON as exc:
        if b"\n<<<<<<< " in data or data.startswith(b"<<<<<<< "):
            return [Finding(file, "", "PARSE", "conflict markers of a Git merge", REBUILD)]
        return [exc.finding(file)]
    version = value.get("version") if isinstance(value, dict) else None
    if isinstance(version, str) and version != VERSION:
        return [unsupported_version(file, version)]
    found = [Finding(file, p.path, SHAPE_RULE, p.message, REBUILD) for p in find_problems(value, Manifest)]
    if found:
        return found
    manifest = cast("dict[str, Any]", value)
    return [
        *_check_entries(manifest["snapshots"], sorted(entries), unlisted, file),
        *_check_hash(manifest, file),
        *([] if unlisted else _check_times(manifest, entries, file)),
    ]


def _check_entries(
    listed: list[dict[str, str]], there: list[Entry], unlisted: frozenset[str], file: str
) -> Iterator[Finding]:
    if len(listed) == len(there) and all(map(_says, listed, there)):
        return
    by_key = {(entry.provider, entry.id): entry for entry in there}
    seen: set[tuple[str, str]] = set()
    before = ("", "")
    for place, entry in enumerate(listed):
        path = f"$.snapshots[{place}]"
        key = (entry["provider"], entry["id"])
        if _escapes(entry["file"]):
            yield Finding(file, f"{path}.file", TRAVERSAL_RULE, "leads out of the snapshot tree", REBUILD)
        if key in seen:
            yield Finding(file, path, ORDER_RULE, f"lists {printable_name(key[1])} a second time", REBUILD)
        elif key < before:
            yield Finding(
                file, path, ORDER_RULE, f"{printable_name(key[1])} is out of order (provider, then id)", REBUILD
            )
        seen.add(key)
        before = max(key, before)
        if key not in by_key:
            if entry["file"] in unlisted or f"{entry['file'].partition('/')[0]}/" in unlisted:
                continue
            yield Finding(
                file, path, NO_FILE_RULE, f"lists {printable_name('/'.join(key))}, and no file holds it", _RESTORE
            )
            continue
        actual = by_key[key]
        for name, said, true in (("file", entry["file"], actual.file), ("hash", entry["hash"], actual.hash)):
            if said != true:
                yield Finding(
                    file,
                    f"{path}.{name}",
                    ENTRY_RULE,
                    f"says {printable_name(said)}, and it is {printable_name(true)}",
                    _RESTORE,
                )
    for key, actual in by_key.items():
        if key not in seen:
            yield Finding(
                file, "$.snapshots", NO_ENTRY_RULE, f"{printable_name(actual.file)} is not listed", _RESTORE
            )


def _says(entry: dict[str, str], actual: Entry) -> bool:
    return (entry["provider"], entry["id"], entry["file"], entry["hash"]) == actual[:4]


def _escapes(file: str) -> bool:
    return file.startswith("/") or "\\" in file or ".." in file.split("/")


def _check_hash(manifest: dict[str, Any], file: str) -> Iterator[Finding]:
    computed = document_hash(manifest["version"], [entry["hash"] for entry in manifest["snapshots"]])
    if manifest["hash"] != computed:
        message = f"hash mismatch: the entries give {computed}, the file says {manifest['hash']}"
        yield Finding(file, "$.hash", HASH_RULE, message, REBUILD)


def _check_times(manifest: dict[str, Any], entries: list[Entry], file: str) -> Iterator[Finding]:
    if not entries:
        return
    for name, true in zip(("created_at", "updated_at"), _time_span(entries), strict=True):
        if find_instant(manifest[name]) != find_instant(true):
            message = f"says {manifest[name]}, and the records say {true}"
            yield Finding(file, f"$.{name}", TIME_RULE, message, REBUILD)


def _time_span(entries: list[Entry]) -> tuple[str, str]:
    texts = {entry.timestamp for entry in entries}
    ordered = sorted(texts, key=lambda text: (find_instant(text), text))
    return ordered[0], ordered[-1]
