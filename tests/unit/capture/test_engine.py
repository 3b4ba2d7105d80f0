"""Calls in flight become exchanges."""

from __future__ import annotations

import pytest

from traceforge.capture import engine as module
from traceforge.capture.engine import Engine
from traceforge.capture.hook import in_flight_call
from traceforge.exchange import Caller, CallOutcome, Exchange, Headers

URL = "https://api.example.com/v1/chat/completions"


class ListSink:
    """A sink that collects exchanges."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def take(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


def make_call(engine: Engine, headers: Headers = (), caller: Caller | None = None) -> Headers:
    """One complete call; the headers that are added to its response."""
    call = engine.begin("POST", URL, headers, caller)
    call.start_response(200, ())
    call.end(CallOutcome.ANSWERED)
    return call.extra_response_headers


def test_a_call_becomes_one_exchange() -> None:
    """Everything the edge reported is in it, in order, once."""
    sink = ListSink()
    call = Engine(sink).begin("POST", URL, (("Accept", "*/*"),), provider="corp")
    call.add_request_chunk(b"ab")
    call.add_request_chunk(b"c")
    call.start_response(200, (("X", "1"),))
    call.add_response_chunk(b"12")
    call.add_response_chunk(b"3")
    call.end(CallOutcome.ANSWERED)
    call.end(CallOutcome.FAILED, "a second end is ignored")

    (exchange,) = sink.exchanges
    assert (call.id, "POST", URL, (("Accept", "*/*"),), b"abc") == (
        exchange.id, exchange.method, exchange.url, exchange.request_headers, exchange.request_body,
    )  # fmt: skip
    assert (200, (("X", "1"),), [b"12", b"3"]) == (
        exchange.status, exchange.response_headers, [chunk.data for chunk in exchange.chunks],
    )  # fmt: skip
    assert (CallOutcome.ANSWERED, "", "corp") == (exchange.outcome, exchange.error, exchange.provider)
    assert 0 <= exchange.chunks[0].t_ms <= exchange.chunks[1].t_ms <= exchange.duration_ms


def test_headers_of_traceforge_never_go_upstream_and_describe_the_caller() -> None:
    """They are taken out, whatever their case."""
    sink = ListSink()
    sent = (
        ("x-traceforge-SESSION-id", "s1"),
        ("X-TraceForge-Step-Index", "4"),
        ("X-TraceForge-Parent-Trace-ID", "p"),
        ("X-TraceForge-State", '{"mood": "caf\u00c3\u00a9"}'),
        ("X-TraceForge-Source", "app.py:3:ask"),
        ("X-TraceForge-Anything", "1"),
        ("Accept", "*/*"),
    )
    added = make_call(Engine(sink), sent)

    (exchange,) = sink.exchanges
    assert (("Accept", "*/*"),) == exchange.request_headers
    assert Caller("app.py:3:ask", "", "s1", 4, "p", {"mood": "café"}) == exchange.caller
    assert {
        "X-TraceForge-Trace-ID": exchange.id,
        "X-TraceForge-Session-ID": "s1",
        "X-TraceForge-Next-Step": "5",
    } == dict(added)


def test_a_client_that_only_says_its_call_site_gets_no_headers_back() -> None:
    """The hook in Node.js sends it, and the application knows nothing of it. Names are UTF-8."""
    sink = ListSink()
    added = make_call(Engine(sink, session_id="run"), (("X-TraceForge-Source", "caf\u00c3\u00a9.mjs:3:ask"),))

    assert ((), "café.mjs:3:ask") == (added, sink.exchanges[0].caller.source)


def test_a_client_without_headers_of_traceforge_gets_none_back() -> None:
    """Its response has the upstream's headers and no others."""
    assert () == make_call(Engine(ListSink(), session_id="run"))


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
    """The problem names the header, not its value: that could be a secret."""
    sink = ListSink()
    engine = Engine(sink)
    make_call(engine, ((f"X-TraceForge-{name}", value),))

    (problem,) = engine.header_problems
    assert problem.startswith(f"X-TraceForge-{name} ")
    assert value not in problem
    assert Caller() == sink.exchanges[0].caller


def test_steps_are_numbered_unless_the_caller_numbers_them() -> None:
    """Each session counts for itself, and continues after a number that a caller gave."""
    sink = ListSink()
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
        make_call(engine, caller=caller)

    steps = [(exchange.caller.session_id, exchange.caller.step_index) for exchange in sink.exchanges]
    assert [("run", 0), ("a", 0), ("run", 1), ("a", 7), ("a", 8), ("a", 2), ("a", 9)] == steps


def test_memory_for_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that was used least recently starts again from 0."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 2)
    sink = ListSink()
    engine = Engine(sink)
    for session in ("a", "b", "a", "c", "b", "a"):
        make_call(engine, caller=Caller(session_id=session))

    assert [0, 0, 1, 0, 0, 0] == [exchange.caller.step_index for exchange in sink.exchanges]


def test_a_body_beyond_the_limit_is_counted_and_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of it is recorded, and the exchange says so."""
    monkeypatch.setattr(in_flight_call, "BODY_BYTES_MAX", 4)
    sink = ListSink()
    engine = Engine(sink)
    call = engine.begin("POST", URL, ())
    call.add_request_chunk(b"1234")
    call.start_response(200, ())
    call.add_response_chunk(b"123")
    call.add_response_chunk(b"45")
    call.add_response_chunk(b"6")
    call.end(CallOutcome.ANSWERED)

    (exchange,) = sink.exchanges
    assert (b"1234", (), 1) == (exchange.request_body, exchange.chunks, engine.too_large)
    assert "a body of more than 4 bytes is not kept" == exchange.error
