"""The part of a body that is compared: which fields and ids make no difference, and which do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import HOST, chat_answer, chat_request, make_exchange
from support.json_texts import fuzz
from support.replay_player import KEYS, keyed_request_of, make_player, play, stored_request_of
from support.wire_transcripts import CHAT, MESSAGES, OLLAMA_CHAT, RESPONSES
from traceforge.canon import JSONObject
from traceforge.replay.compared_body import hide_project, renumber_ids

GEMINI = "/v1beta/models/gemini-2.5-flash:generateContent"
VERTEX = "/v1/projects/desk/locations/eu/publishers/google/models/gemini-2.5-flash:generateContent"
EMBEDDINGS = "/v1/embeddings"
CONVERSE = "/model/anthropic.claude-sonnet-4/converse"
MAIL = "ann.lee@corp-example.org"


def key_of(address: str, body: object) -> str:
    """The key of a request, which is also that of its trace."""
    exchange = make_exchange(address, body)
    key = keyed_request_of(exchange).key
    assert key == stored_request_of(exchange).key
    return key


# -- ids of tool calls: two calls, then their results; every conversation takes the four ids in this order


def _chat(*ids: str) -> dict[str, Any]:
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": arguments}}
        for call_id, arguments in zip(ids[:2], ('{"city":"Rome"}', '{"city":"Oslo"}'), strict=True)
    ]
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": content}
        for call_id, content in zip(ids[2:], ("sunny", "snow"), strict=True)
    ]
    return chat_request("hi") | {"messages": [{"role": "assistant", "tool_calls": calls}, *results]}


def _responses(*ids: str) -> dict[str, Any]:
    calls = [
        {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "weather", "arguments": city}
        for call_id, city in zip(ids[:2], ("Rome", "Oslo"), strict=True)
    ]
    results = [
        {"type": "function_call_output", "call_id": call_id, "output": output}
        for call_id, output in zip(ids[2:], ("sunny", "snow"), strict=True)
    ]
    return {"model": "gpt-5", "input": [{"role": "user", "content": "hi"}, *calls, *results]}


def _messages(*ids: str) -> dict[str, Any]:
    calls = [
        {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": city}}
        for call_id, city in zip(ids[:2], ("Rome", "Oslo"), strict=True)
    ]
    results = [
        {"type": "tool_result", "tool_use_id": call_id, "content": content}
        for call_id, content in zip(ids[2:], ("sunny", "snow"), strict=True)
    ]
    messages = [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    return {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages}


def _gemini(*ids: str) -> dict[str, Any]:
    calls = [
        {"functionCall": {"id": call_id, "name": "weather", "args": {"city": city}}}
        for call_id, city in zip(ids[:2], ("Rome", "Oslo"), strict=True)
    ]
    results = [
        {"functionResponse": {"id": call_id, "name": "weather", "response": {"is": content}}}
        for call_id, content in zip(ids[2:], ("sunny", "snow"), strict=True)
    ]
    return {"contents": [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]}


def _converse(*ids: str) -> dict[str, Any]:
    calls = [
        {"toolUse": {"toolUseId": call_id, "name": "weather", "input": {"city": city}}}
        for call_id, city in zip(ids[:2], ("Rome", "Oslo"), strict=True)
    ]
    results = [
        {"toolResult": {"toolUseId": call_id, "content": [{"text": content}]}}
        for call_id, content in zip(ids[2:], ("sunny", "snow"), strict=True)
    ]
    return {"messages": [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]}


CONVERSATIONS = {CHAT: _chat, RESPONSES: _responses, MESSAGES: _messages, GEMINI: _gemini, CONVERSE: _converse}
EACH = pytest.mark.parametrize("address", CONVERSATIONS)


@EACH
def test_other_ids_make_no_difference_where_references_agree(address: str) -> None:
    make = CONVERSATIONS[address]

    assert 1 == len({key_of(address, make(*ids)) for ids in ("abab", "xyxy", "baba", ("pyd_ai_1", "pyd_ai_2") * 2)})


@EACH
def test_results_of_the_other_call_are_another_request(address: str) -> None:
    """Swapped, both of one call, and calls that share an id."""
    make = CONVERSATIONS[address]

    assert 5 == len({key_of(address, make(*ids)) for ids in ("abab", "abba", "abaa", "aaaa", "abbb")})


@EACH
def test_an_id_that_the_request_does_not_define_counts(address: str) -> None:
    """Literally, also if it looks like a renumbered one."""
    make = CONVERSATIONS[address]
    undefined = ("z", "y", "[TOOL_CALL 2]", "[TOOL_CALL 2]=")

    assert 5 == len(
        {key_of(address, make("a", "b", "a", "b"))} | {key_of(address, make(*"aba", z)) for z in undefined}
    )


def test_ids_elsewhere_count() -> None:
    """What a tool returns, a schema, a text, and the ids of messages and answers."""
    calls = {"tool_calls": [{"id": "order-1"}]}
    bodies: list[tuple[str, dict[str, Any]]] = [
        (GEMINI, {"contents": [{"parts": [{"functionResponse": {"name": "x", "response": calls}}]}]}),
        (CHAT, chat_request("hi", metadata=calls)),
        (CHAT, chat_request(json.dumps(calls))),
        (CHAT, chat_request("hi", tools=[{"type": "function", "function": {"name": "order-1"}}])),
        (RESPONSES, {"input": [{"type": "message", "id": "order-1", "content": "hi"}]}),
        (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "order-1", "output": "x"}]}),
        (RESPONSES, {"input": "hi", "previous_response_id": "order-1"}),
        (MESSAGES, {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "order-1"}]}]}),
        ("/v1/other", calls),
    ]

    for address, body in bodies:
        changed = json.loads(json.dumps(body).replace("order-1", "order-2"))
        assert key_of(address, body) != key_of(address, changed), body


ids = st.text(st.sampled_from("ab[]=TOOL_CALL 12"), min_size=1, max_size=14)


@fuzz(200)
@given(st.sampled_from(list(CONVERSATIONS.values())), st.tuples(ids, ids, ids, ids), st.data())
def test_renumbering_keeps_exactly_which_id_is_which(make: Any, names: tuple[str, ...], data: st.DataObject) -> None:
    """Two requests are the same if the defined ids can be renamed, one to one, and all others are equal."""
    other_names = data.draw(st.tuples(ids, ids, ids, ids) | st.permutations(names).map(tuple))
    before, after = make(*names), make(*other_names)

    assert _graph(names) == _graph(other_names) or renumber_ids(before) != renumber_ids(after)
    if _graph(names) == _graph(other_names):
        assert renumber_ids(before) == renumber_ids(after)


def _graph(names: tuple[str, ...]) -> list[int | str]:
    defined = list(dict.fromkeys(names[:2]))
    return [defined.index(name) if name in defined else name for name in names]


@fuzz(100)
@given(st.sampled_from(list(CONVERSATIONS.values())), st.tuples(*[st.text("abc", min_size=1, max_size=2)] * 4))
def test_renumbering_twice_changes_nothing_more(make: Any, names: tuple[str, ...]) -> None:
    body = make(*names)
    before = json.dumps(body)
    once = renumber_ids(body)

    assert renumber_ids(once) == once
    assert before == json.dumps(body)
    assert _list_changed_members(body, once) <= {"id", "call_id", "tool_call_id", "tool_use_id", "toolUseId"}


def _list_changed_members(before: Any, after: Any, name: str = "") -> set[str]:
    """The names of the members that hold another value, at any depth."""
    if not isinstance(before, dict | list) or type(before) is not type(after) or len(before) != len(after):
        return set() if before == after else {name}
    if isinstance(before, list):
        pairs = [(name, *items) for items in zip(before, after, strict=True)]
    else:
        pairs = [(key, before[key], after.get(key)) for key in before]
    return {changed for key, *values in pairs for changed in _list_changed_members(*values, key)}


# -- fields that decide no answer


@pytest.mark.parametrize(
    ("address", "body", "path"),
    [
        (CHAT, {"user": "u-1"}, "$.user"),
        (CHAT, {"safety_identifier": "u-1"}, "$.safety_identifier"),
        (RESPONSES, {"prompt_cache_key": "u-1"}, "$.prompt_cache_key"),
        (MESSAGES, {"metadata": {"user_id": "u-1"}}, "$.metadata.user_id"),
        (EMBEDDINGS, {"user": "u-1"}, "$.user"),
        (VERTEX, {"labels": {"team": "u-1"}}, "$.labels"),
        (CONVERSE, {"requestMetadata": {"team": "u-1"}}, "$.requestMetadata"),
        (f"{CONVERSE}-stream", {"requestMetadata": {"team": MAIL}}, "$.requestMetadata"),
    ],
)
def test_a_field_that_decides_no_answer_is_noted_and_not_compared(
    address: str, body: dict[str, Any], path: str
) -> None:
    """With another value, and without it."""
    plain = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    changed = json.loads(json.dumps(body).replace("u-1", "u-2"))

    request = keyed_request_of(make_exchange(address, plain | body))

    assert (path,) == request.uncompared_paths
    assert 1 == len({key_of(address, plain | more) for more in (body, changed, {})})


@pytest.mark.parametrize(
    ("address", "body"),
    [
        (MESSAGES, {"user": "u-1"}),
        (OLLAMA_CHAT, {"user": "u-1"}),
        ("/v1/users", {"user": "u-1"}),
        ("/v1/users", {"requestMetadata": "u-1"}),
        (CHAT, {"metadata": {"user_id": "u-1"}}),
        (MESSAGES, {"metadata": {"of": "u-1", "user_id": "x"}}),
        (CHAT, {"labels": "u-1"}),
        (CHAT, {"user": {"id": "u-1"}}),
        (CHAT, {"user": ["u-1"]}),
        (CHAT, {"safety_identifier": {"id": "u-1"}}),
        (RESPONSES, {"prompt_cache_key": {"id": "u-1"}}),
        (EMBEDDINGS, {"prompt_cache_key": "u-1"}),
        (EMBEDDINGS, {"safety_identifier": "u-1"}),
        (MESSAGES, {"metadata": {"user_id": {"id": "u-1"}}}),
        (GEMINI, {"labels": {"team": "u-1"}}),
        (VERTEX, {"labels": ["u-1"]}),
        (VERTEX, {"labels": {"team": {"name": "u-1"}}}),
        (CONVERSE, {"requestMetadata": "u-1"}),
        (CONVERSE, {"requestMetadata": {"team": ["u-1"]}}),
        (CHAT, {"messages": [{"role": "user", "content": "hi", "user": "u-1"}]}),
    ],
)
def test_the_same_name_elsewhere_or_in_another_form_is_compared(address: str, body: dict[str, Any]) -> None:
    assert key_of(address, body) != key_of(address, json.loads(json.dumps(body).replace("u-1", "u-2")))


def test_a_redacted_value_of_a_field_in_another_form_is_compared(tmp_path: Any) -> None:
    """A user that is an object is a part of the request, and so are the addresses in it."""
    before, after = (
        make_exchange(CHAT, chat_request("hi", user={"mail": f"{name}@corp-example.org"}), chat_answer("yes"))
        for name in ("ann", "bob")
    )
    player = make_player(tmp_path, before, recorded_with=b"key", match_key=b"key")

    assert play(player, after).unmatched is not None
    assert b"yes" in play(player, before).response.body


def test_a_redacted_value_of_such_a_field_is_not_compared_either(tmp_path: Any) -> None:
    """Another user, whose address is redacted in the trace; an answer that repeats it still does."""
    before, after = (
        make_exchange(CHAT, chat_request("hi", user=f"{name}@corp-example.org"), chat_answer("ann@corp-example.org"))
        for name in ("ann", "bob")
    )
    player = make_player(tmp_path, before, recorded_with=b"key", match_key=b"key")

    result = play(player, after)

    assert b"bob@corp-example.org" in result.response.body
    assert (0, {"$.user": 1}) == (player.uncompared_call_count, player.uncompared_field_counts)


# -- integers


@pytest.mark.parametrize("number", [2**53, 2**63, 2**64, 10**25, -(2**63) - 1])
@pytest.mark.parametrize("more", [{}, {"mail": MAIL}], ids=["clean", "redacted"])
def test_integers_are_compared_exactly(number: int, more: dict[str, str]) -> None:
    """2**53 + 1 is not 2**53; live and stored, whether or not something is redacted."""
    keys = [key_of(CHAT, chat_request("hi", seed=value, **more)) for value in (number - 1, number, number + 1)]

    assert 3 == len(set(keys))


def test_a_live_request_does_not_match_a_rounded_integer(tmp_path: Any) -> None:
    """Not on the fast way either, on which a request without secrets is found."""
    player = make_player(tmp_path, make_exchange(CHAT, chat_request("hi", seed=2**53), chat_answer("yes")))

    result = play(player, make_exchange(CHAT, chat_request("hi", seed=2**53 + 1)))

    assert result.unmatched is not None
    assert "$.seed: recorded 9007199254740992, sent 9007199254740993" in result.unmatched.message
    assert b"yes" in play(player, make_exchange(CHAT, chat_request("hi", seed=2**53))).response.body


def test_a_request_with_tools_is_keyed_without_redaction_where_its_key_is_known() -> None:
    """Renumbering is part of the fast way."""
    stored = stored_request_of(make_exchange(CHAT, _chat(*"abab")))
    live = make_exchange(CHAT, _chat(*"xyxy"))

    request = KEYS.key_request(
        "POST", f"{HOST}{CHAT}", live.request_headers, live.request_body, unredacted_keys={stored.key}
    )

    assert stored.key == request.key
    assert request.sent_body == json.loads(live.request_body)


def test_the_project_of_vertex_is_not_compared_in_names() -> None:
    """Nor anywhere in a body is another text that looks like one, or the location."""
    body: JSONObject = {
        "model": "projects/mine/locations/eu/models/g",
        "cachedContent": "projects/mine/locations/eu/cachedContents/1",
        "contents": "projects/mine/x",
    }

    assert {
        "model": "projects/*/locations/eu/models/g",
        "cachedContent": "projects/*/locations/eu/cachedContents/1",
        "contents": "projects/mine/x",
    } == hide_project("vertex/eu", body)
    assert body == hide_project("local/v1", body)
    assert "projects/a/b" == hide_project("vertex/eu", "projects/a/b")
    assert {"model": 7} == hide_project("vertex/eu", {"model": 7})
