"""Which upstream is meant, and under which path?

In: the names and addresses of the upstreams, and the target of each request. Out: the upstream and the path to ask it
for. Never: sends a call to an upstream that its path does not name or clearly speak to: keys travel with it.

A path is `/NAME/rest`, where NAME is an upstream, or one that a dialect is known by (`/v1/messages`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from traceforge.config import upstream_problem
from traceforge.wire.endpoints import Dialect, find_endpoint

DEFAULTS: Mapping[str, str] = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434",
}
KNOWN_MAX = 1024  # Routes remembered; then all are forgotten.

_UNNAMED = re.compile(r"/(?:v1|v1alpha|v1beta|v1beta1|api)/")  # Any other beginning is a name we do not know.
_ANTHROPIC = re.compile(r"/v1/(?:messages|complete)(?:/|\Z)")
_OPENAI = re.compile(
    r"/v1/(?:models|chat|completions|responses|conversations|embeddings|files|uploads|batches|images|audio|videos"
    r"|moderations|assistants|threads|vector_stores|fine_tuning|containers|evals|realtime)(?:/|\Z)"
)
_OLLAMA = re.compile(r"/api/(?:tags|show|version|ps|pull|push|create|copy|delete|blobs)(?:/|\Z)")


class BadUpstream(ValueError):
    """An upstream that cannot be used; the message says why and repeats no secret."""


class Upstream(NamedTuple):
    """A provider, as the project names it."""

    name: str
    tls: bool
    host: str
    port: int
    authority: str  # what `Host` says
    base: str  # the URL in front of a path, without a slash at its end
    path: str  # the part of it that is a path


class Route(NamedTuple):
    """Where a call goes."""

    upstream: Upstream
    path: str  # with the query, as it is sent
    url: str
    first: bytes  # the first line of the request


def read_upstream(name: str, url: str) -> Upstream:
    """Check a name and an address.

    Raises:
        BadUpstream: the name cannot begin a path, or the address is none of http or https.
    """
    problem = upstream_problem(name, url)
    if problem:
        raise BadUpstream(problem)
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    path = parts.path.rstrip("/")
    authority = parts.netloc.lower()
    port = parts.port or (443 if tls else 80)
    return Upstream(name, tls, parts.hostname or "", port, authority, f"{parts.scheme}://{authority}{path}", path)


class Routes:
    """The upstreams of one proxy."""

    def __init__(self, upstreams: Mapping[str, str]) -> None:
        """`upstreams` are added to the defaults, and win over them."""
        self._upstreams = {name: read_upstream(name, url) for name, url in {**DEFAULTS, **upstreams}.items()}

        self._known: dict[tuple[str, str, bool], Route] = {}

    @property
    def upstreams(self) -> list[Upstream]:
        """All of them."""
        return list(self._upstreams.values())

    @property
    def names(self) -> list[str]:
        """The known names."""
        return sorted(self._upstreams)

    def find_route(self, method: str, target: str, *, anthropic: bool) -> Route | None:
        """Where a target (a path and its query) goes; `anthropic`: does the request name a version of theirs?"""
        known = self._known.get((method, target, anthropic))
        if known is not None:
            return known
        route = self._find(method, target, anthropic)
        if route is not None and "?" not in target:  # A query may hold a secret, and is seldom the same.
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[method, target, anthropic] = route
        return route

    def _find(self, method: str, target: str, anthropic: bool) -> Route | None:
        whole = target.partition("?")[0]
        name = whole[1:].partition("/")[0]
        upstream = self._upstreams.get(name)
        if upstream is not None:
            rest = target[len(name) + 1 :]
            path = upstream.path + (rest if rest.startswith("/") else f"/{rest}")
        else:
            known = find_dialect(method, whole, anthropic)
            if known is None:
                return None
            upstream = self._upstreams[known]
            path = upstream.path + target
        url = upstream.base[: len(upstream.base) - len(upstream.path)] + path
        return Route(upstream, path, url, f"{method} {path} HTTP/1.1".encode("latin-1"))


def find_dialect(method: str, path: str, anthropic: bool) -> Dialect | None:
    """Whose path is this, where no upstream is named?"""
    if not _UNNAMED.match(path):
        return None
    spoken = find_endpoint(method, path).dialect
    if spoken is not None:
        return spoken
    if path.startswith("/v1/") and anthropic:
        return Dialect.ANTHROPIC
    if path.startswith(("/v1beta/", "/v1alpha/", "/v1beta1/")):
        return Dialect.GEMINI
    for pattern, dialect in ((_ANTHROPIC, Dialect.ANTHROPIC), (_OPENAI, Dialect.OPENAI), (_OLLAMA, Dialect.OLLAMA)):
        if pattern.match(path):
            return dialect
    return None
