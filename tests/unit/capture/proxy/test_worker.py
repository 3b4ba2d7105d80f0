"""The end of a worker."""

from __future__ import annotations

import asyncio
import threading

import pytest

from support.raw_sockets import CollectingSink, proxy_and_upstream
from traceforge.capture.proxy.call_recording import CallRecording
from traceforge.capture.proxy.proxy_metrics import ProxyMetrics
from traceforge.capture.proxy.worker import close_recorder
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.exchange import CallOutcome


class SlowSink(CollectingSink):
    """A sink that writes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.let_go = threading.Event(), threading.Event()

    def close(self, seconds: float = 0) -> RecordingCounts:
        """Wait."""
        self.begun.set()
        self.let_go.wait(10)
        return self.counts


class BrokenSink(CollectingSink):
    """A sink that cannot be closed."""

    def close(self, seconds: float = 0) -> RecordingCounts:
        """Break."""
        raise OSError(28, "No space left on device")


def test_the_recorder_gets_its_time_until_a_second_signal() -> None:
    """A person who stops the proxy twice does not wait for a disk."""
    sink = SlowSink()

    async def end() -> bool:
        hurry = asyncio.Event()
        closing = asyncio.create_task(close_recorder(sink, hurry, CallRecording(None, ProxyMetrics())))
        await asyncio.to_thread(sink.begun.wait, 10)
        waited = not closing.done()
        hurry.set()
        await closing
        return waited

    assert asyncio.run(end())
    assert not sink.let_go.is_set()
    sink.let_go.set()


def test_a_recorder_that_cannot_be_closed_is_counted() -> None:
    """The worker ends all the same."""
    metrics = ProxyMetrics()
    messages: list[str] = []
    asyncio.run(_close(BrokenSink(), CallRecording(None, metrics, messages.append)))

    assert ({"close-OSError": 1}, 1) == (metrics.recording_failures, len(messages))


async def _close(sink: CollectingSink, recording: CallRecording) -> None:
    await close_recorder(sink, asyncio.Event(), recording)


@pytest.mark.parametrize(
    ("sent", "outcome"),
    [(b"", CallOutcome.FAILED), (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", CallOutcome.CUT)],
)
def test_a_call_that_is_cut_at_the_stop_is_recorded_so(sent: bytes, outcome: CallOutcome) -> None:
    """It was not the client that left."""
    with proxy_and_upstream() as (upstream, proxy):
        client = proxy.post()
        server = upstream.accept()
        server.request()
        if sent:
            server.send(sent)
            client.read_until(b"ab")

    (exchange,) = proxy.sink.exchanges
    assert (outcome, "the proxy was stopped") == (exchange.outcome, exchange.error)
