"""Snapshots of an older version, which `traceforge record --replace-old` records again.

In: documents of any older version, and the changes that a run proposes. Out: the same changes, under the ids of the
old records that asked the same; and the old records that no call of the run asked for. Never: reads more of an old
record than its id and its question, or writes. `approve` removes an old document when all its records are replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from traceforge.canon import JSON, JSONObject, canonical_bytes, parse_json
from traceforge.errors import NotJSON
from traceforge.files import read_file
from traceforge.snapshots.formats.snapshot_format import is_snapshot_id
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange

QUESTION_FIELDS = ("model", "messages", "prompt")


class OldSnapshot(NamedTuple):
    """One record of an older version. `question` is what it asked, as canonical JSON."""

    id: str
    file: str
    question: bytes


def list_old_snapshots(root: str, files: Iterable[str]) -> list[OldSnapshot]:
    """The records of these documents, relative to the tree at `root`. One without a valid id, or with the id of
    another one, has the id "": with two of one id, it is unclear which was replaced.

    Raises:
        CannotRead: a document cannot be read.
    """
    listed = [
        OldSnapshot(record_id, file, _question(record))
        for file in sorted(files)
        for record_id, record in _list_records(read_file(f"{root}/{file}", follow_links=False))
    ]
    id_counts = Counter(old.id for old in listed)
    return [old if id_counts[old.id] == 1 else old._replace(id="") for old in listed]


def _list_records(data: bytes) -> list[tuple[str, JSONObject]]:
    """The records of a document of any version, with their ids; "" for one that has none, and for all of them in a
    document that has them in another form.
    """
    try:
        value = parse_json(data)
    except NotJSON:
        value = None
    records = value.get("snapshots") if isinstance(value, dict) else None
    if not isinstance(records, list):
        return [("", {})]
    return [(_record_id(record), record if isinstance(record, dict) else {}) for record in records]


def give_old_ids(
    changes: Sequence[PendingChange], old_snapshots: Sequence[OldSnapshot], taken_ids: Collection[str]
) -> list[PendingChange]:
    """The changes; each new call gets the id of the first old record that asked the same and is not replaced yet. One
    that has the id of an old record keeps it.
    """
    old_ids = {old.id for old in old_snapshots}
    taken_ids = {*taken_ids, *(change.id for change in changes)}
    unused = {old.id: old for old in old_snapshots if old.id and old.id not in taken_ids}
    renamed: list[PendingChange] = []
    for change in changes:
        question = _question(change.call.request)
        is_new = (
            change.kind in (ChangeKind.NEW, ChangeKind.REFUSED) and change.before is None and change.id not in old_ids
        )
        old = next((old for old in unused.values() if is_new and old.question == question), None)
        if old is None:
            renamed.append(change)
            continue
        del unused[old.id]
        record = {**change.record, "id": old.id} if change.record is not None else None
        renamed.append(replace(change, id=old.id, record=record))
    return sorted(renamed, key=lambda change: change.id)


def _record_id(record: JSON) -> str:
    name = record.get("id") if isinstance(record, dict) else None
    return name if isinstance(name, str) and is_snapshot_id(name) else ""


def _question(record: JSONObject) -> bytes:
    """What a request asks; the fields of older versions are in the record itself, or in its `request`."""
    request = record.get("request")
    fields = request if isinstance(request, dict) else record
    return canonical_bytes({name: fields[name] for name in QUESTION_FIELDS if fields.get(name) is not None})
