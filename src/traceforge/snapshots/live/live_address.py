"""The URL to which a live check sends an approved request, and the header with the API key.

In: a recorded request, the command line, the configuration and the environment. Out: a URL, and the key's header.
Never: stores or prints a key, sends one unencrypted to another machine, guesses the address of a provider, or lets a
recorded path change it: a snapshot may come from anywhere.

A base URL comes from `--target`, else from the variable that SDKs read (`OPENAI_BASE_URL`), else from `upstreams` in
the configuration, else it is the provider's own. Its path replaces what SDKs put in front of an endpoint:
`http://127.0.0.1:8000/v1` and a request for `/openai/v1/chat/completions` give `/v1/chat/completions`. A base URL
without a path leaves the recorded path as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit

from traceforge.addresses import keeps_keys_private
from traceforge.capture.proxy.upstream_routes import names_parent
from traceforge.capture.run.credentials import upstream_key_variable
from traceforge.config import DEFAULT_UPSTREAMS
from traceforge.wire.dialect_declaration import KeyHeader
from traceforge.wire.dialects import find_declaration
from traceforge.wire.endpoints import Dialect, Endpoint

ANTHROPIC_VERSION = "2023-06-01"  # Every request must name one; SDKs send this.

_MODEL = re.compile(r"(?<=/models/)[^/]+(?=:)|(?<=/deployments/)[^/]+(?=/)")
_DEPLOYMENT = re.compile(r"/deployments/[^/]+/")
_PUBLISHER = re.compile(r"/publishers/[^/]+/models/")  # of Vertex
_AZURE = KeyHeader(("AZURE_OPENAI_API_KEY",), "api-key")
_VERTEX = KeyHeader(("VERTEX_API_KEY",), "authorization", "Bearer ")  # An access token: it is short-lived.
_NO_KEY = KeyHeader((), "authorization", "Bearer ")
_OPENAI_HEADERS = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}


class ProviderAddresses:
    """The base URLs of providers."""

    def __init__(self, upstreams: Mapping[str, str]) -> None:
        self._base_urls = upstreams

    def resolve_provider(self, provider: str, path: str) -> str:
        """The provider whose address a request goes to, and whose key it gets.

        A deployment of Azure is not at OpenAI's address, and a publisher's model of Vertex not at the publisher's.
        """
        if self._base_urls.get(provider, "") in ("", DEFAULT_UPSTREAMS.get(provider)):
            if _DEPLOYMENT.search(path):
                return "azure"
            if _PUBLISHER.search(path):
                return "vertex"
        return provider

    def find(self, provider: str, path: str) -> str:
        """The base URL for a request; "" if unknown."""
        return self._base_urls.get(self.resolve_provider(provider, path), "").rstrip("/")


def is_plain_path(path: str) -> bool:
    """Whether a path can follow an address, and servers and proxies read it alike. One that begins with `@` or `.`
    would make another host of the address, which would then get the key.
    """
    decoded = unquote(path)
    if not path.startswith("/") or " " in path or not decoded.isascii() or not decoded.isprintable():
        return False
    return "\\" not in decoded and "." not in decoded.split("/") and not names_parent(path)


def join_url(base: str, path: str, query: str, dialect: str | None) -> str:
    """The URL of a recorded path at a base URL."""
    parts = urlsplit(base)
    inner = parts.path.rstrip("/")
    if inner and not path.startswith(f"{inner}/"):
        # What follows a base URL is a convention of SDKs: OpenAI's base URL has the version, others have not.
        suffix = find_declaration(dialect).base_path if dialect is not None else ""
        endpoint = re.search(suffix, path) if suffix else None
        path = inner + (endpoint[0] if endpoint else path)
    return f"{parts.scheme}://{parts.netloc}{path}{'?' if query else ''}{query}"


def replace_model(path: str, model: str) -> str:
    """The path with another model, if the path names one."""
    return _MODEL.sub(lambda _: quote(model, safe=""), path)


def find_key_header(provider: str, endpoint: Endpoint, path: str) -> KeyHeader:
    """The variables that hold a provider's key, and its header. A provider of your own reads `NAME_API_KEY`."""
    assert endpoint.dialect is not None
    default = find_declaration(endpoint.dialect).api_key or _NO_KEY
    if provider == "azure" or _DEPLOYMENT.search(path):
        if provider in ("azure", endpoint.dialect):
            return _AZURE
        default = _AZURE
    if _PUBLISHER.search(path) and provider in ("vertex", endpoint.dialect):
        return _VERTEX
    if provider == endpoint.dialect:
        return default
    return default._replace(variables=(upstream_key_variable(provider),))


def find_key(key_header: KeyHeader, environ: Mapping[str, str]) -> str:
    """The API key from the environment; "" if none is set, or a header cannot hold it."""
    key = next((value for name in key_header.variables if (value := environ.get(name, "").strip())), "")
    return key if key.isascii() and key.isprintable() else ""


def make_key_headers(key_header: KeyHeader, url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers with the API key; none if they would cross a network unencrypted."""
    key = find_key(key_header, environ)
    if not key or not keeps_keys_private(url):
        return {}
    headers = {key_header.header: f"{key_header.prefix}{key}"}
    if key_header == find_declaration(Dialect.OPENAI).api_key:
        headers |= {header: environ[name] for name, header in _OPENAI_HEADERS.items() if environ.get(name)}
    return headers


def needs_key(provider: str, url: str) -> bool:
    """Whether the address requires an API key: official ones do, a server of your own may not."""
    default = DEFAULT_UPSTREAMS.get(provider, "")
    return provider != "ollama" and bool(default) and url.startswith(f"{default}/")
