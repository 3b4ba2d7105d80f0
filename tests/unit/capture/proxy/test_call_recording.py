"""Recording fails, and the call goes through."""

from __future__ import annotations

import pytest

from support.raw_sockets import CollectingSink, Proxy, Upstream, proxy_and_upstream, response
from traceforge.capture.engine import Engine
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.proxy.call_recording import CallRecording
from traceforge.capture.proxy.prepared_request import prepare_request
from traceforge.capture.proxy.proxy_metrics import ProxyMetrics
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.exchange import CallOutcome, Exchange
from traceforge.http.message_head import RequestHead

BROKEN = RuntimeError("it holds s3cret")
METHODS = {
    "begin": (Engine, "begin"),
    "request": (InFlightCall, "add_request_chunk"),
    "response": (InFlightCall, "start_response"),
    "chunk": (InFlightCall, "add_response_chunk"),
    "end": (InFlightCall, "end"),
}


def fail(*_: object, **__: object) -> None:
    """A method that raises."""
    raise BROKEN


class FullSink(CollectingSink):
    """A sink whose disk is full, though a sink should never raise."""

    def take(self, exchange: Exchange) -> None:
        """Break."""
        raise OSError(28, "No space left on device")


def exchange_through(proxy: Proxy, upstream: Upstream) -> bytes:
    """One call; what the client got."""
    client = proxy.post(body=b"ask", headers=b"X-TraceForge-Session-ID: s\r\n")
    server = upstream.accept()
    assert b"traceforge" not in server.request().lower()
    server.send(response(b"answer"))
    return client.response()


def failures_of(proxy: Proxy) -> dict[str, int]:
    """What was counted, once calls that ended have been told."""
    proxy.state.recording.flush()
    return dict(proxy.state.metrics.recording_failures)


@pytest.mark.parametrize("where", ["begin", "request", "response", "chunk", "end"])
def test_whatever_the_engine_does_the_call_goes_through(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte; it is counted, and said without its message, and our headers still stay here."""
    monkeypatch.setattr(*METHODS[where], fail)
    with proxy_and_upstream() as (upstream, proxy):
        assert exchange_through(proxy, upstream).endswith(b"\r\n\r\nanswer")
        failures = proxy.call(lambda: failures_of(proxy))

    err = capsys.readouterr().err
    assert {f"{where}-RuntimeError": 1} == failures
    assert 1 == err.count("recording failed")
    assert "s3cret" not in err


def test_a_sink_that_raises_does_not_hurt_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    """The exchange is lost, and that is counted."""
    with proxy_and_upstream(sink=FullSink()) as (upstream, proxy):
        assert exchange_through(proxy, upstream).endswith(b"\r\n\r\nanswer")
        failures = proxy.call(lambda: failures_of(proxy))

    assert {"end-OSError": 1} == failures
    assert "recording failed (OSError at end)" in capsys.readouterr().err


def test_a_failure_is_said_once_for_its_kind() -> None:
    """A full disk must not fill the terminal too."""
    texts: list[str] = []
    metrics = ProxyMetrics()
    route = UpstreamRoutes({"up": "http://a"}).find_route("GET", "/up/", is_anthropic=False)
    assert route is not None
    ask = prepare_request(RequestHead(b"GET / HTTP/1.0\r\n\r\n"), route)
    recording = CallRecording(Engine(FullSink()), metrics, texts.append)
    for _ in range(3):
        recording.begin(ask).end(CallOutcome.ANSWERED)

    assert (1, {"end-OSError": 3}) == (len(texts), metrics.recording_failures)
