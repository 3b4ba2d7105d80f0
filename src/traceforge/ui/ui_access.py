"""Who may use the web view: its token and cookie, the Host and Origin of requests, and the headers of responses.

In: the headers of a request. Out: nothing, or a refusal. Never: lets a page of another origin read a page or change
something, trusts a Host that was not allowed, or writes the token into a page or a cookie.

The token is in the URL that is printed at the start. A browser that opens that URL gets a cookie and is sent on to
the same address without the token, so that it stays in no history and no Referer. The cookie is derived from the
token: a server that starts again with the same token knows it.

A browser that we open ourselves gets a code instead: other users of the machine can read its command line. The code
is good once, and for a client that runs as our own user.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from traceforge.http.access import AccessDenied, is_loopback
from traceforge.http.connection_owner import is_own_client
from traceforge.http.message_head import is_authority

TOKEN_LENGTH_MIN = 16  # Of a token that somebody chose: a shorter one could be guessed.
FORM_TOKEN_HEADER = "x-traceforge-form-token"  # noqa: S105 (a name)
FORM_TOKEN_FIELD = "form_token"  # noqa: S105 (a name)
TOKEN_PARAMETER, CODE_PARAMETER = "token", "code"  # of an address that signs in
SIGN_IN_PARAMETERS = (TOKEN_PARAMETER, CODE_PARAMETER)

# The pages load their own scripts and styles and call their own server; images are those that a trace holds.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # With `no-referrer`, browsers send a form with `Origin: null`.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 (compared with, not bound to)
_COOKIE_DAYS = 30


class UiAccess:
    """The access rules of one server that is bound to `host` and `port`."""

    def __init__(self, host: str, port: int, token: str, allowed_hosts: Sequence[str] = ()) -> None:
        """`allowed_hosts` are further values of `Host`, with a port or for every port."""
        self._port = port
        self._token = token
        self._accepts_addresses = host.strip("[]") in _WILDCARDS
        names = _LOOPBACK_NAMES if is_loopback(host) else (f"[{host}]" if ":" in host else host,)
        self._hosts = {f"{name}:{port}".lower() for name in names} | {name.lower() for name in allowed_hosts}
        # Browsers share the cookies of a host between its ports: each server has a name of its own.
        self.cookie_name = f"traceforge_ui_{port}"
        self._cookie_value = self._derive("cookie")
        self.form_token = self._derive("form")
        self.opening_code = new_token()  # Used up: "".

    def _derive(self, purpose: str) -> str:
        return hmac.new(self._token.encode(), f"traceforge ui {purpose}".encode(), "sha256").hexdigest()

    def check(self, headers: Mapping[str, str], authority: str = "") -> None:
        """Check the Host of a request, and which page sent it; headers by lower-case name.

        Raises:
            AccessDenied: 421 for the host, 403 for the origin.
        """
        for name in (headers.get("host", ""), *([authority] if authority else [])):
            if not self._is_own_host(name):
                message = f"this server does not serve {name!r}: if you forward its port, start it with --allow-host"
                raise AccessDenied(421, message)
        is_navigation = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        site = headers.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") and not is_navigation:
            raise AccessDenied(403, "a page of another origin may not call this server")
        origin = headers.get("origin")
        if origin is not None and not self._is_own_origin(origin, headers["host"]):
            raise AccessDenied(403, "a page of another origin may not call this server")

    def check_change(self, headers: Mapping[str, str], form_token: str) -> None:
        """Check a request that changes something, after `check`.

        Raises:
            AccessDenied: 403, the request comes from no page of this server.
        """
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise AccessDenied(403, "a page of another origin may not change anything here")
        if headers.get("origin") is None and headers.get("sec-fetch-site") is None:
            raise AccessDenied(403, "a request that changes something must have an Origin, as browsers send it")
        if not hmac.compare_digest(form_token.encode(), self.form_token.encode()):
            message = "the form has no valid token: open the page again and repeat the action"
            raise AccessDenied(403, message)

    def is_authenticated(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the cookie of this server."""
        cookie = read_cookies(headers).get(self.cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self._cookie_value.encode())

    def is_token(self, token: str) -> bool:
        """Whether this is the token of this server."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def take_opening_code(self, code: str, peer: tuple[str, int] | None, server: tuple[str, int] | None) -> bool:
        """Whether the code is that of the opened browser, and the client is one of our own user. It counts once.

        `peer` and `server` are the two ends of its connection.
        """
        is_known = bool(self.opening_code) and hmac.compare_digest(code.encode(), self.opening_code.encode())
        if not is_known or not is_own_client(peer, server):
            return False
        self.opening_code = ""
        return True

    def cookie_header(self) -> str:
        """The value of `Set-Cookie` for a browser that knows the token."""
        seconds = _COOKIE_DAYS * 86_400
        return f"{self.cookie_name}={self._cookie_value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"

    def _is_own_host(self, name: str) -> bool:
        if not name or not is_authority(name):
            return False
        lowered = name.lower()
        if lowered in self._hosts:
            return True
        host, port = _split_authority(lowered)
        if host in self._hosts:  # Allowed for every port.
            return True
        return self._accepts_addresses and port == self._port and _is_address(host)

    def _is_own_origin(self, origin: str, host: str) -> bool:
        scheme, _, name = origin.lower().partition("://")
        return scheme in ("http", "https") and name == host.lower()


def read_cookies(headers: Mapping[str, str]) -> dict[str, str]:
    """The cookies of a request, each as it was sent.

    A browser sends the cookies of every server at this address. `http.cookies` reads none after one with a character
    that it does not expect, such as JSON: any page of this machine could then sign a user out for good.
    """
    pairs = (pair.partition("=") for pair in headers.get("cookie", "").split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def is_host_name(text: str) -> bool:
    """Whether a text can be the value of a `Host` header: a name or an address, with or without a port."""
    return bool(text) and is_authority(text)


def new_token() -> str:
    """A random token for the URL of a server."""
    return secrets.token_urlsafe(24)


def _split_authority(name: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{name}")
        host = parts.hostname or ""
        return (f"[{host}]" if ":" in host else host), parts.port
    except ValueError:
        return "", None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
