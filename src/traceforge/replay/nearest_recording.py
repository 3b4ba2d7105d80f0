"""The recording that a request without one is shown beside: most likely the one that it was before an edit.

In: a request, its scope, and the library. Out: the nearest recording. Never: chooses by anything that differs between
two runs of the same suite, or takes a recording of another test where this one has any.

The order, of which the first that tells two recordings apart decides:

    1. of the same scope, before those of all others
    2. of the same endpoint, before those of another one; other scopes are compared at the same endpoint only. Where
       no model answers in words (files, batches, images), the address tells endpoints apart
    3. the same prompt, before an edited one, before another one (`request_distance`)
    4. in the same scope: one that has not answered yet; elsewhere: of the same test with other parameters, then of
       the same file
    5. the same model, then the smallest weight of what differs
    6. the first that was recorded
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from msgspec import Struct

from traceforge.errors import TraceForgeError
from traceforge.replay.library import Library, Recording
from traceforge.replay.request_distance import RequestDistance, measure_distance
from traceforge.replay.request_key import KeyedRequest, KeyFields
from traceforge.wire.dialect_declaration import EndpointKind

CANDIDATES_MAX = 200  # A project may have 100,000 recordings. Elsewhere, the latest are compared.


class NearestRecording(Struct, frozen=True):
    """A recording, and its request."""

    recording: Recording
    key_fields: KeyFields
    has_same_endpoint: bool


def find_nearest(request: KeyedRequest, scope: str, library: Library) -> NearestRecording | None:
    """The nearest recording; None where there is none of this scope, and none of this endpoint."""
    nearest = _find_in_scope(request, scope, library) if scope else None
    return nearest or _find_elsewhere(request, scope, library)


def _find_in_scope(request: KeyedRequest, scope: str, library: Library) -> NearestRecording | None:
    recordings = library.recordings_in_scope(scope)
    for candidates in (
        [recording for recording in recordings if _is_same_endpoint(recording, request)],
        [
            recording
            for recording in recordings
            if recording.endpoint.is_generative and request.endpoint.is_generative
        ],
    ):
        used = {recording.name: library.has_answered(recording) for recording in candidates}
        unused_first = sorted(candidates, key=lambda recording: used[recording.name])[:CANDIDATES_MAX]
        ranked = [
            (
                (_address_distance(key_fields, request), distance.prompt, used[recording.name], distance),
                position,
                recording,
                key_fields,
            )
            for position, (recording, key_fields, distance) in enumerate(_measure(unused_first, request))
        ]
        if ranked:
            *_, recording, key_fields = min(ranked, key=lambda candidate: candidate[:2])
            return NearestRecording(recording, key_fields, _is_same_endpoint(recording, request))
    return None


def _find_elsewhere(request: KeyedRequest, scope: str, library: Library) -> NearestRecording | None:
    candidates = [recording for recording in library.recordings if _is_same_endpoint(recording, request)]
    kinship = {recording.name: _kinship(recording.scope, scope) for recording in candidates} if scope else {}
    candidates.sort(key=lambda recording: -kinship.get(recording.name, 0))
    ranked = [
        (
            (_address_distance(key_fields, request), distance.prompt, kinship.get(recording.name, 0), distance),
            position,
            recording,
            key_fields,
        )
        for position, (recording, key_fields, distance) in enumerate(_measure(candidates[-CANDIDATES_MAX:], request))
    ]
    if not ranked:
        return None
    *_, recording, key_fields = min(ranked, key=lambda candidate: candidate[:2])
    return NearestRecording(recording, key_fields, has_same_endpoint=True)


def _measure(
    recordings: Iterable[Recording], request: KeyedRequest
) -> Iterator[tuple[Recording, KeyFields, RequestDistance]]:
    for recording in recordings:
        try:
            key_fields = recording.source.load_key_fields()
        except TraceForgeError:
            continue  # It was removed or damaged since.
        yield recording, key_fields, measure_distance(key_fields, request.key_fields)


def _is_same_endpoint(recording: Recording, request: KeyedRequest) -> bool:
    return recording.endpoint[:2] == request.endpoint[:2]


def _address_distance(key_fields: KeyFields, request: KeyedRequest) -> int:
    """How much of the address differs, where it alone tells endpoints apart; an id in it is one part of several."""
    if request.endpoint.kind is not EndpointKind.OTHER:
        return 0
    sent = request.key_fields
    parts = [key_fields.method, *key_fields.address.split("/")]
    return sum(part != other for part, other in zip_longest(parts, [sent.method, *sent.address.split("/")]))


def _kinship(scope: str, other: str) -> int:
    """0: the same test with other parameters; 1: another test of the same file; 2: neither."""
    if scope.partition("[")[0] == other.partition("[")[0]:
        return 0
    return 1 if scope.partition("::")[0] == other.partition("::")[0] else 2
