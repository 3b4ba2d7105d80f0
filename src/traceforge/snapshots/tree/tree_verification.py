"""Check a whole snapshot tree.

In: a folder (`.ai-snapshots/`) and the declared models. Out: every finding, sorted. Never: writes, follows
a link, or stops at the first bad file.

Documents are checked against their own hashes, their raw responses and the manifest; all snapshots, also raw
responses without a record, against the approvals. `tree_layout` defines which files there may be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from traceforge.canon import JSON, Digest, JSONObject, digest_bytes, parse_exact_json
from traceforge.clock import find_instant
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.files import list_folder, read_file
from traceforge.findings import IO, Finding, internal_error_finding, printable_name
from traceforge.match_key import KEY_ID_NAME, check_key_id
from traceforge.snapshots.formats import determinism_policy, snapshot_manifest, tree_layout
from traceforge.snapshots.formats.approved_policy import NEVER_APPROVED, ApprovedSettings
from traceforge.snapshots.formats.raw_response import (
    RAW_RESPONSE_RULE,
    RawResponse,
    check_has_no_record,
    find_disagreements,
    read_raw_response,
)
from traceforge.snapshots.formats.snapshot_format import (
    NO_OWN_ID,
    REPLACE_HINT,
    RESTORE_HINT,
    check_document,
    find_other_version,
    is_old_version,
    is_snapshot_id,
    list_record_ids,
)
from traceforge.snapshots.tree.approval_check import check_approvals
from traceforge.snapshots.tree.snapshot_migration import MIGRATE_COMMAND, OLD_VERSION

IDENTITY_RULE = "SN5"
RAW_REFERENCE_RULE = "SN7"
_ADOPTED_NOTE = (
    "adopted answers: {}, which no provider gave to these requests; to get live ones: traceforge record --fresh -- "
    "COMMAND"
)

Mapper = Callable[[Callable[["DocumentTask"], "DocumentResult"], list["DocumentTask"]], Iterable["DocumentResult"]]


class TreeContent:
    """The files that were read during a check, so that a replay need not read them again."""

    def __init__(self) -> None:
        self.documents: list[tuple[str, str, list[JSONObject]]] = []  # provider, file, records
        self.raw_responses: dict[
            str, tuple[Digest, RawResponse]
        ] = {}  # by id: the digest of the file, and its content


class DocumentTask(Struct, frozen=True):
    """One document to check; small, so that it can go to another process."""

    root: str
    provider: str
    file: str  # relative to the root
    policy: determinism_policy.ModelPolicy
    content: TreeContent | None = None  # collects what was read; only within one process


class DocumentResult(Struct, frozen=True):
    """The check of one document."""

    entries: list[snapshot_manifest.RecordEntry]
    findings: list[Finding]
    request_gated: int = 0
    raw_response_ids: tuple[str, ...] = ()  # of records that name a raw response
    is_complete: bool = True  # every record could be read well enough to check the manifest against it
    other_version: str | None = None  # of a document of another version, which is not read any further
    other_ids: tuple[str, ...] = ()  # of its records; "" for one without a valid id
    adopted: int = 0  # records with an adopted answer


class DocumentsReport(Struct, frozen=True):
    """The records of a tree's documents, and their findings. Files are named relative to the tree."""

    entries: list[snapshot_manifest.RecordEntry]
    request_gated: int
    findings: list[Finding]
    unknown_files: frozenset[str]  # files, and folders with a final slash, that could not be read well enough
    raw_response_ids: frozenset[str]  # of records that name a raw response
    other_ids: frozenset[str] = frozenset()  # of records of another version
    adopted: int = 0  # records with an adopted answer

    @property
    def unknown_ids(self) -> frozenset[str]:
        """Ids that are in an unknown file, or may be: files are named after their ids."""
        return self.other_ids | {os.path.basename(file).removesuffix(".json") for file in self.unknown_files}


class TreeReport(NamedTuple):
    """The counts of a tree, and its findings. Files are named relative to the tree."""

    records: int
    request_gated: int
    findings: tuple[Finding, ...]
    raw_only: int = 0  # raw responses without a record; each is also counted in `request_gated`
    approvals: int = 0
    stored: Mapping[str, tree_layout.StoredSnapshot] = MappingProxyType({})  # by id
    settings: ApprovedSettings | None = None  # of the policy; None: no approval names one
    unattributed: int = 0  # signatures by keys of which no file says whose they are
    adopted: int = 0  # snapshots with an adopted answer

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know, and what makes nothing red."""
        notes = [NEVER_APPROVED] if self.approvals and self.settings is None else []
        if self.unattributed:
            notes.append(f"no file says who signed {self.unattributed} of {self.approvals} approvals")
        if self.adopted:
            notes.append(_ADOPTED_NOTE.format(self.adopted))
        return tuple(notes)


def verify_tree(
    root: str,
    policy: determinism_policy.ModelPolicy,
    map_tasks: Mapper = map,
    content: TreeContent | None = None,
    *,
    require_signed: bool = False,
) -> TreeReport:
    """Check every document, every hash, the manifest and the approvals of the tree at `root`.

    `map_tasks` maps the check over the files; the command line passes one that uses every core. `content` collects
    what was read, which is usable only without findings. With `require_signed`, every approval must be signed,
    even if the project does not require it.

    Raises:
        CannotRead: `root` itself cannot be listed.
    """
    documents = check_documents(root, policy, map_tasks, content)
    findings = [*documents.findings, *_check_manifest(root, documents), *_check_match_key_id(root)]
    raw_ids = [name for name in _list_raw_responses(root, findings) if name not in documents.unknown_ids]
    stored = {
        entry.id: tree_layout.StoredSnapshot(entry.file, entry.hash, entry.id in documents.raw_response_ids)
        for entry in documents.entries
    }
    if not raw_ids and not documents.raw_response_ids and not os.path.lexists(f"{root}/{tree_layout.APPROVALS_DIR}"):
        records, gated = len(documents.entries), documents.request_gated
        return TreeReport(records, gated, tuple(sorted(findings)), stored=stored, adopted=documents.adopted)
    for name in raw_ids:
        if name in stored and name not in documents.raw_response_ids:
            file, message = tree_layout.raw_response_file(name), "the record of this id names no raw response"
            findings.append(Finding(file, "", RAW_REFERENCE_RULE, message, RESTORE_HINT))
    raw_only = _check_raw_only(root, [name for name in raw_ids if name not in stored], policy, content)
    findings += raw_only.findings
    stored |= raw_only.stored
    approvals = check_approvals(root, stored, documents.unknown_ids, require_signed=require_signed)
    return TreeReport(
        len(documents.entries),
        documents.request_gated + len(raw_only.stored),
        tuple(sorted([*findings, *approvals.findings])),
        len(raw_only.stored),
        approvals.approvals,
        stored,
        approvals.settings,
        approvals.unattributed,
        documents.adopted + raw_only.adopted,
    )


def check_documents(
    root: str, policy: determinism_policy.ModelPolicy, map_tasks: Mapper = map, content: TreeContent | None = None
) -> DocumentsReport:
    """Check every document of a tree, but not its manifest.

    Raises:
        CannotRead: `root` itself cannot be listed.
    """
    tasks, findings = _list_documents(root, policy, content)
    unknown_files = {f"{finding.file}/" for finding in findings if finding.is_unchecked}
    entries: list[snapshot_manifest.RecordEntry] = []
    request_gated = adopted = 0
    raw_response_ids: set[str] = set()
    other_ids: set[str] = set()
    results = list(zip(tasks, map_tasks(check_document_file, tasks), strict=True))
    current_ids = {entry.id for _, result in results for entry in result.entries}
    for task, result in results:
        entries += result.entries
        findings += _name_remaining(result, current_ids) if result.other_ids else result.findings
        other_ids.update(result.other_ids)
        request_gated += result.request_gated
        adopted += result.adopted
        raw_response_ids.update(result.raw_response_ids)
        if not result.is_complete:
            unknown_files.add(task.file)
    findings += _check_unique(entries)
    return DocumentsReport(
        entries,
        request_gated,
        findings,
        frozenset(unknown_files),
        frozenset(raw_response_ids),
        frozenset(other_ids - {""}),
        adopted,
    )


def _name_remaining(result: DocumentResult, current_ids: Collection[str]) -> list[Finding]:
    """The findings of a document of another version; their hint names what is not recorded again, if a part is."""
    remaining = [name for name in result.other_ids if name not in current_ids]
    if len(remaining) == len(result.other_ids):
        return result.findings
    hint = f"Not recorded again: {', '.join(name or NO_OWN_ID for name in remaining)}. {REPLACE_HINT}"
    if not remaining:
        hint = "Each of its records is recorded again: delete the file."
    elif result.other_version == OLD_VERSION:
        hint += f", or: {MIGRATE_COMMAND}"
    return [finding._replace(hint=hint) if is_old_version(finding) else finding for finding in result.findings]


def check_document_file(task: DocumentTask) -> DocumentResult:
    """Check one document. A bug in the check becomes a finding, so that other documents are still checked."""
    try:
        return _check_file(task)
    except CannotRead as exc:
        return DocumentResult([], [exc.finding(task.file)], is_complete=False)
    except NotJSON as exc:
        return DocumentResult([], [tree_layout.not_json_finding(task.root, task.file, exc)], is_complete=False)
    except Exception as exc:  # noqa: BLE001 (becomes a finding: unchecked, never valid)
        return DocumentResult([], [internal_error_finding(task.file, exc)], is_complete=False)


def _check_file(task: DocumentTask) -> DocumentResult:
    value = parse_exact_json(read_file(f"{task.root}/{task.file}", follow_links=False))
    if (other_version := find_other_version(value)) is not None:
        findings = check_document(value, task.file)
        return DocumentResult(
            [], findings, is_complete=False, other_version=other_version, other_ids=list_record_ids(value)
        )
    records = _list_records(value)
    findings = []
    request_gated = 0
    for index, record in enumerate(records):
        findings += _check_record(task, index, record)
        request_gated += _is_request_gated(record, task)
    entries = [
        snapshot_manifest.RecordEntry(task.provider, record["id"], task.file, record["hash"], record["timestamp"])
        for record in records
        if _is_listable(record)
    ]
    if len(records) == 1 and entries and f"{task.provider}/{entries[0].id}.json" != task.file:
        findings.append(
            Finding(
                task.file, "$.snapshots[0].id", IDENTITY_RULE, "the file is not named after its record", RESTORE_HINT
            )
        )
    is_complete = _count_records(value) == len(entries)
    raw_response_ids = tuple(record["id"] for record in records if _names_raw_response(record))
    all_findings = findings + check_document(value, task.file, owned=task.content is None)
    if task.content is not None:
        task.content.documents.append((task.provider, task.file, records))
    adopted = sum(map(determinism_policy.is_adopted_record, records))
    return DocumentResult(entries, all_findings, request_gated, raw_response_ids, is_complete, adopted=adopted)


def _list_records(value: JSON) -> list[dict[str, Any]]:
    """The records of a document, however broken; an item that is not an object counts as an empty record."""
    records = value.get("snapshots") if isinstance(value, dict) else None
    return [record if isinstance(record, dict) else {} for record in records] if isinstance(records, list) else []


def _count_records(value: JSON) -> int:
    """How many records a document lists; -1 if it has no list."""
    records = value.get("snapshots") if isinstance(value, dict) else None
    return len(records) if isinstance(records, list) else -1


def _is_listable(record: dict[str, Any]) -> bool:
    """Whether the manifest can list the record: an impossible timestamp cannot be ordered."""
    return (
        isinstance(record.get("id"), str)
        and isinstance(record.get("hash"), str)
        and isinstance(record.get("timestamp"), str)
        and find_instant(record["timestamp"]) is not None
    )


def _names_raw_response(record: dict[str, Any]) -> bool:
    response = record.get("response")
    return isinstance(response, dict) and "wire" in response and isinstance(record.get("id"), str)


def _is_request_gated(record: dict[str, Any], task: DocumentTask) -> bool:
    return (
        isinstance(record.get("request"), dict)
        and determinism_policy.find_gate(record, task.provider, task.policy) == determinism_policy.REQUEST_GATE
    )


def _check_record(task: DocumentTask, index: int, record: dict[str, Any]) -> Iterable[Finding]:
    request, response = record.get("request"), record.get("response")
    if isinstance(request, dict):
        for problem in determinism_policy.check_policy(request, task.provider, task.policy):
            path = f"$.snapshots[{index}].request.{problem.path}"
            yield Finding(
                task.file, path, determinism_policy.POLICY_RULE, problem.message, determinism_policy.POLICY_HINT
            )
    reference = response.get("wire") if isinstance(response, dict) else None
    if isinstance(reference, dict) and is_snapshot_id(record.get("id")):  # Any other id must not become a file name.
        yield from _check_raw_reference(task, f"$.snapshots[{index}]", record, reference)


def _check_raw_reference(
    task: DocumentTask, record_path: str, record: dict[str, Any], reference: dict[str, Any]
) -> Iterable[Finding]:
    file, path = reference.get("file"), f"{record_path}.response.wire"
    if file != f"wire/{record['id']}.json":
        yield Finding(
            task.file, f"{path}.file", RAW_REFERENCE_RULE, f"must be wire/{record['id']}.json", RESTORE_HINT
        )
        return
    if not os.path.lexists(f"{task.root}/{file}"):
        yield Finding(task.file, f"{path}.file", RAW_REFERENCE_RULE, f"{file} is missing", RESTORE_HINT)
        return
    try:
        data = read_file(f"{task.root}/{file}", follow_links=False)
    except CannotRead as exc:
        yield exc.finding(file)
        return
    if (computed := digest_bytes(data)) != reference.get("sha256"):
        message = f"the raw response's bytes give {computed}, the record states another digest"
        yield Finding(task.file, f"{path}.sha256", RAW_REFERENCE_RULE, message, RESTORE_HINT)
    yield from _check_agreement(task, record_path, record, file, data, computed)


def _check_agreement(
    task: DocumentTask, record_path: str, record: dict[str, Any], file: str, data: bytes, digest: Digest
) -> Iterable[Finding]:
    """Decode the raw response again: its answer must equal the answer in the record, which was reviewed."""
    raw, findings = _parse_raw_response(task.root, file, data)
    yield from findings
    if raw is None:
        return
    if task.content is not None:
        task.content.raw_responses[record["id"]] = digest, raw
    if isinstance(record.get("request"), dict) and isinstance(record.get("response"), dict):
        for problem in find_disagreements(record, raw, task.policy):
            at = f"{record_path}.{problem.path}".rstrip(".")
            yield Finding(task.file, at, RAW_RESPONSE_RULE, problem.message, RESTORE_HINT)


def _parse_raw_response(root: str, file: str, data: bytes) -> tuple[RawResponse | None, list[Finding]]:
    try:
        return read_raw_response(data), []
    except NotJSON as exc:
        return None, [tree_layout.not_json_finding(root, file, exc)]
    except InvalidFile as exc:
        return None, [finding._replace(file=file) for finding in exc.findings]


def _list_raw_responses(root: str, findings: list[Finding]) -> list[str]:
    """The ids of all raw responses; any other file is added to `findings`."""
    if not tree_layout.is_folder(f"{root}/{tree_layout.WIRE_DIR}"):
        return []
    names = []
    for file in tree_layout.list_json_files(root, tree_layout.WIRE_DIR, findings):
        if is_snapshot_id(name := file.removesuffix(".json")):
            names.append(name)
        else:
            findings.append(tree_layout.stray_file_finding(f"{tree_layout.WIRE_DIR}/{file}"))
    return names


class _RawOnlyReport(Struct, frozen=True):
    """Raw responses without a record: the snapshots that they are, how many are adopted, and the findings."""

    stored: dict[str, tree_layout.StoredSnapshot]
    adopted: int
    findings: list[Finding]


def _check_raw_only(
    root: str, names: Sequence[str], policy: determinism_policy.ModelPolicy, content: TreeContent | None
) -> _RawOnlyReport:
    """Check the raw responses without a record: only a call that a record cannot hold may lack one."""
    stored: dict[str, tree_layout.StoredSnapshot] = {}
    findings: list[Finding] = []
    adopted = 0
    for name in names:
        file = tree_layout.raw_response_file(name)
        digest, raw, file_findings = _check_raw_only_file(root, file, policy, content)
        findings += file_findings
        adopted += raw is not None and raw.adopted_from is not None
        stored[name] = tree_layout.StoredSnapshot(file, digest, must_be_approved=True)
    return _RawOnlyReport(stored, adopted, findings)


def _check_raw_only_file(
    root: str, file: str, policy: determinism_policy.ModelPolicy, content: TreeContent | None
) -> tuple[str, RawResponse | None, list[Finding]]:
    try:
        data = read_file(f"{root}/{file}", follow_links=False)
    except CannotRead as exc:
        return "", None, [exc.finding(file)]
    raw, findings = _parse_raw_response(root, file, data)
    digest = digest_bytes(data)
    if raw is not None:
        if content is not None:
            content.raw_responses[os.path.basename(file).removesuffix(".json")] = digest, raw
        try:
            findings += [
                Finding(file, "", RAW_RESPONSE_RULE, message, RESTORE_HINT)
                for message in check_has_no_record(raw, policy)
            ]
        except Exception as exc:  # noqa: BLE001 (becomes a finding: unchecked, never valid)
            findings.append(internal_error_finding(file, exc))
    return digest, raw, findings


def _list_documents(
    root: str, policy: determinism_policy.ModelPolicy, content: TreeContent | None
) -> tuple[list[DocumentTask], list[Finding]]:
    tasks: list[DocumentTask] = []
    findings: list[Finding] = []
    for entry in list_folder(root):
        if entry.is_dir(follow_symlinks=False):
            if entry.name in tree_layout.RESERVED_DIRS or entry.name.startswith("."):
                continue
            if not tree_layout.is_provider_name(entry.name):
                findings.append(
                    Finding(entry.name, "", tree_layout.LAYOUT_RULE, "not a provider's name", tree_layout.STRAY_HINT)
                )
            names = tree_layout.list_json_files(root, entry.name, findings)
            tasks += [DocumentTask(root, entry.name, f"{entry.name}/{name}", policy, content) for name in names]
        elif entry.is_symlink():
            findings.append(_link_finding(entry.name))
        elif entry.name not in tree_layout.ROOT_FILES and not entry.name.startswith("."):
            findings.append(tree_layout.stray_file_finding(entry.name))
    return tasks, findings


def _link_finding(file: str) -> Finding:
    return Finding(file, "", IO, "a symbolic link, which is not followed", "Replace the link by the file.")


def _check_unique(entries: list[snapshot_manifest.RecordEntry]) -> list[Finding]:
    first_files: dict[str, str] = {}
    findings = []
    for entry in sorted(entries, key=lambda entry: (entry.id, entry.file)):
        if entry.id in first_files:
            message = f"id {printable_name(entry.id)} is already in {first_files[entry.id]}"
            findings.append(Finding(entry.file, "", IDENTITY_RULE, message, RESTORE_HINT))
        first_files.setdefault(entry.id, entry.file)
    return findings


def _check_manifest(root: str, documents: DocumentsReport) -> list[Finding]:
    path = f"{root}/{snapshot_manifest.MANIFEST_NAME}"
    entries = documents.entries
    if not os.path.lexists(path):  # A dangling link must not count as missing.
        if not entries:
            return []
        message = "the tree has no manifest"
        return [
            Finding(
                snapshot_manifest.MANIFEST_NAME,
                "",
                snapshot_manifest.MISSING_RULE,
                message,
                snapshot_manifest.REBUILD_HINT,
            )
        ]
    try:
        data = read_file(path, follow_links=False)
    except CannotRead as exc:
        return [exc.finding(snapshot_manifest.MANIFEST_NAME)]
    return snapshot_manifest.check_manifest(data, entries, documents.unknown_files)


def _check_match_key_id(root: str) -> list[Finding]:
    path = f"{root}/{KEY_ID_NAME}"
    if not os.path.lexists(path):
        return []
    try:
        return check_key_id(read_file(path, follow_links=False))
    except CannotRead as exc:
        return [exc.finding(KEY_ID_NAME)]
