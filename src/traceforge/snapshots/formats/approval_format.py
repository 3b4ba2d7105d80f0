"""The approval, version 1.0.0: who approved which snapshot changes, when and why.

One file each, `approvals/<time>-<12 hex digits>.json`, two-space indent, a final newline:

    {"version", "approved_at", "approved_by": {"name", "email"}, "reason", "tag",
     "follows": [hash, …], "absent": [hash, …],
     "changes": [{"id", "file", "before", "after", "raw_response"}, …],
     "policy": {setting: {"before", "after"}, …}, "key", "hash", "signature"}

`hash` is the digest of the canonical text of everything but `hash` and `signature`; its first 12 hex digits name the
file. `signature` is an SSH signature over the canonical text of everything but itself, and `key` the fingerprint of
the key that made it, so that removing a signature is noticed. `follows` names the approvals that no other one
followed yet, so that removing an approval is noticed (`approval_chain.py`); `absent` names those that others follow
and that are rightly not in the tree, such as after a cherry-pick. Older approvals have no `follows`, no `policy` and
no `raw_response`: then it is unknown.

In: approved changes, or bytes. Out: the file, or every broken rule. Never: changes an approval that exists: two
branches add files, and do not conflict.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, cast

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from traceforge.canon import (
    JSON,
    Digest,
    JSONObject,
    canonical_bytes,
    digest_canonical,
    ecmascript_bytes,
    find_repeated_name,
    parse_json,
)
from traceforge.conversion import convert
from traceforge.errors import InvalidFile
from traceforge.files import list_folder, read_file
from traceforge.findings import Finding, printable_name
from traceforge.shape import DigestText, NonEmptyText, ShapeProblem, Timestamp, find_problems, find_timestamp_problems
from traceforge.snapshots.formats.snapshot_format import RESTORE_HINT, SnapshotIdText
from traceforge.snapshots.formats.tree_layout import APPROVALS_DIR, is_folder

VERSION: Literal["1.0.0"] = "1.0.0"
NAME_DIGITS = 12  # hex digits of the hash that name the file: enough that no two approvals of a millisecond meet

SHAPE_RULE = "AP1"
HASH_RULE = "AP2"

FILE_PATTERN = r"^[a-z0-9][a-z0-9._-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*\.json$(?!\n)"
REASON_PATTERN = r"\S"

ReasonText = Annotated[str, Meta(pattern=REASON_PATTERN, description="more than white space")]
FileText = Annotated[str, Meta(pattern=FILE_PATTERN, description="a file of a snapshot tree")]


UnknownPart = Literal["upstream", "headers"]


class Signer(Protocol):
    """A key that signs approvals."""

    @property
    def fingerprint(self) -> str:
        """Names the key in the approval."""
        ...

    def sign(self, data: bytes) -> str:
        """Sign bytes.

        Raises:
            CannotSign: the key cannot be used.
        """
        ...


class Approver(Struct, forbid_unknown_fields=True, frozen=True):
    """The name and address that Git has configured for the approver."""

    name: NonEmptyText
    email: str


class ApprovedChange(Struct, forbid_unknown_fields=True, frozen=True):
    """One snapshot, before and after: its record's hash, or the digest of its raw response.

    `before` is null for a snapshot that was never approved, `after` for one that was removed. `raw_response` is the
    digest of the raw response after the change, null where there is none. `unknown` lists what the raw response does
    not say about its request, `upstream` or `headers`: it was approved without being compared.
    """

    id: SnapshotIdText
    file: FileText
    before: DigestText | None
    after: DigestText | None
    raw_response: DigestText | UnsetType | None = UNSET
    unknown: list[UnknownPart] | UnsetType = UNSET


class ApprovedSetting(Struct, forbid_unknown_fields=True, frozen=True):
    """One setting of the policy, before and after. Null: it was not set, and has its default."""

    before: Any
    after: Any


class Approval(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The content of an approval file."""

    version: Literal["1.0.0"]
    approved_at: Timestamp
    approved_by: Approver
    reason: ReasonText
    tag: NonEmptyText | UnsetType = UNSET
    follows: list[DigestText] | UnsetType = UNSET
    absent: list[DigestText] | UnsetType = UNSET
    changes: list[ApprovedChange]
    policy: dict[str, ApprovedSetting] | UnsetType = UNSET
    key: NonEmptyText | UnsetType = UNSET
    hash: DigestText
    signature: NonEmptyText | UnsetType = UNSET

    @property
    def file(self) -> str:
        """The path of the file in the tree."""
        return f"{APPROVALS_DIR}/{_file_name(self.approved_at, self.hash)}"


class StoredApproval(Struct, frozen=True):
    """An approval and the file it was read from."""

    file: str
    approval: Approval


def write_approval(
    approved_at: str,
    approved_by: Approver,
    reason: str,
    changes: list[ApprovedChange],
    *,
    tag: str = "",
    follows: Sequence[str] | None = None,
    absent: Sequence[str] = (),
    policy: Mapping[str, ApprovedSetting] | None = None,
    signer: Signer | None = None,
) -> tuple[str, bytes]:
    """The path of an approval's file in the tree, and its bytes.

    `follows` has the hashes of the approvals before it, `absent` those of approvals that the tree lacks and others
    follow, `policy` the settings that it approves.

    Raises:
        InvalidFile: the approval breaks a rule of the format, such as an empty reason.
        CannotSign: `signer` could not sign.
    """
    document: JSONObject = {
        "version": VERSION,
        "approved_at": approved_at,
        "approved_by": to_builtins(approved_by),
        "reason": reason,
        **({"tag": tag} if tag else {}),
        **({"follows": [*sorted(follows)]} if follows is not None else {}),
        **({"absent": [*sorted(absent)]} if absent else {}),
        "changes": to_builtins(changes),
        **({"policy": to_builtins(policy)} if policy is not None else {}),
        **({"key": signer.fingerprint} if signer else {}),
    }
    document["hash"] = approval_hash(document)
    if signer is not None:
        document["signature"] = signer.sign(signed_bytes(document))
    findings = check_approval(document)
    if findings:
        raise InvalidFile(tuple(sorted(findings)))
    file = f"{APPROVALS_DIR}/{_file_name(approved_at, cast('str', document['hash']))}"
    return file, ecmascript_bytes(document, indent=2) + b"\n"


def read_approval(data: bytes) -> Approval:
    """Read an approval.

    Raises:
        NotJSON: the data is not JSON.
        InvalidFile: the approval breaks a rule; the error holds every finding.
    """
    value = parse_json(data)
    findings = check_repeated_names(data) + check_approval(value)
    if findings:
        raise InvalidFile(tuple(sorted(findings)))
    return convert(value, Approval)


def load_approvals(root: str) -> list[StoredApproval]:
    """Every approval of a tree, oldest first.

    Raises:
        CannotRead, NotJSON, InvalidFile: an approval is damaged.
    """
    if not is_folder(f"{root}/{APPROVALS_DIR}"):
        return []
    names = [entry.name for entry in list_folder(f"{root}/{APPROVALS_DIR}") if not entry.name.startswith(".")]
    files = [f"{APPROVALS_DIR}/{name}" for name in names if name.endswith(".json")]
    return [StoredApproval(file, read_approval(read_file(f"{root}/{file}", follow_links=False))) for file in files]


def approval_hash(document: JSONObject) -> Digest:
    """The digest over everything but `hash` and `signature`."""
    return digest_canonical({name: value for name, value in document.items() if name not in ("hash", "signature")})


def signed_bytes(document: JSONObject) -> bytes:
    """The bytes that a signature signs: everything but itself."""
    return canonical_bytes({name: value for name, value in document.items() if name != "signature"})


def check_approval(value: JSON, file: str = "") -> list[Finding]:
    """Every broken rule of a parsed approval and its file name; the signature is not checked here."""
    violations = find_problems(value, Approval) or _check_beyond_types(cast("JSONObject", value))
    if violations:
        return [Finding(file, problem.path, SHAPE_RULE, problem.message, RESTORE_HINT) for problem in violations]
    document = cast("JSONObject", value)
    computed = approval_hash(document)
    if document["hash"] != computed:
        message = f"hash mismatch: the approval's content gives {computed}, the file says {document['hash']}"
        return [Finding(file, "$.hash", HASH_RULE, message, RESTORE_HINT)]
    name = _file_name(cast("str", document["approved_at"]), computed)
    if file and os.path.basename(file) != name:
        return [Finding(file, "", HASH_RULE, f"the file of this approval is named {name}", RESTORE_HINT)]
    return []


def check_repeated_names(data: bytes, file: str = "") -> list[Finding]:
    """A name that stands twice in an object: a person reads the first one, and the hash covers the last one."""
    name = find_repeated_name(data, nested=True)
    if name is None:
        return []
    return [Finding(file, "", SHAPE_RULE, f"{printable_name(name)} stands twice in one object", RESTORE_HINT)]


def _file_name(approved_at: str, digest: str) -> str:
    time = approved_at.translate({ord(":"): "-", ord("."): "-", ord("+"): "-"})
    return f"{time}-{digest.partition(':')[2][:NAME_DIGITS]}.json"


def _check_beyond_types(document: JSONObject) -> list[ShapeProblem]:
    violations = find_timestamp_problems(document["approved_at"], "$.approved_at")
    if ("key" in document) != ("signature" in document):
        violations.append(ShapeProblem("$.signature", "key and signature belong together: one of them is missing"))
    seen_ids: set[str | None] = set()
    for index, change in enumerate(cast("list[dict[str, str | None]]", document["changes"])):
        if change["id"] in seen_ids:
            violations.append(ShapeProblem(f"$.changes[{index}].id", "is in this approval twice"))
        seen_ids.add(change["id"])
    return violations
