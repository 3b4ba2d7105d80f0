"""Which calls are model calls.

In: a method and a URL, and hosts that a project named. Out: yes or no. Never: looks at a body, or at headers: other
calls (to a database, telemetry, a web page) are not watched.

The paths are those that `traceforge.wire.endpoints` understands; a test keeps the two equal. The hosts are those of
providers, whose other calls (files, models, batches) are watched too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

# Compiled when the first URL is looked at, which in most runs of a small program never comes.
_VERSION = r"/v[0-9]+[a-z0-9]*"
_BASE = (
    r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?"
    rf"|{_VERSION}|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))"
)
MODEL_PATHS = (
    r"/chat/completions/?\Z"
    r"|/models/[^/]+:(?:stream)?[gG]enerateContent\Z"
    r"|/models/[^/]+:(?:batchE|asyncBatchE|e)mbedContents?\Z"
    r"|/deployments/[^/]+/(?:completions|embeddings)/?\Z"
    rf"|{_BASE}/(?:api/(?:chat|generate|embed(?:dings)?)|completions|embeddings|responses|messages)/?\Z"
    r"|/v1/complete/?\Z"
)
_THREADS = r"/threads/[^/]+/messages/?\Z"
_TELEMETRY = r"/traces/ingest/?\Z"  # openai-agents reports there with any base URL

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
    """Whether a call is watched. `hosts` are names, with or without a port, all of whose calls are."""
    try:
        parts = urlsplit(url)
        path = parts.path
        if "%" in path:
            path = unquote(path)
        if method.upper() == "POST" and re.search(MODEL_PATHS, path) and not re.search(_THREADS, path):
            return True
        return is_known_host(parts.netloc, hosts) and not re.search(_TELEMETRY, path)
    except ValueError:
        return False  # not a URL: the client will say so


def is_telemetry(url: str, hosts: frozenset[str] = frozenset()) -> bool:
    """Whether a call is what an SDK reports to its provider: never recorded, and not sent in a replay."""
    try:
        parts = urlsplit(url)
        return bool(re.search(_TELEMETRY, parts.path)) and is_known_host(parts.netloc, hosts)
    except ValueError:
        return False


def is_known_host(netloc: str, hosts: frozenset[str] = frozenset()) -> bool:
    """Whether a provider, or a server that the project named, answers there."""
    host = netloc.rpartition("@")[2].lower()
    name = host.partition(":")[0]
    return name in HOSTS or name.endswith(_HOST_ENDINGS) or name in hosts or host in hosts


def normalize_hosts(hosts: Iterable[str]) -> frozenset[str]:
    """Names as `is_model_call` compares them."""
    return frozenset(host.lower() for host in hosts)
