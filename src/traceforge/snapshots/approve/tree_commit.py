"""Approved changes, committed to the tree as one.

In: what shall become of some snapshots, and why. Out: records, wire answers, manifest and approval, written together.
Never: writes what `verify` would refuse, adds to a tree that is broken elsewhere, or leaves a part behind.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, cast

from traceforge.canon import Digest, JSONObject, digest_bytes, parse_json
from traceforge.clock import timestamp_text
from traceforge.config import SNAPSHOTS_DIR, ModelRule
from traceforge.errors import InvalidFile, NotFound, NotJSON
from traceforge.files import read_file
from traceforge.findings import Finding
from traceforge.snapshots.formats import determinism_policy, snapshot_manifest, tree_layout
from traceforge.snapshots.formats.approval_format import (
    Approval,
    Change,
    find_approver,
    load_approvals,
    read_approval,
    write_approval,
)
from traceforge.snapshots.formats.raw_response import RULE as WIRE_RULE
from traceforge.snapshots.formats.raw_response import WireAnswer, disagreements, read_wire, why_not_alone
from traceforge.snapshots.formats.snapshot_format import (
    RECORD_FIELDS,
    RESTORE,
    SHAPE_RULE,
    is_snapshot_id,
    read_document,
    write_document,
)
from traceforge.snapshots.tree.approval_signing import load_signing_key
from traceforge.snapshots.tree.tree_transaction import FileChange, exclusive
from traceforge.snapshots.tree.tree_verification import IDENTITY_RULE, DocumentsReport, check_documents


class RecordChange(NamedTuple):
    """What shall become of one snapshot.

    With a body (the record's five fields): a record, with its wire answer if there is one. With a wire answer alone:
    what the format of records cannot hold. With neither: it goes.
    """

    provider: str
    id: str
    body: JSONObject | None
    wire: bytes | None


class Committed(NamedTuple):
    """What was written."""

    approval: Approval
    files: tuple[str, ...]  # relative to the tree, sorted


class _Tree:
    """The tree as it is, and as it becomes."""

    def __init__(self, root: str, replaced: Collection[str]) -> None:
        self.root = root
        self._replaced = frozenset(replaced)
        there = os.path.lexists(root)
        self.documents = check_documents(root, {}) if there else DocumentsReport([], 0, [], frozenset(), frozenset())
        self.entries = {entry.id: entry for entry in self.documents.entries if entry.file not in self._replaced}
        self.files: dict[str, bytes | None] = dict.fromkeys(replaced)
        self._approved = {
            (change.id, change.after) for kept in load_approvals(root) for change in kept.approval.changes
        }

    def before(self, name: str) -> Digest | None:
        """The approved state of a snapshot; what was written by hand and never approved is none."""
        digest = self._standing(name)
        return digest if (name, digest) in self._approved else None

    def has(self, name: str) -> bool:
        """Does anything stand under this id?"""
        return self._standing(name) is not None

    def file_of(self, name: str) -> str:
        """The file that a snapshot stands in."""
        return self.entries[name].file if name in self.entries else _wire_file(name)

    def _standing(self, name: str) -> Digest | None:
        if name in self.entries:
            return Digest(self.entries[name].hash)
        path = f"{self.root}/{_wire_file(name)}"
        return digest_bytes(read_file(path, follow_links=False)) if os.path.lexists(path) else None

    def drop(self, name: str) -> None:
        """Take a snapshot out, with its wire answer; other records of its document stay."""
        if os.path.lexists(f"{self.root}/{_wire_file(name)}"):
            self.files[_wire_file(name)] = None
        entry = self.entries.pop(name, None)
        if entry is None:
            return
        self.files[entry.file] = None
        others = {one.id for one in self.entries.values() if one.file == entry.file}
        if others:
            self._split(entry.file, others)

    def _split(self, file: str, stay: set[str]) -> None:
        """Give the other records of a document files of their own, as we write them."""
        for record in read_document(read_file(f"{self.root}/{file}", follow_links=False)):
            if record.id in stay:
                entry = self.entries[record.id]
                self.entries[record.id] = entry._replace(file=f"{entry.provider}/{record.id}.json")
                self.files[self.entries[record.id].file] = write_document([record.body])

    def broken(self) -> list[Finding]:
        """What is wrong with documents that stay as they are; the policy gates calls, not their neighbours."""
        return [
            finding
            for finding in self.documents.findings
            if finding.rule != determinism_policy.RULE and finding.file not in self.files
        ]


def commit_changes(
    project: str,
    models: Mapping[str, ModelRule],
    changes: Sequence[RecordChange],
    *,
    reason: str,
    tag: str = "",
    sign: bool = False,
    now: datetime,
    replaced: Collection[str] = (),
) -> Committed:
    """Write changes of the project's snapshots, the manifest they give and their approval, all or nothing.

    `replaced` names documents that go, whatever they hold: those of another version, which `changes` hold anew.

    Raises:
        InvalidFile: a change, or the tree it would be added to, breaks a rule; the error holds every finding.
        NotFound: something that does not stand in the tree was to be removed.
        PathInUse, CannotWrite, BrokenJournal: see `transaction`.
        CannotSign: it was to be signed, and could not be.
    """
    signer = load_signing_key(project) if sign else None
    approver = find_approver(project)
    with exclusive(project) as write:
        tree = _Tree(os.path.join(project, SNAPSHOTS_DIR), replaced)
        _refuse(_check_names(changes))
        _refuse(_check_new(tree, changes) if replaced else [])
        done = _change_all(tree, changes, models)
        _refuse(tree.broken())
        entries = list(tree.entries.values())
        tree.files[snapshot_manifest.NAME] = snapshot_manifest.write_manifest(entries) if entries else None
        file, data = write_approval(timestamp_text(now), approver, reason, done, tag=tag, signer=signer)
        tree.files[file] = data
        write([FileChange(name, tree.files[name]) for name in sorted(tree.files)])
    return Committed(read_approval(data), tuple(sorted(tree.files)))


def _change_all(tree: _Tree, changes: Sequence[RecordChange], models: Mapping[str, ModelRule]) -> list[Change]:
    """Make every change, or say everything that is wrong with any of them."""
    done: list[Change] = []
    found: list[Finding] = []
    for change in changes:
        try:
            done.append(_change(tree, change, models))
        except InvalidFile as exc:
            found += exc.findings
    _refuse(found)
    return done


def _change(tree: _Tree, change: RecordChange, models: Mapping[str, ModelRule]) -> Change:
    """Make one change in the tree's files; what it was and what it is now."""
    before, file = tree.before(change.id), tree.file_of(change.id)
    if change.body is None and change.wire is None:
        if not tree.has(change.id):
            raise NotFound(f"no snapshot has the id {change.id}", hint="See: traceforge snapshot list")
        tree.drop(change.id)
        return Change(change.id, file, before, None)
    tree.drop(change.id)
    if change.wire is not None:
        tree.files[_wire_file(change.id)] = change.wire
    if change.body is None:
        assert change.wire is not None
        _refuse(_check_wire_only(change, models))
        return Change(change.id, _wire_file(change.id), before, digest_bytes(change.wire))
    file = f"{change.provider}/{change.id}.json"
    data = _document(change)
    _refuse(_check_record(change, data, models))
    (record,) = read_document(data)
    tree.files[file] = data
    tree.entries[change.id] = snapshot_manifest.Entry(change.provider, change.id, file, record.hash, record.timestamp)
    return Change(change.id, file, before, record.hash)


def _wire_file(name: str) -> str:
    return f"{tree_layout.WIRE}/{name}.json"


def _document(change: RecordChange) -> bytes:
    """The document of a record that points at its wire answer, or at none."""
    assert change.body is not None
    body = dict(change.body)
    response = body.get("response")
    if isinstance(response, dict):
        said = {name: value for name, value in response.items() if name != "wire"}
        if change.wire is not None:
            said["wire"] = {"file": _wire_file(change.id), "sha256": digest_bytes(change.wire)}
        body["response"] = said
    try:
        return write_document([body])
    except InvalidFile as exc:
        file = f"{change.provider}/{change.id}.json"
        raise InvalidFile(tuple(finding._replace(file=file) for finding in exc.findings)) from None


def _check_names(changes: Sequence[RecordChange]) -> Iterator[Finding]:
    seen: set[str] = set()
    for change in changes:
        file = f"{change.provider}/{change.id}.json"
        if not is_snapshot_id(change.id) or change.id in seen:
            yield Finding(file, "$.id", SHAPE_RULE, "is no id of a snapshot, or stands twice in one approval")
        if change.body is not None:
            if not tree_layout.is_provider(change.provider) or change.provider in tree_layout.RESERVED:
                yield Finding(file, "", tree_layout.RULE, "not a provider's name")
            if change.body.get("id") != change.id:
                yield Finding(file, "$.id", SHAPE_RULE, "the record has another id than its change")
            unknown = [name for name in change.body if name not in RECORD_FIELDS]
            yield from (Finding(file, f"$.{name}", SHAPE_RULE, "unknown field") for name in unknown)
        seen.add(change.id)


def _check_new(tree: _Tree, changes: Sequence[RecordChange]) -> Iterator[Finding]:
    """What replaces documents of another version must not replace a snapshot of this one."""
    for change in changes:
        if tree.has(change.id):
            message = f"id {change.id} stands in {tree.file_of(change.id)} already"
            yield Finding(f"{change.provider}/{change.id}.json", "", IDENTITY_RULE, message, RESTORE)


def _check_record(change: RecordChange, data: bytes, models: Mapping[str, ModelRule]) -> Iterator[Finding]:
    file = f"{change.provider}/{change.id}.json"
    (record,) = cast("list[JSONObject]", cast("JSONObject", parse_json(data))["snapshots"])
    for problem in determinism_policy.check_policy(cast("JSONObject", record["request"]), change.provider, models):
        yield Finding(
            file,
            f"$.snapshots[0].request.{problem.path}",
            determinism_policy.RULE,
            problem.message,
            determinism_policy.HINT,
        )
    if change.wire is not None:
        for problem in disagreements(record, _read_wire(change), models):
            yield Finding(file, f"$.snapshots[0].{problem.path}".rstrip("."), WIRE_RULE, problem.message, RESTORE)


def _check_wire_only(change: RecordChange, models: Mapping[str, ModelRule]) -> Iterator[Finding]:
    for message in why_not_alone(_read_wire(change), models):
        yield Finding(_wire_file(change.id), "", WIRE_RULE, message)


def _read_wire(change: RecordChange) -> WireAnswer:
    assert change.wire is not None
    file = _wire_file(change.id)
    try:
        return read_wire(change.wire)
    except NotJSON as exc:
        raise InvalidFile((exc.finding(file),)) from None
    except InvalidFile as exc:
        raise InvalidFile(tuple(finding._replace(file=file) for finding in exc.findings)) from None


def _refuse(findings: Iterator[Finding] | list[Finding]) -> None:
    found = sorted(findings)
    if found:
        raise InvalidFile(tuple(found))
