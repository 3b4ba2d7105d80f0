"""The key of a request: every change of what is asked gives another key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import need_shared
from support.corpus_traffic import interactions
from support.exchanges import HOST
from support.json_mutations import Mutation, mutate, mutations
from support.json_texts import fuzz
from support.keyed_requests import GEMINI, REQUESTS, key_of
from support.wire_transcripts import CHAT, MESSAGES, OLLAMA_CHAT
from traceforge.canon import JSON
from traceforge.compare.json_diff import is_same_json
from traceforge.exchange import Headers
from traceforge.redact.redactor import Redactor
from traceforge.replay.compared_body import drop_fields, find_uncompared_fields, renumber_ids
from traceforge.replay.compared_headers import ALWAYS_STORED
from traceforge.wire.endpoints import find_endpoint


class Change(NamedTuple):
    """A request that is not the one it was made of, and what was changed."""

    name: str
    body: Any
    address: str
    headers: Headers = ()


# -- what changes the key


def _places(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*way, key), child
        yield from _places(child, (*way, key))


def _changed(body: Any, way: tuple[str | int, ...], change: Callable[[Any, Any], None]) -> Any:
    changed = json.loads(json.dumps(body))  # A copy in which no two places share an object.
    parent = changed
    for step in way[:-1]:
        parent = parent[step]
    change(parent, way[-1])
    return changed


def _set(new: object, parent: Any, key: Any) -> None:
    parent[key] = new


def _drop(parent: Any, key: Any) -> None:
    del parent[key]


def _edits(value: Any) -> Iterator[tuple[str, Callable[[Any, Any], None]]]:
    yield "gone", _drop
    if isinstance(value, str):
        yield "one more character", partial(_set, value + "x")
        yield "a character in the middle", partial(_set, value[: len(value) // 2] + "~" + value[len(value) // 2 :])
        yield "a space behind it", partial(_set, value + " ")
        yield "another case", partial(_set, value.swapcase() if value.swapcase() != value else value + "A")
    elif isinstance(value, bool):
        yield "the opposite", partial(_set, not value)
    elif isinstance(value, int | float):
        yield "a bit more", partial(_set, value + 0.001)
        yield "as a text", partial(_set, str(value))
    elif value is None:
        yield "an empty text", partial(_set, "")
    elif isinstance(value, list):
        yield "one more item", partial(_set, [*value, "x"])
        yield "the first twice", partial(_set, [value[0], *value])
        if value[::-1] != value:
            yield "another order", partial(_set, value[::-1])
    elif isinstance(value, dict):
        yield "one more member", partial(_set, {**value, "new": None})


def changes() -> Iterator[Change]:
    """Every change of every request, and those of the head."""
    for address, body in REQUESTS.items():
        for way, value in _places(body):
            for name, edit in _edits(value):
                yield Change(f"{address} {'.'.join(map(str, way))}: {name}", _changed(body, way, edit), address)
        yield Change(f"{address}: a new parameter", {**body, "new_parameter": 1}, address)
        for header in sorted(ALWAYS_STORED):
            yield Change(f"{address}: {header}", body, address, ((header, "2024-10-22"),))
        yield Change(f"{address}: a parameter of the URL", body, f"{address}?api-version=1")
    yield Change("another model in the path", REQUESTS[GEMINI], GEMINI.replace("flash", "pro"))
    yield Change("a stream", REQUESTS[GEMINI], GEMINI.replace(":generate", ":streamGenerate"))
    yield Change("a stream of events", REQUESTS[GEMINI], GEMINI.replace(":generate", ":streamGenerate") + "?alt=sse")
    yield Change("another deployment", REQUESTS[CHAT], "/openai/deployments/gpt-4o/chat/completions")
    yield Change("another kind", REQUESTS[CHAT], "/v1/completions")
    yield Change("another dialect", REQUESTS[CHAT], OLLAMA_CHAT)
    yield Change("an address that is not known", REQUESTS[CHAT], "/v1/other")


CHANGES = list(changes())


def test_every_change_of_the_request_changes_the_key() -> None:
    """Over a hundred kinds of changes; no two changed requests share a key."""
    before = {key_of(address, body): address for address, body in REQUESTS.items()}
    assert len(REQUESTS) == len(before)

    after: dict[str, list[str]] = {}
    for change in CHANGES:
        after.setdefault(key_of(change.address, change.body, change.headers), []).append(change.name)

    assert [] == [name for key, names in after.items() if key in before for name in names]
    assert len(CHANGES) > 800
    asked_alike = [names for names in after.values() if len(names) > 1]
    assert [] == [names for names in asked_alike if not _are_one_change(names)]


def _are_one_change(names: list[str]) -> bool:
    """Dropping one of two equal texts, or adding an `x` at the end and in the middle of an empty one."""
    return len({name.rpartition(": ")[0].rstrip("0123456789.") for name in names}) == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_another_method_changes_the_key(method: str) -> None:
    """Also at an address that is not known."""
    assert key_of("/v1/files", b"") != key_of("/v1/files", b"", method=method)


def test_values_of_behaviour_headers_change_the_key() -> None:
    """Each value, and whether there is one at all."""
    keys = {
        key_of(MESSAGES, REQUESTS[MESSAGES], headers)
        for headers in (
            (), (("anthropic-version", "2023-06-01"),), (("anthropic-version", "2023-01-01"),),
            (("anthropic-beta", "a"),), (("anthropic-beta", "b"),), (("anthropic-beta", "a, b"),),
            (("openai-beta", "a"),), (("api-version", "a"),),
        )
    }  # fmt: skip

    assert 8 == len(keys)


@fuzz(400)
@given(st.integers(0, 10**6), mutations)
def test_a_key_changes_if_and_only_if_the_redacted_request_does(place: int, drawn: list[Mutation]) -> None:
    """Requests of the corpus, changed at random places."""
    bodies = _corpus_bodies()
    address, body = bodies[place % len(bodies)]
    changed = mutate(body, drawn)

    before, after = (Redactor().redact_json(_reread(value)).value for value in (body, changed))

    compared = [_compared_part(address, value) for value in (before, after)]
    assert is_same_json(*compared) is (key_of(address, body) == key_of(address, changed))


def _compared_part(address: str, body: JSON) -> JSON:
    body, _ = drop_fields(body, find_uncompared_fields(find_endpoint("POST", address), address))
    return renumber_ids(body) if isinstance(body, dict) else body


_BODIES: list[tuple[str, Any]] = []


def _corpus_bodies() -> list[tuple[str, Any]]:
    if not _BODIES:
        sampled = [
            interaction
            for interaction in interactions(need_shared("corpus/llm"))
            if interaction.generates and len(interaction.request) < 4000
        ]
        for sampled_interaction in sampled[::17]:
            try:
                _BODIES.append(
                    (
                        sampled_interaction.url
                        if "://" in sampled_interaction.url
                        else HOST + sampled_interaction.url,
                        json.loads(sampled_interaction.request),
                    )
                )
            except ValueError:
                continue
    return _BODIES


def _reread(value: object) -> JSON:
    from traceforge.canon import parse_json

    return parse_json(json.dumps(value).encode())
