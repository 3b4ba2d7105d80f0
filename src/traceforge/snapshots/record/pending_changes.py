"""Pending changes: what a run said and nobody has approved yet.

`.ai-tests/pending/<id>.json`, one file a change, never committed:

    {"version": "1.0.0", "id", "kind", "provider", "gate", "before", "trace", "redacted", "reasons": [...],
     "record": {id, timestamp, source, request, response} or null, "wire": the wire answer's text}

`kind` is `new`, `request`, `answer` or `both` (what changed), or `refused`. `before` is the hash of what was approved
when the call was recorded, so that an approval of something else is noticed.

In: changes. Out: the same. Never: a place for secrets: what is here was redacted before it was kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, cast

from msgspec import Struct

from traceforge.canon import JSON, JSONObject, json_bytes, parse_json
from traceforge.compare.compared_call import Call
from traceforge.config import STATE_DIR
from traceforge.errors import InvalidFile
from traceforge.files import list_folder, make_private_folder, read_file, write_atomic
from traceforge.findings import Finding
from traceforge.shape import DigestText, OpenObject, WholeNumber, find_problems
from traceforge.snapshots.formats.raw_response import WireAnswer, call_of_wire, read_wire
from traceforge.snapshots.formats.record_draft import Reason
from traceforge.snapshots.formats.snapshot_format import SnapshotIdText
from traceforge.snapshots.tree.approved_calls import Turn, read_turns

FOLDER = f"{STATE_DIR}/pending"
VERSION = "1.0.0"
RULE = "PD1"
_HINT = "Record again: traceforge record."


class Kind(StrEnum):
    """What a pending change is."""

    NEW = "new"
    REQUEST = "request"  # what the model sees changed
    ANSWER = "answer"  # what it says changed
    BOTH = "both"
    REFUSED = "refused"  # it cannot be approved as it is


class _Reason(Struct, forbid_unknown_fields=True):
    field: str
    message: str
    hint: str


class PendingShape(Struct, forbid_unknown_fields=True):
    """The whole file."""

    version: str
    id: SnapshotIdText
    kind: str
    provider: str
    gate: str
    before: DigestText | None
    trace: str
    redacted: WholeNumber
    reasons: list[_Reason]
    record: OpenObject | None
    wire: str


class Pending(Struct, frozen=True):
    """One pending change."""

    id: str
    kind: Kind
    provider: str
    gate: str
    before: str | None
    trace: str
    record: JSONObject | None
    wire: WireAnswer
    wire_text: str
    redacted: int = 0  # values of the answer that will replay as `[REDACTED]`
    reasons: tuple[Reason, ...] = ()

    @property
    def source(self) -> JSONObject:
        """Where the call was made."""
        return cast("JSONObject", self.record["source"]) if self.record is not None else self.wire.source or {}

    @property
    def place(self) -> str:
        """The same for a person."""
        function = self.source.get("function")
        line = f"{self.source.get('file')}:{self.source.get('line')}"
        return f"{line} in {function}" if function else line

    @property
    def turns(self) -> list[Turn]:
        """The scopes in which it was asked."""
        return read_turns(self.source)

    @property
    def call(self) -> Call:
        """The call as it is compared."""
        return Call.from_snapshot(self.record) if self.record is not None else call_of_wire(self.wire)

    def to_bytes(self) -> bytes:
        """The file."""
        value: JSONObject = {
            "version": VERSION,
            "id": self.id,
            "kind": self.kind.value,
            "provider": self.provider,
            "gate": self.gate,
            "before": self.before,
            "trace": self.trace,
            "redacted": self.redacted,
            "reasons": [cast("JSON", reason._asdict()) for reason in self.reasons],
            "record": self.record,
            "wire": self.wire_text,
        }
        return json_bytes(value, indent=True) + b"\n"


def read_pending(data: bytes) -> Pending:
    """Read what `to_bytes` wrote.

    Raises:
        NotJSON: it is not JSON.
        InvalidFile: it breaks a rule; the error holds every finding.
    """
    value = parse_json(data)
    found = [
        Finding("", problem.path, RULE, problem.message, _HINT) for problem in find_problems(value, PendingShape)
    ]
    given = cast("dict[str, Any]", value)
    if not found and (given["version"] != VERSION or given["kind"] not in set(Kind)):
        found.append(Finding("", "$.version", RULE, "a pending change of another version", _HINT))
    if found:
        raise InvalidFile(tuple(found))
    return Pending(
        given["id"],
        Kind(given["kind"]),
        given["provider"],
        given["gate"],
        given["before"],
        given["trace"],
        given["record"],
        read_wire(given["wire"].encode()),
        given["wire"],
        int(given["redacted"]),
        tuple(Reason(**reason) for reason in given["reasons"]),
    )


def load_pending(project: str) -> list[Pending]:
    """Every pending change, by id.

    Raises:
        InvalidFile, NotJSON, CannotRead: a file there is none; nothing that is pending goes unseen.
    """
    folder = os.path.join(project, FOLDER)
    if not os.path.isdir(folder):
        return []
    found = []
    for entry in list_folder(folder):
        if entry.name.startswith(".") or not entry.name.endswith(".json"):
            continue
        try:
            found.append(read_pending(read_file(entry.path, follow_links=False)))
        except InvalidFile as exc:
            name = f"{FOLDER}/{entry.name}"
            raise InvalidFile(tuple(finding._replace(file=name) for finding in exc.findings)) from None
    return found


def save_pending(project: str, changes: Iterable[Pending], replaced: Sequence[str]) -> None:
    """Write changes, and take away those they replace."""
    folder = os.path.join(project, FOLDER)
    kept = list(changes)
    if kept:
        make_private_folder(folder)
    for change in kept:
        write_atomic(os.path.join(folder, f"{change.id}.json"), change.to_bytes(), mode=0o600)
    drop_pending(project, set(replaced) - {change.id for change in kept})


def drop_pending(project: str, ids: Iterable[str]) -> None:
    """Take changes away: they were approved, rejected, or are none any more."""
    for name in ids:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(project, FOLDER, f"{name}.json"))
