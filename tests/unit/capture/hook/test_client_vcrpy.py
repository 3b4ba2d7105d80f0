"""The hook for vcrpy: whose calls are whose while a cassette is open."""

from __future__ import annotations

import gc
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

    def count_library_answer(self, library: str) -> None:
        self.cassette_calls += library == "vcrpy"


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
        def __init__(self, *, answers: bool = True, write_protected: bool = False, ignores: bool = False) -> None:
            self.answers = answers
            self.write_protected = write_protected
            self.ignores = ignores

        def filter_request(self, request: Any) -> Any:
            return None if self.ignores else request

        def can_play_response_for(self, request: Any) -> bool:
            return self.answers

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


class ReplayingWatcher(CountingWatcher):
    """Replays in this process; nothing may go upstream, except in tests that are excluded."""

    replays = True

    def __init__(self, *, is_strict: bool = True, is_excluded: bool = False) -> None:
        super().__init__()
        self.is_strict = is_strict
        self.is_excluded = is_excluded
        self.refusals: list[str] = []

    def begin_call(self, *_: Any) -> Any:
        return None if self.is_excluded else object()

    def count_refusal(self, reason: str, is_deviation: bool = False, scope: str = "") -> None:
        self.refusals.append(reason)


@pytest.mark.parametrize(
    ("is_strict", "is_above_vcrpy", "is_watched"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_call_that_vcrpy_does_not_take_is_replayed_in_a_test(
    vcrpy: Any, is_strict: bool, is_above_vcrpy: bool, is_watched: bool
) -> None:
    """As with `skip_patchers`: it comes to a hook below vcrpy while a cassette is open. A recording run leaves it."""
    patches, watcher = Patches(), ReplayingWatcher(is_strict=is_strict)
    subscription = dispatch.Subscription(watcher, process_wide=True)
    client_vcrpy.hook(vcrpy, patches)
    dispatch.subscribe(subscription)
    try:
        with vcrpy.CassetteContextDecorator():
            call = dispatch.begin_call("POST", URL, (), is_above_vcrpy=is_above_vcrpy)
    finally:
        dispatch.unsubscribe(subscription)
        patches.undo()

    assert is_watched == (call is not None)


def test_a_cassette_that_was_dropped_unclosed_is_not_open(vcrpy: Any) -> None:
    """vcrpy takes its patches back when the context of a cassette is collected as garbage."""
    patches = Patches()
    client_vcrpy.hook(vcrpy, patches)
    context = vcrpy.CassetteContextDecorator()
    context.__enter__()
    was_open = bool(open_cassettes)
    del context
    gc.collect()
    patches.undo()

    assert (True, False) == (was_open, bool(open_cassettes))


def is_sent(vcrpy: Any, watcher: Watcher, cassette: Any, url: str = URL) -> bool:
    """Whether vcrpy may send a call that a cassette does not answer."""
    patches, subscription = Patches(), dispatch.Subscription(watcher, process_wide=True)
    client_vcrpy.hook(vcrpy, patches)
    dispatch.subscribe(subscription)
    try:
        cassette.can_play_response_for(SimpleNamespace(method="POST", uri=url))
    except ConnectionRefusedError:
        return False
    finally:
        dispatch.unsubscribe(subscription)
        patches.undo()
    return True


@pytest.mark.parametrize("options", [{}, {"ignores": True}, {"ignores": True, "write_protected": True}])
def test_vcrpy_sends_no_model_call_in_a_strict_replay(vcrpy: Any, options: dict[str, bool]) -> None:
    """A record mode that adds calls would send it to the model; so would a filter that takes it out."""
    watcher = ReplayingWatcher()

    assert not is_sent(vcrpy, watcher, vcrpy.Cassette(answers=False, **options))

    assert ["no cassette answers a model call, and vcrpy would send it"] == watcher.refusals


def test_vcrpy_decides_about_other_calls(vcrpy: Any) -> None:
    """Calls that it answers or refuses itself, that ask no model, of an excluded test, and of a recording run."""
    cassette = vcrpy.Cassette(answers=False)
    strict, recording = ReplayingWatcher(), ReplayingWatcher(is_strict=False)

    assert is_sent(vcrpy, strict, vcrpy.Cassette())
    assert is_sent(vcrpy, strict, vcrpy.Cassette(answers=False, write_protected=True))
    assert is_sent(vcrpy, strict, cassette, "https://example.com/page")
    assert is_sent(vcrpy, ReplayingWatcher(is_excluded=True), cassette)
    assert is_sent(vcrpy, recording, cassette)
    assert not strict.refusals + recording.refusals


def test_a_test_in_a_child_process_lets_vcrpy_send_nothing(vcrpy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, the tripwire says that nothing may be sent."""
    monkeypatch.setattr(dispatch.tripwire, "current", object)
    watcher = ReplayingWatcher(is_strict=False)

    assert not is_sent(vcrpy, watcher, vcrpy.Cassette(answers=False))
    assert 1 == len(watcher.refusals)
