"""The snapshots of a tree, for `traceforge snapshot list` and `show`.

In: a tree. Out: its snapshots, with their raw responses and approvals. Never: lists a broken tree: `verify` explains
what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple, cast

from msgspec import to_builtins

from traceforge.canon import JSONObject, digest_bytes
from traceforge.errors import InvalidFile, NotFound, NotJSON
from traceforge.files import read_file
from traceforge.findings import nearest_name, printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import StoredApproval, load_approvals
from traceforge.snapshots.formats.determinism_policy import RAW_ONLY_REASON, REQUEST_GATE, ModelPolicy, find_gate
from traceforge.snapshots.formats.raw_response import RawResponse, read_raw_response
from traceforge.snapshots.formats.snapshot_format import is_snapshot_id, read_document


class ListedSnapshot(NamedTuple):
    """One snapshot: a record, or a raw response without one."""

    id: str
    provider: str  # "" without a record
    file: str
    hash: str  # of the record; without one, of the raw response's bytes
    record: JSONObject | None
    raw_response: RawResponse | None
    approvals: tuple[StoredApproval, ...]  # oldest first

    @property
    def model(self) -> str:
        """The model; "" if the request names none."""
        request = (
            self.record["request"]
            if self.record is not None
            else self.raw_response and self.raw_response.request_body
        )
        model = request.get("model") if isinstance(request, dict) else None
        return model if isinstance(model, str) else ""

    @property
    def operation(self) -> str:
        """What a call without an answer of a model does, such as `files.list`; "" for any other."""
        return self.raw_response.operation if self.raw_response is not None else ""

    @property
    def source(self) -> JSONObject:
        """Where the call was made; empty if unknown."""
        source = self.record["source"] if self.record is not None else self.raw_response and self.raw_response.source
        return source if isinstance(source, dict) else {}

    def gate(self, policy: ModelPolicy) -> str:
        """The gate: `behaviour` (prompt and answer), or `request` (prompt only)."""
        return find_gate(self.record, self.provider, policy) if self.record is not None else REQUEST_GATE

    @property
    def gate_reason(self) -> str:
        """Why it has this gate; "" if its record does not say."""
        if self.record is None:
            return RAW_ONLY_REASON
        request = self.record["request"]
        return str(request.get("gate_reason", "")) if isinstance(request, dict) else ""


def load_tree(root: str) -> list[ListedSnapshot]:
    """Every snapshot of a tree, sorted by id.

    Raises:
        CannotRead: a file or folder cannot be read.
        NotJSON, InvalidFile: a file is broken; the error names it.
    """
    if not os.path.lexists(root):
        return []
    approvals: dict[str, list[StoredApproval]] = {}
    for approval in load_approvals(root):
        for change in approval.approval.changes:
            approvals.setdefault(change.id, []).append(approval)
    snapshots = {
        snapshot.id: snapshot
        for folder in tree_layout.list_providers(root)
        for snapshot in _list_records(root, folder)
    }
    snapshots |= {snapshot.id: snapshot for snapshot in _list_raw_only(root, snapshots)}
    return [
        snapshot._replace(approvals=tuple(approvals.get(name, ()))) for name, snapshot in sorted(snapshots.items())
    ]


def load_snapshot(root: str, name: str) -> ListedSnapshot:
    """The snapshot of this id, with its raw response.

    Raises:
        NotFound: no snapshot has the id; the hint names the nearest.
        CannotRead, NotJSON, InvalidFile: as `load_tree`.
    """
    snapshots = {snapshot.id: snapshot for snapshot in load_tree(root)}
    if name not in snapshots:
        nearest = nearest_name(name, snapshots)
        hint = f"Did you mean {nearest}?" if nearest else "See: traceforge snapshot list"
        raise NotFound(f"there is no snapshot {printable_name(name)}", hint=hint)
    snapshot = snapshots[name]
    response = snapshot.record.get("response") if snapshot.record is not None else None
    if isinstance(response, dict) and "wire" in response:
        return snapshot._replace(raw_response=_read_raw_response(root, tree_layout.raw_response_file(name))[0])
    return snapshot


def _list_records(root: str, provider: str) -> list[ListedSnapshot]:
    snapshots = []
    for name in tree_layout.list_json_files(root, provider, []):
        file = f"{provider}/{name}"
        try:
            records = read_document(read_file(f"{root}/{file}", follow_links=False))
        except (NotJSON, InvalidFile) as exc:
            raise exc.in_file(f"{root}/{file}") from None
        snapshots += [
            ListedSnapshot(record.id, provider, file, record.hash, record.body, None, ()) for record in records
        ]
    return snapshots


def _list_raw_only(root: str, records: Mapping[str, ListedSnapshot]) -> list[ListedSnapshot]:
    if not tree_layout.is_folder(f"{root}/{tree_layout.WIRE_DIR}"):
        return []
    snapshots = []
    for file in tree_layout.list_json_files(root, tree_layout.WIRE_DIR, []):
        name = file.removesuffix(".json")
        if name not in records and is_snapshot_id(name):
            raw, digest = _read_raw_response(root, f"{tree_layout.WIRE_DIR}/{file}")
            snapshots.append(ListedSnapshot(name, "", f"{tree_layout.WIRE_DIR}/{file}", digest, None, raw, ()))
    return snapshots


def _read_raw_response(root: str, file: str) -> tuple[RawResponse, str]:
    data = read_file(f"{root}/{file}", follow_links=False)
    try:
        return read_raw_response(data), digest_bytes(data)
    except (NotJSON, InvalidFile) as exc:
        raise exc.in_file(f"{root}/{file}") from None


def snapshot_json(snapshot: ListedSnapshot, policy: ModelPolicy) -> JSONObject:
    """A snapshot as `snapshot list --json` prints it."""
    return {
        "id": snapshot.id,
        "kind": "record" if snapshot.record is not None else "wire",
        "provider": snapshot.provider or None,
        "model": snapshot.model or None,
        "gate": snapshot.gate(policy),
        "gate_reason": snapshot.gate_reason or None,
        "file": snapshot.file,
        "hash": snapshot.hash,
        "source": snapshot.source or None,
        "approvals": [approval.file for approval in snapshot.approvals],
    }


def snapshot_full_json(snapshot: ListedSnapshot, policy: ModelPolicy) -> JSONObject:
    """A snapshot as `snapshot show --json` prints it: with its record, raw response and approvals."""
    raw = snapshot.raw_response
    return {
        **snapshot_json(snapshot, policy),
        "record": snapshot.record,
        "wire": None
        if raw is None
        else {
            "method": raw.method,
            "url": raw.url,
            "headers": [list(pair) for pair in raw.request_headers],
            "body": raw.request_body,
            "status": raw.status,
            "cancelled": None if raw.cancellation is None else raw.cancellation.cause.value,
            "response_headers": [list(pair) for pair in raw.response_headers],
            "chunks": len(raw.chunks),
            "text": b"".join(chunk.data for chunk in raw.chunks).decode(errors="replace"),
        },
        "approvals": [
            {"file": approval.file, **cast("JSONObject", to_builtins(approval.approval))}
            for approval in snapshot.approvals
        ],
    }
