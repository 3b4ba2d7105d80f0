"""Migration of raw responses that an older version has written: they do not say where their request went.

In: approved calls. Out: for each such call the raw response that states what is unknown. Never: guesses an upstream
or a header: unknown stays unknown until the call is recorded again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from traceforge.canon import JSONObject
from traceforge.replay.request_key import OLD_REQUEST
from traceforge.snapshots.formats.raw_response import RawResponse
from traceforge.snapshots.formats.snapshot_format import RECORD_FIELDS
from traceforge.snapshots.tree.approved_calls import ApprovedCall


class MigratedCall(NamedTuple):
    """An approved call, with its record as it was and its migrated raw response."""

    provider: str
    id: str
    record: JSONObject | None  # without its hash
    raw_response: RawResponse


def migrate_raw_responses(calls: Iterable[ApprovedCall]) -> list[MigratedCall]:
    """The calls whose raw response an older version has written."""
    known_headers = tuple(sorted(OLD_REQUEST.known_headers or ()))
    return [
        MigratedCall(
            call.provider,
            call.id,
            {name: call.record[name] for name in RECORD_FIELDS} if call.record is not None else None,
            call.raw_response._replace(known_headers=known_headers),
        )
        for call in calls
        if call.raw_response is not None and call.raw_response.is_old
    ]
