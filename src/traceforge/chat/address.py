"""Where the model is.

In: what the operator named: a provider, or a URL. Out: the address that takes `{model, messages}`, how it is read,
and the header with the key. Never: sends a key to an address that it does not belong to, or in the clear to another
machine, or prints one.

The body of a request is exactly `{model, messages}`. OpenAI's chat completions and Ollama's chat take it as it is;
Anthropic and Gemini take it at the address that speaks as OpenAI's does. Their own endpoints do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from traceforge.config import upstream_problem
from traceforge.snapshots.live.address import Secret, find_key, is_private
from traceforge.wire.registry import Dialect, Endpoint, Kind, find_endpoint

# By name: the address, and the variables of which the first that is set holds the key.
PROVIDERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "openai": ("https://api.openai.com/v1/chat/completions", ("OPENAI_API_KEY",)),
    "anthropic": ("https://api.anthropic.com/v1/chat/completions", ("ANTHROPIC_API_KEY",)),
    "gemini": (
        "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ),
    "ollama": ("http://127.0.0.1:11434/api/chat", ()),
}


class BadAddress(ValueError):
    """An address that cannot be used; the message says why and repeats no secret."""


class Address(NamedTuple):
    """Where a request goes."""

    tls: bool
    host: str
    port: int
    authority: str
    path: str
    endpoint: Endpoint
    key: str  # what stands in `Authorization`, or ""

    @property
    def developer_role(self) -> str:
        """Ollama's models know no developer."""
        return "system" if self.endpoint.dialect is Dialect.OLLAMA else "developer"


def find_address(named: str, environ: Mapping[str, str], key_from: str = "") -> Address:
    """The address that a name or a URL stands for; `key_from` is the variable that holds the key.

    Raises:
        BadAddress: it is neither, or does not take such a request, or its key is missing or would be seen.
    """
    url, variables = PROVIDERS.get(named, (named, ()))
    problem = upstream_problem("chat", url)
    if problem:
        known = ", ".join(PROVIDERS)
        raise BadAddress(problem if "://" in url else f"it is a URL, or one of {known}")
    parts = urlsplit(url)
    path = _endpoint_path(parts.path)
    endpoint = find_endpoint("POST", path)
    if endpoint.kind is not Kind.CHAT:
        raise BadAddress(
            "this endpoint takes another request; name the one that ends with /chat/completions or /api/chat"
        )
    if not variables and not key_from:
        variables = next((names for known, names in PROVIDERS.values() if parts.netloc == urlsplit(known).netloc), ())
    key = _find_key((key_from,) if key_from else variables, url, environ)
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    return Address(tls, parts.hostname or "", port, parts.netloc.lower(), path, endpoint, key)


def _endpoint_path(path: str) -> str:
    """A base URL is completed as the SDKs do: `/v1` and `/chat/completions`."""
    path = path.rstrip("/")
    if find_endpoint("POST", path).kind is not Kind.OTHER:
        return path
    return f"{path or '/v1'}/chat/completions"


def _find_key(variables: tuple[str, ...], url: str, environ: Mapping[str, str]) -> str:
    if not variables:
        return ""
    key = find_key(Secret(variables, "authorization"), environ)
    if not key:
        raise BadAddress(f"there is no key: set {' or '.join(variables)}")
    if not is_private(url):
        raise BadAddress("a key would cross the network in the clear: use https")
    return f"Bearer {key}"
