"""Which calls are model calls.

In: a method and a URL, and hosts that a project named. Out: yes or no. Never: looks at a body, or at headers: other
calls (to a database, telemetry, a web page) are not watched, unless the project asks for all.

`dialect_paths` has the paths that `traceforge.wire.endpoints` understands, and the hosts of providers, whose other
calls (files, models, batches) are watched too. A test keeps both equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from .dialect_paths import HOST_ENDINGS, HOST_PATTERNS, HOSTS, MODEL_PATHS, NOT_MODEL_PATHS
from .token_urls import is_token_exchange
from .tripwire import is_loopback

# Patterns are compiled when the first URL is looked at, which in most runs of a small program never comes.
TELEMETRY = r"/traces/ingest/?\Z"  # openai-agents reports there with any base URL
# The paths of the realtime API, of the WebSocket mode of the Responses API, and of the Live API.
MODEL_SOCKETS = r"/(?:realtime|responses)/?\Z|GenerateContent(?:Constrained)?\Z"

EVERY_HOST, EXCEPT, PATH = "*", "!", "~"


class WatchedHosts:
    """Hosts all of whose calls are watched.

    An entry is a name or a pattern, with or without a port. EVERY_HOST means all but this machine, and all but the
    patterns that follow EXCEPT. What follows PATH is a regular expression: a POST to such a path, at any host, is
    watched too; so the dialects of installed packages reach a process that does not have them.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        entries = list(entries)
        self._paths = "|".join(entry[len(PATH) :] for entry in entries if entry.startswith(PATH))
        texts = [entry.lower() for entry in entries if not entry.startswith(PATH)]
        self._is_every = EVERY_HOST in texts
        self._ignored = [text[len(EXCEPT) :] for text in texts if text.startswith(EXCEPT)]
        named = [text for text in texts if text != EVERY_HOST and not text.startswith(EXCEPT)]
        self._patterns = [text for text in named if "*" in text]
        self._names = frozenset(named) - frozenset(self._patterns)

    def has(self, netloc: str) -> bool:
        """Whether calls to this host, perhaps with a port, are watched."""
        host = netloc.rpartition("@")[2].lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        spellings = (name, host)
        if not self._names.isdisjoint(spellings) or _matches(spellings, self._patterns):
            return True
        return self._is_every and bool(name) and not is_loopback(name) and not _matches(spellings, self._ignored)

    def has_path(self, path: str) -> bool:
        """Whether a POST to this path is watched."""
        return bool(self._paths) and re.search(self._paths, path) is not None


def _matches(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


NO_HOSTS = WatchedHosts()


def is_model_call(method: str, url: str, hosts: WatchedHosts = NO_HOSTS) -> bool:
    """Whether a call is watched; all calls to `hosts` are."""
    try:
        parts = urlsplit(url)
        path = parts.path
        if "%" in path:
            path = unquote(path)
        if method.upper() == "POST" and _is_model_path(path, hosts):
            return True
    except ValueError:
        return False  # not a URL: the client will say so
    return is_at_known_host(url, hosts)


def _is_model_path(path: str, hosts: WatchedHosts) -> bool:
    if not re.search(MODEL_PATHS, path) and not hosts.has_path(path):
        return False
    return not any(re.search(pattern, path) for pattern in NOT_MODEL_PATHS)


def is_at_known_host(url: str, hosts: WatchedHosts = NO_HOSTS) -> bool:
    """Whether a call is watched because of its host, with any method and path."""
    try:
        parts = urlsplit(url)
        return (
            is_known_host(parts.netloc, hosts)
            and not re.search(TELEMETRY, unquote(parts.path))
            and not is_token_exchange(url)
        )
    except ValueError:
        return False


def is_telemetry(url: str, hosts: WatchedHosts = NO_HOSTS) -> bool:
    """Whether a call is what an SDK reports to its provider: never recorded, and not sent in a replay."""
    try:
        parts = urlsplit(url)
        return bool(re.search(TELEMETRY, parts.path)) and is_known_host(parts.netloc, hosts)
    except ValueError:
        return False


def is_model_socket(url: str, hosts: WatchedHosts = NO_HOSTS) -> bool:
    """Whether a WebSocket is watched."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return is_known_host(parts.netloc, hosts) or re.search(MODEL_SOCKETS, parts.path) is not None


def is_known_host(netloc: str, hosts: WatchedHosts = NO_HOSTS) -> bool:
    """Whether a provider, or a server that the project named, answers there."""
    host = netloc.rpartition("@")[2].lower()
    name = host.partition(":")[0]
    return name in HOSTS or name.endswith(HOST_ENDINGS) or _matches((name,), HOST_PATTERNS) or hosts.has(netloc)
