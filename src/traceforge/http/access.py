"""Access control of a server on this machine: checks of Host, Origin and token.

Never: trusts a name that only a browser was given. A web page from elsewhere can make a browser send requests to
loopback, or resolve its own domain to 127.0.0.1, and our servers forward their callers' API keys.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from traceforge.http.message_head import TOKEN_HEADER, is_authority


class AccessDenied(Exception):
    """A request that a server does not accept, with the HTTP status of the refusal."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class AccessPolicy:
    """The access rules of one server that is bound to `host`.

    A server on loopback accepts loopback names only. With a `token`, every request must carry it; a `path_token` is
    the first segment of its path, for clients that get a base URL and no header. With `same_origin`, a browser's
    request must come from a page of this very server.
    """

    def __init__(self, host: str, token: str = "", *, path_token: str = "", same_origin: bool = False) -> None:
        self._host = host.lower()
        self._token = token.encode()
        self._path_prefix = f"/{path_token}/".encode() if path_token else b""
        self._is_loopback = is_loopback(host)
        self._same_origin = same_origin

    @property
    def requires_token(self) -> bool:
        """Whether every request must carry a token."""
        return bool(self._token or self._path_prefix)

    @property
    def has_path_token(self) -> bool:
        """Whether the path of a request begins with a token."""
        return bool(self._path_prefix)

    def remove_path_token(self, target: str) -> str:
        """The target of a request as it is served, without the token that it begins with.

        Raises:
            AccessDenied: 401 if this server requires such a token, and the target has none or another one.
        """
        prefix = self._path_prefix
        if not hmac.compare_digest(target[: len(prefix)].encode("latin-1", "replace"), prefix):
            message = "the path does not begin with the token of this run; use the base URL from the environment"
            raise AccessDenied(401, message)
        return target[len(prefix) - 1 :] if prefix else target

    def check(self, headers: Mapping[str, str], authority: str = "") -> None:
        """Check the headers of a request, by lower-case name; `authority` is that of its target, if it has one.

        Raises:
            AccessDenied: 401 for the token, 421 for the host, 403 for the origin.
        """
        if self._token and not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode("latin-1"), self._token):
            raise AccessDenied(401, "the header X-TraceForge-Token is missing or wrong")
        if self._is_loopback:
            self._check_loopback(headers, authority)
        origin = headers.get("origin")
        if self._same_origin and origin is not None and origin.lower() != f"http://{headers.get('host', '')}".lower():
            raise AccessDenied(403, "only a page of this server may call it")

    def _check_loopback(self, headers: Mapping[str, str], authority: str) -> None:
        for name in (headers.get("host"), authority):
            if name and not _is_local_authority(name, self._host):
                raise AccessDenied(421, "this server accepts requests for this machine only; Host names another one")
        origin = headers.get("origin")
        is_foreign = origin is not None and not _is_local_authority(origin.partition("://")[2], self._host)
        if is_foreign or headers.get("sec-fetch-site") == "cross-site":
            raise AccessDenied(403, "a web page of another site may not call this server")


def is_loopback(host: str) -> bool:
    """Whether a name or address stays on this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=256)  # Every request of the context server asks, mostly with the same Host.
def _is_local_authority(authority: str, bound_host: str) -> bool:
    if not is_authority(authority):
        return False
    try:
        host = urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return False
    return is_loopback(host) or host == bound_host


def is_json_content_type(value: str) -> bool:
    """Whether a `Content-Type` is JSON in UTF-8.

    A page of another site can send any type but this one without asking the server first (CORS preflight).
    """
    media_type, _, parameters = value.lower().partition(";")
    charset = parameters.replace(" ", "").replace('"', "")
    return media_type.strip() == "application/json" and charset in ("", "charset=utf-8")
