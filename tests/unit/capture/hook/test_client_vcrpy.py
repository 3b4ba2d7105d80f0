"""The hook for vcrpy: whose calls are whose while a cassette is open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from traceforge.capture.hook import client_vcrpy, dispatch
from traceforge.capture.hook.open_cassettes import open_cassettes
from traceforge.capture.hook.patches import Patches
from traceforge.capture.hook.watcher import Watcher

URL = "https://api.openai.com/v1/chat/completions"


class CountingWatcher(Watcher):
    """Refuses to be told of calls, and counts those that vcrpy answered."""

    def __init__(self) -> None:
        self.begun = 0
        self.cassette_calls = 0

    def begin_call(self, *_: Any) -> None:
        self.begun += 1

    def count_cassette_call(self) -> None:
        self.cassette_calls += 1


@pytest.fixture
def vcrpy() -> Any:
    """The parts of vcrpy that are hooked."""

    class CassetteContextDecorator:
        def __enter__(self) -> str:
            return "cassette"

        def __exit__(self, *error: object) -> None:
            if error[0] is KeyError:
                raise RuntimeError("cannot save")

    class Cassette:
        def play_response(self, request: Any) -> str:
            return f"answer to {request.uri}"

    return SimpleNamespace(CassetteContextDecorator=CassetteContextDecorator, Cassette=Cassette)


def test_calls_in_an_open_cassette_are_left_alone_and_answered_ones_are_counted(vcrpy: Any) -> None:
    """Nested cassettes, an error at the end, and calls that ask no model."""
    patches, watcher = Patches(), CountingWatcher()
    subscription = dispatch.Subscription(watcher, process_wide=True)
    client_vcrpy.hook(vcrpy, patches)
    dispatch.subscribe(subscription)
    try:
        with vcrpy.CassetteContextDecorator() as cassette:
            with vcrpy.CassetteContextDecorator():
                dispatch.begin_call("POST", URL, ())
            dispatch.begin_call("POST", URL, ())
            for uri in (URL, "https://example.com/page"):
                answer = vcrpy.Cassette().play_response(SimpleNamespace(method="POST", uri=uri))
        with pytest.raises(RuntimeError), vcrpy.CassetteContextDecorator():
            raise KeyError
        inside = watcher.begun
        dispatch.begin_call("POST", URL, ())
    finally:
        dispatch.unsubscribe(subscription)
        patches.undo()

    assert ("cassette", "answer to https://example.com/page") == (cassette, answer)
    assert (0, 1, 1) == (inside, watcher.begun, watcher.cassette_calls)
    assert not open_cassettes
