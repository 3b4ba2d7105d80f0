"""The pace of a replayed stream, on a clock of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.exchanges import HOST
from support.replay_player import make_player
from support.replayed_calls import EVENTS, QUESTION, recorded_call, streamed
from support.wire_transcripts import CHAT
from traceforge.capture.proxy.prepared_request import prepare_request
from traceforge.capture.proxy.proxy_metrics import ProxyMetrics
from traceforge.capture.proxy.replayed_call import ReplayedCall
from traceforge.capture.proxy.response_writer import ResponseWriter
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.http.message_head import RequestHead
from traceforge.replay.player import Player

# -- pace, on a clock of our own


class Loop:
    """A loop whose time goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[..., None], tuple[Any, ...], SimpleNamespace]] = []

    def time(self) -> float:
        """Now."""
        return self.now

    def call_at(self, when: float, work: Callable[..., None], *arguments: Any) -> Any:
        """Later."""
        handle = SimpleNamespace(cancelled=False)
        handle.cancel = lambda: setattr(handle, "cancelled", True)
        self.due.append((when, work, arguments, handle))
        return handle

    def run(self, *, late: float = 0.0) -> None:
        """Advance to the time of the next timer; timers may be late."""
        when, work, arguments, handle = self.due.pop(0)
        self.now = max(self.now, when + late)
        if not handle.cancelled:
            work(*arguments)


class Stage:
    """A playback without a socket: what is written, and when."""

    def __init__(self, player: Player, pace: float) -> None:
        self.loop = Loop()
        self.written: list[tuple[float, bytes]] = []
        self.over = False
        state = SimpleNamespace(
            loop=self.loop, pace=pace, records_misses=False, metrics=ProxyMetrics(), writer=ResponseWriter()
        )
        self.metrics = state.metrics
        client = SimpleNamespace(
            write=self._write, decide_close=lambda until_close: False, on_call_finished=self._end
        )
        head = RequestHead(f"POST /up{CHAT} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        route = UpstreamRoutes({"up": HOST}).find_route("POST", f"/up{CHAT}", is_anthropic=False)
        assert route is not None
        prepared_request = prepare_request(head, route)
        self.call = ReplayedCall(
            cast("Any", state), cast("Any", client), prepared_request, ReplayResponder(player, pace)
        )
        self.call.start(prepared_request, QUESTION, [QUESTION], True)

    def _write(self, data: bytes) -> None:
        self.written.append((round(self.loop.now - 100, 6), data))

    def _end(self) -> None:
        self.over = True

    @property
    def chunks(self) -> list[tuple[float, bytes]]:
        """What was written after the head."""
        return self.written[1:]


def framed(pieces: list[bytes]) -> list[bytes]:
    """As HTTP chunks."""
    return [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]


@pytest.mark.parametrize(("pace", "times"), [(1.0, [0.02, 0.02, 0.5, 1.25]), (10.0, [0.002, 0.002, 0.05, 0.125])])
def test_with_a_pace_chunks_come_at_their_recorded_times(tmp_path: Path, pace: float, times: list[float]) -> None:
    """Or so many times as fast; two that came together are written together, in order."""
    stage = Stage(make_player(tmp_path, streamed(times=[20, 20, 500, 1250])), pace)
    assert [] == stage.chunks
    while stage.loop.due:
        stage.loop.run()

    assert [(1.25 / pace, b"0\r\n\r\n")] == stage.chunks[4:]
    assert list(zip(times, framed(EVENTS), strict=True)) == stage.chunks[:4]
    assert stage.over
    assert 0 == stage.metrics.in_flight


def test_a_late_timer_delays_no_later_chunk(tmp_path: Path) -> None:
    """What is due is written; the next chunk is due at its own time."""
    stage = Stage(make_player(tmp_path, streamed(times=[10, 20, 30, 1000])), 1.0)
    stage.loop.run(late=0.5)
    assert framed(EVENTS[:3]) == [data for _, data in stage.chunks]
    stage.loop.run()

    assert (1.0, framed(EVENTS)[3]) == stage.chunks[3]


def test_without_a_pace_everything_comes_at_once(tmp_path: Path) -> None:
    """No timer is needed."""
    stage = Stage(make_player(tmp_path, streamed(times=[10, 20, 30, 1000])), 0.0)

    assert stage.over
    assert [] == stage.loop.due
    assert {0.0} == {time for time, _ in stage.written}


def test_a_plain_response_does_not_wait(tmp_path: Path) -> None:
    """A pace is for streams."""
    assert Stage(make_player(tmp_path, recorded_call({"n": 1})), 1.0).over


@pytest.mark.parametrize("how", ["on_client_disconnected", "abort"])
def test_after_a_disconnect_or_abort_nothing_more_is_written(tmp_path: Path, how: str) -> None:
    """Between two chunks; the call ends once."""
    stage = Stage(make_player(tmp_path, streamed(times=[10, 500, 900, 1000])), 1.0)
    stage.loop.run()
    before = list(stage.written)
    getattr(stage.call, how)()
    assert [True] == [handle.cancelled for *_, handle in stage.loop.due]
    while stage.loop.due:
        stage.loop.run()
    getattr(stage.call, how)()

    assert before == stage.written
    assert not stage.over
    assert (0, 1) == (stage.metrics.in_flight, sum(stage.metrics.outcomes.values()))
