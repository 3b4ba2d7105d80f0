"""The frames of a WebSocket as they are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.exchanges import make_exchange
from support.replay_player import keyed_request_of, make_player, play, stored_request_of
from traceforge.exchange import Exchange

MAIL, OTHER = "ann.lee@corp-example.org", "bob@corp-example.org"


def conversation(*events: dict[str, Any]) -> Exchange:
    """A conversation of the WebSocket mode of the Responses API."""
    exchange = make_exchange(
        "https://api.openai.com/v1/responses", {"client_frames": [{"json": event} for event in events]},
        {"server_frames": []}, status=101,
    )  # fmt: skip
    return replace(exchange, method="GET")


def is_same(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> bool:
    keys = [keyed_request_of(conversation(*events)).key for events in (first, second)]
    stored = stored_request_of(conversation(*first)).key
    assert stored == keys[0]
    return keys[0] == keys[1]


def create(item_id: str) -> dict[str, Any]:
    return {"type": "conversation.item.create", "item": {"id": item_id, "role": "user"}}


def delete(item_id: str) -> dict[str, Any]:
    return {"type": "conversation.item.delete", "item_id": item_id}


def refer(item_id: str) -> dict[str, Any]:
    """A response to some items of the conversation alone, as OpenAI documents it."""
    items = [{"type": "item_reference", "id": item_id}, {"type": "message", "id": "mine", "content": []}]
    return {"type": "response.create", "response": {"conversation": "none", "input": items}}


@pytest.mark.parametrize("use", [delete, refer])
def test_the_ids_of_items_do_not_count_and_references_must_agree(use: Any) -> None:
    """Whatever a client calls an item: a later frame names the same one."""
    recorded = [create("a"), create("b"), use("b")]

    assert is_same(recorded, [create("x"), create("y"), use("y")])
    assert not is_same(recorded, [create("x"), create("y"), use("x")])
    assert not is_same(recorded, [create("x"), create("y"), use("z")])
    assert not is_same([use("a")], [use("b")])


@pytest.mark.parametrize("use", [delete, refer])
def test_an_id_that_looks_like_a_number_is_none(use: Any) -> None:
    """An id that the client did not make is not that of the first item that it made."""
    assert not is_same([create("a"), use("a")], [create("a"), use("[ITEM 1]")])
    assert not is_same([use("[ITEM 1]")], [use("[ITEM 1]=")])


@pytest.mark.parametrize("name", ["prompt_cache_key", "safety_identifier", "user"])
def test_a_field_that_decides_no_answer_is_noted_and_not_compared(name: str, tmp_path: Path) -> None:
    """Whether it is there, and what it says, also where that is redacted; once for a conversation."""
    ask = {"type": "response.create", "model": "gpt-5", "input": "hello"}
    recorded = conversation(ask, {**ask, name: MAIL})
    player = make_player(tmp_path, recorded, recorded_with=b"key", match_key=b"key")

    for events in ([ask, ask], [{**ask, name: OTHER}, {**ask, name: "me"}]):
        assert play(player, conversation(*events)).unmatched is None

    assert {f"$.client_frames[*].json.{name}": 1} == player.uncompared_field_counts


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.create", "user": {"name": "ann"}},
        {"type": "response.create", "response": {"user": "ann"}},
        {"type": "session.update", "user": "ann"},
        {"user": "ann"},
    ],
    ids=["in another form", "at another place", "of another event", "without a type"],
)
def test_the_same_name_elsewhere_is_compared(event: dict[str, Any]) -> None:
    names = ("user", "response")

    assert not is_same([event], [{key: value for key, value in event.items() if key not in names}])


def test_a_redacted_value_of_another_event_is_compared(tmp_path: Path) -> None:
    """Although another frame has a field of that name that is not."""
    asked = {"type": "response.create", "user": MAIL}
    player = make_player(tmp_path, conversation(asked, {"user": MAIL}), recorded_with=b"key", match_key=b"key")

    other = play(player, conversation(asked, {"user": OTHER}))
    same = play(player, conversation({**asked, "user": OTHER}, {"user": MAIL}))

    assert (True, True) == (other.unmatched is not None, same.unmatched is None)


@pytest.mark.parametrize("kind", ["session.update", "conversation.item.create"])
def test_the_id_of_an_event_does_not_count(kind: str) -> None:
    assert is_same([{"type": kind, "event_id": "evt_1"}], [{"type": kind, "event_id": "b4b6-11"}])
    assert is_same([{"type": kind, "event_id": "evt_1"}], [{"type": kind}])


@pytest.mark.parametrize(
    ("event", "other"),
    [
        ({"event_id": "Be kind to all."}, {"event_id": "Be rude to all."}),
        ({"event_id": {"prompt": "a"}}, {"event_id": {"prompt": "b"}}),
        ({"event_id": 1}, {"event_id": 2}),
        ({"type": "order", "event_id": "17"}, {"type": "order", "event_id": "18"}),
        ({"type": None, "event_id": "17"}, {"type": None}),
    ],
)
def test_what_is_no_id_of_an_event_counts(event: dict[str, Any], other: dict[str, Any]) -> None:
    """A text, an object, and a member of an API that is not OpenAI's: a server may read them."""
    assert not is_same([{"type": "session.update", **event}], [{"type": "session.update", **other}])
