"""Write approved changes to the snapshot tree in one transaction.

In: changes of snapshots, and the reason. Out: records, raw responses, manifest and approval, written together. Never:
writes what `verify` would refuse, adds to a tree that is broken elsewhere, or leaves a part of the changes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, cast

from msgspec import UNSET, UnsetType

from traceforge.canon import Digest, JSONObject, digest_bytes, json_path, parse_json
from traceforge.clock import timestamp_text
from traceforge.config import SNAPSHOTS_DIR, Config
from traceforge.errors import InvalidFile, NotFound, NotJSON
from traceforge.files import read_file
from traceforge.findings import Finding, printable_name
from traceforge.match_key import KEY_ID_NAME, find_match_key, write_key_id
from traceforge.snapshots.formats import determinism_policy, snapshot_manifest, tree_layout
from traceforge.snapshots.formats.approval_format import (
    Approval,
    ApprovedChange,
    ApprovedSetting,
    UnknownPart,
    load_approvals,
    read_approval,
    write_approval,
)
from traceforge.snapshots.formats.approved_policy import find_policy_changes
from traceforge.snapshots.formats.raw_response import RAW_RESPONSE_RULE as WIRE_RULE
from traceforge.snapshots.formats.raw_response import (
    RawResponse,
    check_has_no_record,
    find_disagreements,
    read_raw_response,
)
from traceforge.snapshots.formats.snapshot_format import (
    NO_OWN_ID,
    RECORD_FIELDS,
    RESTORE_HINT,
    SHAPE_RULE,
    is_old_version,
    is_snapshot_id,
    read_document,
    write_document,
)
from traceforge.snapshots.record.old_snapshots import list_old_snapshots
from traceforge.snapshots.tree.approval_chain import ApprovalChain
from traceforge.snapshots.tree.approval_check import raw_response_lost
from traceforge.snapshots.tree.approval_signing import find_approver, load_signing_key
from traceforge.snapshots.tree.base_checks import find_local_changes
from traceforge.snapshots.tree.tree_transaction import FileChange, lock_tree
from traceforge.snapshots.tree.tree_verification import IDENTITY_RULE, DocumentsReport, check_documents


class SnapshotChange(NamedTuple):
    """The new state of one snapshot.

    `record` holds a record's five fields. With `raw_response` alone, the call is one that a record cannot hold. With
    neither, the snapshot is removed.
    """

    provider: str
    id: str
    record: JSONObject | None
    raw_response: bytes | None


class Decision(NamedTuple):
    """Why and how a user approves; `commit_changes` says what the fields mean."""

    reason: str
    tag: str
    sign: bool
    now: datetime
    config: Config | None
    approve_policy: bool
    base: str = ""  # with `approve_policy`: a commit with checks that demanded more


class CommitResult(NamedTuple):
    """The approval, and the files that were written."""

    approval: Approval
    files: tuple[str, ...]  # relative to the tree, sorted


class _TreeEdit:
    """The tree as it is, and the files that will change."""

    def __init__(self, root: str, replaced_files: Collection[str], *, keep_old: bool) -> None:
        self.root = root
        self._replaced = frozenset(replaced_files)
        is_present = os.path.lexists(root)
        self.documents = (
            check_documents(root, determinism_policy.ModelPolicy())
            if is_present
            else DocumentsReport([], 0, [], frozenset(), frozenset())
        )
        old_files = {finding.file for finding in self.documents.findings if is_old_version(finding)}
        self.old_files: dict[str, list[str]] = {file: [] for file in sorted(old_files) if keep_old}  # with their ids
        for old in list_old_snapshots(root, self.old_files):
            self.old_files[old.file].append(old.id)
        self.entries = {
            entry.id: entry
            for entry in self.documents.entries
            if entry.file not in self._replaced and entry.file not in self.old_files
        }
        self.files: dict[str, bytes | None] = dict.fromkeys(replaced_files)
        approvals = load_approvals(root)
        self.chain = ApprovalChain(approvals)
        self._approved = {
            (change.id, change.after) for stored_approval in approvals for change in stored_approval.approval.changes
        }

    def remove_replaced_documents(self) -> Iterator[Finding]:
        """Remove each document of an older version whose records are all replaced. Returns a finding for one that a
        change would overwrite before that.
        """
        for file, ids in self.old_files.items():
            remaining = [name or NO_OWN_ID for name in ids if not self._is_replaced(name)]
            if not remaining:
                self.files.setdefault(file, None)
            elif self.files.get(file) is not None:
                names = ", ".join(map(printable_name, remaining))
                hint = f"Record {names} too, and approve them together: no call is deleted that was not replaced."
                yield Finding(file, "", IDENTITY_RULE, f"the document of an older version also has {names}", hint)

    def _is_replaced(self, name: str) -> bool:
        return bool(name) and (
            name in self.entries or self.files.get(tree_layout.raw_response_file(name)) is not None
        )

    def find_approved_digest(self, name: str) -> Digest | None:
        """The approved state of a snapshot; None if it was written by hand and never approved."""
        digest = self._find_digest(name)
        return digest if (name, digest) in self._approved else None

    def has(self, name: str) -> bool:
        """Whether there is a snapshot of this id."""
        return self._find_digest(name) is not None

    def file_of(self, name: str) -> str:
        """The file of a snapshot."""
        return self.entries[name].file if name in self.entries else tree_layout.raw_response_file(name)

    def _find_digest(self, name: str) -> Digest | None:
        if name in self.entries:
            return Digest(self.entries[name].hash)
        path = f"{self.root}/{tree_layout.raw_response_file(name)}"
        return digest_bytes(read_file(path, follow_links=False)) if os.path.lexists(path) else None

    def remove(self, name: str) -> None:
        """Remove a snapshot and its raw response. Other records of its document stay."""
        if os.path.lexists(f"{self.root}/{tree_layout.raw_response_file(name)}"):
            self.files[tree_layout.raw_response_file(name)] = None
        entry = self.entries.pop(name, None)
        if entry is None:
            return
        self.files[entry.file] = None
        other_ids = {other.id for other in self.entries.values() if other.file == entry.file}
        if other_ids:
            self._split(entry.file, other_ids)

    def _split(self, file: str, kept_ids: set[str]) -> None:
        """Write the remaining records of a document into files of their own."""
        for record in read_document(read_file(f"{self.root}/{file}", follow_links=False)):
            if record.id in kept_ids:
                entry = self.entries[record.id]
                self.entries[record.id] = entry._replace(file=f"{entry.provider}/{record.id}.json")
                self.files[self.entries[record.id].file] = write_document([record.body])

    def find_broken_documents(self) -> list[Finding]:
        """Findings of unchanged documents, without the determinism policy, which is about calls."""
        return [
            finding
            for finding in self.documents.findings
            if finding.rule != determinism_policy.POLICY_RULE
            and finding.file not in self.files
            and finding.file not in self.old_files
        ]


def commit_changes(
    project: str,
    policy: determinism_policy.ModelPolicy,
    changes: Sequence[SnapshotChange],
    *,
    reason: str,
    tag: str = "",
    sign: bool = False,
    now: datetime,
    replaced_files: Collection[str] = (),
    keep_old: bool = False,
    config: Config | None = None,
    approve_policy: bool = False,
    base: str = "",
) -> CommitResult:
    """Write changes of the project's snapshots, the new manifest and the approval: all or nothing.

    The settings of `config` are approved with `approve_policy`, or if no approval of the tree names a policy yet. The
    approval is signed with `sign`, or where the project requires it.
    The first approval also commits the id of the match key, so that no second key is made.
    `replaced_files` names documents that are removed: those of another version, which `changes` migrate. With
    `keep_old`, a document of an older version is removed when this version has each of its records, and stays before
    that; otherwise such a document makes the tree invalid.

    Raises:
        InvalidFile: a change, or the tree, breaks a rule; the error holds every finding.
        NotFound: a snapshot to be removed does not exist.
        PathInUse, CannotWrite, BrokenJournal: see `tree_transaction`.
        CannotSign: the approval could not be signed.
    """
    _refuse_unknown_removals(project, changes)
    with lock_tree(project) as write:
        tree = _TreeEdit(os.path.join(project, SNAPSHOTS_DIR), replaced_files, keep_old=keep_old)
        _raise_if_any(_check_names(changes))
        _raise_if_any(_check_new_ids(tree, changes) if replaced_files else [])
        approved_changes = _apply_changes(tree, changes, policy)
        _raise_if_any(tree.remove_replaced_documents())
        _raise_if_any(tree.find_broken_documents())
        entries = list(tree.entries.values())
        tree.files[snapshot_manifest.MANIFEST_NAME] = snapshot_manifest.write_manifest(entries) if entries else None
        if not os.path.lexists(f"{tree.root}/{KEY_ID_NAME}") and (key := find_match_key(project)) is not None:
            tree.files[KEY_ID_NAME] = write_key_id(key)
        decision = Decision(reason, tag, sign, now, config, approve_policy, base)
        file, data = draft_approval(project, tree.chain, approved_changes, decision)
        tree.files[file] = data
        write([FileChange(name, tree.files[name]) for name in sorted(tree.files)])
    return CommitResult(read_approval(data), tuple(sorted(tree.files)))


def _refuse_unknown_removals(project: str, changes: Sequence[SnapshotChange]) -> None:
    """Refuse to remove what does not exist before the tree is locked: the lock would make the state folder."""
    removed = [change.id for change in changes if change.record is None and change.raw_response is None]
    if removed and not os.path.lexists(os.path.join(project, SNAPSHOTS_DIR)):
        raise _no_snapshot(removed[0])


def _no_snapshot(name: str) -> NotFound:
    return NotFound(f"there is no snapshot {name}", hint="See: traceforge snapshot list")


def draft_approval(
    project: str,
    chain: ApprovalChain,
    changes: list[ApprovedChange],
    decision: Decision,
    *,
    absent: Sequence[str] = (),
) -> tuple[str, bytes]:
    """The next approval of a chain: the path of its file in the tree, and its bytes.

    Raises:
        CannotSign: the approval could not be signed.
    """
    config = decision.config
    must_sign = chain.requires_signatures() or (config is not None and config.approvals.require_signed)
    return write_approval(
        timestamp_text(decision.now),
        find_approver(project),
        decision.reason,
        changes,
        tag=decision.tag,
        follows=[stored.approval.hash for stored in chain.heads],
        absent=absent,
        policy=_list_settings(project, chain, config, decision) if config is not None else None,
        signer=load_signing_key(project) if decision.sign or must_sign else None,
    )


def _list_settings(
    project: str, chain: ApprovalChain, config: Config, decision: Decision
) -> dict[str, ApprovedSetting] | None:
    """The settings to approve, and the checks that demand less; None if this approval is not about the policy."""
    approved = chain.approved_settings()
    if approved is not None and not decision.approve_policy:
        return None
    changes = find_policy_changes(config, approved or {})
    if decision.approve_policy:
        changes += find_local_changes(project, decision.base)
    return {change.name: ApprovedSetting(change.before, change.after) for change in changes}


def _apply_changes(
    tree: _TreeEdit, changes: Sequence[SnapshotChange], policy: determinism_policy.ModelPolicy
) -> list[ApprovedChange]:
    """Apply every change, or raise with the findings of all of them."""
    approved_changes: list[ApprovedChange] = []
    findings: list[Finding] = []
    for change in changes:
        try:
            approved_changes.append(_apply_change(tree, change, policy))
        except InvalidFile as exc:
            findings += exc.findings
    _raise_if_any(findings)
    return approved_changes


def _apply_change(tree: _TreeEdit, change: SnapshotChange, policy: determinism_policy.ModelPolicy) -> ApprovedChange:
    """Apply one change to the tree's files; returns the state before and after."""
    before, file = tree.find_approved_digest(change.id), tree.file_of(change.id)
    if change.record is None and change.raw_response is None:
        if not tree.has(change.id):
            raise _no_snapshot(change.id)
        tree.remove(change.id)
        return ApprovedChange(change.id, file, before, None, None)
    tree.remove(change.id)
    if change.raw_response is not None:
        tree.files[tree_layout.raw_response_file(change.id)] = change.raw_response
    if change.record is None:
        assert change.raw_response is not None
        _raise_if_any(_check_raw_only(change, policy))
        digest = digest_bytes(change.raw_response)
        return ApprovedChange(
            change.id, tree_layout.raw_response_file(change.id), before, digest, digest, _list_unknown(change)
        )
    file = f"{change.provider}/{change.id}.json"
    if change.raw_response is None and change.id in tree.chain.recorded_ids():
        raise InvalidFile((raw_response_lost(file, change.id),))
    data = _write_record(change)
    _raise_if_any(_check_record(change, data, policy))
    (record,) = read_document(data)
    tree.files[file] = data
    tree.entries[change.id] = snapshot_manifest.RecordEntry(
        change.provider, change.id, file, record.hash, record.timestamp
    )
    raw_digest = digest_bytes(change.raw_response) if change.raw_response is not None else None
    return ApprovedChange(change.id, file, before, record.hash, raw_digest, _list_unknown(change))


def _list_unknown(change: SnapshotChange) -> list[UnknownPart] | UnsetType:
    """What the raw response does not say about its request."""
    if change.raw_response is None:
        return UNSET
    unknown = _parse_raw_response(change).unknown
    names: list[UnknownPart] = []
    if unknown.upstream:
        names.append("upstream")
    if unknown.known_headers is not None:
        names.append("headers")
    return names or UNSET


def _write_record(change: SnapshotChange) -> bytes:
    """The document of a record, with a reference to its raw response if it has one."""
    assert change.record is not None
    body = dict(change.record)
    response = body.get("response")
    if isinstance(response, dict):
        fields = {name: value for name, value in response.items() if name != "wire"}
        if change.raw_response is not None:
            fields["wire"] = {
                "file": tree_layout.raw_response_file(change.id),
                "sha256": digest_bytes(change.raw_response),
            }
        body["response"] = fields
    try:
        return write_document([body])
    except InvalidFile as exc:
        file = f"{change.provider}/{change.id}.json"
        raise InvalidFile(tuple(finding._replace(file=file) for finding in exc.findings)) from None


def _check_names(changes: Sequence[SnapshotChange]) -> Iterator[Finding]:
    seen_ids: set[str] = set()
    for change in changes:
        file = f"{change.provider}/{change.id}.json"
        if not is_snapshot_id(change.id) or change.id in seen_ids:
            yield Finding(file, "$.id", SHAPE_RULE, "is not a snapshot id, or is in this approval twice")
        if change.record is not None:
            if not tree_layout.is_provider_name(change.provider) or change.provider in tree_layout.RESERVED_DIRS:
                yield Finding(file, "", tree_layout.LAYOUT_RULE, "not a provider's name")
            if change.record.get("id") != change.id:
                yield Finding(file, "$.id", SHAPE_RULE, "the record and its change have different ids")
            unknown = [name for name in change.record if name not in RECORD_FIELDS]
            yield from (Finding(file, json_path("$", name), SHAPE_RULE, "unknown field") for name in unknown)
        seen_ids.add(change.id)


def _check_new_ids(tree: _TreeEdit, changes: Sequence[SnapshotChange]) -> Iterator[Finding]:
    """Migrated records must not replace snapshots of the current version."""
    for change in changes:
        if tree.has(change.id):
            message = f"id {change.id} is already in {tree.file_of(change.id)}"
            yield Finding(f"{change.provider}/{change.id}.json", "", IDENTITY_RULE, message, "Run the command again.")


def _check_record(change: SnapshotChange, data: bytes, policy: determinism_policy.ModelPolicy) -> Iterator[Finding]:
    file = f"{change.provider}/{change.id}.json"
    (record,) = cast("list[JSONObject]", cast("JSONObject", parse_json(data))["snapshots"])
    for problem in determinism_policy.check_policy(cast("JSONObject", record["request"]), change.provider, policy):
        yield Finding(
            file,
            f"$.snapshots[0].request.{problem.path}",
            determinism_policy.POLICY_RULE,
            problem.message,
            determinism_policy.POLICY_HINT,
        )
    if change.raw_response is not None:
        for problem in find_disagreements(record, _parse_raw_response(change), policy):
            yield Finding(
                file, f"$.snapshots[0].{problem.path}".rstrip("."), WIRE_RULE, problem.message, RESTORE_HINT
            )


def _check_raw_only(change: SnapshotChange, policy: determinism_policy.ModelPolicy) -> Iterator[Finding]:
    for message in check_has_no_record(_parse_raw_response(change), policy):
        yield Finding(tree_layout.raw_response_file(change.id), "", WIRE_RULE, message)


def _parse_raw_response(change: SnapshotChange) -> RawResponse:
    assert change.raw_response is not None
    file = tree_layout.raw_response_file(change.id)
    try:
        return read_raw_response(change.raw_response)
    except NotJSON as exc:
        raise InvalidFile((exc.finding(file),)) from None
    except InvalidFile as exc:
        raise InvalidFile(tuple(finding._replace(file=file) for finding in exc.findings)) from None


def _raise_if_any(findings: Iterator[Finding] | list[Finding]) -> None:
    sorted_findings = sorted(findings)
    if sorted_findings:
        raise InvalidFile(tuple(sorted_findings))
