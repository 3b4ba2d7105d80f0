"""Pending changes: recorded calls that wait for approval.

`.ai-tests/pending/<id>.json`, one file a change, never committed:

    {"version": "1.0.0", "id", "kind", "provider", "gate", "before", "trace", "redacted", "reasons": [...],
     "record": {id, timestamp, source, request, response} or null, "wire": the raw response's text}

`kind` is `new`, `request`, `answer`, `both` or `calls` (what changed), or `refused`. `before` is the hash of the
approved snapshot when the call was recorded, so that another approval in between is noticed.

In: changes. Out: the same. Never: holds a secret: calls are redacted before they are stored.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple, cast

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, json_bytes, parse_json
from traceforge.compare.compared_call import ComparedCall
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.files import STATE_DIR, list_folder, make_private_folder, read_file, write_atomic
from traceforge.findings import Finding
from traceforge.shape import DigestText, OpenObject, WholeNumber, find_problems
from traceforge.snapshots.formats.determinism_policy import RAW_ONLY_REASON
from traceforge.snapshots.formats.raw_response import RawResponse, decode_comparable_call, read_raw_response
from traceforge.snapshots.formats.record_draft import RefusalReason
from traceforge.snapshots.formats.snapshot_format import SnapshotIdText
from traceforge.snapshots.tree.approved_calls import ScopeTurn, count_calls, read_turns
from traceforge.snapshots.tree.state_folder import RECORD_FIRST_HINT

PENDING_FOLDER = f"{STATE_DIR}/pending"
VERSION = "1.0.0"
PENDING_FORMAT_RULE = "PD1"
NUMBER_LENGTH_MAX = 6  # Of a call that is one of several alike; a digest in an id is longer.
APPROVE_FIRST_HINT = 'Approve what is pending: traceforge status, then traceforge approve --all --reason "…"'
_HINT = "Record again: traceforge record -- COMMAND"


class ChangeKind(StrEnum):
    """How a call differs from the approved one."""

    NEW = "new"
    REQUEST = "request"
    ANSWER = "answer"
    BOTH = "both"
    CALLS = "calls"  # the same call, made more or fewer times, or in another test
    REFUSED = "refused"  # cannot be approved as it is


class _ReasonShape(Struct, forbid_unknown_fields=True):
    field: str
    message: str
    hint: str


class _RecordShape(Struct):
    """A record as far as a refused change has it, too; an approval checks the whole of it."""

    source: OpenObject
    request: OpenObject
    response: OpenObject


class PendingShape(Struct, forbid_unknown_fields=True):
    """The content of a pending change's file."""

    version: str
    id: SnapshotIdText
    kind: str
    provider: str
    gate: str
    before: DigestText | None
    trace: str
    redacted: WholeNumber
    reasons: list[_ReasonShape]
    record: _RecordShape | None
    wire: str


class PendingChange(Struct, frozen=True):
    """A change to one snapshot that waits for approval."""

    id: str
    kind: ChangeKind
    provider: str
    gate: str
    before: str | None
    trace: str
    record: JSONObject | None
    raw_response: RawResponse
    raw_response_text: str
    redacted_count: int = 0  # values of the answer that will replay as `[REDACTED]`
    reasons: tuple[RefusalReason, ...] = ()

    @property
    def source(self) -> JSONObject:
        """Where the call was made."""
        return (
            cast("JSONObject", self.record["source"]) if self.record is not None else self.raw_response.source or {}
        )

    @property
    def gate_reason(self) -> str:
        """Why the call has its gate; "" if its record does not say."""
        if self.record is None:
            return RAW_ONLY_REASON
        return str(cast("JSONObject", self.record["request"]).get("gate_reason", ""))

    @property
    def is_adopted(self) -> bool:
        """Whether the answer was adopted from another request."""
        return self.raw_response.adopted_from is not None

    @property
    def location(self) -> str:
        """Where the call was made, as text."""
        function = self.source.get("function")
        line = f"{self.source.get('file')}:{self.source.get('line')}"
        return f"{line} in {function}" if function else line

    @property
    def turns(self) -> list[ScopeTurn]:
        """The scopes and turns in which the call was made."""
        return read_turns(self.source)

    @property
    def call_counts(self) -> dict[str, int]:
        """How many calls of each scope the snapshot answers."""
        return count_calls(self.turns)

    @property
    def call(self) -> ComparedCall:
        """The call in the form in which calls are compared."""
        return (
            ComparedCall.from_snapshot(self.record)
            if self.record is not None
            else decode_comparable_call(self.raw_response)
        )

    def to_bytes(self) -> bytes:
        """The content of the file."""
        value: JSONObject = {
            "version": VERSION,
            "id": self.id,
            "kind": self.kind.value,
            "provider": self.provider,
            "gate": self.gate,
            "before": self.before,
            "trace": self.trace,
            "redacted": self.redacted_count,
            "reasons": [cast("JSON", reason._asdict()) for reason in self.reasons],
            "record": self.record,
            "wire": self.raw_response_text,
        }
        return json_bytes(value, indent=True) + b"\n"


class PendingFolder(NamedTuple):
    """What is in the folder of the pending changes."""

    changes: list[PendingChange]
    errors: dict[str, InvalidFile | CannotRead]  # Of each file that is not a pending change, by its path.


def read_pending(data: bytes) -> PendingChange:
    """Read what `to_bytes` wrote.

    Raises:
        NotJSON: the data is not JSON.
        InvalidFile: the file breaks a rule; the error holds every finding.
    """
    value = parse_json(data)
    findings = [
        Finding("", problem.path, PENDING_FORMAT_RULE, problem.message, _HINT)
        for problem in find_problems(value, PendingShape)
    ]
    fields = cast("dict[str, Any]", value)
    if not findings and (fields["version"] != VERSION or fields["kind"] not in set(ChangeKind)):
        findings.append(Finding("", "$.version", PENDING_FORMAT_RULE, "a pending change of another version", _HINT))
    if findings:
        raise InvalidFile(tuple(findings))
    return PendingChange(
        fields["id"],
        ChangeKind(fields["kind"]),
        fields["provider"],
        fields["gate"],
        fields["before"],
        fields["trace"],
        fields["record"],
        read_raw_response(fields["wire"].encode()),
        fields["wire"],
        int(fields["redacted"]),
        tuple(RefusalReason(**reason) for reason in fields["reasons"]),
    )


def load_pending(project: str) -> list[PendingChange]:
    """Every pending change, by id.

    Raises:
        InvalidFile, CannotRead: a file there is not a pending change; it is not skipped.
    """
    folder = scan_pending(project)
    for error in folder.errors.values():
        raise error
    return folder.changes


def order_of_call(call_id: str) -> tuple[str, int]:
    """What ids are sorted by, so that `poll-1f-2` follows `poll-1f`, and `poll-1f-10` follows `poll-1f-9`."""
    first_id, _, number = call_id.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and len(number) <= NUMBER_LENGTH_MAX
    return (first_id, int(number)) if first_id and is_number else (call_id, 0)


def scan_pending(project: str) -> PendingFolder:
    """The pending changes that can be read, by id, and the error of each file that cannot: a page shows both.

    Raises:
        CannotRead: the folder itself cannot be read.
    """
    folder = os.path.join(project, PENDING_FOLDER)
    result = PendingFolder([], {})
    for entry in list_folder(folder) if os.path.isdir(folder) else ():
        if not _is_pending_name(entry.name):
            continue
        name = f"{PENDING_FOLDER}/{entry.name}"
        try:
            result.changes.append(_read_pending_file(entry.path, name))
        except (InvalidFile, CannotRead) as exc:
            result.errors[name] = exc
    result.changes.sort(key=lambda change: order_of_call(change.id))
    return result


def _read_pending_file(path: str, name: str) -> PendingChange:
    hint = f"Delete it, and record again: rm {shlex.quote(name)}"
    try:
        return read_pending(read_file(path, follow_links=False))
    except NotJSON as exc:
        place, message = f"line {exc.line} column {exc.column}", f"{name} is not JSON: {exc.reason}"
        raise InvalidFile((Finding(name, place, PENDING_FORMAT_RULE, message, hint),)) from None
    except InvalidFile as exc:
        raise InvalidFile(tuple(finding._replace(file=name, hint=hint) for finding in exc.findings)) from None


def first_approval_hint(project: str) -> str:
    """What to do in a project without an approved call: approve what is pending, or record."""
    return APPROVE_FIRST_HINT if count_pending(project) else RECORD_FIRST_HINT


def count_pending(project: str) -> int:
    """How many changes are pending.

    They are counted, not read: a damaged one is reported by the command that a hint names.
    """
    folder = os.path.join(project, PENDING_FOLDER)
    return sum(_is_pending_name(entry.name) for entry in list_folder(folder)) if os.path.isdir(folder) else 0


def _is_pending_name(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def save_pending(project: str, changes: Iterable[PendingChange], replaced: Sequence[str]) -> None:
    """Write changes, and delete those they replace."""
    folder = os.path.join(project, PENDING_FOLDER)
    saved = list(changes)
    if saved:
        make_private_folder(folder)
    for change in saved:
        write_atomic(os.path.join(folder, f"{change.id}.json"), change.to_bytes(), mode=0o600)
    delete_pending(project, set(replaced) - {change.id for change in saved})


def delete_pending(project: str, ids: Iterable[str]) -> None:
    """Delete changes that were approved, rejected, or are obsolete."""
    for name in ids:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(project, PENDING_FOLDER, f"{name}.json"))
