"""Where the model is, and what is spoken there.

In: what the operator named: a provider, or a URL. Out: the provider whose words are used, the address, and the key.
Never: sends a key to an address that it does not belong to, or in the clear to another machine, or prints one.

What is spoken at a URL is known by its path (`/chat/completions`, `/messages`, `/api/chat`), else by what the
operator says, else by its host, else it is taken for one of the many servers that speak as OpenAI does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from traceforge.config import upstream_problem
from traceforge.modelio.provider_adapters import ADAPTERS
from traceforge.snapshots.live.live_address import KeyHeader, find_key, is_confidential
from traceforge.wire.endpoints import Dialect, EndpointKind, find_endpoint

# By name: the address, and the variables of which the first that is set holds the key.
PROVIDERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "openai": ("https://api.openai.com/v1/chat/completions", ("OPENAI_API_KEY",)),
    "anthropic": ("https://api.anthropic.com/v1/messages", ("ANTHROPIC_API_KEY",)),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "ollama": ("http://127.0.0.1:11434/api/chat", ()),
}
_BY_HOST = {urlsplit(url).netloc: name for name, (url, variables) in PROVIDERS.items() if variables}
_COMPATIBLE = "/openai"  # What ends with it, at whichever provider, speaks as OpenAI does.


class BadAddress(ValueError):
    """An address that cannot be used; the message says why and repeats no secret."""


class Address(NamedTuple):
    """Where a request goes."""

    provider: str  # whose words are used there
    url: str  # the endpoint; Gemini's, which names the model, is made of its base
    key: str  # or ""

    @property
    def path(self) -> str:
        """The part of the address behind the host."""
        return urlsplit(self.url).path

    @property
    def host(self) -> str:
        """The machine."""
        return urlsplit(self.url).hostname or ""

    @property
    def developer_role(self) -> str:
        """OpenAI has a role for developers; elsewhere they speak as the system."""
        return "developer" if self.provider == Dialect.OPENAI else "system"


def find_address(named: str, environ: Mapping[str, str], key_from: str = "", provider: str = "") -> Address:
    """The address that a name or a URL stands for.

    `key_from` is the variable that holds the key, `provider` says what is spoken at a URL that does not.

    Raises:
        BadAddress: it is neither, or does not take such a request, or its key is missing or would be seen.
    """
    url, variables = PROVIDERS.get(named, (named, ()))
    problem = upstream_problem("chat", url)
    if problem:
        known = ", ".join(PROVIDERS)
        raise BadAddress(problem if "://" in url else f"it is a URL, or one of {known}")
    if named in PROVIDERS:
        _agree(named, provider, "it is the name of another provider")
        provider = named
    parts = urlsplit(url)
    if not variables and not key_from:
        variables = PROVIDERS[_BY_HOST[parts.netloc]][1] if parts.netloc in _BY_HOST else ()
    spoken, path = _spoken(parts, provider)
    key = _find_key((key_from,) if key_from else variables, url, environ)
    return Address(spoken, f"{parts.scheme}://{parts.netloc.lower()}{path}", key)


def _spoken(parts: SplitResult, provider: str) -> tuple[str, str]:
    """Whose words are used, and at which path; a base URL is completed as the SDKs of that provider do."""
    path = parts.path.rstrip("/")
    found = find_endpoint("POST", path)
    if found.dialect is not None:
        spoken = found.dialect.value
        if found.kind is EndpointKind.GENERATE or found.kind is not ADAPTERS[spoken].kind:
            raise BadAddress(
                "this endpoint takes another request; name a base URL, or an endpoint that ends with "
                "/chat/completions, /messages or /api/chat"
            )
        _agree(spoken, provider, f"what is spoken at this endpoint is known: {spoken}")
        return spoken, path
    host = "openai" if path.endswith(_COMPATIBLE) else _BY_HOST.get(parts.netloc, "openai")
    spoken = provider or host
    if spoken == "openai":
        return spoken, f"{path or '/v1'}/chat/completions"
    if spoken == "anthropic":
        return spoken, f"{path.removesuffix('/v1')}/v1/messages"
    if spoken == "ollama":
        return spoken, f"{path.removesuffix('/api')}/api/chat"
    return spoken, path


def _agree(spoken: str, provider: str, why: str) -> None:
    if provider and provider != spoken:
        raise BadAddress(f"--provider {provider} does not fit: {why}")


def _find_key(variables: tuple[str, ...], url: str, environ: Mapping[str, str]) -> str:
    if not variables:
        return ""
    key = find_key(KeyHeader(variables, "authorization"), environ)
    if not key:
        raise BadAddress(f"there is no key: set {' or '.join(variables)}")
    if not is_confidential(url):
        raise BadAddress("a key would cross the network in the clear: use https")
    return key
