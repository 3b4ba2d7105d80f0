"""Which hosts and paths are those of models.

Written by `make docs` from the modules of the dialects. Do not edit.
"""
# fmt: off

from __future__ import annotations

HOSTS = frozenset(
    {
        "aiplatform.googleapis.com",
        "api.anthropic.com",
        "api.cohere.ai",
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
HOST_ENDINGS = (
    "-aiplatform.googleapis.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
)
MODEL_PATHS = (
    r"(?:(?:/deployments/(?:[^/]+))?/chat/completions/?|/deployments/(?:[^/]+)/completions/?|/deployments/(?:[^/]+)/embeddings/?|/v1/complete/?|/models/(?:[^/]+):(?:stream)?[gG]enerateContent|/models/(?:[^/]+):(?:batchE|asyncBatchE|e)mbedContents?)\Z|"
    r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?:/responses/?|/completions/?|/embeddings/?|/messages/?|/api/chat/?|/api/generate/?|/api/embed(?:dings)?/?)\Z"
)
NOT_MODEL_PATHS = (
    r"/threads/[^/]+/messages/?\Z",
)
