"""The address of the chat's model: provider, URL and API key.

In: a provider's name or a URL. Out: the provider whose API is used, the URL of its endpoint, and the key. Never:
sends a key to an address that it does not belong to, or unencrypted to another machine; never prints one.

The API at a URL is known by its path (`/chat/completions`, `/messages`, `/api/chat`), otherwise by `--provider`,
otherwise by its host; any other server is taken for one of the many with OpenAI's API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from traceforge.addresses import keeps_keys_private, upstream_problem
from traceforge.modelio.provider_adapters import ADAPTERS
from traceforge.snapshots.live.live_address import find_key
from traceforge.wire.dialect_declaration import KeyHeader
from traceforge.wire.endpoints import Dialect, EndpointKind, find_endpoint

# By name: the URL, and the environment variables for the key, of which the first that is set counts.
PROVIDERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "openai": ("https://api.openai.com/v1/chat/completions", ("OPENAI_API_KEY",)),
    "anthropic": ("https://api.anthropic.com/v1/messages", ("ANTHROPIC_API_KEY",)),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    "ollama": ("http://127.0.0.1:11434/api/chat", ()),
}
_PROVIDER_BY_HOST = {urlsplit(url).netloc: name for name, (url, variables) in PROVIDERS.items() if variables}
_OPENAI_COMPATIBLE = "/openai"  # A path with this end has OpenAI's API, at any provider.


class InvalidModelAddress(ValueError):
    """An address that cannot be used; the message says why and repeats no secret."""


class ModelAddress(NamedTuple):
    """Where the chat's requests go."""

    provider: str  # Whose API it is.
    url: str  # The endpoint; for Gemini, whose endpoint names the model, its base URL.
    key: str  # Or "".

    @property
    def path(self) -> str:
        """The path of the URL."""
        return urlsplit(self.url).path

    @property
    def host(self) -> str:
        """The host of the URL."""
        return urlsplit(self.url).hostname or ""

    @property
    def developer_role(self) -> str:
        """The role of developer prompts: only OpenAI has one of its own."""
        return "developer" if self.provider == Dialect.OPENAI else "system"


def find_address(
    upstream: str, environ: Mapping[str, str], key_variable: str = "", provider: str = ""
) -> ModelAddress:
    """The address for a provider's name or a URL.

    `key_variable` is the environment variable of the key, `provider` the API at a URL whose path does not tell.

    Raises:
        InvalidModelAddress: it is neither a name nor a URL, or another endpoint, or its key is missing or not safe.
    """
    url, variables = PROVIDERS.get(upstream, (upstream, ()))
    problem = upstream_problem("chat", url)
    if problem:
        names = ", ".join(PROVIDERS)
        raise InvalidModelAddress(problem if "://" in url else f"it must be a URL, or one of {names}")
    if upstream in PROVIDERS:
        _check_provider(provider, upstream, "--upstream names another provider")
        provider = upstream
    parts = urlsplit(url)
    if key_variable:
        variables = (key_variable,)
    elif not variables and parts.netloc in _PROVIDER_BY_HOST:
        variables = PROVIDERS[_PROVIDER_BY_HOST[parts.netloc]][1]
    provider, path = _find_endpoint(parts, provider)
    key = _find_key(variables, url, environ)
    return ModelAddress(provider, f"{parts.scheme}://{parts.netloc.lower()}{path}", key)


def _find_endpoint(parts: SplitResult, provider: str) -> tuple[str, str]:
    """The provider and the path of the endpoint; a base URL is completed as the provider's SDKs do."""
    path = parts.path.rstrip("/")
    endpoint = find_endpoint("POST", path)
    if endpoint.dialect is not None:
        dialect = str(endpoint.dialect)
        has_adapter = dialect in ADAPTERS and endpoint.kind is ADAPTERS[dialect].kind
        if endpoint.kind is EndpointKind.GENERATE or not has_adapter:
            raise InvalidModelAddress(
                "the chat cannot use this endpoint; give a base URL, or an endpoint that ends with "
                "/chat/completions, /messages or /api/chat"
            )
        _check_provider(provider, dialect, f"this endpoint is {dialect}'s")
        return dialect, path
    if not provider:
        is_compatible = path.endswith(_OPENAI_COMPATIBLE)
        provider = "openai" if is_compatible else _PROVIDER_BY_HOST.get(parts.netloc, "openai")
    if provider == "openai":
        return provider, f"{path or '/v1'}/chat/completions"
    if provider == "anthropic":
        return provider, f"{path.removesuffix('/v1')}/v1/messages"
    if provider == "ollama":
        return provider, f"{path.removesuffix('/api')}/api/chat"
    return provider, path


def _check_provider(chosen: str, actual: str, reason: str) -> None:
    if chosen and chosen != actual:
        raise InvalidModelAddress(f"--provider {chosen} does not fit: {reason}")


def _find_key(variables: tuple[str, ...], url: str, environ: Mapping[str, str]) -> str:
    if not variables:
        return ""
    key = find_key(KeyHeader(variables, "authorization"), environ)
    if not key:
        raise InvalidModelAddress(f"the API key is missing: set {' or '.join(variables)}")
    if not keeps_keys_private(url):
        raise InvalidModelAddress("the API key would cross the network unencrypted: use https")
    return key
