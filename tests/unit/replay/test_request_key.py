"""The key of a request: the same for what asks the same, another one for everything else."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import brotli
import pytest
import zstandard

from support.exchanges import HOST, chat_answer, chat_request, make_exchange
from support.keyed_requests import GEMINI, JSON_TYPE, REQUESTS, key_of
from support.replay_player import KEYS, keyed_request_of, make_player, play, stored_request_of
from support.wire_transcripts import CHAT, MESSAGES
from support.work_counts import count_lines
from traceforge.canon import json_bytes
from traceforge.exchange import Headers
from traceforge.redact.redactor import Redactor
from traceforge.replay.request_key import (
    CACHED_REQUEST_BYTES_MAX,
    OLD_REQUEST,
    REQUESTS_CACHED,
    KeyedRequest,
    RequestKeyer,
    UnknownParts,
)
from traceforge.replay.volatile import VolatileRules

# -- what does not


def _shuffled(value: Any, source: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        source.shuffle(keys)
        return {key: _shuffled(value[key], source) for key in keys}
    return [_shuffled(item, source) for item in value] if isinstance(value, list) else value


def _floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _floats(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_floats(child) for child in value]
    return float(value) if type(value) is int else value


@pytest.mark.parametrize("address", REQUESTS)
@pytest.mark.parametrize("seed", range(5))
def test_the_spelling_of_a_body_makes_no_difference(address: str, seed: int) -> None:
    """The order of keys, white space, escapes and the notation of numbers."""
    body = REQUESTS[address]
    shuffled = _shuffled(body, random.Random(seed))
    spelled = [
        json.dumps(shuffled), json.dumps(shuffled, indent=seed + 1), json.dumps(body, separators=(",", ":")),
        json.dumps(shuffled, ensure_ascii=False), f"\n {json.dumps(body)}\r\n", json.dumps(_floats(body)),
        json.dumps(body).replace("/", "\\/").replace('"model"', '"\\u006dodel"'),
    ]  # fmt: skip

    assert {key_of(address, body)} == {key_of(address, text.encode()) for text in spelled}


@pytest.mark.parametrize("address", REQUESTS)
def test_a_request_counts_for_where_it_goes(address: str) -> None:
    """A provider, a server on this machine at any port, a gateway, and a path in front of the endpoint are four."""
    same_places = (
        (
            "https://api.openai.com",
            "https://api.openai.com:443",
            "https://me:secret@API.openai.com",
            "https://api.openai.com/x",
        ),
        ("http://127.0.0.1:8080", "http://[::1]:99", "https://localhost", "http://vllm:1"),
        ("https://llm.example.com", "http://llm.example.com"),
        ("https://llm.example.com/gateway/one",),
    )

    keys = [{key_of(address, REQUESTS[address], host=host) for host in hosts} for hosts in same_places]

    assert [1, 1, 1, 1] == [len(of_place) for of_place in keys]
    assert 4 == len(set().union(*keys))


def test_unknown_parts_of_a_stored_request_equal_anything_and_known_ones_do_not() -> None:
    """A stored request without its upstream and its other headers has a key that every live one has, too."""
    keys = RequestKeyer(Redactor(), VolatileRules())
    body = REQUESTS[MESSAGES]
    version = ("anthropic-version", "2023-06-01")
    old = keys.key_stored_request("POST", MESSAGES, (version,), body, unknown=OLD_REQUEST)
    filtered = UnknownParts(known_headers=frozenset({"x-tenant"}))
    imported = keys.key_stored_request(
        "POST", MESSAGES, (("X-Tenant", "a"),), body, upstream="anthropic", unknown=filtered
    )

    def live(url: str, *headers: tuple[str, str], prompt: str = "Be brief.") -> KeyedRequest:
        data = json.dumps({**body, "system": prompt} if prompt != "Be brief." else body).encode()
        return keys.key_request("POST", url + MESSAGES, (JSON_TYPE, *headers), data)

    anthropic, other = "https://api.anthropic.com", "https://llm.example.com"
    assert all(live(url, version, ("x-tenant", "b")).has_key(old.key) for url in (anthropic, other))
    assert not live(other, ("anthropic-version", "2024-01-01")).has_key(old.key)
    assert not live(other).has_key(old.key)
    assert not live(other, version, prompt="Be long.").has_key(old.key)
    assert live(anthropic, version, ("x-tenant", "a")).has_key(imported.key)
    assert not live(anthropic, version, ("x-tenant", "b")).has_key(imported.key)
    assert not live(other, ("x-tenant", "a")).has_key(imported.key)
    assert len({old.key, imported.key, live(anthropic, version).key}) == 3


@pytest.mark.parametrize("address", REQUESTS)
def test_credentials_client_and_retry_count_do_not_change_the_key(address: str) -> None:
    """Credentials, the organisation, the client, the count of retries, the order and the case of headers."""
    more: Headers = (
        ("authorization", "Bearer sk-live-1"), ("x-api-key", "k"), ("x-goog-api-key", "k"), ("api-key", "k"),
        ("x-stainless-retry-count", "2"), ("user-agent", "x"), ("openai-organization", "o"), ("cookie", "a=b"),
        ("idempotency-key", "i"), ("traceparent", "00-1-2-01"), ("Accept-Encoding", "gzip"), ("content-length", "9"),
    )  # fmt: skip
    behaviour: Headers = (("anthropic-version", "2023-06-01"), ("anthropic-beta", "b"), ("Anthropic-Beta", "a"))
    expected = key_of(address, REQUESTS[address], behaviour)

    for seed in range(5):
        headers = [*more, *behaviour]
        random.Random(seed).shuffle(headers)
        cased = tuple((name.title() if seed % 2 else name, value) for name, value in headers)
        assert expected == key_of(address, REQUESTS[address], cased)
    assert expected == key_of(address, REQUESTS[address], (behaviour[0], ("anthropic-beta", "a,b")))
    assert expected == key_of(address, REQUESTS[address], (behaviour[0], ("anthropic-beta", " b , a ")))


def test_credentials_in_the_url_make_no_difference() -> None:
    """By name, and as user and password; every other parameter counts, in any order."""
    expected = key_of(f"{GEMINI}?alt=sse&b=%20x", REQUESTS[GEMINI])

    assert expected == key_of(f"{GEMINI}?key=AIzaSyA-1234567890&b=+x&alt=sse", REQUESTS[GEMINI])
    assert expected == key_of(f"{GEMINI}?b=%20x&alt=sse&access_token=ya29.abc", REQUESTS[GEMINI])
    assert expected == key_of(f"{HOST.replace('//', '//me:secret@')}{GEMINI}?alt=sse&b=%20x", REQUESTS[GEMINI])
    assert expected != key_of(f"{GEMINI}?alt=sse&b=%20y", REQUESTS[GEMINI])


def test_an_allowed_parameter_changes_the_key() -> None:
    """Whatever its name, it is not treated as a secret."""
    keys = RequestKeyer(Redactor(allow=("public-*",)), VolatileRules())

    assert key_of("/v1/x?token=public-1", b"", keys=keys) != key_of("/v1/x?token=public-2", b"", keys=keys)
    assert key_of("/v1/x?token=abcdef-1", b"", keys=keys) == key_of("/v1/x?token=abcdef-2", b"", keys=keys)


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.ZstdCompressor().compress)],
)
def test_compression_makes_no_difference(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    """The body counts, not how it came."""
    body = json.dumps(REQUESTS[CHAT]).encode()

    assert key_of(CHAT, body) == key_of(CHAT, encode(body), (("Content-Encoding", encoding),))


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [("gzip", bytes), ("br", bytes), ("gzip", lambda body: gzip.compress(body)[:-8]), ("br", gzip.compress)],
    ids=["plain for gzip", "plain for br", "gzip without its end", "gzip for br"],
)
def test_a_body_that_is_not_encoded_as_its_head_says_is_another(
    encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    """Nobody knows how the provider reads it; its trace has the same key."""
    body = json.dumps(REQUESTS[CHAT]).encode()
    head = (("Content-Encoding", encoding),)
    exchange = make_exchange(CHAT, encode(body), headers=head)

    assert key_of(CHAT, body) != key_of(CHAT, encode(body), head)
    assert keyed_request_of(exchange).key == stored_request_of(exchange).key


def test_repeated_names_are_another_request() -> None:
    """A provider may take the first of two members, where we take the last; the trace has both."""
    plain = b'{"model": "a", "messages": [{"role": "user", "content": "hi"}]}'
    bodies = [
        plain,
        plain.replace(b'{"model"', b'{"model": "b", "model"'),
        plain.replace(b'{"model"', b'{"model": "a", "model"'),
        plain.replace(b'"content"', b'"content": "ho", "content"'),
    ]

    assert 4 == len({key_of(CHAT, body) for body in bodies})
    for body in bodies:
        exchange = make_exchange(CHAT, body)
        assert keyed_request_of(exchange).key == stored_request_of(exchange).key


def test_a_body_of_another_kind_is_another_request(tmp_path: Path) -> None:
    """No body, a text, bytes, a broken encoding, a name that stands twice, and JSON that looks like one of them."""
    failed = make_exchange(CHAT, b"\x1f\x8b, but no gzip", headers=(("Content-Encoding", "gzip"),))
    bodies = [
        b"", b"null", b'"null"', b'""', b"hello", b'"hello"', b'"\\"hello\\""', b"[null]", b"\xff", b'{"b64":"/w=="}',
        b'"{\\"b64\\":\\"/w==\\"}"', b'{"a":1,"a":2}', b'{"a":{"[REPEATED]":[1,2]}}',
        b'{"a":{"[REPEATED]=":[1,2]}}', json_bytes(keyed_request_of(failed).sent_body),
    ]  # fmt: skip
    exchanges = [make_exchange(CHAT, body, chat_answer("yes")) for body in bodies]

    assert len(bodies) + 1 == len({keyed_request_of(exchange).key for exchange in [*exchanges, failed]})
    for number, exchange in enumerate(exchanges):
        assert keyed_request_of(exchange).key == stored_request_of(exchange).key
        player = make_player(tmp_path / str(number), exchange)  # Also on the fast way, without redaction.
        assert [number] == [place for place, other in enumerate(exchanges) if play(player, other).unmatched is None]


def test_json_that_looks_like_bytes_can_have_the_type_of_a_form() -> None:
    """Stored, or sent; and its base64 may be none."""
    head = (("Content-Type", "multipart/form-data; boundary=x"),)
    sent = KEYS.key_request("POST", f"{HOST}/files", head, b'{"b64":"a"}')

    assert '{"b64":"a"}' == sent.sent_body
    assert sent.key != KEYS.key_stored_request("POST", f"{HOST}/files", head, {"b64": "a"}).key


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://api.openai.com/v1/chat/completions", "http://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1/chat/completions/"),
        (
            "https://a.openai.azure.com/openai/deployments/one/extensions/chat/completions",
            "https://a.openai.azure.com/openai/deployments/two/extensions/chat/completions",
        ),
        (
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/endpoints/1/chat/completions",
            "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/endpoints/2/chat/completions",
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/a%2Fmodels%2Fb:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/b:generateContent",
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/models/a%2Fmodels%2Fb:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/models/a%2Fmodels%2Fc:generateContent",
        ),
    ],
)
def test_an_address_of_a_provider_counts_but_for_the_account(before: str, after: str) -> None:
    """The scheme, a slash at its end, and what answers: a deployment or an endpoint, wherever the path has it."""
    keys = {KEYS.key_request("POST", url, (JSON_TYPE, ("Host", urlsplit(url).netloc)), b"{}").key
            for url in (before, after)}  # fmt: skip

    assert 2 == len(keys)


def test_a_charset_other_than_utf_8_is_another_request() -> None:
    """JSON is in UTF-8; other parameters of a media type do not count."""

    def key(media_type: str) -> str:
        return KEYS.key_request("POST", f"{HOST}{CHAT}", (("Content-Type", media_type),), b"{}").key

    types = ("", "; charset=utf-8", '; profile=x; Charset="UTF-8"')
    others = ("; charset=utf-16", ";charset='latin-1'", "; charset=utf-8; charset=utf-16")

    assert 1 == len({key(f"application/json{parameters}") for parameters in types})
    assert 4 == len({key(f"application/json{parameters}") for parameters in ("", *others)})


def test_the_order_of_parameters_of_one_name_counts() -> None:
    """A server may take the first of them; and no two values are equal because they are not UTF-8."""
    keys = [key_of(f"{CHAT}?{query}", {}) for query in ("a=1&a=2&b=3", "b=3&a=1&a=2", "a=2&a=1&b=3")]

    assert keys[0] == keys[1] != keys[2]
    assert key_of(f"{CHAT}?a=%ff", {}) != key_of(f"{CHAT}?a=%fe", {})


def test_a_presigned_address_of_aws_matches_the_next_one() -> None:
    """Its date, its expiry and its signature are no part of the request; other parameters are."""
    first = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20260101T000000Z&X-Amz-Expires=60&X-Amz-Signature=0a1b"
    second = "x-amz-date=20270101T000000Z&x-amz-expires=90&X-Amz-SignedHeaders=host&X-Amz-Signature=9f8e"
    keys = [key_of(f"{CHAT}?{query}", {}) for query in (f"{first}&a=1", f"{second}&a=1", f"{first}&a=2")]

    assert keys[0] == keys[1] != keys[2]


def test_a_parameter_without_a_value_is_not_an_empty_one() -> None:
    """A server can tell `?a` from `?a=`; an empty parameter between two `&` is none."""
    keys = {query: key_of(f"{CHAT}?{query}", {}) for query in ("a", "a=", "&a=&", "a=+", "")}

    assert keys["a="] == keys["&a=&"]
    assert 4 == len(set(keys.values()))


def test_the_work_for_a_conversation_grows_with_its_length_alone() -> None:
    """Fifty calls of tools with ids of many digits: every part of the body is visited a few times."""

    def count(calls: int) -> int:
        messages = [
            message
            for number in range(calls)
            for message in (
                {"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{number:024}", "type": "function",
                 "function": {"name": "look_up", "arguments": '{"number": 1}'}}]},
                {"role": "tool", "tool_call_id": f"call_{number:024}", "content": "It is on its way."},
            )
        ]  # fmt: skip
        body = json.dumps({"model": "m", "messages": messages}).encode()
        keys = RequestKeyer(Redactor(), VolatileRules())
        known = {keys.key_request("POST", f"{HOST}{CHAT}", (), body).key}
        again = RequestKeyer(Redactor(), VolatileRules())
        return count_lines(lambda: again.key_request("POST", f"{HOST}{CHAT}", (), body, known))

    short, long = count(50), count(100)

    assert long < 2.2 * short
    assert short < 16_000  # With a second walk to measure how deep the body nests, 18,000.


def _form(boundary: str, text: bytes = b"hello", data: bytes = b"") -> tuple[Headers, bytes]:
    parts = (b'name="model"\r\n\r\nwhisper-1', b'name="prompt"\r\n\r\n' + text, b'name="file"\r\n\r\n' + data)
    mark = f"--{boundary}".encode()
    body = b"".join(mark + b"\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + mark + b"--"
    return (("Content-Type", f'multipart/form-data; boundary="{boundary}"'),), body


@pytest.mark.parametrize("data", [b"plain", b"\xff\xfe\x00"], ids=["text", "bytes"])
def test_the_boundary_of_a_form_makes_no_difference(data: bytes) -> None:
    """Also where a part is no text, and in the trace that is kept of it."""
    keys = set()
    for boundary in ("0f3a", "----WebKitFormBoundaryx7MA4"):
        headers, body = _form(boundary, data=data)
        exchange = make_exchange("/v1/audio/transcriptions", body, request_media_type=headers[0][1])
        keys |= {keyed_request_of(exchange).key, stored_request_of(exchange).key}
    headers, other = _form("0f3a", b"hallo", data)

    assert 1 == len(keys)
    assert keys != {KEYS.key_request("POST", f"{HOST}/v1/audio/transcriptions", headers, other).key}


def test_only_the_lines_that_divide_a_form_lose_their_boundary() -> None:
    """Whoever chooses the boundary chooses no other text, and no text of a part looks like a boundary."""
    address = f"{HOST}/v1/audio/transcriptions"
    forms = [
        _form("0f3a", b"hello"),
        _form("hello", b"hello"),
        _form("x", b"boundary"),
        _form("x", b"x"),
        _form("x", b"a\r\n--boundary\r\nb"),
        _form("x", b"a\r\n--x\r\nb"),
        _form("x", b"a\r\n--boundary=\r\nb"),
    ]
    keys = [KEYS.key_request("POST", address, headers, body).key for headers, body in forms]

    assert keys[0] == keys[1]
    assert 6 == len(set(keys))


def test_binary_bodies_have_different_keys() -> None:
    """Byte by byte."""
    bodies = [b"\xff\x00", b"\xff\x01", base64.b64encode(b"\xff\x00")]

    assert 3 == len({key_of("/v1/other", body) for body in bodies})


def test_a_cached_request_has_the_same_key() -> None:
    """It is remembered by its address, its headers and its body; another of any of them is another request."""
    keys = RequestKeyer(Redactor(), VolatileRules())
    body, other = b'{"model":"m","messages":[]}', b'{"model":"n","messages":[]}'
    version = (("anthropic-version", "2023-06-01"),)
    requests = [("/v1/messages", (), body), ("/v1/messages", version, body), ("/v1/complete", (), body)]
    requests += [("/v1/messages", (), other), ("/v1/messages", (), bytes(CACHED_REQUEST_BYTES_MAX + 1))]

    first = [
        keys.key_request("POST", f"https://a.example{path}", headers, data).key for path, headers, data in requests
    ]
    repeated = [
        keys.key_request("POST", f"https://a.example{path}", headers, data).key for path, headers, data in requests
    ]

    assert first == repeated
    assert len(requests) == len(set(first))


def test_the_cache_of_requests_is_bounded() -> None:
    """By number and by size."""
    keys = RequestKeyer(Redactor(), VolatileRules())
    for number in range(2 * REQUESTS_CACHED):
        keys.key_request("POST", "https://a.example/v1/messages", (), b'{"n":%d}' % number)
    keys.key_request("POST", "https://a.example/v1/messages", (), b" " * (CACHED_REQUEST_BYTES_MAX + 1))

    assert REQUESTS_CACHED >= len(keys._requests)
    assert max(len(body) for *_, body in keys._requests) <= CACHED_REQUEST_BYTES_MAX


def test_a_request_with_a_known_unredacted_key_is_not_searched_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a part is declared to be volatile, or the body is no plain JSON."""
    searched: list[object] = []
    real = Redactor.redact_json
    monkeypatch.setattr(
        Redactor, "redact_json", lambda self, value, path="$": searched.append(value) or real(self, value)
    )
    body = json.dumps(chat_request("hello")).encode()
    known_keys = {keyed_request_of(make_exchange(CHAT, body)).key}

    def searches(volatile: VolatileRules, *headers: tuple[str, str], data: bytes = body) -> bool:
        searched.clear()
        keys = RequestKeyer(Redactor(), volatile)
        assert keys.key_request("POST", HOST + CHAT, (JSON_TYPE, *headers), data, known_keys).key in known_keys
        return bool(searched)

    assert not searches(VolatileRules())
    assert searches(VolatileRules(patterns=["run-[0-9]+"]))
    assert searches(VolatileRules(), ("Content-Encoding", "gzip"), data=gzip.compress(body))


def test_the_key_of_a_call_whose_host_tells_its_dialect_is_that_of_its_path() -> None:
    """An approved call has no host, so a live one is looked for, and explained, without it."""
    body = json.dumps({"model": "command-a", "message": "hi"}).encode()
    keys = RequestKeyer(Redactor(), VolatileRules())

    keyed = keys.key_request("POST", "https://api.cohere.com/v1/chat", (JSON_TYPE,), body)

    assert ("/v1/chat", None) == (keyed.key_fields.address, keyed.endpoint.dialect)
