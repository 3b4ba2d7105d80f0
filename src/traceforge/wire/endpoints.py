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


# The parts of a path that an endpoint may follow. A name such as `responses` alone says little: it must follow
# nothing, a version, a word that providers and gateways use, or a single part, which is the base of a gateway. So a
# path that merely ends like a provider's (`/surveys/1/responses`, `/channels/1/messages`) is not taken for one.
_VERSION = r"/v[0-9]+[a-z0-9]*"
_API_WORDS = r"/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm)"
_BASE = rf"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|{_VERSION}|{_API_WORDS})"
_DEPLOYMENT = r"/deployments/(?P<model>[^/]+)"

# The most common first: a pattern is compiled when it is first tried. What is before `endpoint` is the prefix.
_RULES: tuple[tuple[str, Dialect, EndpointKind], ...] = (
    (rf"(?P<endpoint>(?:{_DEPLOYMENT})?/chat/completions/?)\Z", Dialect.OPENAI, EndpointKind.CHAT),
    (rf"{_BASE}(?P<endpoint>/messages/?)\Z", Dialect.ANTHROPIC, EndpointKind.MESSAGES),
    (rf"{_BASE}(?P<endpoint>/responses/?)\Z", Dialect.OPENAI, EndpointKind.RESPONSES),
    (rf"{_BASE}(?P<endpoint>/api/chat/?)\Z", Dialect.OLLAMA, EndpointKind.CHAT),
    (rf"{_BASE}(?P<endpoint>/api/generate/?)\Z", Dialect.OLLAMA, EndpointKind.GENERATE),
    (rf"{_BASE}(?P<endpoint>/api/embed(?:dings)?/?)\Z", Dialect.OLLAMA, EndpointKind.EMBEDDINGS),
    (
        r"(?P<endpoint>/models/(?P<model>[^/]+):(?:stream)?[gG]enerateContent)\Z",
        Dialect.GEMINI,
        EndpointKind.GENERATE,
    ),
    (
        r"(?P<endpoint>/models/(?P<model>[^/]+):(?:batchE|asyncBatchE|e)mbedContents?)\Z",
        Dialect.GEMINI,
        EndpointKind.EMBEDDINGS,
    ),
    (rf"(?P<endpoint>{_DEPLOYMENT}/completions/?)\Z", Dialect.OPENAI, EndpointKind.COMPLETIONS),
    (rf"{_BASE}(?P<endpoint>/completions/?)\Z", Dialect.OPENAI, EndpointKind.COMPLETIONS),
    (rf"(?P<endpoint>{_DEPLOYMENT}/embeddings/?)\Z", Dialect.OPENAI, EndpointKind.EMBEDDINGS),
    (rf"{_BASE}(?P<endpoint>/embeddings/?)\Z", Dialect.OPENAI, EndpointKind.EMBEDDINGS),
    (r"(?P<endpoint>/v1/complete/?)\Z", Dialect.ANTHROPIC, EndpointKind.COMPLETIONS),
)
_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?=//))?(?://[^/?#]*)?([^?#]*)(?:\?([^#]*))?")
_IGNORED = dict.fromkeys(map(ord, "\t\r\n"))  # As every client and the standard library ignore them in an address.
_THREADS = r"/threads/[^/]+/messages/?\Z"  # OpenAI's assistants: not Anthropic's messages


def find_endpoint(method: str, url: str) -> Endpoint:
    """The endpoint of a URL. An unknown address, and every method except POST, is `OTHER`."""
    return _find(split_url(url)[0])[0] if method.upper() == "POST" else _OTHER


def find_prefix(path: str) -> str:
    """The part of a path before its endpoint, such as `/v1`; "" where the endpoint is unknown."""
    return _find(path)[1]


@lru_cache(PATHS_REMEMBERED)
def _find(path: str) -> tuple[Endpoint, str]:
    path = unquote(path)
    if not re.search(_THREADS, path):
        for pattern, dialect, kind in _RULES:
            match = re.search(pattern, path)
            if match:
                endpoint = Endpoint(dialect, kind, match.groupdict().get("model") or "")
                return endpoint, path[: match.start("endpoint")]
    return _OTHER, ""


_OTHER = Endpoint(None, EndpointKind.OTHER)


def split_url(url: str) -> tuple[str, str]:
    """The path and the query of a URL; also of one whose user was redacted, which the standard library refuses."""
    match = _URL.match(url.translate(_IGNORED))
    return (match[1], match[2] or "") if match else ("", "")
