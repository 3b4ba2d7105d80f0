"""Every call of the corpus on its way to approval: nothing is lost, and what is approved says what is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from support.corpus import need_shared
from support.corpus_traffic import interactions, one_in
from support.exchanges import COMPOSER, parse_object, recorded_exchange
from support.proposals import KEYS
from traceforge.replay.library import Library
from traceforge.replay.trace_recordings import response_from_trace
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import find_disagreements, read_raw_response, write_raw_response
from traceforge.snapshots.formats.snapshot_format import check_document, read_document, write_document
from traceforge.snapshots.record.candidates import Candidate, find_candidates
from traceforge.snapshots.record.pending_changes import PendingChange, read_pending
from traceforge.snapshots.record.proposal import propose_changes
from traceforge.snapshots.tree.approved_calls import ApprovedCall, build_recordings
from traceforge.snapshots.tree.run_scopes import RunScopes

POLICY, STRICT = ModelPolicy(), ModelPolicy(is_strict=True)


@one_in
def test_every_call_of_the_corpus_is_approved_as_it_is_replayed(
    one_in: int,
    record_property: Callable[[str, object], None],
) -> None:
    """None is refused: its raw response reads back, its record is valid and agrees with it, and a player answers with
    its bytes.
    """
    counts: Counter[str] = Counter()
    nowhere = RunScopes({""}, ["/nowhere"])
    for number, interaction in enumerate(interactions(need_shared("corpus/llm"))):
        if number % one_in:
            continue
        composed = COMPOSER.compose(recorded_exchange(interaction, number))
        body = parse_object(composed.trace)
        (candidate,) = find_candidates([(body, composed.chunks)], KEYS, POLICY) or [None]
        if candidate is None:
            assert response_from_trace(body, composed.chunks) is None
            counts["without an answer"] += 1
            continue
        (strict,) = find_candidates([(body, composed.chunks)], KEYS, STRICT)
        counts["refused by a strict project"] += bool(strict.reasons)
        assert candidate.raw_response == read_raw_response(write_raw_response(candidate.raw_response))
        (change,) = propose_changes([candidate], [], KEYS, {}, nowhere).changes
        assert change == read_pending(change.to_bytes())
        counts["refused"] += bool(candidate.reasons)
        counts["a record" if candidate.has_record else "a raw response alone"] += 1
        counts[f"gated on the {'prompt and answer' if candidate.gate == 'behaviour' else 'prompt'}"] += 1
        _check(candidate, change, number)
    for outcome, count in sorted(counts.items()):
        record_property("summary", f"calls of the corpus, {outcome}: {count}")
    assert counts["a record"] > 3000 / one_in
    assert 0 == counts["refused"]
    assert counts["refused by a strict project"] > 0.5 * counts["a record"]


def _check(candidate: Candidate, change: PendingChange, number: int) -> None:
    record = change.record
    if record is not None:
        data = write_document([record])
        (read,) = read_document(data)
        assert [] == check_document(parse_object(data)), number
        assert [] == find_disagreements(read.body, change.raw_response, POLICY), number
    file = f"{change.provider}/{change.id}.json"
    approved = ApprovedCall(change.id, change.provider, file, candidate.key, record, change.raw_response, change.gate)
    library = Library(build_recordings([approved], KEYS))
    recording = library.find(candidate.key, "").recording
    if recording is None:  # something was redacted, and there is no key to compare it under
        recording = library.find(candidate.key, "", None).recording
    assert recording is not None
    assert candidate.raw_response.chunks == recording.source.load_response().chunks
