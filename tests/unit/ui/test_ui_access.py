"""Who may use the web view, rule by rule."""

from __future__ import annotations

import pytest

from traceforge.http.access import AccessDenied
from traceforge.ui.ui_access import SECURITY_HEADERS, UiAccess, is_host_name, new_token

TOKEN = "a-token-of-the-tests"
HERE = {"host": "127.0.0.1:3070"}
SAME_ORIGIN = {**HERE, "origin": "http://127.0.0.1:3070", "sec-fetch-site": "same-origin"}


def access(host: str = "127.0.0.1", *allowed: str) -> UiAccess:
    return UiAccess(host, 3070, TOKEN, allowed)


def refusal(rules: UiAccess, **headers: str) -> int:
    """The status with which a request is refused; 0 if it is accepted."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        rules.check({**HERE, **named})
    except AccessDenied as exc:
        return exc.status
    return 0


@pytest.mark.parametrize("name", ["127.0.0.1:3070", "localhost:3070", "LOCALHOST:3070", "[::1]:3070"])
def test_the_names_of_this_machine_with_the_port_are_accepted(name: str) -> None:
    assert 0 == refusal(access(), host=name)


@pytest.mark.parametrize(
    "name",
    ["", "127.0.0.1", "127.0.0.1:3071", "localhost:80", "evil.example", "evil.example:3070",
     "127.0.0.1.evil.example:3070", "a@127.0.0.1:3070", "127.0.0.1:3070, evil.example"],
)  # fmt: skip
def test_another_host_is_refused(name: str) -> None:
    """A page that resolves its own name to this machine gets nothing."""
    assert 421 == refusal(access(), host=name)


def test_an_allowed_host_is_accepted_with_its_port_or_with_every_port() -> None:
    rules = access("127.0.0.1", "ui.example.org", "localhost:9000")

    assert [0, 0, 0, 421, 421] == [
        refusal(rules, host=name)
        for name in ("ui.example.org", "UI.example.org:81", "localhost:9000", "localhost:9001", "x.ui.example.org")
    ]


def test_on_every_address_of_the_machine_an_address_is_accepted_and_a_name_is_not() -> None:
    """An address cannot be pointed somewhere else, as a name can."""
    rules = access("0.0.0.0")

    assert [0, 0, 421, 421] == [
        refusal(rules, host=name) for name in ("10.0.0.7:3070", "[fd00::7]:3070", "10.0.0.7:80", "box.example:3070")
    ]


def test_the_authority_of_a_target_is_checked_as_the_host_is() -> None:
    with pytest.raises(AccessDenied):
        access().check(HERE, "evil.example")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_or_port_may_only_link_here(site: str) -> None:
    """A link is a navigation; it has no cookie if it comes from another site."""
    rules = access()

    assert 403 == refusal(rules, sec_fetch_site=site, sec_fetch_mode="no-cors", sec_fetch_dest="image")
    assert 403 == refusal(rules, sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="iframe")
    assert 403 == refusal(rules, sec_fetch_site=site)
    assert 0 == refusal(rules, sec_fetch_site=site, sec_fetch_mode="navigate", sec_fetch_dest="document")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:3000", "", "file://"])
def test_another_origin_is_refused(origin: str) -> None:
    assert 403 == refusal(access(), origin=origin)


@pytest.mark.parametrize(
    "headers",
    [
        {**HERE},  # No browser sends a form without either.
        {**SAME_ORIGIN, "sec-fetch-site": "cross-site"},
        {**SAME_ORIGIN, "sec-fetch-site": "same-site"},
        {**SAME_ORIGIN, "sec-fetch-site": "none"},
    ],
)
def test_a_change_must_come_from_a_page_of_this_server(headers: dict[str, str]) -> None:
    """Even with the right token of a form."""
    rules = access()

    with pytest.raises(AccessDenied):
        rules.check_change(headers, rules.form_token)


def test_a_change_needs_the_token_of_a_form() -> None:
    rules = access()
    rules.check_change(SAME_ORIGIN, rules.form_token)
    rules.check_change({**HERE, "origin": "http://127.0.0.1:3070"}, rules.form_token)

    for token in (
        "",
        "x",
        TOKEN,
        rules.form_token[:-1],
        UiAccess("127.0.0.1", 3070, "another-token-of-16").form_token,
    ):
        with pytest.raises(AccessDenied):
            rules.check_change(SAME_ORIGIN, token)


def test_the_cookie_is_for_scripts_of_no_page_and_for_requests_of_no_other_site() -> None:
    """And says nothing about the token; a server on another port has a cookie of another name."""
    rules = access()
    header = rules.cookie_header()
    name, _, value = header.partition(";")[0].partition("=")

    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(header.split("; "))
    assert rules.is_authenticated({"cookie": f"a=b; {name}={value}"})
    assert TOKEN not in header
    assert rules.form_token not in header
    assert name != UiAccess("127.0.0.1", 3071, TOKEN).cookie_name


@pytest.mark.parametrize(
    "cookie", ["", "traceforge_ui_3070=", "traceforge_ui_3070=x", f"traceforge_ui_3070={TOKEN}", "\x00=;;="]
)
def test_another_cookie_is_not_accepted(cookie: str) -> None:
    assert not access().is_authenticated({"cookie": cookie})


def test_the_token_is_random() -> None:
    tokens = {new_token() for _ in range(100)}

    assert 100 == len(tokens)
    assert all(len(token) == 32 for token in tokens)


@pytest.mark.parametrize(
    ("text", "is_name"), [("a.example", True), ("a:80", True), ("", False), ("a/b", False), ("a b", False)]
)
def test_what_allow_host_takes(text: str, is_name: bool) -> None:
    assert is_name == is_host_name(text)


def test_the_content_policy_allows_no_script_but_ours() -> None:
    """Nothing inline, no other host, no frame."""
    policy = dict(part.split(" ", 1) for part in SECURITY_HEADERS["Content-Security-Policy"].split("; "))

    assert {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "frame-ancestors": "'none'",
    }.items() <= (policy.items())
    assert {
        "base-uri": "'none'",
        "form-action": "'self'",
        "font-src": "'none'",
        "img-src": "'self' data:",
    }.items() <= (policy.items())
    assert "unsafe" not in str(policy)
