"""Where a request goes, as its key names it: the logical upstream.

In: a URL, the path before its endpoint, and the upstreams that a project declares. Out: one name, equal on every
machine that sends the request to the same place. Never: opens a connection, looks a name up, or knows an account.

In this order:

    corp/v1             an upstream that the project declares; with `same_as`, the one that it is equal to
    azure, vertex/eu    a provider, at its official hosts over HTTPS: with its location, without account, project and
                        resource
    local/v1            loopback, a private address or a host of a single label, on any port
    mcp/files           a tool server that the application starts, by the name of its program
    tool/book_table     a function of the application that a model calls
    llm.example.com/v1  any other host

The path before the endpoint counts, except at a provider. If the `Host` header names another upstream than the URL,
both count: `local/v1 as openai`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from urllib.parse import unquote

from msgspec import Struct

from traceforge.wire.endpoints import find_prefix
from traceforge.wire.operation_names import TOOL_SCHEMES

LOCAL = "local"
UNKNOWN_UPSTREAM = "?"  # No upstream can have this name.
HOST_MARK = " as "  # between the upstream of a URL and that of a `Host` header which names another one
UPSTREAM_PLACE = "the upstream"  # as a difference between two requests is called
DEFAULT_PORTS = {"http": "80", "https": "443"}

# Official hosts. `location` counts; what stands for an account or a resource is in no group.
_OFFICIAL_HOSTS = (
    (r"(?:(?P<location>[a-z0-9-]+)\.)?api\.openai\.com", "openai"),
    (r"api\.anthropic\.com", "anthropic"),
    (r"generativelanguage\.googleapis\.com", "gemini"),
    (r"(?:(?P<location>[a-z0-9-]+)-)?aiplatform\.googleapis\.com", "vertex"),
    (r"aiplatform\.(?P<location>[a-z0-9-]+)\.rep\.googleapis\.com", "vertex"),
    (r"[a-z0-9-]+\.(?:openai|services\.ai|cognitiveservices)\.azure\.(?:com|(?P<location>us|cn))", "azure"),
    (r"(?P<location>[a-z0-9-]+)\.api\.cognitive\.microsoft\.com", "azure"),
    (r"(?P<location>[a-z0-9.-]+)\.(?:models|inference)\.ai\.azure\.com", "azure"),  # the name of a deployment
    (
        r"(?:[a-z0-9-]+\.)?bedrock(?:-agent)?-(?:runtime|mantle)(?:-fips)?\.(?P<location>[a-z0-9-]+)"
        r"\.(?:(?:vpce\.)?amazonaws\.com(?:\.cn)?|api\.aws)",
        "bedrock",
    ),
    (r"api\.cohere\.(?:com|ai)", "cohere"),
    (r"api\.deepseek\.com", "deepseek"),
    (r"api\.fireworks\.ai", "fireworks"),
    (r"api\.groq\.com", "groq"),
    (r"api\.(?:(?P<location>eu|us)\.)?mistral\.ai", "mistral"),
    (r"(?:api|stream)\.replicate\.com", "replicate"),
    (r"api(?:-inference)?\.together\.(?:xyz|ai)", "together"),
    (r"(?:(?P<location>[a-z0-9-]+)\.)?api\.x\.ai", "xai"),
    (r"ollama\.com", "ollama"),
    (r"(?:(?P<location>[a-z0-9-]+)\.)?openrouter\.ai", "openrouter"),
)
PROVIDERS = frozenset(provider for _, provider in _OFFICIAL_HOSTS)

_PROVIDER_URLS = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}

_AUTHORITY = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?//([^/?#]*)")
_CLEARTEXT = re.compile(r"(?i)(?:http|ws)://")
_LOCATION = re.compile(r"/locations/([^/:]+)")
_DEPLOYMENT = re.compile(r"/(?:deployments|endpoints|applications|agents|models)/(.+)")
_PUBLISHER = re.compile(r"/publishers/([^/]+)/")  # whose model it is: two may have models of one name
_PROJECT = re.compile(r"(?<=/projects/)[^/]+")
_ACCOUNT = re.compile(r"(?<=:)(?:[0-9]{12}|\[REDACTED\])(?=:)")  # in the name of a resource of AWS

_AMBIGUOUS_LETTERS = frozenset("\u00df\u03c2\u200c\u200d")  # which IDNA 2003 changes and IDNA 2008 does not

# Of the machine itself, as containers call it.
_LOCAL_NAMES = frozenset({"host.docker.internal", "host.containers.internal", "localhost.localdomain"})
# Not `is_private` of the standard library: which networks it means depends on the version of Python.
_LOCAL_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/32", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "::/128", "::1/128", "fc00::/7", "fe80::/10",
    )
)  # fmt: skip


class DeclaredUpstream(Struct, frozen=True):
    """An upstream of the configuration."""

    name: str
    url: str
    same_as: str = ""  # the logical upstream that it is equal to


class _DeclaredAddress(Struct, frozen=True):
    place: str  # the host, a port that is not the default one, and the path without a slash at its end
    name: str


class UpstreamNames:
    """Names logical upstreams. Pure: the same names for the same declarations."""

    def __init__(self, upstreams: Sequence[DeclaredUpstream] = ()) -> None:
        self._same_as = {upstream.name: upstream.same_as for upstream in upstreams if upstream.same_as}
        addresses = [
            _DeclaredAddress(_split_authority(upstream.url)[0] + _url_path(upstream.url).rstrip("/"), upstream.name)
            for upstream in upstreams
        ]
        self._addresses = sorted(addresses, key=lambda address: -len(address.place))  # the most exact one first

    def name_upstream(self, url: str, path: str, prefix: str, *, is_header: bool = False) -> str:
        """The logical upstream of a URL; `path` is its path, and `prefix` the part of it before the endpoint.

        `is_header`: the host is that of a `Host` header, which says nothing about the connection. A URL without HTTPS
        does not prove that a provider answers, even if it names the provider's host.
        """
        place, host, has_default_port = _split_authority(url)
        if not host:
            return UNKNOWN_UPSTREAM
        if url.startswith(TOOL_SCHEMES):
            return f"{url.partition(':')[0]}/{host}"
        for address in self._addresses:
            suffix = (place + path).removeprefix(address.place)
            if suffix != place + path and suffix[:1] in ("", "/"):
                is_in_prefix = (place + prefix).startswith(address.place)
                return self._join(address.name, (place + prefix)[len(address.place) :] if is_in_prefix else "")
        is_secure = is_header or not _CLEARTEXT.match(url)
        provider = _find_provider(host, path) if has_default_port and is_secure else ""
        if provider:
            return provider
        return (LOCAL if is_local_host(host) else place) + prefix

    def resolve_stored(self, upstream: str) -> str:
        """The present name of a stored upstream: a host may have been declared since, or be the same as another."""
        for address in self._addresses:
            suffix = upstream.removeprefix(address.place)
            if suffix != upstream and suffix[:1] in ("", "/"):
                return self._join(address.name, suffix)
        name, slash, prefix = upstream.partition("/")
        return self._join(name, slash + prefix) if name in self._same_as else upstream

    def _join(self, name: str, prefix: str) -> str:
        visited: set[str] = set()
        while name in self._same_as and name not in visited:
            visited.add(name)
            name = self._same_as[name]
        return name if is_provider(name) else name + prefix


def replace_authority(url: str, authority: str) -> str:
    """The URL with another host and port."""
    match = _AUTHORITY.match(url)
    return url if match is None else url[: match.start(2)] + authority + url[match.end(2) :]


def is_same_host(url: str, other: str) -> bool:
    """Whether two URLs of one scheme have the same host and port."""
    return _split_authority(url)[0] == _split_authority(other)[0]


def find_base_url(url: str) -> str:
    """A URL up to its endpoint, without a user; "" where it has no host."""
    match = _AUTHORITY.match(url)
    if match is None or not match[2]:
        return ""
    path = _url_path(url)
    return f"{match[1] or 'https'}://{match[2].rpartition('@')[2]}{find_prefix(path)}"


def same_as_setting(recorded: str, live: str, base_url: str) -> str:
    """The line of the configuration that makes a live upstream, at `base_url`, count as the recorded one.

    A server on this machine has another port each time. So where the request goes there, the line is about the
    recorded upstream.
    """
    url, same_as = base_url, recorded
    if live.partition("/")[0] == LOCAL and not recorded.startswith(f"{LOCAL}/"):
        recorded_url = _PROVIDER_URLS.get(
            recorded, f"https://{recorded}" if "." in recorded.partition("/")[0] else ""
        )
        url, same_as = (recorded_url, live) if recorded_url else (url, same_as)
    host = _split_authority(url)[1]
    name = re.sub(r"[^a-z0-9]+", "-", host.removeprefix("api.")).strip("-") or "gateway"
    return f'"upstreams": {{"{name}": {{"url": "{url}", "same_as": "{same_as}"}}}}'


def is_tool(upstream: str) -> bool:
    """Whether a logical upstream is a tool server, or a function that a model calls."""
    return upstream.startswith(("mcp/", "tool/"))


def is_provider(upstream: str) -> bool:
    """Whether a logical upstream is a provider, so that no path before the endpoint counts."""
    return upstream.partition("/")[0] in PROVIDERS


def hide_account(upstream: str, path: str) -> str:
    """A path without the account and the project that a provider has in it."""
    provider = upstream.partition("/")[0]
    if provider in ("vertex", "azure"):
        return _PROJECT.sub("*", path)
    if provider == "bedrock":
        return _ACCOUNT.sub("*", unquote(path))
    return path


def find_deployment(upstream: str, path: str) -> str:
    """What a provider has in the path before a known endpoint and answers with: a deployment, or a model of its own.

    The rest of that path does not count at a provider.
    """
    match = _DEPLOYMENT.search(find_prefix(path)) if is_provider(upstream) else None
    return match[1] if match and match[1] != "openapi" else ""  # `openapi` is Vertex's own, for all of its models


def is_local_host(host: str) -> bool:
    """Whether a host is this machine, or on a private network: its address says so, or its single label."""
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(_read_numeric_host(host))
    except ValueError:
        return "." not in host and ":" not in host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in _LOCAL_NETWORKS if network.version == address.version)


def _read_numeric_host(host: str) -> str:
    """An address in the usual notation. `127.1` and `2130706433` are addresses too: a client can connect to them."""
    if re.fullmatch(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}", host):
        try:
            return socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            return host
    return host.partition("%")[0]  # without the zone of an IPv6 address


def _split_authority(url: str) -> tuple[str, str, bool]:
    """The host with a port that is not the default one, the host alone, and whether the port is a default one."""
    match = _AUTHORITY.match(url)
    if match is None:
        return "", "", False
    scheme, authority = (match[1] or "https").lower(), match[2].rpartition("@")[2].lower()
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    host = _ascii_host(host.rstrip("."))
    is_default = port in ("", DEFAULT_PORTS.get(scheme, ""))
    url_host = f"[{host}]" if ":" in host else host
    return (url_host if is_default else f"{url_host}:{port}"), host, is_default


def _ascii_host(host: str) -> str:
    """A host as it is looked up: other alphabets, and other dots, have a spelling in ASCII.

    A host with a letter of which clients differ in the spelling (`ß` or `ss`) counts as it is written.
    """
    if host.isascii() or not _AMBIGUOUS_LETTERS.isdisjoint(host):
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def _url_path(url: str) -> str:
    match = _AUTHORITY.match(url)
    return re.split(r"[?#]", url[match.end() :] if match else url, maxsplit=1)[0]


def _find_provider(host: str, path: str) -> str:
    for pattern, provider in _OFFICIAL_HOSTS:
        match = re.fullmatch(pattern, host)
        if match is None:
            continue
        location = match.groupdict().get("location") or ""
        if provider == "vertex":
            in_path = _LOCATION.search(path)
            locations = dict.fromkeys(filter(None, (location, in_path[1] if in_path else "")))
            publisher = _PUBLISHER.search(path)
            location = "+".join(locations) or "global"
            if publisher and publisher[1] != "google":
                location += f"/{publisher[1]}"
        return f"{provider}/{location}" if location else provider
    return ""
