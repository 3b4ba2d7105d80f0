"""The player: a live request in, a recorded answer out."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from support.exchanges import chat_answer, chat_request, make_exchange
from support.replay_player import make_player, play
from support.wire_transcripts import CHAT
from traceforge.exchange import Caller, Exchange
from traceforge.redact.redactions import REDACTED
from traceforge.replay.player import Player, ReplayResult
from traceforge.replay.volatile import VolatileRules

MAIL, OTHER = "ann.lee@corp-example.org", "bob@corp-example.org"
KEY = b"a key of a test"


def chat_exchange(text: str, answer: str = "", number: int = 0, scope: str = "", **more: Any) -> Exchange:
    """A call, as it was recorded or is asked now."""
    return make_exchange(
        CHAT, chat_request(text, **more), chat_answer(answer), number=number, caller=Caller(scope=scope)
    )


def text_of(played: ReplayResult) -> str:
    """What the answer says; why there is none on a miss."""
    body = json.loads(played.response.body)
    return str(body["choices"][0]["message"]["content"]) if played.unmatched is None else played.unmatched.message


def test_a_request_gets_its_recorded_response(tmp_path: Path) -> None:
    """By its request key; the result names the recording."""
    player = make_player(tmp_path, chat_exchange("a", "1", 1), chat_exchange("b", "2", 2))

    played = play(player, chat_exchange("b"))

    assert ("2", None) == (text_of(played), played.unmatched)
    assert played.source_name.startswith("00000002")
    assert (1, []) == (player.played_count, player.unmatched)
    assert {("", played.source_name): 1} == player.use_counts


def test_answers_come_in_the_order_in_which_they_were_recorded(tmp_path: Path) -> None:
    """Then the last again; within the scope, and from the beginning once that is forgotten."""
    calls = [
        chat_exchange("a", f"{scope}{n}", place, scope)
        for place, (scope, n) in enumerate((s, n) for n in "12" for s in "xy")
    ]
    player = make_player(tmp_path, *calls)

    def say(scope: str) -> str:
        return text_of(play(player, chat_exchange("a"), Caller(scope=scope)))

    assert ["x1", "y1", "x2", "x2", "y2"] == [say(scope) for scope in "xyxxy"]
    player.restart_scope("x")
    assert ["x1", "y2"] == [say("x"), say("y")]
    assert ["x1", "y1", "x2", "y2", "y2"] == [say("elsewhere") for _ in range(5)]


def test_a_scope_is_looked_up_as_it_was_stored(tmp_path: Path) -> None:
    """Without the secret that its test has in its name; a test without one keeps its own."""
    secret, plain = f"test_a.py::test_b[{MAIL}]", "test_a.py::test_b[plain]"
    player = make_player(tmp_path, chat_exchange("a", "1", 1, secret), chat_exchange("a", "2", 2, plain))
    player.redacts_scopes = True

    answers = [text_of(play(player, chat_exchange("a"), Caller(scope=scope))) for scope in (plain, secret)]

    stored = f"test_a.py::test_b[{REDACTED}]"
    assert (["2", "1"], stored, plain) == (answers, player.name_scope(secret), player.name_scope(plain))
    assert {stored, plain} == {scope for scope, _ in player.use_counts}


def test_a_failed_attempt_is_replayed_before_its_retry(tmp_path: Path) -> None:
    """As the SDK saw it."""
    failed = make_exchange(CHAT, chat_request("a"), {"error": {"message": "slow down"}}, status=429, number=1)
    player = make_player(tmp_path, failed, chat_exchange("a", "fine", 2))

    assert [429, 200, 200] == [play(player, chat_exchange("a")).response.status for _ in range(3)]


def test_every_unmatched_request_is_counted(tmp_path: Path) -> None:
    player = make_player(tmp_path, chat_exchange("a", "1"))
    for _ in range(3):
        play(player, chat_exchange("b"))

    assert (3, 0) == (len(player.unmatched), player.played_count)


def test_an_allowed_new_request_is_not_unmatched(tmp_path: Path) -> None:
    """It is counted as new, and the caller lets it go on."""
    player = make_player(tmp_path, chat_exchange("a", "1"))
    exchange = chat_exchange("b")

    played = player.play(
        "POST", exchange.url, exchange.request_headers, exchange.request_body, Caller(), allow_upstream=True
    )

    assert (True, None) == (played.goes_upstream, played.unmatched)
    assert ([], 1) == (player.unmatched, player.upstream_count)


def test_a_request_whose_recording_is_unreadable_is_unmatched(tmp_path: Path) -> None:
    """The explanation says that the recording is damaged; no other recording answers."""
    player = make_player(tmp_path, chat_exchange("a", "1", 1), chat_exchange("b", "2", 2))
    (first,) = tmp_path.glob("*_00000001*.json")
    (second,) = tmp_path.glob("*_00000002*.json")
    first.unlink()
    second.write_bytes(b"{")

    text = text_of(play(player, chat_exchange("a")))
    assert text.startswith("the recording ")
    assert "cannot be read: the trace" in text
    assert not player.unmatched[0].can_record
    assert "cannot be read: " in text_of(play(player, chat_exchange("b")))
    assert (2, 0) == (len(player.unmatched), player.played_count)


def test_volatile_parts_are_ignored_and_every_use_is_counted(tmp_path: Path) -> None:
    """By declaration."""
    volatile = VolatileRules(["$.user"], ["on [0-9-]+"])
    player = make_player(tmp_path, chat_exchange("on 2026-01-01?", "1", user="a"), volatile=volatile)

    assert "1" == text_of(play(player, chat_exchange("on 2026-11-15?", user="b")))
    assert "1" == text_of(play(player, chat_exchange("on 2026-11-16?", user="c")))
    assert play(player, chat_exchange("in 2026-11-16?", user="c")).unmatched is not None
    assert {"$.user": 2, "on [0-9-]+": 2} == player.volatile_counts


# -- what was redacted


def test_with_the_key_another_value_is_unmatched_and_located(tmp_path: Path) -> None:
    """And shows neither value."""
    player = make_player(tmp_path, chat_exchange(f"Write to {MAIL}.", "1"), recorded_with=KEY, match_key=KEY)

    assert "1" == text_of(play(player, chat_exchange(f"Write to {MAIL}.")))
    text = text_of(play(player, chat_exchange(f"Write to {OTHER}.")))
    assert "a redacted part differs at $.messages[0].content" in text
    assert OTHER not in text
    assert (1, 0) == (len(player.unmatched), player.uncompared_call_count)


def test_with_the_key_each_redacted_value_gets_its_own_response(tmp_path: Path) -> None:
    """Two requests that look the same once they are redacted."""
    calls = [chat_exchange(f"Who is {mail}?", f"{mail} is {n}", n) for n, mail in enumerate((MAIL, OTHER))]
    player = make_player(tmp_path, *calls, recorded_with=KEY, match_key=KEY)

    assert f"{OTHER} is 1" == text_of(play(player, chat_exchange(f"Who is {OTHER}?")))
    assert f"{MAIL} is 0" == text_of(play(player, chat_exchange(f"Who is {MAIL}?")))


@pytest.mark.parametrize(("then", "now"), [(None, None), (KEY, None), (None, KEY)])
def test_without_the_key_uncompared_parts_are_counted(tmp_path: Path, then: bytes | None, now: bytes | None) -> None:
    """Calls and redacted parts; a call without redactions does not count."""
    calls = [chat_exchange(f"{MAIL} {MAIL}", "1", 1), chat_exchange("plain", "2", 2)]
    player = make_player(tmp_path, *calls, recorded_with=then, match_key=now)

    assert ["1", "2"] == [text_of(play(player, chat_exchange(text))) for text in (f"{OTHER} {OTHER}", "plain")]
    assert (1, 2, []) == (player.uncompared_call_count, player.uncompared_part_count, player.unmatched)


def test_a_wrong_match_key_is_named_as_a_possible_reason(tmp_path: Path) -> None:
    player = make_player(tmp_path, chat_exchange(MAIL, "1"), recorded_with=KEY, match_key=b"another")

    assert "or it was recorded with another match key" in text_of(play(player, chat_exchange(MAIL)))


def test_credentials_are_not_compared(tmp_path: Path) -> None:
    """In headers and in the URL: in CI there are none."""
    body = chat_request("hello")
    exchange = make_exchange(
        f"{CHAT}?key=AIzaSyA-1234567890&x=1", body, chat_answer("1"), headers=[("X-Api-Key", "k-1")]
    )
    player = make_player(tmp_path, exchange, recorded_with=KEY, match_key=KEY)

    for live in (
        make_exchange(f"{CHAT}?key=other-key-7&x=1", body, headers=[("X-Api-Key", "k-2")]),
        make_exchange(f"{CHAT}?x=1", body),
    ):
        assert "1" == text_of(play(player, live))
    assert 0 == player.uncompared_call_count


def test_a_credential_in_the_body_is_compared_unless_it_is_declared(tmp_path: Path) -> None:
    """In a body, a credential cannot be told from content."""
    servers = [{"name": "x", "authorization_token": "abcdef-1"}]
    live = chat_exchange("a", mcp_servers=[{"name": "x", "authorization_token": "none"}])
    exchange = chat_exchange("a", "1", mcp_servers=servers)
    strict = make_player(tmp_path / "a", exchange, recorded_with=KEY, match_key=KEY)
    volatile = VolatileRules(["$.mcp_servers[*].authorization_token"])
    declared = make_player(tmp_path / "b", exchange, recorded_with=KEY, match_key=KEY, volatile=volatile)

    assert "$.mcp_servers[0].authorization_token" in text_of(play(strict, live))
    assert "1" == text_of(play(declared, live))


def test_answers_with_parts_that_stay_redacted_are_counted(tmp_path: Path) -> None:
    """What the model made up cannot be refilled."""
    player = make_player(
        tmp_path,
        chat_exchange(f"Write to {MAIL}.", f"{MAIL} and zoe@corp-example.net", 1),
        chat_exchange("b", "2", 2),
    )

    assert f"{MAIL} and {REDACTED}" == text_of(play(player, chat_exchange(f"Write to {MAIL}.")))
    play(player, chat_exchange("b"))
    assert 1 == player.redacted_response_count


def test_many_threads_can_play(tmp_path: Path) -> None:
    """Each request is answered, counted once, and in turn."""
    player = make_player(tmp_path, *(chat_exchange("a", str(n), n) for n in range(64)))
    texts: list[str] = []

    def ask() -> None:
        texts.extend(text_of(play(player, chat_exchange("a"))) for _ in range(8))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(str, range(64))) == sorted(texts)
    assert 64 == player.played_count


def test_a_failed_lookup_is_counted_as_unmatched(tmp_path: Path) -> None:
    player: Player = make_player(tmp_path)

    unmatched = player.count_unmatched("it broke")

    assert ("it broke", False) == (unmatched.message, unmatched.can_record)
    assert [unmatched] == player.unmatched


def test_a_recording_without_fingerprints_is_renewed_where_the_key_is_there(tmp_path: Path) -> None:
    """By `record` alone: a replay counts it, and so does a run without the key."""
    exchange = make_exchange(CHAT, chat_request(f"Write to {MAIL}."), chat_answer("yes"))
    url, headers, body = exchange.url, exchange.request_headers, exchange.request_body
    outcomes = []
    for number, (key, renews) in enumerate([(b"key", True), (b"key", False), (None, True)]):
        player = make_player(tmp_path / str(number), exchange, match_key=key)
        player.renews_uncompared = renews
        result = player.play("POST", url, headers, body, Caller(), allow_upstream=True)
        outcomes.append((result.goes_upstream, player.uncompared_call_count))

    assert [(True, 0), (False, 1), (False, 1)] == outcomes


def test_a_value_redacted_by_its_name_is_refilled_wherever_the_answer_repeats_it(tmp_path: Path) -> None:
    """The live request matches although it repeats the value too, with its own value in URL, header and messages."""

    def call(password: str) -> Exchange:
        request = chat_request(f"my password: {password}")
        request["messages"] += [{"role": "user", "content": f"I said {password}"}]
        answer = chat_answer(f"so it is {password}")
        return make_exchange(f"{CHAT}?note={password}", request, answer, headers=[("X-Note", password)])

    player = make_player(tmp_path, call("q7bz4kitten"))

    result = play(player, call("w3rf8puppy"))

    assert result.response is not None
    assert chat_answer("so it is w3rf8puppy") == json.loads(result.response.body)
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"q7bz4kitten" not in stored
