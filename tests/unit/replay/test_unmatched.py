"""A miss: a request that nothing recorded answers, explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import HOST, chat_answer, chat_request, make_exchange
from support.replay_player import make_player, play
from support.wire_transcripts import CHAT, GEMINI, MESSAGES, OLLAMA_CHAT, RESPONSES
from support.work_counts import count_lines
from traceforge.exchange import Caller, Exchange
from traceforge.replay.player import Player
from traceforge.replay.request_distance import common_lengths
from traceforge.replay.unmatched import (
    DIFFERENCES_MAX,
    UNMATCHED_STATUS,
    VALUE_LENGTH_MAX,
    UnmatchedRequest,
    _shorten_pair,
)

MAIL = "ann.lee@corp-example.org"
SECRET = "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34"


def play_unmatched(player: Player, exchange: Exchange, caller: Caller = Caller()) -> UnmatchedRequest:  # noqa: B008 (frozen)
    """The miss of a request that has none."""
    unmatched = play(player, exchange, caller).unmatched
    assert unmatched is not None
    return unmatched


def chat_exchange(text: str, number: int = 0, scope: str = "", **more: Any) -> Exchange:
    """A call with one question."""
    return make_exchange(
        CHAT, chat_request(text, **more), chat_answer("x"), number=number, caller=Caller(scope=scope)
    )


def name(number: int) -> str:
    """What the recording of a call is named."""
    return f"{number:08x}"


def test_the_nearest_recording_and_both_values_are_named(tmp_path: Path) -> None:
    """By the path of the place."""
    player = make_player(
        tmp_path, chat_exchange("What is the capital of France?", 1), chat_exchange("Write a poem about rain.", 2)
    )

    miss = play_unmatched(player, chat_exchange("What is the capital of Spain?"))

    assert miss.nearest.startswith(name(1))
    assert (
        f"no recorded call matches; the nearest is {miss.nearest}, which differs at $.messages[0].content: "
        'recorded "What is the capital of France?", sent "What is the capital of Spain?"'
    ) == miss.message


@pytest.mark.parametrize(
    ("changed", "explanation"),
    [
        ({"model": "gpt-5"}, '$.model: recorded "gpt-4o-mini", sent "gpt-5"'),
        ({"temperature": 1}, "$.temperature: recorded nothing, sent 1"),
        ({"seed": 8}, "$.seed: recorded 7, sent 8"),
        ({"tools": [{"name": "b"}]}, '$.tools[0].name: recorded "a", sent "b"'),
        ({"tools": []}, '$.tools: recorded [{"name":"a"}], sent []'),
        ({"stop": None}, '$.stop: recorded "x", sent null'),
        ({"stream": True}, "$.stream: recorded nothing, sent true"),
    ],
)
def test_every_kind_of_change_is_explained(tmp_path: Path, changed: dict[str, Any], explanation: str) -> None:
    """With the recorded and the live value."""
    before = {"seed": 7, "tools": [{"name": "a"}], "stop": "x"}
    player = make_player(tmp_path, chat_exchange("hello", 1, **before))

    message = play_unmatched(player, chat_exchange("hello", **{**before, **changed})).message

    assert explanation in message or ({"tools": []} == changed and "$.tools[0]" in message)


def test_a_difference_in_the_head_is_explained(tmp_path: Path) -> None:
    """The model in the path, a stream, a header, a parameter, the method."""
    body = {"contents": [{"parts": [{"text": "x"}]}]}
    player = make_player(tmp_path, make_exchange(f"{GEMINI}?alt=json", body, {}, headers=[("api-version", "1")]))

    def told(address: str, *headers: tuple[str, str]) -> str:
        return play_unmatched(player, make_exchange(address, body, headers=headers)).message

    same = ("api-version", "1")
    assert 'flash:generateContent", sent "gemini:generate:gemini-2.5-pro:' in told(
        f"{GEMINI.replace('flash', 'pro')}?alt=json", same
    )
    assert "streamGenerateContent" in told(f"{GEMINI.replace(':g', ':streamG')}?alt=json", same)
    assert 'the parameter alt: recorded "json", sent "sse"' in told(f"{GEMINI}?alt=sse", same)
    assert 'the header api-version: recorded "1", sent "2"' in told(f"{GEMINI}?alt=json", ("api-version", "2"))
    assert 'the header api-version: recorded "1", sent nothing' in told(f"{GEMINI}?alt=json")


def test_the_nearest_is_the_one_with_the_least_changed(tmp_path: Path) -> None:
    """A changed word is nearer than a missing message, whatever the order."""
    turns = [{"role": "user", "content": f"turn {n}"} for n in range(6)]
    calls = [make_exchange(CHAT, {"model": "m", "messages": turns[: n + 1]}, {}, number=n + 1) for n in range(6)]
    player = make_player(tmp_path, *calls)

    for n in range(6):
        body = {"model": "m", "messages": [*turns[:n], {"role": "user", "content": f"turn {n}, really"}]}
        assert play_unmatched(player, make_exchange(CHAT, body)).nearest.startswith(name(n + 1))


def test_the_same_scope_comes_first_where_there_are_many(tmp_path: Path) -> None:
    """The candidate of this test is compared, even if hundreds were recorded after it."""
    calls = [chat_exchange("in this test", 1, "tests/a.py::test")]
    calls += [chat_exchange(f"in another test, number {n}", n, "tests/b.py::test") for n in range(2, 260)]
    player = make_player(tmp_path, *calls)

    assert play_unmatched(
        player, chat_exchange("in this test!"), Caller(scope="tests/a.py::test")
    ).nearest.startswith(name(1))


def test_the_absence_of_any_similar_recording_is_explained(tmp_path: Path) -> None:
    """No recording at all, or none of this endpoint."""
    assert (
        "no recorded call matches: nothing was recorded"
        == play_unmatched(make_player(tmp_path / "a"), chat_exchange("x")).message
    )
    player = make_player(tmp_path / "b", chat_exchange("x"))
    message = play_unmatched(player, make_exchange(MESSAGES, {"model": "m"})).message
    assert "no recorded call matches: none of 1 recordings is for anthropic messages" == message
    assert "an unknown dialect other" in play_unmatched(player, make_exchange("/v1/files", b"")).message


def test_a_request_sent_more_often_than_recorded_is_explained(tmp_path: Path) -> None:
    """Where the last does not repeat."""
    player = make_player(tmp_path, chat_exchange("x"), repeat=False)
    play(player, chat_exchange("x"))

    assert "the number of identical requests" in play_unmatched(player, chat_exchange("x")).message


def test_the_number_of_shown_differences_is_limited(tmp_path: Path) -> None:
    """And how many more there are."""
    player = make_player(tmp_path, chat_exchange("x", 1, **{f"p{n}": n for n in range(DIFFERENCES_MAX + 3)}))

    miss = play_unmatched(player, chat_exchange("x", **{f"p{n}": -n - 1 for n in range(DIFFERENCES_MAX + 3)}))

    assert DIFFERENCES_MAX == len(miss.differences)
    assert miss.message.endswith("; and at 3 more")


def test_a_long_value_is_shown_where_it_differs(tmp_path: Path) -> None:
    """Not its beginning, which is the same."""
    before = "Be kind. " * 500 + "Answer in French." + " Be brief." * 500
    player = make_player(tmp_path, chat_exchange(before, 1))

    (place,) = play_unmatched(player, chat_exchange(before.replace("French", "Dutch"))).differences

    assert "French" in place.recorded
    assert "Dutch" in place.live
    assert max(len(place.recorded), len(place.live)) <= VALUE_LENGTH_MAX + 2


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_shown_values_are_short_and_different(start: str, first: str, second: str) -> None:
    """However much they have in common."""
    shortened = _shorten_pair(start + first, start + second)

    assert max(map(len, shortened)) <= VALUE_LENGTH_MAX + 2
    if first[:1] != second[:1]:
        assert shortened[0] != shortened[1]


@given(st.text(max_size=9), st.text(max_size=9))
def test_common_beginning_and_end_are_as_long_as_can_be(first: str, second: str) -> None:
    """And never overlap."""
    start, end = common_lengths(first, second)

    assert first[:start] == second[:start]
    assert first[start : start + 1] != second[start : start + 1] or start == min(len(first), len(second))
    assert start + end <= min(len(first), len(second))
    assert first[len(first) - end :] == second[len(second) - end :]


def test_an_unmatched_request_contains_no_secret(tmp_path: Path) -> None:
    """Of neither side, in no part of the response, not as a name and not cut in half."""
    exchange = make_exchange(
        f"{CHAT}?key={SECRET}", chat_request(f"{MAIL} one", api_key=SECRET, password="hunter2!"), {}, number=1
    )
    player = make_player(tmp_path, exchange)
    live = make_exchange(
        f"{CHAT}?key={SECRET}x&user=bob@corp-example.org",
        chat_request("x" * 100 + f" bob@corp-example.org two {SECRET}", api_key=f"{SECRET}y", password="tulip!!7"),
        headers=[("x-goog-request-params", "bob@corp-example.org")],
    )

    played = play(player, live)

    assert played.unmatched is not None
    text = played.response.body.decode() + repr(played.unmatched)
    for secret in (MAIL, SECRET, "bob@", "hunter2", "tulip", SECRET[8:20]):
        assert secret not in text


@pytest.mark.parametrize(
    ("address", "shape"),
    [
        (CHAT, {"error": {"type": "traceforge_replay_miss", "code": "traceforge_replay_miss", "param": None}}),
        (RESPONSES, {"error": {"type": "traceforge_replay_miss", "code": "traceforge_replay_miss", "param": None}}),
        (MESSAGES, {"type": "error", "error": {"type": "traceforge_replay_miss", "code": "traceforge_replay_miss",
                                               "param": None}}),
        (GEMINI, {"error": {"code": 418, "status": "FAILED_PRECONDITION"}}),
        (OLLAMA_CHAT, {}),
        ("/v1/files", {"error": {"type": "traceforge_replay_miss", "code": "traceforge_replay_miss", "param": None}}),
    ],
)  # fmt: skip
def test_the_error_response_has_the_format_of_the_provider(
    tmp_path: Path, address: str, shape: dict[str, Any]
) -> None:
    """With a status that no SDK retries."""
    played = play(make_player(tmp_path), make_exchange(address, {"model": "m"}))

    body = json.loads(played.response.body)
    message = body["error"] if address == OLLAMA_CHAT else body["error"].pop("message")
    assert "TraceForge replay: no recorded call matches: nothing was recorded" == message
    assert shape == ({} if address == OLLAMA_CHAT else body)
    assert (UNMATCHED_STATUS, False) == (played.response.status, played.response.streamed)
    assert ("x-should-retry", "false") in played.response.headers


def test_many_large_candidates_do_not_multiply_the_work(tmp_path: Path) -> None:
    """Candidates of 100 kB that differ in the middle: the nearest is compared word by word, the others are not."""
    text = "All work and no play makes Jack a dull boy. " * 1200

    def work(candidates: int) -> int:
        folder = tmp_path / str(candidates)
        folder.mkdir()
        player = make_player(folder, *(chat_exchange(f"{text}{n}{text}", n) for n in range(candidates)))
        live = chat_exchange(f"{text}what else{text}")
        play_unmatched(player, live)
        return count_lines(lambda: play_unmatched(player, live))

    assert work(60) - work(6) < 54 * 1_000


def test_removed_candidates_are_skipped(tmp_path: Path) -> None:
    """What is left explains the miss."""
    player = make_player(tmp_path, chat_exchange("What is the capital of France?", 1), chat_exchange("Sing.", 2))
    (removed_file,) = tmp_path.glob(f"*_{name(1)}*.json")
    removed_file.unlink()

    miss = play_unmatched(player, make_exchange(f"{HOST}{CHAT}", chat_request("What is the capital of Spain?")))

    assert miss.nearest.startswith(name(2))
