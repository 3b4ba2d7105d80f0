"""Headers of a replayed response that depend on the request."""

from __future__ import annotations

from typing import cast

from traceforge.capture.hook.replayed_response import ReplayedResponse
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.exchange import Caller, Chunk, Headers
from traceforge.replay.player import Player, ReplayResult
from traceforge.replay.recorded_response import RecordedResponse

RECORDED = RecordedResponse(200, (("openai-poll-after-ms", "5000"),), (Chunk(0.0, b"{}"),), streamed=False)


class OneResponsePlayer:
    """Gives one response to every request."""

    def __init__(self, response: RecordedResponse) -> None:
        self.response = response

    def play(self, *_: object, **__: object) -> ReplayResult:
        """The response."""
        return ReplayResult(self.response, "it")

    @property
    def conversations(self) -> OneResponsePlayer:
        """Of WebSockets: there is none."""
        return self

    def end(self, _: str) -> None:
        """Nothing has begun."""


def replayed_headers(response: RecordedResponse, method: str, headers: Headers = (), pace: float = 0.0) -> Headers:
    responder = ReplayResponder(cast("Player", OneResponsePlayer(response)), pace)
    replayed = responder.respond(method, "https://api.openai.com/v1/files/f", headers, b"", Caller("", ""))
    return cast("ReplayedResponse", replayed).headers


def test_a_head_keeps_its_recorded_length() -> None:
    """There is no body from which it could be computed; and none is invented."""
    with_length = RecordedResponse(200, (("content-length", "1032"),), (), streamed=False)

    assert (("content-length", "1032"),) == replayed_headers(with_length, "HEAD")
    assert () == replayed_headers(RecordedResponse(200, (), (), streamed=False), "HEAD")
    assert (("Content-Length", "0"),) == replayed_headers(RecordedResponse(200, (), (), streamed=False), "GET")


def test_a_polling_helper_is_told_to_ask_again_at_once() -> None:
    """Unless the application chose the pause, or answers come at the recorded pace."""
    helper = ("X-Stainless-Poll-Helper", "true")
    chosen = ("X-Stainless-Custom-Poll-Interval", "20")

    assert ("openai-poll-after-ms", "1") in replayed_headers(RECORDED, "GET", (helper,))
    assert ("openai-poll-after-ms", "5000") not in replayed_headers(RECORDED, "GET", (helper,))
    for headers, pace in (((helper, chosen), 0.0), ((helper,), 1.0), ((), 0.0)):
        assert ("openai-poll-after-ms", "5000") in replayed_headers(RECORDED, "GET", headers, pace)
