"""What happens to a call, told by an edge."""

from __future__ import annotations

import pytest

from traceforge.capture import engine as module
from traceforge.capture.engine import Engine
from traceforge.capture.hook import in_flight_call
from traceforge.exchange import Caller, CallOutcome, Exchange, Headers

URL = "https://api.example.com/v1/chat/completions"


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def take(self, exchange: Exchange) -> None:
        """Keep it."""
        self.exchanges.append(exchange)


def call(engine: Engine, headers: Headers = (), caller: Caller | None = None) -> Headers:
    """One whole call; what the client is told."""
    one = engine.begin("POST", URL, headers, caller)
    one.start_response(200, ())
    one.end(CallOutcome.ANSWERED)
    return one.extra_response_headers


def test_a_call_becomes_one_exchange() -> None:
    """Everything an edge told is in it, in order, once."""
    sink = Kept()
    one = Engine(sink).begin("POST", URL, (("Accept", "*/*"),), provider="corp")
    one.add_request_chunk(b"ab")
    one.add_request_chunk(b"c")
    one.start_response(200, (("X", "1"),))
    one.add_response_chunk(b"12")
    one.add_response_chunk(b"3")
    one.end(CallOutcome.ANSWERED)
    one.end(CallOutcome.FAILED, "a second end is ignored")

    (seen,) = sink.exchanges
    assert (one.id, "POST", URL, (("Accept", "*/*"),), b"abc") == (
        seen.id, seen.method, seen.url, seen.request_headers, seen.request_body,
    )  # fmt: skip
    assert (200, (("X", "1"),), [b"12", b"3"]) == (
        seen.status, seen.response_headers, [chunk.data for chunk in seen.chunks],
    )  # fmt: skip
    assert (CallOutcome.ANSWERED, "", "corp") == (seen.outcome, seen.error, seen.provider)
    assert 0 <= seen.chunks[0].t_ms <= seen.chunks[1].t_ms <= seen.duration_ms


def test_our_headers_never_go_upstream_and_say_who_calls() -> None:
    """They are taken out whatever their case, and fill the caller."""
    sink = Kept()
    sent = (
        ("x-traceforge-SESSION-id", "s1"),
        ("X-TraceForge-Step-Index", "4"),
        ("X-TraceForge-Parent-Trace-ID", "p"),
        ("X-TraceForge-State", '{"mood": "caf\u00c3\u00a9"}'),
        ("X-TraceForge-Source", "app.py:3:ask"),
        ("X-TraceForge-Anything", "1"),
        ("Accept", "*/*"),
    )
    told = call(Engine(sink), sent)

    (seen,) = sink.exchanges
    assert (("Accept", "*/*"),) == seen.request_headers
    assert Caller("app.py:3:ask", "", "s1", 4, "p", {"mood": "café"}) == seen.caller
    assert {"X-TraceForge-Trace-ID": seen.id, "X-TraceForge-Session-ID": "s1", "X-TraceForge-Next-Step": "5"} == dict(
        told
    )


def test_a_client_that_did_not_speak_to_us_is_told_nothing() -> None:
    """Its response has the upstream's headers and no others."""
    assert () == call(Engine(Kept(), session_id="run"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Step-Index", "-1"),
        ("Step-Index", "1.0"),
        ("Step-Index", "٣"),
        ("Step-Index", "9" * 17),
        ("Session-ID", "x" * 257),
        ("Session-ID", "a\x00b"),
        ("Parent-Trace-ID", "x" * 257),
        ("State", "not json"),
        ("State", "[]"),
        ("State", '"\u2028"'),
        ("State", '{"a": "' + "x" * (64 << 10) + '"}'),
        ("Source", "no line"),
        ("Source", "a.py:1:f\x07"),
    ],
)
def test_a_malformed_header_is_counted_and_the_call_goes_on(name: str, value: str) -> None:
    """It is named, not echoed: what it holds could be a secret."""
    sink = Kept()
    engine = Engine(sink)
    call(engine, ((f"X-TraceForge-{name}", value),))

    (problem,) = engine.header_problems
    assert problem.startswith(f"X-TraceForge-{name} ")
    assert value not in problem
    assert Caller() == sink.exchanges[0].caller


def test_steps_are_numbered_where_the_caller_does_not() -> None:
    """Each session counts for itself, and goes on behind a number that a caller gave."""
    sink = Kept()
    engine = Engine(sink, session_id="run")
    for caller in (
        Caller(),
        Caller(session_id="a"),
        Caller(),
        Caller(session_id="a", step_index=7),
        Caller(session_id="a"),
        Caller(session_id="a", step_index=2),
        Caller(session_id="a"),
    ):
        call(engine, caller=caller)

    told = [(seen.caller.session_id, seen.caller.step_index) for seen in sink.exchanges]
    assert [("run", 0), ("a", 0), ("run", 1), ("a", 7), ("a", 8), ("a", 2), ("a", 9)] == told


def test_memory_for_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that was used least recently starts again from 0."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    sink = Kept()
    engine = Engine(sink)
    for session in ("a", "b", "a", "c", "b", "a"):
        call(engine, caller=Caller(session_id=session))

    assert [0, 0, 1, 0, 0, 0] == [seen.caller.step_index for seen in sink.exchanges]


def test_a_body_beyond_the_limit_is_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not kept, nor a part of it, and the exchange says so."""
    monkeypatch.setattr(in_flight_call, "BODY_BYTES_MAX", 4)
    sink = Kept()
    engine = Engine(sink)
    one = engine.begin("POST", URL, ())
    one.add_request_chunk(b"1234")
    one.start_response(200, ())
    one.add_response_chunk(b"123")
    one.add_response_chunk(b"45")
    one.add_response_chunk(b"6")
    one.end(CallOutcome.ANSWERED)

    (seen,) = sink.exchanges
    assert (b"1234", (), 1) == (seen.request_body, seen.chunks, engine.too_large)
    assert "a body of more than 4 bytes is not kept" == seen.error
