"""The recording of an open WebSocket: its next frames are compared alone, and the verdict is that of all."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import traceforge
from support.exchanges import make_exchange
from support.raw_sockets import Proxy
from support.replay_player import make_player, play
from support.websocket_talk import Step, talk_sync
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.exchange import Caller, Exchange
from traceforge.replay import compared_frames, conversation_lookup
from traceforge.replay.player import SAME_RECORDING, SEND_ALL, Player, ReplayResult
from traceforge.replay.volatile import VolatileRules

PATH = "/v1/realtime?model=gpt-realtime"
MAIL, OTHER = "ann.lee@corp-example.org", "bob@corp-example.org"
HEADERS = (("user-agent", "test"),)


def conversation(events: Sequence[Any], number: int = 0, scope: str = "", host: str = "localhost:9") -> Exchange:
    """A recorded conversation, in which the server answers each frame with its number."""
    frames = [{"after": place + 1, "json": {"type": "answer", "n": place}} for place in range(len(events))]
    exchange = make_exchange(
        f"http://{host}{PATH}", write(events), {"server_frames": frames}, number=number, status=101,
        caller=Caller(scope=scope),
    )  # fmt: skip
    return replace(exchange, method="GET", request_headers=HEADERS)


def write(events: Sequence[Any]) -> bytes:
    return json.dumps({"client_frames": [{"json": event} for event in events]}, separators=(",", ":")).encode()


def look_up(player: Player, exchange: Exchange, start: int, name: str = "open") -> ReplayResult:
    """Look up the first frames of a conversation, of which those before the start were looked up."""
    body = json.dumps({"client_frames": json.loads(exchange.request_body)["client_frames"][start:]}).encode()
    return player.play_part("GET", exchange.url, HEADERS, body, exchange.caller, name, start)


def random_event(chance: random.Random) -> dict[str, Any]:
    """One of few events, so that conversations begin alike; some have an id, a secret, or a repeated value."""
    kind = chance.randrange(8)
    item_id = f"item_{chance.randrange(3)}"
    if kind == 0:
        return {"type": "conversation.item.create", "item": {"id": item_id, "role": "user"}}
    if kind == 1:
        return {"type": "conversation.item.delete", "item_id": item_id}
    if kind == 2:
        return {"type": "say", "text": f"I am {chance.choice([MAIL, OTHER])}."}
    if kind == 3:
        return {"type": "say", "password": "Tr0ub4dor-and-3"}
    return {"type": "say", "text": chance.choice(["one", "two", "Tr0ub4dor-and-3"]), "time": chance.randrange(2)}


@pytest.mark.parametrize("seed", range(25))
def test_the_next_frames_alone_have_the_verdict_of_all(seed: int, tmp_path: Path) -> None:
    """At every step: the same recording as if all frames were looked up; and where they are not enough, all are."""
    chance = random.Random(seed)
    volatile = VolatileRules(
        ["$.client_frames[2].json.time", "$.client_frames[*].json.time"][: seed % 3], ["two"][seed % 2 :]
    )
    stems = [[random_event(chance) for _ in range(6)] for _ in range(2)]
    recorded = [
        conversation(
            [*chance.choice(stems)[: chance.randrange(7)], random_event(chance)], number, chance.choice("ab")
        )
        for number in range(8)
    ]
    players = [make_player(tmp_path / name, *recorded, volatile=volatile) for name in ("parts", "whole")]
    alone = 0
    for turn in range(12):
        events = [*chance.choice(stems), random_event(chance)]
        events[chance.randrange(7)] = random_event(chance) if chance.random() < 0.3 else events[0]
        start, given, name = 0, "", f"conversation {turn}"
        for end in sorted(chance.sample(range(len(events) + 1), 4)):
            sent = conversation(events[:end], scope="a")
            part = look_up(players[0], sent, start, name)
            whole = look_up(players[1], sent, 0, name)
            if part.response is SAME_RECORDING:
                alone += 1
                assert (given, None) == (whole.source_name, whole.unmatched)
            elif part.response is SEND_ALL:
                part = look_up(players[0], sent, 0, name)
            if part.response is not SAME_RECORDING:
                given = part.source_name
                assert (part.source_name, part.response) == (whole.source_name, whole.response)
            if whole.unmatched is not None:
                assert part.unmatched is not None
                assert part.unmatched.message == whole.unmatched.message
                break
            start = end
        if chance.random() < 0.7:  # The others stay open.
            for player in players:
                player.conversations.end(name)
                play(player, conversation(events, scope="a"), Caller(scope="a"))

    assert alone


def test_a_value_that_is_redacted_everywhere_is_looked_for_in_all_frames(tmp_path: Path) -> None:
    """It may stand in a frame before. Later frames that have it again are compared alone."""
    secret = "Tr0ub4dor-and-3"
    events = [{"text": "hello"}, {"password": secret}, {"text": f"it is {secret}"}, {"text": "bye"}]
    player = make_player(tmp_path, conversation(events, 1))

    results = [look_up(player, conversation(events[: start + 1]), start) for start in (0, 1)]
    results += [look_up(player, conversation(events[: start + 1]), 0 if start == 1 else start) for start in (1, 2, 3)]

    assert [None] * 5 == [result.unmatched for result in results]
    assert [101, 412, 101, 304, 304] == [result.response.status for result in results]


def test_an_answer_that_repeats_the_request_is_filled_with_all_of_it(tmp_path: Path) -> None:
    """A mail address that comes with a later frame is put back where the recorded server repeated it."""
    exchange = conversation([{"text": "hello"}, {"text": f"I am {MAIL}."}], 1)
    told = {"server_frames": [{"after": 2, "json": {"text": f"Hello, {MAIL}."}}]}
    answered = replace(exchange, chunks=make_exchange(answer=told).chunks)
    player = make_player(tmp_path, answered)
    sent = conversation([{"text": "hello"}, {"text": f"I am {OTHER}."}])

    look_up(player, conversation([{"text": "hello"}]), 0)
    alone, together = (look_up(player, sent, start) for start in (1, 0))

    assert (SEND_ALL, True) == (alone.response, OTHER.encode() in together.response.body)


def test_what_is_remembered_of_open_conversations_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that never ended, all frames are compared again; one that ended is forgotten."""
    monkeypatch.setattr(conversation_lookup, "CONVERSATIONS_MAX", 2)
    exchange = conversation([{"n": 0}, {"n": 1}], 1)
    player = make_player(tmp_path, exchange)
    for name in "abc":
        look_up(player, conversation([{"n": 0}]), 0, name)
    player.conversations.end("c")

    results = [look_up(player, exchange, 1, name) for name in "abc"]

    assert [412, 304, 412] == [result.response.status for result in results]


def test_frames_that_do_not_follow_are_not_compared(tmp_path: Path) -> None:
    """A start that is not where the last lookup ended is that of another conversation."""
    exchange = conversation([{"n": 0}, {"n": 1}, {"n": 2}], 1)
    player = make_player(tmp_path, exchange)
    look_up(player, conversation([{"n": 0}]), 0)

    results = [look_up(player, exchange, start) for start in (2, -1, 1, 1)]

    assert [412, 412, 304, 412] == [result.response.status for result in results]


@contextmanager
def in_process(player: Player) -> Iterator[str]:
    with traceforge.replay(player=player):
        yield "ws://127.0.0.1:1" + PATH


@contextmanager
def through_proxy(player: Player) -> Iterator[str]:
    proxy = Proxy({"up": "http://127.0.0.1:1"}, replay=ReplayResponder(player), sink=False)
    try:
        yield f"ws://127.0.0.1:{proxy.port}/up{PATH}"
    finally:
        proxy.stop()


@pytest.mark.parametrize("replaying", [in_process, through_proxy])
def test_the_work_grows_with_the_frames_and_not_with_their_square(
    replaying: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame is sent to the library and compared while the conversation is open, and once at its end."""
    count = 150
    events = [{"type": "input_audio_buffer.append", "audio": f"{number:04}" * 1000} for number in range(count)]
    exchange = conversation(events, 1, host="127.0.0.1:1")
    player = make_player(tmp_path, replace(exchange, request_headers=()))
    work = {"bytes": 0, "frames": 0, "answered": 0}
    compare, play_part, play_all = compared_frames._compare_frame, player.play_part, player.play

    def count_frame(*arguments: Any) -> Any:
        work["frames"] += 1
        return compare(*arguments)

    def count_part(*arguments: Any) -> ReplayResult:
        work["bytes"] += len(arguments[3])
        result = play_part(*arguments)
        work["answered"] += len(result.response.body)
        return result

    def count_all(*arguments: Any, **options: Any) -> ReplayResult:
        work["bytes"] += len(arguments[3])
        return play_all(*arguments, **options)

    monkeypatch.setattr(compared_frames, "_compare_frame", count_frame)
    monkeypatch.setattr(player, "play_part", count_part)
    monkeypatch.setattr(player, "play", count_all)
    with replaying(player) as url:
        steps: list[Step] = [step for event in events for step in (event, 1)]
        received = talk_sync(url, steps, user_agent_header=None)

    assert (count, 1) == (len(received), player.played_count)
    size = len(exchange.request_body)
    assert 2 * size < work["bytes"] < 2.2 * size, (work, size)
    assert work["frames"] < 5 * count
    assert work["answered"] < 3 * sum(len(chunk.data) for chunk in exchange.chunks)


@pytest.mark.parametrize("start", [0, 1])
def test_open_conversations_are_compared_as_keys_are(start: int, tmp_path: Path) -> None:
    """For Python `true` is 1, and the answer that was recorded would be told."""
    player = make_player(tmp_path, conversation([{"n": 0}, {"n": 1}], 1))
    look_up(player, conversation([{"n": 0}]), 0)

    result = look_up(player, conversation([{"n": 0}, {"n": True}]), start)

    assert (412, 418)[not start] == result.response.status
