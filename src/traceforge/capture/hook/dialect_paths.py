"""Which hosts and paths are those of models.

Written by `make docs` from the modules of the dialects. Do not edit.
"""
# fmt: off

from __future__ import annotations

HOSTS = frozenset(
    {
        "ai.mongodb.com",
        "aiplatform.eu.rep.googleapis.com",
        "aiplatform.googleapis.com",
        "aiplatform.us.rep.googleapis.com",
        "api-inference.huggingface.co",
        "api-inference.together.ai",
        "api.anthropic.com",
        "api.cohere.ai",
        "api.cohere.com",
        "api.deepseek.com",
        "api.eu.mistral.ai",
        "api.fireworks.ai",
        "api.groq.com",
        "api.jina.ai",
        "api.mistral.ai",
        "api.openai.com",
        "api.replicate.com",
        "api.together.ai",
        "api.together.xyz",
        "api.us.mistral.ai",
        "api.voyageai.com",
        "api.x.ai",
        "codestral.mistral.ai",
        "eu.api.openai.com",
        "generativelanguage.googleapis.com",
        "ollama.com",
        "openrouter.ai",
        "router.huggingface.co",
        "stream.replicate.com",
        "us.api.openai.com",
    }
)
HOST_ENDINGS = (
    "-aiplatform.googleapis.com",
    ".api.x.ai",
    ".cognitiveservices.azure.com",
    ".endpoints.huggingface.cloud",
    ".inference.ai.azure.com",
    ".models.ai.azure.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
)
HOST_PATTERNS = (
    "*.bedrock-runtime-fips.*.vpce.amazonaws.com",
    "*.bedrock-runtime.*.vpce.amazonaws.com",
    "bedrock-mantle.*.api.aws",
    "bedrock-runtime-fips.*.amazonaws.com",
    "bedrock-runtime-fips.*.api.aws",
    "bedrock-runtime.*.amazonaws.com",
    "bedrock-runtime.*.amazonaws.com.cn",
    "bedrock-runtime.*.api.aws",
)
MODEL_PATHS = (
    r"(?:(?:/deployments/(?:[^/]+))?/chat/completions/?|/deployments/(?:[^/]+)/completions/?|/deployments/(?:[^/]+)/embeddings/?|/publishers/(?:mistralai|ai21)/models/(?:[^/]+):(?:r|streamR)awPredict|/v1/complete/?|/publishers/anthropic/models/(?:(?!count-tokens)[^/]+):(?:r|streamR)awPredict|/models/(?:[^/]+):(?:stream)?[gG]enerateContent|/models/(?:[^/]+):(?:batchE|asyncBatchE|e)mbedContents?|/publishers/google/models/(?:[^/]*embedding[^/]*):predict)\Z|"
    r"(?:\A(?:/[A-Za-z][A-Za-z0-9._~-]*)?|/v[0-9]+[a-z0-9]*|/(?:openai|anthropic|inference|models|beta|codex|compat|serving-endpoints|ollama|litellm))(?:/responses/?|/completions/?|/embeddings/?|/messages/?|/api/chat/?|/api/generate/?|/api/embed(?:dings)?/?|/model/(?:[^/]+|arn:[^/]*(?:/[^/]+){1,3})/converse(?:-stream)?/?|/model/(?:(?:[^/]*/)?[^/]*embed[^/]*)/invoke(?:-with-response-stream)?/?|/model/(?:(?:[^/]*/)?[^/]*rerank[^/]*)/invoke(?:-with-response-stream)?/?|/model/(?:[^/]+|arn:[^/]*(?:/[^/]+){1,3})/invoke(?:-with-response-stream)?/?|/generate_stream/?)\Z|"
    r"/v[0-9]+[a-z0-9]*(?:/fim/completions/?)\Z"
)
NOT_MODEL_PATHS = (
    r"/threads/[^/]+/messages/?\Z",
)
