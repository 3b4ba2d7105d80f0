"""Who may come in.

In: what a request says about itself (Host, Origin, our token). Out: nothing, or the refusal. Never: trusts a name
that only a browser was told: a page from elsewhere must not reach a server that holds the way to somebody's keys.
"""

from __future__ import annotations

import hmac
import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from traceforge.http.message_head import TOKEN, RequestHead

TOKEN_VARIABLE = "TRACEFORGE_PROXY_TOKEN"  # noqa: S105 (the name of a variable)

FINE_MAX = 256
_PAGE = frozenset(("origin", "sec-fetch-site"))  # What only a browser sends.


class Refused(Exception):
    """A request that is not let in."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def is_loopback(host: str) -> bool:
    """Does this name or address stay on this machine?"""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Guard:
    """The rules of one server on this machine, the proxy or another."""

    def __init__(self, host: str, token: str = "") -> None:
        self._host = host.lower()
        self._token = token.encode()
        self._local = is_loopback(host)
        self._fine: set[str] = set()  # Hosts that were let in, where nothing else is asked for.

    def check(self, head: RequestHead, authority: str) -> None:
        """Let a request in; `authority` is the one in its target, where it has one.

        Raises:
            Refused: its Host, its Origin or its token is not right.
        """
        self.check_facts(head.facts, authority)

    def check_facts(self, facts: dict[str, str], authority: str = "") -> None:
        """The same for a server that has read the head on its own: `facts` are headers by their lower-case names."""
        if facts.get("host") in self._fine and not authority and _PAGE.isdisjoint(facts):
            return
        if self._token and not hmac.compare_digest(facts.get(TOKEN, "").encode("latin-1"), self._token):
            raise Refused(401, "the header X-TraceForge-Token is missing or wrong")
        if self._local:
            self._check_names(facts, authority)
        if not self._token and "host" in facts:
            if len(self._fine) >= FINE_MAX:
                self._fine.clear()
            self._fine.add(facts["host"])

    def _check_names(self, facts: dict[str, str], authority: str) -> None:
        for name in (facts.get("host"), authority):
            if name and not _stays_here(name, self._host):
                raise Refused(421, "this server is for this machine alone, and the request names another host")
        origin = facts.get("origin")
        if (origin is not None and not _stays_here(_origin_host(origin), self._host)) or (
            facts.get("sec-fetch-site") == "cross-site"
        ):
            raise Refused(403, "a page from elsewhere may not call this server")


@lru_cache(maxsize=256)
def _stays_here(authority: str, bound: str) -> bool:
    try:
        host = urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return False
    return "@" not in authority and (is_loopback(host) or host == bound)


def _origin_host(origin: str) -> str:
    return origin.partition("://")[2]
