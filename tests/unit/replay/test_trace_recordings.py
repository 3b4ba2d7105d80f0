"""Recordings from traces: what was recorded is what is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from support.corpus import need_shared
from support.corpus_traffic import interactions, one_in
from support.exchanges import REDACTOR, chat_answer, chat_request, make_exchange, recorded_exchange, timestamp
from support.replay_player import KEYS, make_player, play, redactions_of, store_exchanges
from support.wire_transcripts import CHAT
from traceforge.canon import parse_json
from traceforge.errors import NotJSON
from traceforge.exchange import Caller, CallOutcome, Exchange, find_header
from traceforge.redact.stream_events import find_events
from traceforge.replay.library import Library
from traceforge.replay.player import Player
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.trace_recordings import TraceRecordings
from traceforge.traces.trace_index import TraceFilter


def chat_exchange(text: str, answer: str = "", number: int = 0, **more: str) -> Exchange:
    """A call of a session, or of none."""
    return make_exchange(CHAT, chat_request(text), chat_answer(answer), number=number, caller=Caller(**more))  # type: ignore[arg-type]


@one_in
def test_every_call_of_the_corpus_is_played_as_it_was_recorded(
    one_in: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Kept in a store and asked again in the same order, each request gets its own answer.

    Streams in bytes and boundaries, plain answers in bytes; where something was redacted, as redaction left them, but
    that what the request holds is put back.
    """
    calls = [
        msgspec.structs.replace(recorded_exchange(interaction, number), started_at=timestamp(number))
        for number, interaction in enumerate(interactions(need_shared("corpus/llm")))
        if number % one_in == 0
    ]
    player = make_player(tmp_path, *calls)
    counts: Counter[str] = Counter()

    for exchange in calls:
        played = play(player, exchange)

        assert (exchange.id, exchange.status) == (played.source_name, played.response.status), played.unmatched
        sent = [chunk.data for chunk in exchange.chunks]
        pieces = [chunk.data for chunk in played.response.chunks]
        kind = "stream" if played.response.streamed else "plain"
        if (pieces if kind == "stream" else [b"".join(pieces)]) == (sent if kind == "stream" else [b"".join(sent)]):
            counts[f"{kind}, byte-equal"] += 1
            continue
        counts[f"{kind}, equal to its redacted form"] += 1
        assert _is_redacted_form(exchange, played.response), exchange.id

    for name, count in counts.items():
        record_property("summary", f"replayed answers of the corpus, {name}: {count}")
    assert len(calls) == counts.total() == player.played_count
    spread = 1 if one_in == 1 else 0.9  # A sample has a few streams more or less than its share.
    assert counts["stream, byte-equal"] > 2700 / one_in * spread
    assert counts["plain, byte-equal"] > 6900 / one_in * spread
    assert counts.total() - counts["stream, byte-equal"] - counts["plain, byte-equal"] < 200


def _is_redacted_form(exchange: Exchange, answer: RecordedResponse) -> bool:
    """What the redactor makes of the answer, and, where the request holds the same, what it was."""
    sent, received = [chunk.data for chunk in exchange.chunks], [chunk.data for chunk in answer.chunks]
    media_type = find_header(exchange.response_headers, "content-type")
    if redactions_of(exchange):
        texts = [b"".join(REDACTOR.redact_chunks(pieces, media_type).value) for pieces in (sent, received)]
        return len(sent) == len(received) and _values(texts[0]) == _values(texts[1])
    if answer.streamed:
        return REDACTOR.redact_chunks(sent, media_type).value == received
    return _values(REDACTOR.redact_body(b"".join(sent), media_type).value) == _values(b"".join(received))


def _values(data: bytes) -> list[object]:
    """The JSON values of a body, independent of notation."""
    try:
        return [parse_json(data)]
    except NotJSON:
        return [event.value for event in find_events(data)] or [data]


def test_recordings_are_in_the_order_of_their_time(tmp_path: Path) -> None:
    """Whatever the order in which they were written."""
    calls = [chat_exchange("a", str(n), n) for n in range(20)]
    store = store_exchanges(tmp_path, [*calls[10:], *calls[:10][::-1]])

    names = [recording.name for recording in TraceRecordings(store, KEYS).load_recordings()]

    assert [call.id for call in calls] == names


def test_calls_without_a_response_are_not_recordings(tmp_path: Path) -> None:
    failed = make_exchange(CHAT, chat_request("a"), b"", status=0, outcome=CallOutcome.FAILED, number=1)
    store = store_exchanges(tmp_path, [failed, chat_exchange("a", "1", 2)])

    assert [chat_exchange("a", "", 2).id] == [
        recording.name for recording in TraceRecordings(store, KEYS).load_recordings()
    ]


def test_unreadable_traces_are_listed(tmp_path: Path) -> None:
    """Corrupt is never the same as missing."""
    store = store_exchanges(tmp_path, [chat_exchange("a", "1", 1), chat_exchange("b", "2", 2)])
    (first,) = tmp_path.glob("*_00000001*.json")
    first.write_bytes(b"{")
    recordings = TraceRecordings(store, KEYS)

    names = [recording.name for recording in recordings.load_recordings()]

    assert [chat_exchange("b", "", 2).id] == names
    assert [chat_exchange("a", "", 1).id] == list(recordings.unreadable)


def test_a_trace_of_another_tool_is_not_a_recording(tmp_path: Path) -> None:
    """It lacks the sent and received bytes."""
    store = store_exchanges(tmp_path, [chat_exchange("a", "1", 1)])
    (file,) = tmp_path.glob("*_00000001*.json")
    body = msgspec.json.decode(file.read_bytes())
    del body["wire"]
    file.write_bytes(msgspec.json.encode(body))

    assert [] == list(TraceRecordings(store, KEYS).load_recordings())


def test_recordings_can_be_limited_to_one_session(tmp_path: Path) -> None:
    calls = [chat_exchange("a", "1", 1, session_id="one"), chat_exchange("a", "2", 2, session_id="two")]
    player = make_player(tmp_path, *calls, trace_filter=TraceFilter(session_id="two"))

    assert calls[1].id == play(player, chat_exchange("a")).source_name


@pytest.mark.parametrize("compressed", [False, True])
def test_recordings_are_read_wherever_traces_are(tmp_path: Path, compressed: bool) -> None:
    """From files and from archives, also after the store was closed, and after they have moved."""
    calls = [chat_exchange(f"question {n}", f"answer {n}", n) for n in range(5)]
    store = store_exchanges(tmp_path, calls)
    if compressed:
        store.compress_traces(store.list_rows())
    library = Library(TraceRecordings(store, KEYS).load_recordings())
    if not compressed:
        store.compress_traces(store.list_rows())
    store.close()
    player = Player(KEYS, library)

    assert [call.id for call in calls] == [play(player, call).source_name for call in calls]
    assert [] == player.unmatched


def test_responses_are_read_only_when_they_are_needed(tmp_path: Path) -> None:
    """A hundred thousand of them would not fit in memory."""
    store = store_exchanges(tmp_path, [chat_exchange("a long question " * 100, "a long answer " * 100, 1)])
    (recording,) = TraceRecordings(store, KEYS).load_recordings()

    assert "question" not in repr(recording)
    assert b"a long answer" in recording.source.load_response().body
    assert recording.source.load_response() is recording.source.load_response()
    assert "a long question" in str(recording.source.load_key_fields().body)
