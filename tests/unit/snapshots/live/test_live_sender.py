"""One request: tried again where that can help, as long as anybody would wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from support.proposals import approve_change, make_call, propose
from support.stepped_clock import SteppedClock, SteppedEvent
from support.upstream import ScriptedResponse, Upstream, upstream
from traceforge.clock import pinned
from traceforge.exchange import CallOutcome
from traceforge.snapshots.live import live_sender
from traceforge.snapshots.live.live_address import ProviderAddresses
from traceforge.snapshots.live.live_plan import LiveCall, make_plan
from traceforge.snapshots.live.live_sender import ATTEMPTS_MAX, HostPacing, LiveSender, SendResult, retry_after

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """A scripted provider, without waits between attempts."""
    monkeypatch.setattr(live_sender, "BACKOFF_S", 0.001)
    with upstream() as server:
        yield server


def call_to(server: Upstream, path: str = "") -> LiveCall:
    """An approved call, to be sent there."""
    approved = approve_change(propose(make_call("Hi")).changes[0])
    (call,) = make_plan([approved], ProviderAddresses({"openai": server.url + path}), {}, runs=1).calls
    return call


def sent(server: Upstream) -> SendResult:
    """What became of it."""
    return LiveSender(HostPacing(threading.Event())).send(call_to(server), {"authorization": "Bearer k"})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((), None),
        ((("Retry-After", "7"),), 7.0),
        ((("retry-after", "0.5"),), 0.5),
        ((("retry-after", "Sun, 15 Nov 2026 12:00:30 GMT"),), 30.0),
        ((("retry-after", "Sun, 15 Nov 2026 11:00:00 GMT"),), 0.0),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "-3"),), None),
        ((("retry-after", "inf"),), None),
        ((("retry-after-ms", "250"), ("retry-after", "9")), 0.25),
    ],
)
def test_the_retry_delay_is_read_from_the_provider(
    headers: tuple[tuple[str, str], ...], seconds: float | None
) -> None:
    """In seconds, in milliseconds, or as a date; any other value is ignored."""
    with pinned(NOON):
        assert seconds == retry_after(headers)


def test_an_answer_without_an_end_is_cut_and_not_asked_for_again(
    provider: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fill the memory."""
    monkeypatch.setattr(live_sender, "RESPONSE_BYTES_MAX", 1000)
    provider.respond_with(ScriptedResponse([b"x" * 800] * 5, chunked=True))

    result = sent(provider)

    assert (1, CallOutcome.CUT) == (result.attempts, result.exchange.outcome)
    assert "more than 1,000 bytes came" == result.exchange.error


def test_the_exchange_holds_request_and_answer_unchanged(provider: Upstream) -> None:
    """The body, its headers and its pieces; the request has the key and asks for no compression."""
    provider.respond_with(ScriptedResponse([b'{"a":', b"1}"], chunked=True))

    result = sent(provider)

    assert (200, b'{"a":1}', 1, "") == (
        result.exchange.status,
        b"".join(chunk.data for chunk in result.exchange.chunks),
        result.attempts,
        result.problem,
    )
    head = provider.received[0].head.lower()
    assert head.startswith(b"post /v1/chat/completions ")
    assert b"authorization: bearer k" in head
    assert b"accept-encoding: identity" in head
    assert b"content-type: application/json" in head


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_a_temporary_failure_is_retried(provider: Upstream, status: int) -> None:
    """Busy, slow, broken: the next attempt is answered."""
    provider.respond_with(ScriptedResponse([b"{}"], status=status), ScriptedResponse([b"{}"]))

    result = sent(provider)

    assert (200, 2) == (result.exchange.status, result.attempts)


@pytest.mark.parametrize("status", [307, 400, 401, 403, 404])
def test_a_permanent_failure_is_not_retried(provider: Upstream, status: int) -> None:
    """A wrong request stays wrong; a redirect is not followed, because the key would go with it."""
    provider.respond_with(ScriptedResponse([b"{}"], status=status, headers={"location": f"{provider.url}/elsewhere"}))

    result = sent(provider)

    assert (status, 1, 1) == (result.exchange.status, result.attempts, len(provider.received))


def test_attempts_are_limited(provider: Upstream) -> None:
    """After so many attempts it is what it is."""
    provider.respond_with(ScriptedResponse([b"{}"], status=500))

    result = sent(provider)

    assert (500, ATTEMPTS_MAX, ATTEMPTS_MAX) == (result.exchange.status, result.attempts, len(provider.received))


def test_a_provider_that_wants_no_other_attempt_gets_none(provider: Upstream) -> None:
    """`x-should-retry: false` is what SDKs heed too."""
    provider.respond_with(ScriptedResponse([b"{}"], status=429, headers={"x-should-retry": "false"}))

    assert 1 == sent(provider).attempts


def test_a_broken_connection_is_tried_again(provider: Upstream) -> None:
    """Without a word, and in the middle of an answer."""
    provider.respond_with(
        ScriptedResponse([], silent=True), ScriptedResponse([b"{"], reset=True), ScriptedResponse([b"{}"])
    )

    result = sent(provider)

    assert (CallOutcome.ANSWERED, 3) == (result.exchange.outcome, result.attempts)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    """The clock of the sender."""
    clock = SteppedClock()
    monkeypatch.setattr(live_sender, "time", clock)
    return clock


def test_retry_after_delays_every_request_to_the_host(clock: SteppedClock) -> None:
    """Requests to the same host wait, others do not; a stop ends every wait."""
    stop = SteppedEvent(clock)
    pace = HostPacing(stop)
    pace.delay_host("busy", 60)
    pace.wait_for_host("other")
    assert [] == clock.waits
    pace.wait_for_host("busy")
    assert [60] == clock.waits

    pace.delay_host("busy", 3600)
    stop.set()
    pace.wait_for_host("busy")

    assert [60] == clock.waits
    assert pace.is_stopped


def test_a_request_is_sent_again_when_the_provider_says(provider: Upstream, clock: SteppedClock) -> None:
    """After the seconds that it names; without them, after the sender's own delay, which grows."""
    busy = ScriptedResponse([b"{}"], status=429, headers={"retry-after": "7"})
    provider.respond_with(busy, ScriptedResponse([b"{}"], status=500), ScriptedResponse([b"{}"]))

    result = LiveSender(HostPacing(SteppedEvent(clock))).send(call_to(provider), {})

    first, second = clock.waits
    assert (200, 3, 7) == (result.exchange.status, result.attempts, first)
    assert 0 < second < 1


def test_an_unreachable_host_is_not_retried() -> None:
    """A port without a listener, and a host name that does not exist."""
    approved = approve_change(propose(make_call("Hi")).changes[0])
    for url, why in (
        ("http://127.0.0.1:9", "nothing listens at that address"),
        ("http://no.invalid", "the host name cannot be resolved"),
    ):
        (call,) = make_plan([approved], ProviderAddresses({"openai": url}), {}, runs=1).calls
        result = LiveSender(HostPacing(threading.Event())).send(call, {})

        assert (why, 1, CallOutcome.FAILED) == (result.problem, result.attempts, result.exchange.outcome)


def test_repeated_headers_are_joined(provider: Upstream) -> None:
    """A client may name two betas in two headers; both go along."""
    call = call_to(provider)
    twice = (*call.headers, ("anthropic-beta", "a"), ("Anthropic-Beta", "b"))

    LiveSender(HostPacing(threading.Event())).send(msgspec.structs.replace(call, headers=twice), {})

    assert b"anthropic-beta: a, b" in provider.received[0].head.lower()


@pytest.mark.parametrize("name", ["host: evil.example", "transfer-encoding ", "", "x\ty", "höst"])
def test_a_header_whose_name_is_none_is_not_sent(provider: Upstream, name: str) -> None:
    """With a colon in it, a snapshot would add another header, such as a second `Host`."""
    call = msgspec.structs.replace(call_to(provider), headers=((name, "x"),))

    result = LiveSender(HostPacing(threading.Event())).send(call, {})

    assert "a URL or a header has a character that HTTP does not allow there" == result.problem
    assert [] == provider.received
