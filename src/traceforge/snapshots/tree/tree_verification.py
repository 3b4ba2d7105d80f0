"""Check a whole snapshot tree.

In: a folder (`.ai-snapshots/`) and the declared models. Out: every finding, sorted. Never: writes, follows
a link, or stops at the first bad file.

Documents are held against their own hashes, the wire answers they name and the manifest; a wire answer that no record
names, and everything else that was approved, against the approvals. `layout` says what may stand where.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from traceforge.canon import JSON, Digest, JSONObject, digest_bytes, parse_json
from traceforge.clock import find_instant
from traceforge.config import ModelRule
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.files import list_folder, read_file
from traceforge.findings import IO, Finding, internal_error_finding, printable_name
from traceforge.snapshots.formats import determinism_policy, snapshot_manifest, tree_layout
from traceforge.snapshots.formats.snapshot_format import RESTORE, check_document, is_snapshot_id
from traceforge.tuples import NamedTuple

if TYPE_CHECKING:
    from traceforge.snapshots.formats.raw_response import WireAnswer

IDENTITY_RULE = "SN5"
WIRE_RULE = "SN7"

Mapper = Callable[[Callable[["FileTask"], "FileResult"], list["FileTask"]], Iterable["FileResult"]]


class Held:
    """What was read while a tree was checked: for who answers from it next, and need not read it again."""

    def __init__(self) -> None:
        self.documents: list[tuple[str, str, list[JSONObject]]] = []  # provider, file, records
        self.wires: dict[str, tuple[Digest, WireAnswer]] = {}  # by id: the digest of the file, and what it says


class FileTask(NamedTuple):
    """One document to check; small, so that it can go to another process."""

    root: str
    provider: str
    file: str  # relative to the root
    models: Mapping[str, ModelRule]
    held: Held | None = None  # where to put what was read; only within one process


class FileResult(NamedTuple):
    """What is known about one document."""

    entries: list[snapshot_manifest.Entry]
    findings: list[Finding]
    request_gated: int = 0
    wired: tuple[str, ...] = ()  # ids of records that name a wire answer
    listed: bool = True  # every record is known well enough for the manifest to be held against it


class DocumentsReport(NamedTuple):
    """What the documents of a tree hold and what is wrong with them. Files are named relative to the tree."""

    entries: list[snapshot_manifest.Entry]
    request_gated: int
    findings: list[Finding]
    unlisted: frozenset[str]  # files, and folders with a final slash, of which too little is known
    wired: frozenset[str]  # ids of records that name a wire answer

    @property
    def unknown(self) -> frozenset[str]:
        """Ids that may stand in a file of which too little is known: files are named after them."""
        return frozenset(os.path.basename(file).removesuffix(".json") for file in self.unlisted)


class TreeReport(NamedTuple):
    """What a tree holds and what is wrong with it. Files are named relative to the tree."""

    records: int
    request_gated: int
    findings: tuple[Finding, ...]
    wire_only: int = 0  # wire answers that no record names; each is among the request gated
    approvals: int = 0
    standing: Mapping[str, tree_layout.Standing] = MappingProxyType({})  # by id


def verify_tree(
    root: str, models: Mapping[str, ModelRule], run: Mapper = map, held: Held | None = None
) -> TreeReport:
    """Check every document, every hash, the manifest and the approvals of the tree at `root`.

    `run` maps the check over the files; the command line passes one that uses every core. `held` is given what was
    read, which means something only where there are no findings.

    Raises:
        CannotRead: `root` itself cannot be listed.
    """
    documents = check_documents(root, models, run, held)
    findings = [*documents.findings, *_check_manifest(root, documents)]
    wires = [name for name in _list_wires(root, findings) if name not in documents.unknown]
    standing = {e.id: tree_layout.Standing(e.file, e.hash, e.id in documents.wired) for e in documents.entries}
    if not wires and not documents.wired and not os.path.lexists(f"{root}/{tree_layout.APPROVALS}"):
        records, gated = len(documents.entries), documents.request_gated
        return TreeReport(records, gated, tuple(sorted(findings)), standing=standing)
    from traceforge.snapshots.tree.approval_check import check_approvals

    for name in wires:
        file = f"{tree_layout.WIRE}/{name}.json"
        if name not in standing:
            digest, found = _check_wire_only(root, file, models, held)
            findings += found
            standing[name] = tree_layout.Standing(file, digest, must_be_approved=True)
        elif name not in documents.wired:
            findings.append(Finding(file, "", WIRE_RULE, "the record of this id names no wire answer", RESTORE))
    approvals = check_approvals(root, standing, documents.unknown)
    wire_only = len(standing) - len({entry.id for entry in documents.entries})
    return TreeReport(
        len(documents.entries),
        documents.request_gated + wire_only,
        tuple(sorted([*findings, *approvals.findings])),
        wire_only,
        approvals.approvals,
        standing,
    )


def check_documents(
    root: str, models: Mapping[str, ModelRule], run: Mapper = map, held: Held | None = None
) -> DocumentsReport:
    """Check every document of a tree, and leave out its manifest.

    Raises:
        CannotRead: `root` itself cannot be listed.
    """
    tasks, findings = _list_documents(root, models, held)
    unlisted = {f"{finding.file}/" for finding in findings if finding.is_unchecked}
    entries: list[snapshot_manifest.Entry] = []
    request_gated = 0
    wired: set[str] = set()
    for task, result in zip(tasks, run(check_file, tasks), strict=True):
        entries += result.entries
        findings += result.findings
        request_gated += result.request_gated
        wired.update(result.wired)
        if not result.listed:
            unlisted.add(task.file)
    findings += _check_unique(entries)
    return DocumentsReport(entries, request_gated, findings, frozenset(unlisted), frozenset(wired))


def check_file(task: FileTask) -> FileResult:
    """Check one document on its own. A mistake of ours must not hide what other documents hold."""
    try:
        return _check_file(task)
    except (CannotRead, NotJSON) as exc:
        return FileResult([], [exc.finding(task.file)], listed=False)
    except Exception as exc:  # noqa: BLE001 (said as a finding: unchecked, never valid)
        return FileResult([], [internal_error_finding(task.file, exc)], listed=False)


def _check_file(task: FileTask) -> FileResult:
    value = parse_json(read_file(f"{task.root}/{task.file}", follow_links=False))
    records = _records(value)
    findings: list[Finding] = []
    request_gated = 0
    for place, record in enumerate(records):
        findings += _check_record(task, place, record)
        request_gated += _is_request_gated(record, task.models)
    entries = [
        snapshot_manifest.Entry(task.provider, record["id"], task.file, record["hash"], record["timestamp"])
        for record in records
        if _is_listable(record)
    ]
    if len(records) == 1 and entries and f"{task.provider}/{entries[0].id}.json" != task.file:
        findings.append(
            Finding(task.file, "$.snapshots[0].id", IDENTITY_RULE, "the file is not named after its record", RESTORE)
        )
    listed = _count(value) == len(entries)
    wired = tuple(record["id"] for record in records if _names_wire(record))
    found = findings + check_document(value, task.file, owned=task.held is None)
    if task.held is not None:
        task.held.documents.append((task.provider, task.file, records))
    return FileResult(entries, found, request_gated, wired, listed)


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


def _names_wire(record: dict[str, Any]) -> bool:
    response = record.get("response")
    return isinstance(response, dict) and "wire" in response and isinstance(record.get("id"), str)


def _is_request_gated(record: dict[str, Any], models: Mapping[str, ModelRule]) -> bool:
    request = record.get("request")
    return (
        bool(models)
        and isinstance(request, dict)
        and determinism_policy.find_gate(str(request.get("model")), models) == "request"
    )


def _check_record(task: FileTask, place: int, record: dict[str, Any]) -> Iterable[Finding]:
    request, response = record.get("request"), record.get("response")
    if isinstance(request, dict):
        for problem in determinism_policy.check_policy(request, task.provider, task.models):
            path = f"$.snapshots[{place}].request.{problem.path}"
            yield Finding(task.file, path, determinism_policy.RULE, problem.message, determinism_policy.HINT)
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
        data = read_file(f"{task.root}/{file}", follow_links=False)
    except CannotRead as exc:
        yield exc.finding(file)
        return
    if (computed := digest_bytes(data)) != wire.get("sha256"):
        message = f"the wire answer's bytes give {computed}, the record says another digest"
        yield Finding(task.file, f"{path}.sha256", WIRE_RULE, message, RESTORE)
    yield from _check_agreement(task, place, record, file, data, computed)


def _check_agreement(
    task: FileTask, place: str, record: dict[str, Any], file: str, data: bytes, digest: Digest
) -> Iterable[Finding]:
    """Nobody reviews one answer and replays another: the wire answer is decoded again, and must say the same."""
    from traceforge.snapshots.formats import (
        raw_response as wire_answer,  # It knows every dialect, which most checks need not.
    )

    answer, found = _read_wire(file, data)
    yield from found
    if answer is None:
        return
    if task.held is not None:
        task.held.wires[record["id"]] = digest, answer
    if isinstance(record.get("request"), dict) and isinstance(record.get("response"), dict):
        for problem in wire_answer.disagreements(record, answer, task.models):
            at = f"{place}.{problem.path}".rstrip(".")
            yield Finding(task.file, at, wire_answer.RULE, problem.message, RESTORE)


def _read_wire(file: str, data: bytes) -> tuple[WireAnswer | None, list[Finding]]:
    from traceforge.snapshots.formats.raw_response import read_wire

    try:
        return read_wire(data), []
    except NotJSON as exc:
        return None, [exc.finding(file)]
    except InvalidFile as exc:
        return None, [finding._replace(file=file) for finding in exc.findings]


def _list_wires(root: str, findings: list[Finding]) -> list[str]:
    """The ids of all wire answers; what is none is a finding."""
    if not tree_layout.is_folder(f"{root}/{tree_layout.WIRE}"):
        return []
    names = []
    for file in tree_layout.list_files(root, tree_layout.WIRE, findings):
        if is_snapshot_id(name := file.removesuffix(".json")):
            names.append(name)
        else:
            findings.append(tree_layout.stray(f"{tree_layout.WIRE}/{file}"))
    return names


def _check_wire_only(
    root: str, file: str, models: Mapping[str, ModelRule], held: Held | None
) -> tuple[str, list[Finding]]:
    """Check a wire answer that no record names: a record would gate its answer, so it must be one that has none."""
    from traceforge.snapshots.formats import raw_response as wire_answer

    try:
        data = read_file(f"{root}/{file}", follow_links=False)
    except CannotRead as exc:
        return "", [exc.finding(file)]
    answer, found = _read_wire(file, data)
    digest = digest_bytes(data)
    if answer is not None:
        if held is not None:
            held.wires[os.path.basename(file).removesuffix(".json")] = digest, answer
        try:
            found += [
                Finding(file, "", wire_answer.RULE, message, RESTORE)
                for message in wire_answer.why_not_alone(answer, models)
            ]
        except Exception as exc:  # noqa: BLE001 (said as a finding: unchecked, never valid)
            found.append(internal_error_finding(file, exc))
    return digest, found


def _list_documents(
    root: str, models: Mapping[str, ModelRule], held: Held | None
) -> tuple[list[FileTask], list[Finding]]:
    tasks: list[FileTask] = []
    findings: list[Finding] = []
    for entry in list_folder(root):
        if entry.is_dir(follow_symlinks=False):
            if entry.name in tree_layout.RESERVED or entry.name.startswith("."):
                continue
            if not tree_layout.is_provider(entry.name):
                findings.append(
                    Finding(entry.name, "", tree_layout.RULE, "not a provider's name", tree_layout.STRAY_HINT)
                )
            names = tree_layout.list_files(root, entry.name, findings)
            tasks += [FileTask(root, entry.name, f"{entry.name}/{name}", models, held) for name in names]
        elif entry.is_symlink():
            findings.append(_link(entry.name))
        elif entry.name not in tree_layout.ROOT_FILES and not entry.name.startswith("."):
            findings.append(tree_layout.stray(entry.name))
    return tasks, findings


def _link(file: str) -> Finding:
    return Finding(file, "", IO, "a symbolic link, which is not followed here", "Put the file itself there.")


def _check_unique(entries: list[snapshot_manifest.Entry]) -> list[Finding]:
    first: dict[str, str] = {}
    found = []
    for entry in sorted(entries, key=lambda entry: (entry.id, entry.file)):
        if entry.id in first:
            message = f"id {printable_name(entry.id)} stands in {first[entry.id]} already"
            found.append(Finding(entry.file, "", IDENTITY_RULE, message, RESTORE))
        first.setdefault(entry.id, entry.file)
    return found


def _check_manifest(root: str, documents: DocumentsReport) -> list[Finding]:
    path = f"{root}/{snapshot_manifest.NAME}"
    entries = documents.entries
    if not os.path.lexists(path):  # A dangling link must not count as missing.
        if not entries:
            return []
        message = "the tree has no manifest"
        return [
            Finding(snapshot_manifest.NAME, "", snapshot_manifest.MISSING_RULE, message, snapshot_manifest.REBUILD)
        ]
    try:
        data = read_file(path, follow_links=False)
    except CannotRead as exc:
        return [exc.finding(snapshot_manifest.NAME)]
    return snapshot_manifest.check_manifest(data, entries, documents.unlisted)
