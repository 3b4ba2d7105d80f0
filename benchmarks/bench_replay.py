"""A call answered by the player, and one of an SDK in process, among 10 and 100,000 recordings: CPU time."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Row, measure
from sdk_replay import sdk_rows
from traceforge.exchange import Caller
from traceforge.redact.redactor import Redactor
from traceforge.replay.library import Library, Recording
from traceforge.replay.player import Player
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyFields, RequestKeyer
from traceforge.replay.trace_recordings import TraceRecordings, response_from_trace
from traceforge.replay.volatile import VolatileRules
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_store import TraceStore

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.exchanges import chat_answer, make_exchange, parse_object

FEW, MANY = 10, 100_000
SAME = 1.3  # The spread of equal measurements on a shared machine.
GOAL_US = 60.0  # of CPU time that a call may take longer than a canned answer
TOOL_CALLS = 50  # in a long conversation of an agent
TOOL_CALLS_GOAL_US = 300.0  # of CPU time that its key may take longer than a hash of the same bytes
CALLS = 200  # in a round
LOADED_TRACES = 2_000  # in the measurement of loading
TEXT = "What is the capital of France? " * 60  # about 2 kB
URL = "https://api.example.com/v1/chat/completions"
HEADERS = (("Content-Type", "application/json"), ("Authorization", "Bearer none"), ("X-Stainless-Retry-Count", "0"))
NOBODY = Caller()


class AddedTimeRow(Row):
    """A row about the time added to a call."""

    def text(self) -> str:
        """The row as it is printed."""
        times = f"{self.ours * 1e6:.1f} µs against {self.peer * 1e6:.2f} µs of CPU ({self.peer_name})"
        return f"  {self.title:<46} {times:<62} {self.goal:<28} {'ok' if self.met else 'MISSED'}"


class Canned:
    """A recording whose answer is already in memory."""

    def __init__(self, response: RecordedResponse, key_fields: KeyFields) -> None:
        self._response = response
        self._key_fields = key_fields

    def load_response(self) -> RecordedResponse:
        return self._response

    def load_key_fields(self) -> KeyFields:
        return self._key_fields


def rows() -> Iterator[Row]:
    """Every comparison."""
    keys = RequestKeyer(Redactor(), VolatileRules())
    few, many = (library_of(keys, count) for count in (FEW, MANY))
    yield lookup_row(few, many)
    players = [Player(keys, library) for library in (few, many)]
    yield equal_row("player.play among 100,000", play(players[1]), play(players[0]), "among 10")
    yield floor_row("player.play", play(players[0]))
    yield floor_row("player.play, with an e-mail to put back", play(mail_player(keys), mail_body), 2 * GOAL_US)
    yield tool_calls_row(keys)
    yield loading_row(keys)
    yield miss_row(players[1])
    players_by_count = {FEW: players[0], MANY: players[1]}
    yield from sdk_rows(
        answer_to(body_of(0)),
        TEXT,
        lambda count: players_by_count.get(count) or Player(keys, library_of(keys, count)),
        FEW,
        MANY,
    )


def body_of(number: int) -> bytes:
    """A request of about 2 kB."""
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": f"{TEXT}{number}"}]}).encode()


def mail_body(number: int) -> bytes:
    """The same with an e-mail address, which is redacted."""
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": f"{TEXT} a@corp-example.org"}]}
    ).encode()


def library_of(keys: RequestKeyer, count: int) -> Library:
    """A library of `count` recordings; only the first ten are requested."""
    answer = answer_to(body_of(0))
    recordings = []
    for number in range(count):
        request = keys.key_request("POST", URL, HEADERS, body_of(number))
        question = request.key_fields if number < FEW else KeyFields("", "", "", (), (), None)
        recordings.append(Recording(str(number), request.key, "", request.endpoint, Canned(answer, question)))
    return Library(recordings)


def mail_player(keys: RequestKeyer) -> Player:
    """A player of one answer that refers to its request."""
    request = keys.key_request("POST", URL, HEADERS, mail_body(0))
    answer = answer_to(mail_body(0), "I wrote to a@corp-example.org.")
    if not answer.echoes:
        sys.exit("benchmark: the answer refers to nothing")
    return Player(
        keys, Library([Recording("0", request.key, "", request.endpoint, Canned(answer, request.key_fields))])
    )


def answer_to(body: bytes, text: str = "Paris") -> RecordedResponse:
    """The recorded answer to `body`."""
    trace = TraceComposer(Redactor()).compose(make_exchange(URL, body, chat_answer(text)))
    answer = response_from_trace(parse_object(trace.trace), trace.chunks)
    assert answer is not None
    return answer


def play(player: Player, body: Callable[[int], bytes] = body_of) -> Callable[[], None]:
    """Request as often as a round has calls."""
    bodies = [body(number) for number in range(FEW)]

    def calls() -> None:
        for number in range(CALLS):
            played = player.play("POST", URL, HEADERS, bodies[number % FEW], NOBODY)
            if played.unmatched is not None:
                sys.exit(f"benchmark: {played.unmatched.message}")

    return calls


def canned() -> None:
    """The floor: the body is looked up byte for byte, and answered."""
    for number in range(CALLS):
        if CANNED[BODIES[number % FEW]].status != 200:
            sys.exit("benchmark: the canned answer is none")


BODIES = [body_of(number) for number in range(FEW)]
CANNED = {body: answer_to(body) for body in BODIES}


def lookup_row(few: Library, many: Library) -> Row:
    """The library alone."""
    keys = [recording.key for recording in few.recordings]

    def find(library: Library) -> Callable[[], None]:
        def calls() -> None:
            for number in range(CALLS):
                library.find(keys[number % FEW], "")

        return calls

    return equal_row("library.find among 100,000", find(many), find(few), "among 10")


def equal_row(title: str, ours: Callable[[], None], peer: Callable[[], None], peer_name: str) -> Row:
    """Ours may take no longer, except for the spread."""
    mine, theirs = measure(ours, peer, 31, 1, time.process_time)
    ratio = statistics.median(m / t for m, t in zip(mine, theirs, strict=True))
    result = f"{ratio:.2f}x the time, goal {SAME:g}x"
    return Row(title, min(mine) / CALLS, min(theirs) / CALLS, peer_name, 1 / ratio, result, ratio <= SAME)


def floor_row(title: str, ours: Callable[[], None], goal: float = GOAL_US) -> Row:
    """The time added to a canned answer."""
    mine, theirs = measure(ours, canned, 31, 1, time.process_time)
    added = statistics.median((m - t) / CALLS * 1e6 for m, t in zip(mine, theirs, strict=True))
    result = f"{added:+.0f} µs a call, goal {goal:.0f}"
    return AddedTimeRow(title, min(mine) / CALLS, min(theirs) / CALLS, "canned", goal / added, result, added <= goal)


def tool_calls_row(keys: RequestKeyer) -> Row:
    """The key of a long conversation of an agent, whose ids differ in every run, against a hash of its bytes."""
    stored_keys = {keys.key_request("POST", URL, HEADERS, tool_calls_body(0)).key}
    bodies = [tool_calls_body(number) for number in range(1, 1 + 32 * FEW)]
    unsent, unhashed = iter(bodies), iter(bodies)  # Each is sent once: a request that is sent again is cached.

    def find_keys() -> None:
        for body in islice(unsent, FEW):
            if keys.key_request("POST", URL, HEADERS, body, stored_keys).key not in stored_keys:
                sys.exit("benchmark: other ids of tool calls are another key")

    def hash_bytes() -> None:
        for body in islice(unhashed, FEW):
            hashlib.sha256(body).hexdigest()

    mine, theirs = measure(find_keys, hash_bytes, 31, 1, time.process_time)
    added = statistics.median((m - t) / FEW * 1e6 for m, t in zip(mine, theirs, strict=True))
    result = f"{added:+.0f} µs a request, goal {TOOL_CALLS_GOAL_US:.0f}"
    return AddedTimeRow(
        f"the key of a request with {TOOL_CALLS} tool calls", min(mine) / FEW, min(theirs) / FEW, "sha256",
        TOOL_CALLS_GOAL_US / added, result, added <= TOOL_CALLS_GOAL_US,
    )  # fmt: skip


def tool_calls_body(run: int) -> bytes:
    """A conversation of about 15 kB, as one of the runs of an agent sends it."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Compare the weather of fifty cities."}]
    for number in range(TOOL_CALLS):
        call_id = f"call_{run:012x}{number:012x}"
        function = {"name": "weather", "arguments": json.dumps({"city": f"City {number}"})}
        call = {"id": call_id, "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": f"It is sunny in City {number}, {number} degrees."},
        ]
    return json.dumps({"model": "m", "messages": messages}).encode()


def loading_row(keys: RequestKeyer) -> Row:
    """Building recordings from traces, against reading the traces."""
    with TemporaryDirectory() as folder:
        writer, composer = SpoolWriter(folder), TraceComposer(Redactor())
        for number in range(LOADED_TRACES):
            writer.append(composer.compose(make_exchange(URL, body_of(number), chat_answer("Paris"), number=number)))
        writer.seal()
        store = TraceStore(os.fspath(folder))
        store.update_index()
        trace_rows = store.list_rows()

        def load() -> None:
            if len(Library(TraceRecordings(store, keys).load_recordings())) != LOADED_TRACES:
                sys.exit("benchmark: recordings are missing")

        def read() -> None:
            for row in trace_rows:
                store.load_trace(row)

        mine, theirs = measure(load, read, 5, 1, time.process_time)
        store.close()
    ratio = statistics.median(m / t for m, t in zip(mine, theirs, strict=True))
    result = f"{ratio:.2f}x the time, goal 2x"
    times = min(mine) / LOADED_TRACES, min(theirs) / LOADED_TRACES
    return Row("a library of traces, per trace", *times, "store.load", 1 / ratio, result,
               ratio <= 2)  # fmt: skip


def miss_row(player: Player) -> Row:
    """A miss among all recordings."""
    body = body_of(-1)

    def request_unknown() -> None:
        player.unmatched.clear()
        player.play("POST", URL, HEADERS, body, NOBODY)

    mine, theirs = measure(request_unknown, play(player), 9, 1, time.process_time)
    ratio = statistics.median(m / t for m, t in zip(mine, theirs, strict=True))
    result = f"{min(mine) * 1e3:.0f} ms, goal 100 ms"
    return Row("a miss among 100,000, explained", min(mine), min(theirs) / CALLS, "a play", 1 / ratio, result,
               min(mine) <= 0.1)  # fmt: skip
