"""Which recording an unmatched request is shown beside: one table of situations."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from support.exchanges import chat_request, make_exchange
from support.replay_player import KEYS, keyed_request_of
from support.wire_transcripts import CHAT, GEMINI, MESSAGES, RESPONSES
from traceforge.replay.library import Library, Recording
from traceforge.replay.nearest_recording import find_nearest
from traceforge.replay.request_distance import PromptLikeness, measure_distance
from traceforge.replay.request_key import KeyFields

TEST, OTHER_TEST, OTHER_FILE = "t.py::test_soup", "t.py::test_law", "u.py::test_soup"
LONG = "You are a careful assistant. Answer in one sentence, name your sources, and never guess."


class _Source:
    def __init__(self, key_fields: KeyFields) -> None:
        self._key_fields = key_fields

    def load_key_fields(self) -> KeyFields:
        return self._key_fields

    def load_response(self) -> Any:
        raise NotImplementedError


class Stored(NamedTuple):
    """A recorded request; the one named "right" is the one to be found."""

    name: str
    scope: str
    body: Any
    address: str = CHAT
    has_answered: bool = False


def ask(text: str, **more: Any) -> dict[str, Any]:
    """A request with a system prompt and a question."""
    messages = [{"role": "system", "content": LONG}, {"role": "user", "content": text}]
    return {**chat_request(text), "messages": messages, "temperature": 0, **more}


def without(body: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


def turns(*texts: str) -> dict[str, Any]:
    """A conversation: user, assistant, user, …"""
    roles = ("user", "assistant")
    return {**ask(""), "messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]}


def contents(text: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


SOUP, LAW, RIVER = "Name a soup.", "Explain the second law of thermodynamics.", "Name three rivers of Europe."
TALK = ["Hello, I want to book a table.", "For how many?", "Four people.", "When?", "Tonight at eight."]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "dish", "schema": {"type": "object", "properties": {}}}}
TOOL = {"type": "function", "function": {"name": "find_dish", "parameters": {"type": "object"}}}

SITUATIONS: dict[str, tuple[Any, list[Stored]]] = {
    "an edited prompt": (ask("Name a salad."), [Stored("right", TEST, ask(SOUP)), Stored("x", TEST, ask(LAW))]),
    "an edited prompt, equal to that of another test but for a setting": (
        ask(RIVER, temperature=1),
        [Stored("right", TEST, ask(SOUP)), Stored("x", OTHER_TEST, ask(RIVER)), Stored("y", OTHER_FILE, ask(RIVER))],
    ),
    "a removed setting": (
        without(ask(SOUP), "temperature"),
        [Stored("right", TEST, ask(SOUP)), Stored("x", OTHER_TEST, without(ask("Name a soup!"), "temperature"))],
    ),
    "an added setting": (
        ask(SOUP, top_p=0.5),
        [Stored("right", TEST, ask(SOUP)), Stored("x", OTHER_TEST, ask("Name a soup!", top_p=0.5))],
    ),
    "a removed setting, beside another prompt of the same test": (
        without(ask(SOUP), "temperature", "model"),
        [Stored("x", TEST, without(ask("Name a soup!"), "temperature", "model")), Stored("right", TEST, ask(SOUP))],
    ),
    "an added list of tools": (
        ask(SOUP, tools=[TOOL] * 9),
        [Stored("right", TEST, ask(SOUP)), Stored("x", TEST, ask(RIVER, tools=[TOOL] * 9))],
    ),
    "an added schema": (
        ask(SOUP, response_format=SCHEMA),
        [Stored("x", TEST, ask(LAW, response_format=SCHEMA)), Stored("right", TEST, ask(SOUP))],
    ),
    "another model": (
        ask(SOUP, model="gpt-5"),
        [Stored("right", TEST, ask(SOUP)), Stored("x", TEST, ask(RIVER, model="gpt-5"))],
    ),
    "an edited prompt that two models get": (
        ask("Name a salad.", model="gpt-5"),
        [Stored("x", TEST, ask(SOUP)), Stored("right", TEST, ask(SOUP, model="gpt-5"))],
    ),
    "an edited prompt, streamed": (
        ask("Name a salad.", stream=True),
        [Stored("x", TEST, ask(SOUP)), Stored("right", TEST, ask(SOUP, stream=True))],
    ),
    "an edited prompt, as alike to one that has answered": (
        ask("Name a soup!"),
        [Stored("x", TEST, ask(SOUP), has_answered=True), Stored("right", TEST, ask("Name a salad."))],
    ),
    "a new request, alike to one that has answered and unlike the next": (
        ask("Name a soup!"),
        [Stored("right", TEST, ask(SOUP), has_answered=True), Stored("x", TEST, ask("x" * 400))],
    ),
    "one more of a request, with another setting": (
        ask(SOUP, temperature=0.5),
        [Stored("right", TEST, ask(SOUP)), Stored("x", TEST, ask(SOUP, temperature=1, top_p=1))],
    ),
    "the first turn of a conversation": (
        turns("Hello, I want to book a room."),
        [Stored("x", TEST, turns(*TALK[:3])), Stored("right", TEST, turns(TALK[0])), Stored("y", TEST, turns(*TALK))],
    ),
    "the last turn of a conversation": (
        turns(*TALK[:4], "Tonight at nine."),
        [Stored("x", TEST, turns(TALK[0])), Stored("y", TEST, turns(*TALK[:3])), Stored("right", TEST, turns(*TALK))],
    ),
    "the first message of a late turn": (
        turns("Hi, I want to book a table.", *TALK[1:]),
        [Stored("x", TEST, turns(*TALK[:3])), Stored("right", TEST, turns(*TALK)), Stored("y", TEST, turns(TALK[0]))],
    ),
    "a system prompt that is gone": (
        {**ask(SOUP), "messages": ask(SOUP)["messages"][1:]},
        [Stored("right", TEST, ask(SOUP)), Stored("x", TEST, {**ask(LAW), "messages": ask(LAW)["messages"][1:]})],
    ),
    "a system prompt that was rewritten": (
        {**ask(SOUP), "messages": [{"role": "system", "content": "Be brief."}, *ask(SOUP)["messages"][1:]]},
        [Stored("x", TEST, ask("Name a salad.")), Stored("right", TEST, ask(SOUP))],
    ),
    "a short message that is gone weighs less than a long one that changed": (
        turns(LONG, "For how many?"),
        [Stored("x", TEST, turns(LAW * 9, "For how many?")), Stored("right", TEST, turns(LONG, "For how many?", ""))],
    ),
    "a text with an edit at both ends": (
        ask(f"Dear model, {LONG} Thanks a lot."),
        [Stored("x", TEST, ask(LAW)), Stored("right", TEST, ask(f"Hello model, {LONG} Thank you."))],
    ),
    "another provider": (
        Stored("", TEST, {"model": "claude-sonnet-5", "messages": [{"role": "user", "content": SOUP}]}, MESSAGES),
        [Stored("right", TEST, ask(SOUP)), Stored("x", OTHER_TEST, {"model": "claude-sonnet-5"}, MESSAGES)],
    ),
    "another interface of the same provider": (
        Stored("", TEST, {"model": "gpt-4o-mini", "input": SOUP}, RESPONSES),
        [Stored("right", TEST, ask(SOUP)), Stored("x", OTHER_TEST, {"input": SOUP}, RESPONSES)],
    ),
    "the same endpoint before another one": (
        Stored("", TEST, {"model": "gpt-4o-mini", "input": LAW}, RESPONSES),
        [Stored("x", TEST, ask(LAW)), Stored("right", TEST, {"model": "gpt-4o-mini", "input": SOUP}, RESPONSES)],
    ),
    "the contents of Gemini": (
        Stored("", TEST, contents("Name a salad."), GEMINI),
        [Stored("x", TEST, contents(LAW), GEMINI), Stored("right", TEST, contents(SOUP), GEMINI)],
    ),
    "a new case of a test with parameters": (
        Stored("", "t.py::test_dish[salad]", ask("Name a salad.")),
        [Stored("x", OTHER_FILE, ask("Name a salad!")), Stored("y", OTHER_TEST, ask("Name a salad!")),
         Stored("right", "t.py::test_dish[soup]", ask(SOUP))],
    ),
    "a new test, beside others of its file": (
        Stored("", "t.py::test_new", ask("Name a salad.")),
        [Stored("x", OTHER_FILE, ask("Name a salad!")), Stored("right", OTHER_TEST, ask(SOUP))],
    ),
    "a new test, of which another file has the prompt": (
        Stored("", "t.py::test_new", ask(SOUP, temperature=1)),
        [Stored("x", OTHER_TEST, ask("Name a salad.")), Stored("right", OTHER_FILE, ask(SOUP))],
    ),
    "outside of tests": (
        Stored("", "", ask("Name a salad.")),
        [Stored("x", TEST, ask(LAW)), Stored("right", OTHER_TEST, ask(SOUP))],
    ),
    "the same address where no model answers": (
        Stored("", TEST, {"prompt": "a dog"}, "/v1/images/generations"),
        [Stored("x", TEST, {"purpose": "batch"}, "/v1/files"), Stored("y", TEST, {"prompt": "a dog"}, "/v1/videos"),
         Stored("right", TEST, {"prompt": "a cat"}, "/v1/images/generations")],
    ),
    "another id in an address where no model answers": (
        Stored("", TEST, {"query": SOUP}, "/v1/vector_stores/vs_2/search"),
        [Stored("x", TEST, {"query": SOUP}, "/v1/vector_stores"),
         Stored("right", TEST, {"query": LAW}, "/v1/vector_stores/vs_1/search")],
    ),
    "equally near ones: the first": (
        ask("Name a stew."),
        [Stored("right", TEST, ask("Name a soup.")), Stored("x", TEST, ask("Name a sour."))],
    ),
}  # fmt: skip


def recorded(stored: Stored) -> Recording:
    request = keyed_request_of(make_exchange(stored.address, stored.body))
    return Recording(stored.name, request.key, stored.scope, request.endpoint, _Source(request.key_fields))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_right_recording_is_the_nearest(situation: str) -> None:
    """Whatever else was recorded, and in any order where no two are equally near."""
    live, stored = SITUATIONS[situation]
    live = live if isinstance(live, Stored) else Stored("", TEST, live)
    request = keyed_request_of(make_exchange(live.address, live.body), KEYS)

    for recordings in (stored, stored[::-1]) if "equally" not in situation else (stored,):
        library = Library(map(recorded, recordings))
        for one in recordings:
            if one.has_answered:
                library.find(recorded(one).key, one.scope)
        nearest = find_nearest(request, live.scope, library)
        assert nearest is not None
        assert "right" == nearest.recording.name


def test_a_scope_that_begins_again_has_used_none_of_its_recordings() -> None:
    """A test that is repeated is compared as in its first run."""
    live, stored = SITUATIONS["an edited prompt, as alike to one that has answered"]
    library = Library(map(recorded, stored))
    library.find(recorded(stored[0]).key, TEST)
    library.restart_scope(TEST)

    nearest = find_nearest(keyed_request_of(make_exchange(CHAT, live)), TEST, library)

    assert nearest is not None
    assert "x" == nearest.recording.name


@pytest.mark.parametrize(
    ("before", "after", "likeness"),
    [
        (ask(SOUP), ask(SOUP), PromptLikeness.SAME),
        (ask(SOUP), without(ask(SOUP, model="x", tools=[]), "temperature"), PromptLikeness.SAME),
        (ask(SOUP), ask("Name a salad."), PromptLikeness.EDITED),
        (ask(SOUP), ask(LAW), PromptLikeness.OTHER),
        ({"system": LONG}, {"system": f"{LONG} Be brief."}, PromptLikeness.EDITED),
        (turns(SOUP), turns(LAW), PromptLikeness.OTHER),
        (turns(SOUP), turns(SOUP, "Goulash.", "Why?"), PromptLikeness.EDITED),
        (b"not JSON", b"not JSON, too", PromptLikeness.EDITED),
    ],
)
def test_how_much_of_a_prompt_is_the_same(before: Any, after: Any, likeness: PromptLikeness) -> None:
    """Settings are no part of it."""
    old, new = (keyed_request_of(make_exchange(CHAT, body)).key_fields for body in (before, after))

    distance = measure_distance(old, new)

    assert (likeness, old == new) == (distance.prompt, distance.weight == 0)
    assert distance == measure_distance(new, old)
