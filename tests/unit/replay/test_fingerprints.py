"""Were the redacted parts of two requests the same?"""

from __future__ import annotations

from typing import Any

import pytest

from support.exchanges import REDACTOR, chat_answer, chat_request, make_exchange, parse_object
from support.replay_player import keyed_request_of
from support.wire_transcripts import CHAT
from traceforge.exchange import Exchange
from traceforge.replay.fingerprints import (
    NOTHING_REDACTED,
    Fingerprints,
    find_differing_path,
    fingerprint_redactions,
    header_path,
    keep_known_headers,
    read_fingerprints,
)
from traceforge.replay.volatile import VolatileRules
from traceforge.traces.trace_composer import TraceComposer

KEY = b"a key of a test"
MAIL, OTHER = "ann.lee@corp-example.org", "bob@corp-example.org"


def never(_: str) -> bool:
    """Nothing is volatile."""
    return False


def live_and_stored(exchange: Exchange, key: bytes | None = KEY) -> tuple[Fingerprints, Fingerprints]:
    """Of the live request, and of its trace."""
    body = parse_object(TraceComposer(REDACTOR, key).compose(exchange).trace)
    return fingerprint_redactions(keyed_request_of(exchange).compared_redactions, key), read_fingerprints(
        body.get("redacted"), body["provider_request"], never, ["x-user"]
    )


@pytest.mark.parametrize(
    "exchange",
    [
        make_exchange(CHAT, chat_request("nothing")),
        make_exchange(CHAT, chat_request(f"{MAIL} {OTHER}"), chat_answer(MAIL)),
        make_exchange(CHAT, chat_request("x", password='a"b\\c', metadata={"of": MAIL})),
        make_exchange(CHAT, chat_request('{"password": "a\\"b"}')),
        make_exchange(f"{CHAT}?user={MAIL}&key=AIzaSyA-1234567890", chat_request(MAIL), headers=[("X-User", MAIL)]),
        make_exchange(CHAT, {MAIL: {"a": [MAIL, {"b": OTHER}]}}),
        make_exchange(CHAT, f"plain {MAIL}".encode(), request_media_type="text/plain"),
        make_exchange(f"https://me:tulip@api.example.com{CHAT}", chat_request(MAIL)),
        make_exchange(CHAT, chat_request("x", url="https://a.example", headers={"X-User": "ann"})),
        make_exchange(f"{CHAT}?user={OTHER}", chat_request(MAIL, url=f"mailto:{MAIL}"), headers=[("X-User", OTHER)]),
        make_exchange(CHAT, {"url": [MAIL, {"a-b": OTHER}], "headers": {MAIL: "x"}}),
    ],
)
def test_a_live_request_has_the_fingerprints_of_its_trace(exchange: Exchange) -> None:
    """By place and in order; those of credentials are in neither."""
    live, stored = live_and_stored(exchange)

    assert live == stored
    assert "authorization" not in str(live).lower()
    assert "" == find_differing_path(stored, live)


def test_a_credential_in_the_headers_of_a_body_is_compared() -> None:
    """Though a header of the request has the same path, and is not."""
    head = [("Authorization", "Bearer rose-1"), ("x-user", OTHER)]
    bodies = [
        {"headers": {"Authorization": secret, "x-user": MAIL}} for secret in ("Bearer tulip-9", "Bearer rose-2")
    ]
    (live, stored), (other, _) = (live_and_stored(make_exchange(CHAT, body, headers=head)) for body in bodies)

    assert live == stored
    assert "$.headers.authorization" == find_differing_path(stored, other)


def test_without_a_key_redacted_parts_cannot_be_compared() -> None:
    """Unless nothing was redacted; a trace without fingerprints is the same."""
    assert (None, None) == live_and_stored(make_exchange(CHAT, chat_request(MAIL)), None)
    assert (NOTHING_REDACTED, NOTHING_REDACTED) == live_and_stored(make_exchange(CHAT, chat_request("x")), None)
    assert "" == find_differing_path(None, NOTHING_REDACTED) == find_differing_path(NOTHING_REDACTED, None)


def test_the_first_place_that_differs_is_named() -> None:
    """By another value, by another number of them, or by one that is not there."""
    before, _ = live_and_stored(make_exchange(CHAT, {"a": MAIL, "b": f"{MAIL} {MAIL}", "c": MAIL}))
    for body, place in (
        ({"a": OTHER, "b": f"{MAIL} {MAIL}", "c": MAIL}, "$.a"),
        ({"a": MAIL, "b": f"{MAIL} {OTHER}", "c": MAIL}, "$.b"),
        ({"a": MAIL, "b": f"{MAIL} [REDACTED]", "c": MAIL}, "$.b"),
        ({"a": MAIL, "b": f"{MAIL} {MAIL}", "c": "[REDACTED]"}, "$.c"),
    ):
        assert place == find_differing_path(before, live_and_stored(make_exchange(CHAT, body))[0])


def test_another_key_makes_everything_differ() -> None:
    """So that a request is never answered because of it."""
    exchange = make_exchange(CHAT, chat_request(MAIL))

    assert "$.messages[0].content" == find_differing_path(
        live_and_stored(exchange)[1], live_and_stored(exchange, b"other")[0]
    )


def test_the_order_of_members_makes_no_difference() -> None:
    """The order at one place does."""
    first, second = (
        live_and_stored(make_exchange(CHAT, {"a": MAIL, "b": OTHER}))[0],
        live_and_stored(make_exchange(CHAT, {"b": OTHER, "a": MAIL}))[0],
    )

    assert first == second
    assert live_and_stored(make_exchange(CHAT, {"a": f"{MAIL} {OTHER}"})) != live_and_stored(
        make_exchange(CHAT, {"a": f"{OTHER} {MAIL}"})
    )


def test_volatile_parts_are_not_compared() -> None:
    """A token in the body is one, if the project says so."""
    exchange = make_exchange(CHAT, {"mcp_servers": [{"authorization_token": "abcdef123456"}], "a": MAIL})
    body = parse_object(TraceComposer(REDACTOR, KEY).compose(exchange).trace)

    ignores = VolatileRules(["$.mcp_servers[*].authorization_token"]).is_volatile
    prints = read_fingerprints(body["redacted"], body["provider_request"], ignores)

    assert prints is not None
    assert ["$.a"] == [path for path, _ in prints]


@pytest.mark.parametrize("name", ["url", "headers"])
def test_a_body_with_members_named_url_or_headers_is_compared(name: str) -> None:
    """The trace lists the head first, and the body says how many of the paths are its own."""
    request: dict[str, Any] = {name: {"authorization": MAIL} if name == "headers" else MAIL}
    exchange = make_exchange(f"{CHAT}?user={MAIL}", request)

    live, stored = live_and_stored(exchange)

    assert live == stored
    assert stored


def test_a_personal_value_in_a_header_is_compared_where_the_header_is() -> None:
    """However its name is written; a header of which nothing is known does not count."""
    headers = (("X-User", MAIL), ("user-agent", f"app of {MAIL}"))
    live, stored = live_and_stored(make_exchange(CHAT, chat_request("x"), headers=headers))
    other, _ = live_and_stored(make_exchange(CHAT, chat_request("x"), headers=[("x-user", OTHER)]))
    lower, _ = live_and_stored(make_exchange(CHAT, chat_request("x"), headers=[("x-user", MAIL)]))

    assert stored == live == lower
    assert [header_path("x-user")] == [path for path, _ in live or ()]
    assert header_path("x-user") == find_differing_path(stored, other)
    assert live == keep_known_headers(live, ["x-user"])
    assert NOTHING_REDACTED == keep_known_headers(live, ["x-tenant"])
