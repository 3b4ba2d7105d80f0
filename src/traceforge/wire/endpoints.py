"""Which API dialect an address belongs to.

In: a method and a URL. Out: the endpoint, with its dialect and kind. Never: looks at the host where the path says
enough, because many servers are compatible with the same API; imports a dialect that comes with TraceForge: what they
declare is in `dialect_index`, a table that `make docs` writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache, lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from traceforge.wire import dialect_index
from traceforge.wire.dialect_declaration import EndpointKind, EndpointPath
from traceforge.wire.dialect_plugins import load_plugins

__all__ = [
    "OTHER_ENDPOINT",
    "Dialect",
    "Endpoint",
    "EndpointKind",
    "PathRule",
    "find_endpoint",
    "find_host_dialect",
    "find_path_endpoint",
    "find_prefix",
    "make_rules",
    "split_url",
]

PATHS_REMEMBERED = 256  # A project has a handful.


class Dialect(StrEnum):
    """A dialect in which TraceForge can also ask a model. Others that it understands are known by name."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    OLLAMA = "ollama"


_NOT_GENERATING = frozenset(
    {
        EndpointKind.OTHER, EndpointKind.EMBEDDINGS, EndpointKind.RERANK, EndpointKind.SCORE,
        EndpointKind.CLASSIFICATION,
    }
)  # fmt: skip


class Endpoint(NamedTuple):
    """An address that was understood, or `OTHER`: kept raw and counted."""

    dialect: str | None  # a `Dialect`, or the name of another one
    kind: EndpointKind
    model: str = ""  # where the address names it

    @property
    def is_generative(self) -> bool:
        """Whether a model generates an answer at this endpoint."""
        return self.kind not in _NOT_GENERATING


class PathRule(Struct, frozen=True):
    """One row of `dialect_index.RULES`, or the same of a dialect that a package outside brings."""

    pattern: str  # searched in a path; what is before its group `endpoint` is the prefix
    dialect: str
    kind: str
    only_at_hosts: bool
    only_where_watched: bool = False


_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?=//))?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?")
_IGNORED = dict.fromkeys(map(ord, "\t\r\n"))  # As every client and the standard library ignore them in an address.


def find_endpoint(method: str, url: str) -> Endpoint:
    """The endpoint of a URL. An unknown address, and every method except POST, is `OTHER`."""
    if method.upper() != "POST":
        return OTHER_ENDPOINT
    match = _URL.match(url.translate(_IGNORED))
    return _find(match[2], _host_name(match[1] or ""))[0] if match else OTHER_ENDPOINT


def find_path_endpoint(method: str, path: str) -> Endpoint:
    """The endpoint of a path alone, as an approved call has it; `OTHER` where only the host tells what it means."""
    return _find(path, "")[0] if method.upper() == "POST" else OTHER_ENDPOINT


def find_prefix(path: str) -> str:
    """The part of a path before its endpoint, such as `/v1`; "" where the endpoint is of no `Dialect`.

    Request keys depend on it, and not on which other dialects are installed.
    """
    return _find(path, "?")[1]


def find_host_dialect(url: str) -> str | None:
    """The dialect of the provider that has this host, for an address of it that has no answer of a model."""
    match = _URL.match(url.translate(_IGNORED))
    host = _host_name(match[1] or "") if match else ""
    return next((dialect for dialect, hosts in dialect_index.HOSTS.items() if host in hosts), None)


def _host_name(authority: str) -> str:
    host = authority.rpartition("@")[2].lower()
    return host if host.endswith("]") else re.sub(r":[0-9]*\Z", "", host)


@lru_cache(PATHS_REMEMBERED)
def _find(path: str, host: str) -> tuple[Endpoint, str]:
    path = unquote(path)
    if any(re.search(pattern, path) for pattern in dialect_index.NOT_PATHS):
        return OTHER_ENDPOINT, ""
    for rule in _all_rules():
        match = re.search(rule.pattern, path)
        if match and _counts_at(rule, host):
            name = _BY_NAME.get(rule.dialect, rule.dialect)
            endpoint = Endpoint(name, EndpointKind(rule.kind), match.groupdict().get("model") or "")
            return endpoint, path[: match.start("endpoint")] if isinstance(name, Dialect) else ""
    return OTHER_ENDPOINT, ""


def _all_rules() -> Iterator[PathRule]:
    """Those of TraceForge first; those of other packages are loaded where none of them fits."""
    yield from _BUILT_IN
    yield from _plugin_rules()


def _counts_at(rule: PathRule, host: str) -> bool:
    """Whether a path means its dialect at this host; one that says little does not at that of another dialect."""
    if rule.only_at_hosts:
        return _is_at_host(rule.dialect, host)
    return not rule.only_where_watched or not any(
        host in hosts for dialect, hosts in dialect_index.HOSTS.items() if dialect != rule.dialect
    )


def _is_at_host(dialect: str, host: str) -> bool:
    plugin = load_plugins().by_name.get(dialect) if dialect not in dialect_index.HOSTS else None
    hosts: Iterable[str] = plugin.declaration.hosts if plugin is not None else dialect_index.HOSTS.get(dialect, ())
    return host in hosts


def make_rules(name: str, endpoints: Iterable[EndpointPath]) -> list[PathRule]:
    """The rules of a declaration; `tools/dialect_tables.py` writes the table with this function."""
    return [
        PathRule(
            rf"{path.after}(?P<endpoint>{path.path})\Z",
            name,
            path.kind.value,
            path.only_at_hosts,
            path.only_where_watched,
        )
        for path in endpoints
    ]


@cache
def _plugin_rules() -> tuple[PathRule, ...]:
    return tuple(
        rule
        for plugin in load_plugins().by_name.values()
        for rule in make_rules(plugin.declaration.name, plugin.declaration.endpoints)
    )


_BY_NAME = {dialect.value: dialect for dialect in Dialect}
_BUILT_IN = tuple(PathRule(*row) for row in dialect_index.RULES)
OTHER_ENDPOINT = Endpoint(None, EndpointKind.OTHER)


def split_url(url: str) -> tuple[str, str]:
    """The path and the query of a URL; also of one whose user was redacted, which the standard library refuses."""
    match = _URL.match(url.translate(_IGNORED))
    return (match[2], match[3] or "") if match else ("", "")
