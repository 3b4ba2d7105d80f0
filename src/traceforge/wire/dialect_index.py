"""What is known about each dialect before its module is imported.

Written by `make docs` from the modules of the dialects. Do not edit.
"""
# fmt: off

from __future__ import annotations

# The module of each dialect.
MODULES: dict[str, str] = {
    "openai": "traceforge.wire.openai.chat",
    "anthropic": "traceforge.wire.anthropic",
    "ollama": "traceforge.wire.ollama",
    "gemini": "traceforge.wire.gemini",
    "cohere": "traceforge.wire.cohere",
}

HOSTS: dict[str, tuple[str, ...]] = {
    "openai": (
        "api.deepseek.com",
        "api.fireworks.ai",
        "api.groq.com",
        "api.mistral.ai",
        "api.openai.com",
        "api.together.xyz",
        "api.x.ai",
        "openrouter.ai",
    ),
    "anthropic": (
        "api.anthropic.com",
    ),
    "ollama": (
        "ollama.com",
    ),
    "gemini": (
        "aiplatform.googleapis.com",
        "generativelanguage.googleapis.com",
    ),
    "cohere": (
        "api.cohere.ai",
        "api.cohere.com",
    ),
}

# See `PathRule` of `endpoints`.
RULES: tuple[tuple[str, str, str, bool], ...] = (
    (
        r"(?P<endpoint>(?:/deployments/(?P<model>[^/]+))?/chat/completions/?)\Z",
        "openai",
        "chat",
        False,
    ),
    (
        r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?P<endpoint>/messages/?)\Z",
        "anthropic",
        "messages",
        False,
    ),
    (
        r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?P<endpoint>/responses/?)\Z",
        "openai",
        "responses",
        False,
    ),
    (
        r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?P<endpoint>/api/chat/?)\Z",
        "ollama",
        "chat",
        False,
    ),
    (
        r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?P<endpoint>/api/generate/?)\Z",
        "ollama",
        "generate",
        False,
    ),
    (
        r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?P<endpoint>/api/embed(?:dings)?/?)\Z",
        "ollama",
        "embeddings",
        False,
    ),
    (
        r"(?P<endpoint>/models/(?P<model>[^/]+):(?:stream)?[gG]enerateContent)\Z",
        "gemini",
        "generate",
        False,
    ),
    (
        r"(?P<endpoint>/models/(?P<model>[^/]+):(?:batchE|asyncBatchE|e)mbedContents?)\Z",
        "gemini",
        "embeddings",
        False,
    ),
    (
        r"(?P<endpoint>/deployments/(?P<model>[^/]+)/completions/?)\Z",
        "openai",
        "completions",
        False,
    ),
    (
        r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?P<endpoint>/completions/?)\Z",
        "openai",
        "completions",
        False,
    ),
    (
        r"(?P<endpoint>/deployments/(?P<model>[^/]+)/embeddings/?)\Z",
        "openai",
        "embeddings",
        False,
    ),
    (
        r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?P<endpoint>/embeddings/?)\Z",
        "openai",
        "embeddings",
        False,
    ),
    (
        r"(?P<endpoint>/v1/complete/?)\Z",
        "anthropic",
        "completions",
        False,
    ),
    (
        r"(?P<endpoint>\A/v2/chat/?)\Z",
        "cohere",
        "chat",
        True,
    ),
    (
        r"(?P<endpoint>\A/v1/chat/?)\Z",
        "cohere",
        "generate",
        True,
    ),
    (
        r"(?P<endpoint>\A/v[12]/embed/?)\Z",
        "cohere",
        "embeddings",
        True,
    ),
    (
        r"(?P<endpoint>\A/v[12]/rerank/?)\Z",
        "cohere",
        "rerank",
        True,
    ),
)

NOT_PATHS: tuple[str, ...] = (
    r"/threads/[^/]+/messages/?\Z",
)
