"""Finds the upstream and the upstream's path for a request.

A path is `/NAME/…`, where NAME is an upstream, or a path that one provider's API is known by (`/v1/messages`). The
hook in Node.js sends `/@https/HOST/…`, for a call to any host; only who holds the token of a run may do so.

Never: sends a call to an upstream that its path neither names nor clearly belongs to, because the caller's API key
travels with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from traceforge.addresses import upstream_problem
from traceforge.config import DEFAULT_UPSTREAMS
from traceforge.http.message_head import is_authority
from traceforge.wire.endpoints import Dialect, find_endpoint

_API_PATH = re.compile(r"/(?:v1|v1alpha|v1beta|v1beta1|api)/")  # Any other beginning would be an unknown NAME.
_ANTHROPIC = re.compile(r"/v1/(?:messages|complete)(?:/|\Z)")
_OPENAI = re.compile(
    r"/v1/(?:models|chat|completions|responses|conversations|embeddings|files|uploads|batches|images|audio|videos"
    r"|moderations|assistants|threads|vector_stores|fine_tuning|containers|evals|realtime)(?:/|\Z)"
)
_LIVE_PATH = "/ws/google.ai.generativelanguage."  # of the WebSockets of the Live API
_ANY_ORIGIN = re.compile(r"/@(https?)/([^/?]+)")
_OLLAMA = re.compile(r"/api/(?:tags|show|version|ps|pull|push|create|copy|delete|blobs)(?:/|\Z)")


# `%u002e`, and `%c0%ae` or `%e0%80%ae`, which are no UTF-8, but which lenient servers read as a dot.
_OLD_ESCAPE = re.compile(
    r"(?i)%u(?P<code>[0-9a-f]{4})|(?:%f0%80%8|%e0%8|%c)(?P<upper>[0-3])%(?P<lower>[89ab][0-9a-f])"
)
_SEGMENT_END = re.compile(r"[;?#\0]")  # Parameters; what follows a decoded `?` or `#`; the end of a text in C.
_IGNORED = re.compile(r"[\x00-\x20\x7f-\xa0]")  # Some URL parsers remove tabs and line breaks, others trim spaces.
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
    provider: str = ""  # The name of a declared upstream; "" at an origin that the caller chose.


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

    def find_route(
        self, method: str, target: str, *, is_anthropic: bool, has_any_origin: bool = False
    ) -> Route | None:
        """The route of a target (path and query); `is_anthropic`: the request has an `anthropic-version`. With
        `has_any_origin`, a target may begin with its origin.

        Raises:
            PathLeavesUpstream: the upstream could read the path as one outside of its base path.
        """
        if has_any_origin and (match := _ANY_ORIGIN.match(target)) is not None:
            return _find_any_origin(method, match[1], match[2], target[match.end() :])
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
        return _make_route(method, upstream, upstream_path, upstream.name)


def _make_route(method: str, upstream: Upstream, path: str, provider: str) -> Route:
    request_line = f"{method} {path} HTTP/1.1".encode("latin-1")
    return Route(upstream, path, upstream.origin + path, request_line, provider)


def _find_any_origin(method: str, scheme: str, authority: str, suffix: str) -> Route | None:
    """The route to an origin that no upstream names; its calls are counted by its authority."""
    url = f"{scheme}://{authority}"
    if not is_authority(authority) or upstream_problem("any", url):
        return None
    upstream = read_upstream("any", url)._replace(name=authority.lower())
    return _make_route(method, upstream, suffix if suffix.startswith("/") else f"/{suffix}", "")


def leaves_base_path(path: str) -> bool:
    """Whether a server could read this path, appended to a base path, as one outside of it.

    Servers differ in what they decode, in whether a backslash separates segments, in which characters end one and
    which are left out, and in what they take for a dot. One that decodes `%2e` and leaves `%2f` reads
    `/a%2fb/%2e%2e/%2e%2e` as one that leads out. So `..` may lead back inside only where nothing is encoded.
    """
    if "%" not in path:
        return ".." in path and (_climbs_out(path) or _climbs_out(path.replace("\\", "/")))
    return names_parent(path)


def names_parent(path: str) -> bool:
    """Whether a server could read a `..` in this path, wherever it leads."""
    return any(".." in _list_segments(reading) for reading in _readings(path))


def _readings(path: str) -> Iterator[str]:
    for _ in range(_DECODINGS_MAX):
        for reading in (path, normalize("NFKC", path)):
            yield reading
            yield reading.replace("\\", "/")
        decoded = unquote(_OLD_ESCAPE.sub(_decode_old_escape, path))
        if decoded == path:
            return
        path = decoded
    yield "/.."  # Encoded too often to tell.


def _decode_old_escape(match: re.Match[str]) -> str:
    """The character that lenient servers read in `%u002e`, or in UTF-8 that is longer than it has to be."""
    if match["code"]:
        return chr(int(match["code"], 16))
    return chr((int(match["upper"], 16) & 3) << 6 | int(match["lower"], 16) & 0x3F)


def _climbs_out(path: str) -> bool:
    depth = 0
    for segment in _list_segments(path):
        if segment == "..":
            depth -= 1
            if depth < 0:
                return True
        elif segment not in ("", "."):
            depth += 1
    return False


def _list_segments(path: str) -> list[str]:
    """The segments of a path, as a server reads them that cuts and leaves out most."""
    return [_IGNORED.sub("", _SEGMENT_END.split(segment, maxsplit=1)[0]) for segment in path.split("/")]


def find_dialect(method: str, path: str, is_anthropic: bool) -> str | None:
    """The provider whose API has this path, where the path names no upstream."""
    if path.startswith(_LIVE_PATH):
        return Dialect.GEMINI
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
