"""Finds the upstream and the upstream's path for a request.

A path is `/NAME/…`, where NAME is an upstream, or a path that one provider's API is known by (`/v1/messages`).

Never: sends a call to an upstream that its path neither names nor clearly belongs to, because the caller's API key
travels with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from traceforge.addresses import upstream_problem
from traceforge.config import DEFAULT_UPSTREAMS
from traceforge.wire.endpoints import Dialect, find_endpoint

_API_PATH = re.compile(r"/(?:v1|v1alpha|v1beta|v1beta1|api)/")  # Any other beginning would be an unknown NAME.
_ANTHROPIC = re.compile(r"/v1/(?:messages|complete)(?:/|\Z)")
_OPENAI = re.compile(
    r"/v1/(?:models|chat|completions|responses|conversations|embeddings|files|uploads|batches|images|audio|videos"
    r"|moderations|assistants|threads|vector_stores|fine_tuning|containers|evals|realtime)(?:/|\Z)"
)
_OLLAMA = re.compile(r"/api/(?:tags|show|version|ps|pull|push|create|copy|delete|blobs)(?:/|\Z)")


_DECODINGS_MAX = 5  # Of a path that was encoded several times; nobody encodes it more often.


class PathLeavesUpstream(Exception):
    """A path whose `..` segments lead out of the base path of its upstream."""


class InvalidUpstream(ValueError):
    """An upstream that cannot be used; the message says why and repeats no secret."""


class Upstream(NamedTuple):
    """A provider, under the name that the project gives it."""

    name: str
    tls: bool
    host: str
    port: int
    authority: str  # The value of `Host`.
    origin: str  # Scheme and authority.
    path: str  # Comes before the path of each request, without a slash at its end.


class Route(NamedTuple):
    """The upstream of a call, and the path to request there."""

    upstream: Upstream
    path: str  # With the query, as it is sent.
    url: str
    request_line: bytes


def read_upstream(name: str, url: str) -> Upstream:
    """Check the name and the URL of an upstream.

    Raises:
        InvalidUpstream: the name cannot begin a path, or the URL is neither http nor https.
    """
    problem = upstream_problem(name, url)
    if problem:
        raise InvalidUpstream(problem)
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    authority = parts.netloc.lower()
    port = parts.port or (443 if tls else 80)
    origin = f"{parts.scheme}://{authority}"
    return Upstream(name, tls, parts.hostname or "", port, authority, origin, parts.path.rstrip("/"))


class UpstreamRoutes:
    """The upstreams of one proxy: the defaults, and `upstreams`, which override them."""

    def __init__(self, upstreams: Mapping[str, str]) -> None:
        self._upstreams = {name: read_upstream(name, url) for name, url in {**DEFAULT_UPSTREAMS, **upstreams}.items()}

    @property
    def upstreams(self) -> list[Upstream]:
        return list(self._upstreams.values())

    @property
    def names(self) -> list[str]:
        """The names of all upstreams, sorted."""
        return sorted(self._upstreams)

    def find_route(self, method: str, target: str, *, is_anthropic: bool) -> Route | None:
        """The route of a target (path and query); `is_anthropic`: the request has an `anthropic-version`.

        Raises:
            PathLeavesUpstream: the upstream could read the path as one outside of its base path.
        """
        path = target.partition("?")[0]
        name = path[1:].partition("/")[0]
        upstream = self._upstreams.get(name)
        if upstream is not None:
            suffix = target[len(name) + 1 :]
            upstream_path = upstream.path + (suffix if suffix.startswith("/") else f"/{suffix}")
        else:
            dialect = find_dialect(method, path, is_anthropic)
            if dialect is None:
                return None
            upstream = self._upstreams[dialect]
            suffix = target
            upstream_path = upstream.path + target
        if leaves_base_path(suffix.partition("?")[0]):
            raise PathLeavesUpstream
        request_line = f"{method} {upstream_path} HTTP/1.1".encode("latin-1")
        return Route(upstream, upstream_path, upstream.origin + upstream_path, request_line)


def leaves_base_path(path: str) -> bool:
    """Whether a server could read this path, appended to a base path, as one outside of it.

    Servers differ in what they decode, in whether a backslash separates segments, and in whether `;` ends one: a path
    is refused if any of these readings leads out.
    """
    if ".." not in path and "%" not in path:
        return False
    return any(_climbs_out(reading) for reading in _readings(path))


def _readings(path: str) -> Iterator[str]:
    for _ in range(_DECODINGS_MAX):
        yield path
        yield path.replace("\\", "/")
        decoded = unquote(path)
        if decoded == path:
            return
        path = decoded
    yield "/.."  # Encoded too often to tell.


def _climbs_out(path: str) -> bool:
    depth = 0
    for segment in path.split("/"):
        name = segment.partition(";")[0].strip()
        if name == "..":
            depth -= 1
            if depth < 0:
                return True
        elif name not in ("", "."):
            depth += 1
    return False


def find_dialect(method: str, path: str, is_anthropic: bool) -> str | None:
    """The provider whose API has this path, where the path names no upstream."""
    if not _API_PATH.match(path):
        return None
    dialect = find_endpoint(method, path).dialect
    if isinstance(dialect, Dialect):  # Others are reached through an upstream that the project names.
        return dialect
    if path.startswith("/v1/") and is_anthropic:
        return Dialect.ANTHROPIC
    if path.startswith(("/v1beta/", "/v1alpha/", "/v1beta1/")):
        return Dialect.GEMINI
    for pattern, dialect in ((_ANTHROPIC, Dialect.ANTHROPIC), (_OPENAI, Dialect.OPENAI), (_OLLAMA, Dialect.OLLAMA)):
        if pattern.match(path):
            return dialect
    return None
