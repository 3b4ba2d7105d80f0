"""The account of a soak: it notices a call that is lost, doubled or changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.soak.numbered_calls import answer_pieces, make_request
from support.soak.trace_ledger import TRACES, LedgerTotals, RecordingLife, check_traces
from support.stored_traces import OPENAI, store_calls, trace_id
from traceforge.exchange import Caller, CallOutcome, Chunk, Exchange
from traceforge.traces.spool_drain import drain_spool

SEED = 7


def store(project: Path, *numbers: int, first_id: int = 1, seed: int = SEED) -> None:
    """Store traces of the calls with these numbers, as a recorder does."""
    exchanges = []
    for at, number in enumerate(numbers, first_id):
        request = make_request(seed, "c", number)
        chunks = tuple(Chunk(1.0 + place, piece) for place, piece in enumerate(answer_pieces(request)))
        kind = "text/event-stream" if number % 3 == 0 else "application/json"
        exchanges.append(
            Exchange(
                trace_id(at),
                "2025-03-02T09:00:00.000Z",
                "POST",
                OPENAI,
                (("content-type", "application/json"),),
                request,
                200,
                (("content-type", kind),),
                chunks,
                9.0,
                CallOutcome.ANSWERED,
                "",
                Caller(),
                "",
            )
        )
    store_calls(project, *exchanges)
    drain_spool(os.fspath(project / TRACES))


def answered(*numbers: int, settled: int = 0, was_killed: bool = False, not_recorded: int = 0) -> RecordingLife:
    """The life of a process that answered these calls, and reported the first `settled` of them."""
    life = RecordingLife()
    for number in numbers:
        life.note_answer("c", number)
    life.settled = set(life.names()[:settled])
    life.was_killed, life.not_recorded = was_killed, not_recorded
    return life


def test_every_call_of_two_lives_is_accounted_for(tmp_path: Path) -> None:
    """Plain and streamed calls; the last ones of a process that was killed, and a call without an answer."""
    store(tmp_path, 1, 2, 3, 5, 6, 7)
    lives = [answered(1, 2, 3, 4, settled=2, was_killed=True), answered(6, 7)]

    totals = check_traces(tmp_path, SEED, lives, {"c.5"})

    assert LedgerTotals(answered=6, stored=6, not_recorded=0, in_memory=1, kills=1) == totals


@pytest.mark.parametrize(
    ("stored", "life", "message"),
    [
        ((1, 3), answered(1, 2, 3), "1 lost, 0 reported"),
        ((1,), answered(1, 2, 3, not_recorded=1), "2 lost, 1 reported"),
        ((1,), answered(1, 2, 3, settled=2, was_killed=True), "1 lost, 0 reported"),
        ((1, 3), answered(1, 2, 3, settled=1, was_killed=True), "before one that was recorded"),
        ((1, 2, 3, 4), answered(1, 2, 3), "nobody made"),
        ((1, 2, 2), answered(1, 2), "there twice"),
    ],
)
def test_what_is_lost_or_doubled_is_noticed(
    tmp_path: Path, stored: tuple[int, ...], life: RecordingLife, message: str
) -> None:
    store(tmp_path, *stored)

    with pytest.raises(AssertionError, match=message):
        check_traces(tmp_path, SEED, [life], set())


def test_a_changed_request_is_noticed(tmp_path: Path) -> None:
    """Here: the trace of another seed's call."""
    store(tmp_path, 1, seed=SEED + 1)

    with pytest.raises(AssertionError, match="not what was sent"):
        check_traces(tmp_path, SEED, [answered(1)], set())
