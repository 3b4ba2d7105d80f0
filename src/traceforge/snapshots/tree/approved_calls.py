"""What a project has approved, loaded: to answer from it, and to hold new calls against it.

In: a snapshot tree that passed `verify`. Out: every approved call, and recordings that a player answers from. Never:
checks again what `verify` checked, or answers from a file that it could not read.

Under `gate: "behaviour"` a snapshot answers any number of times. Under `gate: "request"`, and where only a wire
answer was approved, the n-th identical request of a scope gets the n-th answer; an error that was approved answers
again, because clients try again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import cast

from traceforge.canon import Digest, JSONObject, digest_bytes
from traceforge.config import SNAPSHOTS_DIR, ModelRule
from traceforge.errors import CannotRead
from traceforge.files import list_folder, read_file
from traceforge.replay.fingerprints import read_fingerprints
from traceforge.replay.library import Recording
from traceforge.replay.recorded_response import RecordedResponse, find_echoes
from traceforge.replay.request_key import KeyedRequest, KeyFields, RequestKeyer
from traceforge.snapshots.formats.determinism_policy import find_gate
from traceforge.snapshots.formats.raw_response import WireAnswer, read_wire
from traceforge.snapshots.formats.snapshot_format import read_document
from traceforge.snapshots.formats.tree_layout import RESERVED
from traceforge.snapshots.tree.tree_verification import Held
from traceforge.tuples import NamedTuple
from traceforge.wire.endpoints import find_endpoint

BEHAVIOUR, REQUEST = "behaviour", "request"


class Turn(NamedTuple):
    """Where a call was asked: in which scope, and as which of identical ones."""

    scope: str
    turn: int = 0


class Approved(NamedTuple):
    """One approved call: a record, its wire answer, or both."""

    id: str
    provider: str
    file: str  # in the tree
    hash: Digest  # of the record; where there is none, of the wire answer's file
    record: JSONObject | None
    wire: WireAnswer | None
    gate: str

    @property
    def source(self) -> JSONObject:
        """Where it was asked."""
        if self.record is not None:
            return cast("JSONObject", self.record["source"])
        return (self.wire.source if self.wire is not None else None) or {}

    @property
    def turns(self) -> list[Turn]:
        """Every place at which it was asked; none where it was written by hand."""
        return read_turns(self.source)

    @property
    def repeats(self) -> bool:
        """Does it answer any number of times?"""
        return self.gate == BEHAVIOUR or (self.wire is not None and self.wire.status >= 400)


def read_turns(source: JSONObject) -> list[Turn]:
    """The scopes that a source names."""
    found = cast("list[JSONObject]", source.get("scopes", []))
    return [Turn(str(one["scope"]), int(str(one.get("turn", 0)))) for one in found]


def load_approved(project: str, models: Mapping[str, ModelRule]) -> list[Approved]:
    """Every approved call of a project, by provider and id.

    Raises:
        CannotRead, NotJSON, InvalidFile: the tree is not what `verify` lets pass.
    """
    root = os.path.join(project, SNAPSHOTS_DIR)
    return approved_of(_read_tree(root), models) if os.path.isdir(root) else []


def approved_of(held: Held, models: Mapping[str, ModelRule]) -> list[Approved]:
    """Every approved call of a tree that was read, by provider and id."""
    found: list[Approved] = []
    wires = dict(held.wires)
    for provider, file, records in held.documents:
        for one in records:
            gate = find_gate(str(cast("JSONObject", one["request"])["model"]), models)
            name, digest = str(one["id"]), Digest(str(one["hash"]))
            _, wire = wires.pop(name, (None, None))
            found.append(Approved(name, provider, file, digest, one, wire, gate))
    found += [  # What is left belongs to no record.
        Approved(name, _provider(wire), f"wire/{name}.json", digest, None, wire, REQUEST)
        for name, (digest, wire) in sorted(wires.items())
    ]
    return found


def _read_tree(root: str) -> Held:
    held = Held()
    for folder in list_folder(root):
        if not folder.is_dir() or folder.name in RESERVED or folder.name.startswith("."):
            continue
        for entry in list_folder(folder.path):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                records = [one.body for one in read_document(read_file(entry.path, follow_links=False))]
                held.documents.append((folder.name, f"{folder.name}/{entry.name}", records))
    for entry in _list_wires(root):
        if entry.name.endswith(".json") and not entry.name.startswith("."):
            data = read_file(entry.path, follow_links=False)
            held.wires[entry.name.removesuffix(".json")] = digest_bytes(data), read_wire(data)
    return held


def _list_wires(root: str) -> list[os.DirEntry[str]]:
    try:
        return list_folder(os.path.join(root, "wire"))
    except CannotRead:
        return []


def _provider(wire: WireAnswer) -> str:
    return str(find_endpoint(wire.method, wire.url).dialect or "other")


def asked_of(keys: RequestKeyer, wire: WireAnswer) -> KeyedRequest:
    """What the request of a wire answer asks."""
    return keys.key_stored_request(wire.method, wire.url, wire.request_headers, wire.body)


def recordings(approved: Iterable[Approved], keys: RequestKeyer) -> Iterator[Recording]:
    """Every approved call as a player knows it, once for each place at which it was asked, in the order of turns."""
    placed = [(turn, one) for one in approved if one.wire is not None for turn in one.turns or [Turn("")]]
    for turn, one in sorted(placed, key=lambda item: (item[0], item[1].id)):
        assert one.wire is not None
        asked = asked_of(keys, one.wire)
        source = _WireSource(one.wire, asked.key_fields)
        prints = read_fingerprints(one.wire.redacted, one.wire.body, keys.is_volatile)
        yield Recording(one.id, asked.key, turn.scope, asked.endpoint, source, prints, one.repeats)


class _WireSource:
    """A wire answer, made ready when it is asked for."""

    def __init__(self, wire: WireAnswer, question: KeyFields) -> None:
        self._wire = wire
        self._question = question

    def load_key_fields(self) -> KeyFields:
        """What was asked."""
        return self._question

    def load_response(self) -> RecordedResponse:
        """What came back."""
        return self._answer

    @cached_property
    def _answer(self) -> RecordedResponse:
        wire = self._wire
        references = find_echoes(wire.redacted or {}, wire.chunks)
        return RecordedResponse(
            wire.status,
            wire.response_headers,
            wire.chunks,
            wire.streamed,
            references,
            max(0, len(wire.taken_out("response")) - len(references)),
        )
