"""Answers that a run adopts: `traceforge record --adopt`.

In: the requests of a run that no snapshot answers, and the snapshots that an import wrote. Out: for each request, the
recorded answer of an imported snapshot of the same test, and the call as a candidate: its request as it was sent now,
its answer with the label `adopted_from`. Never: calls a provider, adopts the answer of a snapshot that was recorded
live, or adopts one recorded call twice in a run of a test.

Of the imported calls of the test, the one with the nearest request is adopted: the same prompt, before an edited one,
before another one. Of other prompts, the first that was recorded is taken. Calls of cassettes that belong to no known
test come last, and only for the same or an edited prompt.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject, parse_exact_json
from traceforge.capture.trace_writer import RecorderSettings
from traceforge.clock import now_text
from traceforge.exchange import Caller, Exchange
from traceforge.ids import new_uuid
from traceforge.replay.library import Library, Recording
from traceforge.replay.player import SentRequest
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_distance import PromptLikeness, RequestDistance, measure_distance
from traceforge.replay.request_key import KeyedRequest
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import RawResponse
from traceforge.snapshots.record.candidates import Candidate, find_candidates, replace_raw_response, settle_workers
from traceforge.snapshots.tree.approved_calls import ApprovedCall, make_recorded_response
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots
from traceforge.traces.trace_composer import TraceComposer

_OTHER_PROMPT = RequestDistance(PromptLikeness.OTHER, has_other_model=False, weight=0)


class _AdoptedCall(NamedTuple):
    candidate: Candidate
    recording: Recording
    test: tuple[str, str]  # its scope and its worker


class AnswerAdopter:
    """Answers the requests of a run that no snapshot answers. Safe to use from several threads."""

    def __init__(self, snapshots: ProjectSnapshots) -> None:
        config = snapshots.loaded.config
        settings = RecorderSettings.from_project(snapshots.loaded)
        self._snapshots = snapshots
        self._policy = ModelPolicy.from_config(config)
        self._needs_match_key = config.match.redacted != "count"
        self._composer = TraceComposer(settings.redactor(), settings.match_key)
        self._sources: Mapping[str, ApprovedCall] = {
            call.id: call for call in snapshots.approved_calls if is_adoptable(call)
        }
        self._lock = threading.Lock()
        self._calls: list[_AdoptedCall] = []

    @property
    def has_sources(self) -> bool:
        """Whether any snapshot was imported."""
        return bool(self._sources)

    def list_candidates(self) -> list[Candidate]:
        """The calls that got an adopted answer."""
        workers = {call.candidate.trace_id: call.test[1] for call in self._calls}
        return settle_workers([call.candidate for call in self._calls], workers)

    def restart_scope(self, scope: str, worker: str) -> None:
        """A test begins, perhaps again: what it adopted before does not count."""
        with self._lock:
            self._calls = [call for call in self._calls if call.test != (scope, worker)]

    def adopt_response(
        self, sent: SentRequest, request: KeyedRequest, caller: Caller, library: Library
    ) -> RecordedResponse | None:
        """The answer of an imported call that is like this one; None where there is none."""
        test = caller.scope, caller.worker
        with self._lock:
            adopted = [call.recording for call in self._calls if call.test == test]
            recording = self._find_like(request, caller.scope, library, adopted)
            if recording is None:
                return None
            candidate = self._make_candidate(sent, caller, self._sources[recording.name])
            self._calls.append(_AdoptedCall(candidate, recording, test))
        return make_recorded_response(candidate.raw_response)

    def _find_like(
        self, request: KeyedRequest, scope: str, library: Library, adopted: Sequence[Recording]
    ) -> Recording | None:
        for place in dict.fromkeys((scope, "")):
            free = [
                recording
                for recording in library.recordings_in_scope(place)
                if self._is_free(recording, adopted) and not library.has_answered(recording)
            ]
            ranked = [
                (distance, position, recording)
                for position, recording in enumerate(free)
                if (distance := _measure(recording, request)) is not None
                and (place == scope or distance.prompt < PromptLikeness.OTHER)
            ]
            if ranked:
                return min(ranked, key=lambda candidate: candidate[:2])[2]
        return None

    def _is_free(self, recording: Recording, adopted: Sequence[Recording]) -> bool:
        """Whether the test has not adopted the call as often as it was recorded."""
        source = self._sources.get(recording.name)
        if source is None:
            return False
        calls = source.call_counts.get(recording.scope, 1) if recording.repeats else 1
        return adopted.count(recording) < max(1, calls)

    def _make_candidate(self, sent: SentRequest, caller: Caller, source: ApprovedCall) -> Candidate:
        """The call with the request of this run and the recorded answer; its trace is composed and never stored."""
        answer = source.raw_response
        assert answer is not None
        exchange = Exchange(
            new_uuid(), now_text(), sent.method, sent.url, sent.headers, sent.body,
            answer.status, answer.response_headers, answer.chunks, 0.0, caller=caller,
        )  # fmt: skip
        stored = self._composer.compose(exchange)
        (candidate,) = find_candidates(
            [(cast("JSONObject", parse_exact_json(stored.trace)), stored.chunks)],
            self._snapshots.keys,
            self._policy,
            caller.scope,
            needs_match_key=self._needs_match_key,
        )
        raw = _adopt_answer(candidate.raw_response, answer, answer.adopted_from or source.hash)
        return replace_raw_response(candidate, raw, self._policy)


def is_adoptable(call: ApprovedCall) -> bool:
    """Whether an import wrote the snapshot, or its answer was adopted before: no provider answered it through us."""
    raw = call.raw_response
    return raw is not None and (raw.known_headers is not None or raw.adopted_from is not None)


def _measure(recording: Recording, request: KeyedRequest) -> RequestDistance | None:
    """How far a recorded request is from a sent one; None where they go to different kinds of endpoints. Of an
    unknown endpoint, the method and the address must be the same.
    """
    recorded, sent = recording.source.load_key_fields(), request.key_fields
    is_known = request.endpoint.dialect is not None
    if recording.endpoint[:2] != request.endpoint[:2] or (
        not is_known and (recorded.method, recorded.address) != (sent.method, sent.address)
    ):
        return None
    distance = measure_distance(recorded, sent)
    return distance if distance.prompt < PromptLikeness.OTHER else _OTHER_PROMPT


def _adopt_answer(raw: RawResponse, answer: RawResponse, adopted_from: str) -> RawResponse:
    request_redactions = raw.redactions("request")
    redacted: JSONObject = {
        "request": cast("JSON", request_redactions),
        "response": cast("JSON", answer.redactions("response")),
        "echoes": [*_move_echoes(answer, request_redactions)],
    }
    return raw._replace(
        status=answer.status,
        response_headers=answer.response_headers,
        chunks=answer.chunks,
        is_left_early=answer.is_left_early,
        redacted=redacted if redacted["request"] or redacted["response"] else None,
        adopted_from=adopted_from,
    )


def _move_echoes(answer: RawResponse, redactions: Sequence[JSONObject]) -> Iterator[JSON]:
    """The echoes of an answer, with the places of their values in this request; others are left out."""
    old_places = dict(_number_places(answer.redactions("request")))
    places = dict(_number_places(redactions))
    by_fingerprint = {entry["fingerprint"]: place for place, entry in places.items() if "fingerprint" in entry}
    for echo in answer.redactions("echoes"):
        place = str(echo["path"]), int(cast("float", echo["nth"]))
        fingerprint = old_places.get(place, {}).get("fingerprint")
        new_place = by_fingerprint.get(fingerprint) if fingerprint is not None else place if place in places else None
        if new_place is not None:
            yield {"marker": echo["marker"], "path": new_place[0], "nth": new_place[1]}


def _number_places(redactions: Sequence[JSONObject]) -> Iterator[tuple[tuple[str, int], JSONObject]]:
    """Each redaction with its path, and its number at that path."""
    counts: dict[str, int] = {}
    for entry in redactions:
        path = str(entry["path"])
        yield (path, counts.get(path, 0)), entry
        counts[path] = counts.get(path, 0) + 1
