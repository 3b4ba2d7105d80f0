"""The key of a live request is that of its trace."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.corpus import need_shared
from support.corpus_traffic import interactions, one_in
from support.exchanges import HOST, chat_request, make_exchange, recorded_exchange
from support.json_texts import fuzz, json_texts
from support.replay_player import KEYS, keyed_request_of, stored_request_of
from support.wire_transcripts import CHAT, GENERATING
from traceforge.canon import json_bytes
from traceforge.exchange import Exchange
from traceforge.redact.redactor import Redactor
from traceforge.replay.request_key import (
    KeyedRequest,
    RequestKeyer,
)
from traceforge.replay.volatile import VolatileRules

MAIL = "ann.lee@corp-example.org"


# -- the live request and the kept one


@one_in
def test_the_key_of_every_call_of_the_corpus_is_that_of_its_trace(one_in: int) -> None:
    """With its own address and headers; also where something was redacted."""
    counted = redacted = 0
    for number, interaction in enumerate(interactions(need_shared("corpus/llm"))):
        if number % one_in:
            continue
        exchange = msgspec.structs.replace(recorded_exchange(interaction, number), status=0, chunks=())

        keyed = keyed_request_of(exchange)

        assert keyed.key == stored_request_of(exchange).key, interaction.name
        assert is_the_same_when_known(exchange), interaction.name
        counted += bool(interaction.request)
        redacted += bool(keyed.compared_redactions)
    assert counted > 9000 / one_in
    assert redacted > 100 / one_in


@fuzz(300)
@given(json_texts, st.sampled_from([*GENERATING, "/v1/other?user=ann.lee@corp-example.org&key=abcdefgh"]))
def test_the_key_of_any_json_is_that_of_its_trace(body: bytes, address: str) -> None:
    """Whatever an editor, another language or an attacker could have written."""
    exchange = make_exchange(address, body)

    assert keyed_request_of(exchange).key == stored_request_of(exchange).key
    assert is_the_same_when_known(exchange)


def is_the_same_when_known(exchange: Exchange) -> bool:
    """A key is made in a shorter way where it is known: what comes out is the same, also where a secret is in it."""
    long = keyed_request_of(exchange, RequestKeyer(Redactor(), VolatileRules()))
    short = RequestKeyer(Redactor(), VolatileRules()).key_request(
        exchange.method, exchange.url, exchange.request_headers, exchange.request_body, {long.key}
    )
    return _plain_of(long) == _plain_of(short)


def _plain_of(keyed_request: KeyedRequest) -> object:
    question = keyed_request.key_fields._replace(body=json_bytes(keyed_request.key_fields.body))
    redacted = [
        [(item.path, item.start, item.type, item.reveal()) for item in log]
        for log in (keyed_request.redactions, keyed_request.compared_redactions)
    ]
    return keyed_request.key, keyed_request.endpoint, question, keyed_request.volatile_counts, redacted


@fuzz(200)
@given(
    st.binary(max_size=80),
    st.sampled_from(
        [
            "application/json",
            "text/event-stream",
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=b",
        ]
    ),
)
def test_the_key_of_any_bytes_is_that_of_their_trace(body: bytes, media_type: str) -> None:
    """Not even JSON."""
    exchange = make_exchange(CHAT, body, request_media_type=media_type)

    assert keyed_request_of(exchange).key == stored_request_of(exchange).key
    assert is_the_same_when_known(exchange)


@pytest.mark.parametrize(
    "body",
    [
        chat_request(f"Write to {MAIL}."),
        chat_request("x", password="hunter2!", api_key="sk-proj-abcdef1234567890abcdef"),
        chat_request("x", tools=[{"headers": {"Authorization": "Bearer abcdef1234567890"}}]),
        {"messages": [{"role": "tool", "content": json.dumps({"password": 'a"b\\c é', "to": MAIL})}]},
        {MAIL: {MAIL: MAIL}},
    ],
)
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_the_key_of_a_redacted_request_is_that_of_its_trace(body: dict[str, Any], encoding: str) -> None:
    """In texts, under names, in names, in JSON that is a text, and compressed."""
    data = json.dumps(body).encode()
    headers = [("Content-Encoding", encoding)] if encoding else []
    exchange = make_exchange(CHAT, gzip.compress(data) if encoding else data, headers=headers)

    keyed = keyed_request_of(exchange)

    assert keyed.compared_redactions
    assert keyed.key == stored_request_of(exchange).key


def test_a_redacted_behaviour_header_is_redacted_on_both_sides() -> None:
    """One that holds an address."""
    exchange = make_exchange(CHAT, chat_request("x"), headers=[("x-goog-request-params", f"user={MAIL}")])

    assert keyed_request_of(exchange).key == stored_request_of(exchange).key
    assert MAIL not in str(keyed_request_of(exchange).key_fields)


def test_a_redacted_value_does_not_enter_the_key() -> None:
    """Two addresses, one key; the place and the text around them count."""
    first, second = (
        keyed_request_of(make_exchange(CHAT, chat_request(f"Write to {mail}.")))
        for mail in (MAIL, "b@corp-example.org")
    )

    assert first.key == second.key
    assert MAIL not in str(first.key_fields)
    assert first.key != keyed_request_of(make_exchange(CHAT, chat_request(f"Write to {MAIL}!"))).key
    assert [MAIL] == [item.reveal() for item in first.compared_redactions]


def test_redactions_that_identify_the_caller_are_not_compared() -> None:
    """Credentials are redacted and can be refilled, and are not compared; an address in the URL is."""
    url = f"{HOST}/v1/other?key=AIzaSyA-1234567890&user={MAIL}"
    headers = (("Authorization", "Bearer abcdef123456"),)
    request = KEYS.key_request("POST", url, headers, json.dumps({"a": MAIL}).encode())

    assert ["$.url", "$.a"] == [item.path for item in request.compared_redactions]
    assert {"$.url", "$.a"} == {item.path for item in request.redactions}
    assert ["$.headers.Authorization"] == [item.path for item in KEYS.find_header_redactions(headers)]
    assert (("user", "[REDACTED]"),) == request.key_fields.query


def test_volatile_parts_are_neither_in_the_key_nor_compared() -> None:
    """Neither in the key nor among the parts that are compared."""
    keys = RequestKeyer(Redactor(), VolatileRules(["$.messages[*].content"], ["run-[0-9]+"]))
    bodies = [
        chat_request(f"Write to {mail}.", user=f"run-{n}") for n, mail in enumerate((MAIL, "b@corp-example.org"))
    ]

    first, second = (keys.key_request("POST", HOST + CHAT, (), json.dumps(body).encode()) for body in bodies)

    assert first.key == second.key
    assert [] == [*first.compared_redactions, *second.compared_redactions]
    assert {"$.messages[*].content": 1, "run-[0-9]+": 1} == first.volatile_counts
