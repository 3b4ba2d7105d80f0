"""What stands in a tree, for somebody who looks at it.

In: a tree. Out: its snapshots, with their wire answers and approvals. Never: shows what is broken: a tree that cannot
be trusted is for `verify`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple, cast

from traceforge.canon import JSONObject, digest_bytes
from traceforge.config import ModelRule
from traceforge.errors import InvalidFile, NotFound, NotJSON
from traceforge.files import read_file
from traceforge.findings import printable_name
from traceforge.snapshots.formats import tree_layout
from traceforge.snapshots.formats.approval_format import Kept, load_approvals
from traceforge.snapshots.formats.determinism_policy import find_gate
from traceforge.snapshots.formats.raw_response import WireAnswer, read_wire
from traceforge.snapshots.formats.snapshot_format import is_snapshot_id, read_document


class Held(NamedTuple):
    """One snapshot: a record, or a wire answer that stands alone."""

    id: str
    provider: str  # "" for a wire answer alone
    file: str
    hash: str  # of the record; of the bytes of a wire answer alone
    record: JSONObject | None
    wire: WireAnswer | None
    approvals: tuple[Kept, ...]  # oldest first

    @property
    def model(self) -> str:
        """The model that was asked; "" where the request names none."""
        request = self.record["request"] if self.record is not None else self.wire and self.wire.body
        model = request.get("model") if isinstance(request, dict) else None
        return model if isinstance(model, str) else ""

    @property
    def source(self) -> JSONObject:
        """Where the call was made; empty where that is not said."""
        source = self.record["source"] if self.record is not None else self.wire and self.wire.source
        return source if isinstance(source, dict) else {}

    def gate(self, models: Mapping[str, ModelRule]) -> str:
        """What is gated: the behaviour, or only the request."""
        return find_gate(self.model, models) if self.record is not None else "request"


def load_tree(root: str) -> list[Held]:
    """Every snapshot of a tree, sorted by id.

    Raises:
        CannotRead: a file or folder cannot be read.
        NotJSON, InvalidFile: one is broken; the error names it.
    """
    if not os.path.lexists(root):
        return []
    approvals: dict[str, list[Kept]] = {}
    for kept in load_approvals(root):
        for change in kept.approval.changes:
            approvals.setdefault(change.id, []).append(kept)
    held = {one.id: one for folder in tree_layout.list_providers(root) for one in _records(root, folder)}
    held |= {one.id: one for one in _alone(root, held)}
    return [one._replace(approvals=tuple(approvals.get(name, ()))) for name, one in sorted(held.items())]


def load_snapshot(root: str, name: str) -> Held:
    """The snapshot of this id, with its wire answer.

    Raises:
        NotFound: there is none; the hint names the nearest.
        CannotRead, NotJSON, InvalidFile: as `load_tree`.
    """
    held = {one.id: one for one in load_tree(root)}
    if name not in held:
        from difflib import get_close_matches

        nearest = get_close_matches(name, held, 1)
        hint = f"Did you mean {nearest[0]}?" if nearest else "See: traceforge snapshot list"
        raise NotFound(f"no snapshot has the id {printable_name(name)}", hint=hint)
    one = held[name]
    response = one.record.get("response") if one.record is not None else None
    if isinstance(response, dict) and "wire" in response:
        return one._replace(wire=_wire(root, f"{tree_layout.WIRE}/{name}.json")[0])
    return one


def _records(root: str, provider: str) -> list[Held]:
    found = []
    for name in tree_layout.list_files(root, provider, []):
        file = f"{provider}/{name}"
        try:
            records = read_document(read_file(f"{root}/{file}", follow_links=False))
        except (NotJSON, InvalidFile) as exc:
            raise exc.in_file(f"{root}/{file}") from None
        found += [Held(one.id, provider, file, one.hash, one.body, None, ()) for one in records]
    return found


def _alone(root: str, records: Mapping[str, Held]) -> list[Held]:
    if not tree_layout.is_folder(f"{root}/{tree_layout.WIRE}"):
        return []
    found = []
    for file in tree_layout.list_files(root, tree_layout.WIRE, []):
        name = file.removesuffix(".json")
        if name not in records and is_snapshot_id(name):
            wire, digest = _wire(root, f"{tree_layout.WIRE}/{file}")
            found.append(Held(name, "", f"{tree_layout.WIRE}/{file}", digest, None, wire, ()))
    return found


def _wire(root: str, file: str) -> tuple[WireAnswer, str]:
    data = read_file(f"{root}/{file}", follow_links=False)
    try:
        return read_wire(data), digest_bytes(data)
    except (NotJSON, InvalidFile) as exc:
        raise exc.in_file(f"{root}/{file}") from None


def to_json(held: Held, models: Mapping[str, ModelRule]) -> JSONObject:
    """One snapshot as lists print it."""
    return {
        "id": held.id,
        "kind": "record" if held.record is not None else "wire",
        "provider": held.provider or None,
        "model": held.model or None,
        "gate": held.gate(models),
        "file": held.file,
        "hash": held.hash,
        "source": held.source or None,
        "approvals": [kept.file for kept in held.approvals],
    }


def to_full_json(held: Held, models: Mapping[str, ModelRule]) -> JSONObject:
    """One snapshot whole: what was asked and answered, on the wire too, and who approved it."""
    from msgspec import to_builtins

    wire = held.wire
    return {
        **to_json(held, models),
        "record": held.record,
        "wire": None
        if wire is None
        else {
            "method": wire.method,
            "url": wire.url,
            "headers": [list(pair) for pair in wire.request_headers],
            "body": wire.body,
            "status": wire.status,
            "response_headers": [list(pair) for pair in wire.response_headers],
            "chunks": len(wire.chunks),
            "text": b"".join(chunk.data for chunk in wire.chunks).decode(errors="replace"),
        },
        "approvals": [
            {"file": kept.file, **cast("JSONObject", to_builtins(kept.approval))} for kept in held.approvals
        ],
    }
