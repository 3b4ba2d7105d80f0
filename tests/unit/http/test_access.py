"""Which requests a server on this machine accepts: Host, Origin, token and content type."""

from __future__ import annotations

import pytest

from traceforge.http.access import AccessDenied, AccessPolicy, is_json_content_type, is_loopback

LOCAL = {"host": "127.0.0.1:8787"}


def refusal(policy: AccessPolicy, headers: dict[str, str], authority: str = "") -> int:
    """The status of the refusal; 0 if the request is accepted."""
    try:
        policy.check(headers, authority)
    except AccessDenied as exc:
        return exc.status
    return 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1"}, 0),
        ({"host": "localhost:8787"}, 0),
        ({"host": "app.localhost"}, 0),
        ({"host": "[::1]:8787"}, 0),
        ({}, 0),  # HTTP/1.0
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost@evil.example"}, 421),
        ({"host": "user@127.0.0.1"}, 421),
        ({"host": "[::1"}, 421),
        ({**LOCAL, "origin": "http://localhost:3000"}, 0),
        ({**LOCAL, "origin": "https://evil.example"}, 403),
        ({**LOCAL, "origin": "null"}, 403),
        ({**LOCAL, "sec-fetch-site": "same-origin"}, 0),
        ({**LOCAL, "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_a_loopback_server_accepts_loopback_names_only(headers: dict[str, str], status: int) -> None:
    """A browser must not reach it for a page of another site, nor through a name that resolves to loopback."""
    assert status == refusal(AccessPolicy("127.0.0.1"), headers)


def test_the_authority_of_the_target_counts_as_a_host() -> None:
    """`GET http://evil.example/` with a local Host is refused."""
    policy = AccessPolicy("127.0.0.1")

    assert [0, 421] == [refusal(policy, LOCAL, "localhost:8787"), refusal(policy, LOCAL, "evil.example")]


def test_an_accepted_host_does_not_admit_the_next_request() -> None:
    """Every request is checked for itself."""
    policy = AccessPolicy("127.0.0.1")

    assert [0, 403] == [refusal(policy, LOCAL), refusal(policy, {**LOCAL, "origin": "https://evil.example"})]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8787", 0),
        ("HTTP://127.0.0.1:8787", 0),
        ("http://localhost:8787", 403),
        ("http://127.0.0.1:9999", 403),
        ("https://127.0.0.1:8787", 403),
    ],
)
def test_with_same_origin_only_a_page_of_this_server_may_call_it(origin: str, status: int) -> None:
    """Scheme, host and port must be those of the request's Host."""
    assert status == refusal(AccessPolicy("127.0.0.1", same_origin=True), {**LOCAL, "origin": origin})


@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 401), ("s3cret", 0)])
def test_with_a_token_every_request_must_carry_it(token: str, status: int) -> None:
    """On another address than loopback, the Host may be any name."""
    headers = {"host": "proxy.example", **({"x-traceforge-token": token} if token else {})}

    assert status == refusal(AccessPolicy("0.0.0.0", "s3cret"), headers)


@pytest.mark.parametrize(
    ("value", "is_json"),
    [
        ("application/json", True),
        ('Application/JSON; Charset="UTF-8"', True),
        ("application/json; charset=latin-1", False),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
    ],
)
def test_only_json_in_utf_8_is_json(value: str, is_json: bool) -> None:
    """A page of another site can send every other type without a preflight request."""
    assert is_json is is_json_content_type(value)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("example.com", False),
    ],
)
def test_loopback_names_and_addresses_are_recognised(host: str, local: bool) -> None:
    """Names and addresses alike."""
    assert local is is_loopback(host)


@pytest.mark.parametrize(
    ("target", "served"),
    [
        ("/secret/openai/v1/x?a=/secret/", "/openai/v1/x?a=/secret/"),
        ("/secret/", "/"),
        ("/secret", None),
        ("/secret?x=/", None),
        ("/secre/t/openai", None),
        ("/SECRET/openai", None),
        ("//secret/openai", None),
        ("/openai/v1/x", None),
        ("/%73ecret/openai", None),
        ("/secr\u00e9t/openai", None),
        ("/secr\u20act/openai", None),
        ("*", None),
        ("", None),
    ],
)
def test_a_path_token_is_the_first_segment_and_is_not_served(target: str, served: str | None) -> None:
    """Byte by byte: nothing is decoded."""
    policy = AccessPolicy("127.0.0.1", path_token="secret")
    assert policy.requires_token
    assert target == AccessPolicy("127.0.0.1").remove_path_token(target)

    if served is None:
        with pytest.raises(AccessDenied) as refused:
            policy.remove_path_token(target)
        assert 401 == refused.value.status
    else:
        assert served == policy.remove_path_token(target)
