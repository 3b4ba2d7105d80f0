"""Which calls are model calls?

In: a method and a URL, and hosts that a project named. Out: yes or no. Never: looks at a body, or at headers: a call
that is not a model's (a database, telemetry, a web page) is none of our business.

The paths are those that `traceforge.wire.endpoints` understands; a test keeps the two equal. The hosts are those of
providers, whose other calls (files, models, batches) belong to the story too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

# Compiled when the first address is looked at, which in most runs of a small program never comes.
_PATHS = (
    r"/api/(?:chat|generate|embed(?:dings)?)/?\Z"
    r"|/models/[^/]+:(?:stream)?[gG]enerateContent\Z"
    r"|/models/[^/]+:(?:batchE|asyncBatchE|e)mbedContents?\Z"
    r"|/(?:completions|embeddings|responses|messages)/?\Z"
    r"|/v1/complete/?\Z"
)
_THREADS = r"/threads/[^/]+/messages/?\Z"
_TELEMETRY = r"/traces/ingest/?\Z"  # openai-agents reports there, whatever its base URL is

VERDICTS_MAX = 1000  # Addresses that are remembered.
verdicts: dict[tuple[str, str, frozenset[str]], bool] = {}  # of `is_model_call`

HOSTS = frozenset(
    {
        "aiplatform.googleapis.com",
        "api.anthropic.com",
        "api.cohere.com",
        "api.deepseek.com",
        "api.fireworks.ai",
        "api.groq.com",
        "api.mistral.ai",
        "api.openai.com",
        "api.together.xyz",
        "api.x.ai",
        "generativelanguage.googleapis.com",
        "ollama.com",
        "openrouter.ai",
    }
)
_HOST_ENDINGS = ("-aiplatform.googleapis.com", ".openai.azure.com", ".services.ai.azure.com")


def is_model_call(method: str, url: str, hosts: frozenset[str] = frozenset()) -> bool:
    """Is it for us? `hosts` are names, with or without a port, all of whose calls are.

    A program asks the same address again and again; one with a query, which could hold a key, is not remembered.
    """
    asked = (method, url, hosts)
    known = verdicts.get(asked)
    if known is None:
        known = _judge(method, url, hosts)
        if len(verdicts) < VERDICTS_MAX and "?" not in url:
            verdicts[asked] = known
    return known


def _judge(method: str, url: str, hosts: frozenset[str]) -> bool:
    try:
        parts = urlsplit(url)
        path = parts.path
        if "%" in path:
            path = unquote(path)
        if method.upper() == "POST" and re.search(_PATHS, path) and not re.search(_THREADS, path):
            return True
        return is_known_host(parts.netloc, hosts) and not re.search(_TELEMETRY, path)
    except ValueError:
        return False  # an address that is none: the client will say so


def is_telemetry(url: str, hosts: frozenset[str] = frozenset()) -> bool:
    """Is it what an SDK reports to its provider? It is no part of any story, and in a replay goes nowhere."""
    try:
        parts = urlsplit(url)
        return bool(re.search(_TELEMETRY, parts.path)) and is_known_host(parts.netloc, hosts)
    except ValueError:
        return False


def is_known_host(netloc: str, hosts: frozenset[str] = frozenset()) -> bool:
    """Does a provider, or a server that the project named, answer there?"""
    place = netloc.rpartition("@")[2].lower()
    name = place.partition(":")[0]
    return name in HOSTS or name.endswith(_HOST_ENDINGS) or name in hosts or place in hosts


def host_names(hosts: Iterable[str]) -> frozenset[str]:
    """Names as `is_model_call` compares them."""
    return frozenset(host.lower() for host in hosts)
