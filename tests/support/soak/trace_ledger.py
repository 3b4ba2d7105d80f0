"""Which calls were answered, and whether their traces are on the disk: each once, and byte for byte.

A recording process has a *life*. While it lives it counts what it recorded and what it could not record. When it is
killed, calls that were answered a moment before may be missing: they were still in its memory. Those are the last
ones of each client, never one before a recorded one.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from support.soak.numbered_calls import answer_pieces, make_request
from traceforge.traces.body_reader import write_body
from traceforge.traces.spool import find_segments
from traceforge.traces.trace_store import TraceStore

TRACES = Path(".ai-tests") / "traces"


class RecordingLife:
    """One process that records, from its start to its end."""

    def __init__(self) -> None:
        self.answered: dict[str, list[int]] = {}  # by client, in order
        self.settled: set[str] = set()  # calls of which the process has said that they were recorded or not
        self.not_recorded = 0  # of those that it has reported, how many it could not record
        self.was_killed = False

    def note_answer(self, client: str, number: int) -> None:
        self.answered.setdefault(client, []).append(number)

    def names(self) -> list[str]:
        """The names of all answered calls."""
        return [f"{client}.{number}" for client, numbers in list(self.answered.items()) for number in list(numbers)]


class LedgerTotals(NamedTuple):
    """What became of the answered calls."""

    answered: int
    stored: int
    not_recorded: int  # and reported as such
    in_memory: int  # of a process when it was killed
    kills: int

    def __str__(self) -> str:
        return (
            f"{self.answered} calls answered, {self.stored} traces, {self.not_recorded} reported as not recorded,"
            f" {self.in_memory} in memory at {self.kills} kills"
        )


def check_traces(project: Path, seed: int, lives: list[RecordingLife], unanswered: set[str]) -> LedgerTotals:
    """Compare all traces of a project with the calls of all lives. `unanswered` calls may have a trace or not."""
    stored = _read_traces(project, seed)
    answered = {name for life in lives for name in life.names()}
    assert set() == stored - answered - unanswered, "a trace of a call that nobody made"
    not_recorded = in_memory = 0
    for life in lives:
        missing = set(life.names()) - stored
        missing_settled = missing & life.settled
        assert len(missing_settled) <= life.not_recorded, f"{len(missing_settled)} lost, {life.not_recorded} reported"
        if not life.was_killed:
            assert len(missing) <= life.not_recorded, f"{len(missing)} lost, {life.not_recorded} reported"
        elif not life.not_recorded:
            _check_suffixes(life, stored)
        not_recorded += len(missing_settled)
        in_memory += len(missing) - len(missing_settled)
    kills = sum(life.was_killed for life in lives)
    return LedgerTotals(len(answered), len(stored), not_recorded, in_memory, kills)


def _check_suffixes(life: RecordingLife, stored: set[str]) -> None:
    for client, numbers in life.answered.items():
        is_stored = [f"{client}.{number}" in stored for number in numbers]
        assert sorted(is_stored, reverse=True) == is_stored, f"{client}: a call was lost before one that was recorded"


def _read_traces(project: Path, seed: int) -> set[str]:
    """The names of all calls with a trace; each has one, which holds what was sent and what came back."""
    folder = str(project / TRACES)
    store = TraceStore(folder)
    try:
        store.update_index()
        assert [] == find_segments(folder), "the spool was not drained"
        assert {} == store.unreadable_files()
        counts: Counter[str] = Counter()
        for row in store.list_rows():
            trace = json.loads(store.read_stored(row).trace)
            name = str(trace["provider_request"]["model"])
            client, _, number = name.rpartition(".")
            counts[name] += 1
            request = make_request(seed, client, int(number))
            sent = json.dumps(trace["provider_request"], ensure_ascii=False, separators=(",", ":")).encode()
            assert request == sent, f"{name}: the request is not what was sent"
            if trace["wire"]["outcome"] != "answered":
                continue  # Its client or its process was killed: what came so far is no promise.
            layout = trace["wire"].get("response_layout")
            stream = b"".join(chunk.data for chunk in store.load_chunks(row)) if layout is None else b""
            received = write_body(trace["provider_response"], layout) if layout is not None else stream
            assert b"".join(answer_pieces(request)) == received, f"{name}: the answer is not what was received"
    finally:
        store.close()
    assert [] == [name for name, count in counts.items() if count > 1], "a call is there twice"
    return set(counts)
