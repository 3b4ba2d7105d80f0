"""Which API dialect an address belongs to.

In: a method and a URL. Out: the endpoint, with its dialect and kind. Never: looks at the host: the path decides,
because many servers are compatible with the same API.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

PATHS_REMEMBERED = 256  # A project has a handful.


class Dialect(StrEnum):
    """An API that `wire` understands."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    OLLAMA = "ollama"


class EndpointKind(StrEnum):
    """The purpose of an endpoint, such as a chat or an embedding."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"
    EMBEDDINGS = "embeddings"
    OTHER = "other"


class Endpoint(NamedTuple):
    """An address that was understood, or `OTHER`: kept raw and counted."""

    dialect: Dialect | None
    kind: EndpointKind
    model: str = ""  # where the address names it

    @property
    def is_generative(self) -> bool:
        """Whether a model generates an answer at this endpoint."""
        return self.kind not in (EndpointKind.OTHER, EndpointKind.EMBEDDINGS)


# The most common first: a pattern is compiled when it is first tried.
_RULES: tuple[tuple[str, Dialect, EndpointKind], ...] = (
    (r"(?:/deployments/(?P<model>[^/]+))?/chat/completions/?\Z", Dialect.OPENAI, EndpointKind.CHAT),
    (r"/messages/?\Z", Dialect.ANTHROPIC, EndpointKind.MESSAGES),
    (r"/responses/?\Z", Dialect.OPENAI, EndpointKind.RESPONSES),
    (r"/api/chat/?\Z", Dialect.OLLAMA, EndpointKind.CHAT),
    (r"/api/generate/?\Z", Dialect.OLLAMA, EndpointKind.GENERATE),
    (r"/api/embed(?:dings)?/?\Z", Dialect.OLLAMA, EndpointKind.EMBEDDINGS),
    (r"/models/(?P<model>[^/]+):(?:stream)?[gG]enerateContent\Z", Dialect.GEMINI, EndpointKind.GENERATE),
    (r"/models/(?P<model>[^/]+):(?:batchE|asyncBatchE|e)mbedContents?\Z", Dialect.GEMINI, EndpointKind.EMBEDDINGS),
    (r"(?:/deployments/(?P<model>[^/]+))?/completions/?\Z", Dialect.OPENAI, EndpointKind.COMPLETIONS),
    (r"(?:/deployments/(?P<model>[^/]+))?/embeddings/?\Z", Dialect.OPENAI, EndpointKind.EMBEDDINGS),
    (r"/v1/complete/?\Z", Dialect.ANTHROPIC, EndpointKind.COMPLETIONS),
)
_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?=//))?(?://[^/?#]*)?([^?#]*)(?:\?([^#]*))?")
_IGNORED = dict.fromkeys(map(ord, "\t\r\n"))  # As every client and the standard library ignore them in an address.
_THREADS = r"/threads/[^/]+/messages/?\Z"  # OpenAI's assistants: not Anthropic's messages


def find_endpoint(method: str, url: str) -> Endpoint:
    """The endpoint of a URL. An unknown address, and every method except POST, is `OTHER`."""
    return _find(split_url(url)[0]) if method.upper() == "POST" else _OTHER


@lru_cache(PATHS_REMEMBERED)
def _find(path: str) -> Endpoint:
    path = unquote(path)
    if not re.search(_THREADS, path):
        for pattern, dialect, kind in _RULES:
            match = re.search(pattern, path)
            if match:
                return Endpoint(dialect, kind, match.groupdict().get("model") or "")
    return _OTHER


_OTHER = Endpoint(None, EndpointKind.OTHER)


def split_url(url: str) -> tuple[str, str]:
    """The path and the query of a URL; also of one whose user was redacted, which the standard library refuses."""
    match = _URL.match(url.translate(_IGNORED))
    return (match[1], match[2] or "") if match else ("", "")
