"""The cache of dspy: as it is where a program is observed, and not used where its calls are answered."""

from __future__ import annotations

from types import ModuleType

import pytest

from traceforge.capture.hook import answer_caches, dispatch
from traceforge.capture.hook.patches import Patches


class Cache:
    """What dspy has, as far as it is hooked."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}

    def get(self, request: str) -> str | None:
        return self.answers.get(request)

    def put(self, request: str, value: str) -> None:
        self.answers[request] = value


@pytest.mark.parametrize(("is_replaying", "answer"), [(True, None), (False, "Paris")])
def test_answers_are_neither_found_nor_stored_while_calls_are_answered(
    is_replaying: bool, answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a test asks what it asked when it was recorded, and no replayed answer is kept for later."""
    monkeypatch.setattr(dispatch, "is_replaying", lambda: is_replaying)
    module, patches, cache = ModuleType("dspy.clients.cache"), Patches(), Cache()
    vars(module)["Cache"] = Cache
    cache.put("capital", "Paris")

    answer_caches.hook_dspy(module, patches)
    found = cache.get("capital")
    cache.put("river", "Seine")
    patches.undo()

    assert (answer, answer and "Seine") == (found, cache.get("river"))
    assert "Paris" == cache.get("capital")


def test_a_dspy_without_this_cache_is_left_as_it_is() -> None:
    """Else its import would fail in a test."""
    answer_caches.hook_dspy(ModuleType("dspy.clients.cache"), Patches())
