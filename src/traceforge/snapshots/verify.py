"""Check a whole snapshot tree.

In: a folder (`.ai-snapshots/`) and the declared models. Out: every finding, sorted. Never: writes, follows
a link, or stops at the first bad file.

    <root>/manifest.json
    <root>/<provider>/<id>.json      documents
    <root>/wire/<id>.json            approved wire answers; checked against the record that names them
    <root>/approvals/*.json          who approved what
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from traceforge.canon import JSON, digest_bytes, parse
from traceforge.clock import find_instant
from traceforge.config import ModelRule
from traceforge.errors import InvalidArtefact, NotJSON, Unreadable
from traceforge.files import read_file, scan_folder
from traceforge.findings import IO, Finding, internal_error, shown
from traceforge.snapshots import manifest, policy
from traceforge.snapshots.format import RESTORE, check_document, is_snapshot_id

IDENTITY_RULE = "SN5"
LAYOUT_RULE = "SN6"
WIRE_RULE = "SN7"

RESERVED = frozenset({"wire", "approvals"})
ROOT_FILES = frozenset({manifest.NAME, "README.md"})  # Besides these, only dot files are expected.

_PROVIDER = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_STRAY_HINT = "Move it out of the tree: what is there is what was approved, and nothing else."
_POLICY_HINT = (
    'Set temperature 0 and a seed where the call is made, or declare the model with "gate": "request" in the config.'
)

Mapper = Callable[[Callable[["FileTask"], "FileResult"], list["FileTask"]], Iterable["FileResult"]]


class FileTask(NamedTuple):
    """One document to check; small, so that it can go to another process."""

    root: str
    provider: str
    file: str  # relative to the root
    models: Mapping[str, ModelRule]


class FileResult(NamedTuple):
    """What is known about one document."""

    entries: list[manifest.Entry]
    findings: list[Finding]
    request_gated: int = 0
    listed: bool = True  # every record is known well enough for the manifest to be held against it


class DocumentsReport(NamedTuple):
    """What the documents of a tree hold and what is wrong with them. Files are named relative to the tree."""

    entries: list[manifest.Entry]
    request_gated: int
    findings: list[Finding]
    unlisted: frozenset[str]  # files, and folders with a final slash, of which too little is known


class TreeReport(NamedTuple):
    """What a tree holds and what is wrong with it. Files are named relative to the tree."""

    records: int
    request_gated: int
    findings: tuple[Finding, ...]


def verify_tree(root: str, models: Mapping[str, ModelRule], run: Mapper = map) -> TreeReport:
    """Check every document, every hash and the manifest of the tree at `root`.

    `run` maps the check over the files; the command line passes one that uses every core.

    Raises:
        Unreadable: `root` itself cannot be listed.
    """
    documents = check_documents(root, models, run)
    findings = [*documents.findings, *_check_manifest(root, documents)]
    return TreeReport(len(documents.entries), documents.request_gated, tuple(sorted(findings)))


def check_documents(root: str, models: Mapping[str, ModelRule], run: Mapper = map) -> DocumentsReport:
    """Check every document of a tree, and leave out its manifest.

    Raises:
        Unreadable: `root` itself cannot be listed.
    """
    tasks, findings = _list_documents(root, models)
    unlisted = {f"{finding.file}/" for finding in findings if finding.is_unchecked}
    entries: list[manifest.Entry] = []
    request_gated = 0
    for task, result in zip(tasks, run(check_file, tasks), strict=True):
        entries += result.entries
        findings += result.findings
        request_gated += result.request_gated
        if not result.listed:
            unlisted.add(task.file)
    findings += _check_unique(entries)
    return DocumentsReport(entries, request_gated, findings, frozenset(unlisted))


def check_file(task: FileTask) -> FileResult:
    """Check one document on its own. A mistake of ours must not hide what other documents hold."""
    try:
        return _check_file(task)
    except (Unreadable, NotJSON) as exc:
        return FileResult([], [exc.finding(task.file)], listed=False)
    except Exception as exc:  # noqa: BLE001 (said as a finding: unchecked, never valid)
        return FileResult([], [internal_error(task.file, exc)], listed=False)


def _check_file(task: FileTask) -> FileResult:
    value = parse(read_file(f"{task.root}/{task.file}", follow=False))
    records = _records(value)
    findings: list[Finding] = []
    request_gated = 0
    for place, record in enumerate(records):
        findings += _check_record(task, place, record)
        request_gated += _is_request_gated(record, task.models)
    entries = [
        manifest.Entry(task.provider, record["id"], task.file, record["hash"], record["timestamp"])
        for record in records
        if _is_listable(record)
    ]
    if len(records) == 1 and entries and f"{task.provider}/{entries[0].id}.json" != task.file:
        findings.append(
            Finding(task.file, "$.snapshots[0].id", IDENTITY_RULE, "the file is not named after its record", RESTORE)
        )
    listed = _count(value) == len(entries)
    return FileResult(entries, findings + check_document(value, task.file, owned=True), request_gated, listed)


def _records(value: JSON) -> list[dict[str, Any]]:
    """The records a document has, however broken they are; what is no object counts as an empty one."""
    records = value.get("snapshots") if isinstance(value, dict) else None
    return [record if isinstance(record, dict) else {} for record in records] if isinstance(records, list) else []


def _count(value: JSON) -> int:
    """How many records a document claims to have; -1 where it has no list of them."""
    records = value.get("snapshots") if isinstance(value, dict) else None
    return len(records) if isinstance(records, list) else -1


def _is_listable(record: dict[str, Any]) -> bool:
    """Can the manifest speak about it? One with an impossible time cannot be put in order of time."""
    return (
        isinstance(record.get("id"), str)
        and isinstance(record.get("hash"), str)
        and isinstance(record.get("timestamp"), str)
        and find_instant(record["timestamp"]) is not None
    )


def _is_request_gated(record: dict[str, Any], models: Mapping[str, ModelRule]) -> bool:
    request = record.get("request")
    return (
        bool(models)
        and isinstance(request, dict)
        and policy.find_gate(str(request.get("model")), models) == "request"
    )


def _check_record(task: FileTask, place: int, record: dict[str, Any]) -> Iterable[Finding]:
    request, response = record.get("request"), record.get("response")
    if isinstance(request, dict):
        for problem in policy.check_policy(request, task.provider, task.models):
            path = f"$.snapshots[{place}].request.{problem.path}"
            yield Finding(task.file, path, policy.RULE, problem.message, _POLICY_HINT)
    wire = response.get("wire") if isinstance(response, dict) else None
    if isinstance(wire, dict) and is_snapshot_id(record.get("id")):  # Any other id is no name to open a file by.
        yield from _check_wire(task, f"$.snapshots[{place}]", record, wire)


def _check_wire(task: FileTask, place: str, record: dict[str, Any], wire: dict[str, Any]) -> Iterable[Finding]:
    file, path = wire.get("file"), f"{place}.response.wire"
    if file != f"wire/{record['id']}.json":
        yield Finding(task.file, f"{path}.file", WIRE_RULE, f"must be wire/{record['id']}.json", RESTORE)
        return
    if not os.path.lexists(f"{task.root}/{file}"):
        yield Finding(task.file, f"{path}.file", WIRE_RULE, f"{file} is missing", RESTORE)
        return
    try:
        data = read_file(f"{task.root}/{file}", follow=False)
    except Unreadable as exc:
        yield exc.finding(file)
        return
    if (computed := digest_bytes(data)) != wire.get("sha256"):
        message = f"the wire answer's bytes give {computed}, the record says another digest"
        yield Finding(task.file, f"{path}.sha256", WIRE_RULE, message, RESTORE)
    yield from _check_agreement(task, place, record, file, data)


def _check_agreement(task: FileTask, place: str, record: dict[str, Any], file: str, data: bytes) -> Iterable[Finding]:
    """Nobody reviews one answer and replays another: the wire answer is decoded again, and must say the same."""
    from traceforge.snapshots import wire as wire_answer  # It knows every dialect, which most checks need not.

    try:
        answer = wire_answer.read_wire(data)
    except NotJSON as exc:
        yield exc.finding(file)
        return
    except InvalidArtefact as exc:
        yield from (finding._replace(file=file) for finding in exc.findings)
        return
    if isinstance(record.get("request"), dict) and isinstance(record.get("response"), dict):
        for problem in wire_answer.disagreements(record, answer, task.models):
            at = f"{place}.{problem.path}".rstrip(".")
            yield Finding(task.file, at, wire_answer.RULE, problem.message, RESTORE)


def _list_documents(root: str, models: Mapping[str, ModelRule]) -> tuple[list[FileTask], list[Finding]]:
    tasks: list[FileTask] = []
    findings: list[Finding] = []
    for entry in scan_folder(root):
        if entry.is_dir(follow_symlinks=False):
            if entry.name in RESERVED or entry.name.startswith("."):
                continue
            if not _PROVIDER.match(entry.name):
                findings.append(Finding(entry.name, "", LAYOUT_RULE, "not a provider's name", _STRAY_HINT))
            _list_provider(root, entry.name, models, tasks, findings)
        elif entry.is_symlink():
            findings.append(_link(entry.name))
        elif entry.name not in ROOT_FILES and not entry.name.startswith("."):
            findings.append(Finding(entry.name, "", LAYOUT_RULE, "unexpected file in a snapshot tree", _STRAY_HINT))
    return tasks, findings


def _list_provider(
    root: str, provider: str, models: Mapping[str, ModelRule], tasks: list[FileTask], findings: list[Finding]
) -> None:
    try:
        entries = scan_folder(f"{root}/{provider}")
    except Unreadable as exc:
        findings.append(exc.finding(provider))
        return
    for entry in entries:
        file = f"{provider}/{entry.name}"
        if entry.name.startswith("."):
            continue
        if entry.name.endswith(".json"):
            tasks.append(FileTask(root, provider, file, models))
        else:
            findings.append(Finding(file, "", LAYOUT_RULE, "unexpected file in a snapshot tree", _STRAY_HINT))


def _link(file: str) -> Finding:
    return Finding(file, "", IO, "a symbolic link, which is not followed here", "Put the file itself there.")


def _check_unique(entries: list[manifest.Entry]) -> list[Finding]:
    first: dict[str, str] = {}
    found = []
    for entry in sorted(entries, key=lambda entry: (entry.id, entry.file)):
        if entry.id in first:
            message = f"id {shown(entry.id)} stands in {first[entry.id]} already"
            found.append(Finding(entry.file, "", IDENTITY_RULE, message, RESTORE))
        first.setdefault(entry.id, entry.file)
    return found


def _check_manifest(root: str, documents: DocumentsReport) -> list[Finding]:
    path = f"{root}/{manifest.NAME}"
    entries = documents.entries
    if not os.path.lexists(path):  # A dangling link must not count as missing.
        if not entries:
            return []
        message = "the tree has no manifest"
        return [Finding(manifest.NAME, "", manifest.MISSING_RULE, message, manifest.REBUILD)]
    try:
        data = read_file(path, follow=False)
    except Unreadable as exc:
        return [exc.finding(manifest.NAME)]
    return manifest.check_manifest(data, entries, documents.unlisted)
