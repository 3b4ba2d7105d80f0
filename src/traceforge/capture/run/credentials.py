"""Credentials in environment variables: those of model providers, and TraceForge's own.

In: an environment. Out: which of its variables a tested command must not see as they are. Never: takes a variable of
the application for one of these: a `DATABASE_PASSWORD` is the application's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from traceforge.config import MATCH_KEY_VARIABLE

PLACEHOLDER = "traceforge-test-dummy-key"

# Variables in which SDKs look for a key. Applications choose a provider by them, and without a key most clients
# cannot be created. A recording names those that were set.
KEY_VARIABLES = frozenset(
    {
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AZURE_OPENAI_API_KEY", "CO_API_KEY", "COHERE_API_KEY",
        "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY",
        "MISTRAL_API_KEY", "OLLAMA_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY",
        "TOGETHER_API_KEY", "XAI_API_KEY",
    }
)  # fmt: skip

# The variables of each provider of which one must be set, the usual one first. Ollama needs none.
PROVIDER_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "cohere": ("CO_API_KEY", "COHERE_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "xai": ("XAI_API_KEY",),
}

# Further credentials with which a model can be called. Recordings do not name them, and some have other uses too, so
# they stay set where they are set, with a placeholder for a value.
_CLOUD_VARIABLES = frozenset(
    {
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK", "AZURE_CLIENT_SECRET", "AZURE_INFERENCE_CREDENTIAL",
        "GOOGLE_APPLICATION_CREDENTIALS", "TRACEFORGE_CONTEXT_API_KEY",
    }
)  # fmt: skip
_PROVIDERS = (
    "AI21|ALEPH_ALPHA|ANTHROPIC|ANYSCALE|AZURE_AI|AZURE_OPENAI|BASETEN|BEDROCK|CEREBRAS|CLAUDE|CLOUDFLARE|COHERE"
    "|DASHSCOPE|DATABRICKS|DEEPINFRA|DEEPSEEK|FIREWORKS(?:_AI)?|GEMINI|GIGACHAT|GITHUB_MODELS|GOOGLE_GENAI"
    "|GOOGLE_GENERATIVE_AI|GROQ|HF|HUGGING_?FACE(?:HUB)?|HYPERBOLIC|JINA|LITELLM|LLAMA|MINIMAX|MISTRAL|MOONSHOT|NEBIUS"
    "|NOVITA|NVIDIA(?:_NIM)?|OLLAMA|OPENAI|OPENROUTER|PERPLEXITY(?:AI)?|PORTKEY|QIANFAN|REPLICATE|SAMBANOVA"
    "|SILICONFLOW|SNOWFLAKE|TOGETHER(?:_?AI)?|VERTEX(?:_?AI)?|VOLCENGINE|VOYAGE|WATSONX|XAI|YANDEX|ZAI|ZHIPUAI"
)
# Compiled on first use: a suite that starts no process filters no environment.
_PROVIDER_CREDENTIAL = (
    rf"(?:\w+_)?(?:(?:{_PROVIDERS})(?:_(?:API|ACCESS|AD|ADMIN|AUTH|CLIENT|HUB|MASTER|SECRET|SERVICE|VIRTUAL))*_"
    r"(?:API)?(?:KEYS?|TOKEN|SECRET|CREDENTIALS?|PASSWORD|PAT|SK)|AZURE_API_KEY)_?[0-9]*"
)
# With these a command could forge what redacted values are compared by, use the proxy of another run, or approve its
# own changes in the web view.
_OWN_SECRETS = frozenset({MATCH_KEY_VARIABLE, "TRACEFORGE_PROXY_TOKEN", "TRACEFORGE_UI_TOKEN"})
_VALUE_LENGTH_MIN = 16  # A shorter value may be equal by accident.


def upstream_key_variable(upstream: str) -> str:
    """The variable with the API key of an upstream of your own: `NAME_API_KEY`."""
    return re.sub(r"[^A-Z0-9]", "_", upstream.upper()) + "_API_KEY"


def filter_credentials(
    environ: Mapping[str, str], recorded: Collection[str], upstreams: Collection[str] = ()
) -> dict[str, str]:
    """The environment without real credentials of model providers, and without TraceForge's own.

    `recorded` names the key variables that were set while the calls were recorded: these are set, the other ones of
    `KEY_VARIABLES` are not. Where it names none, what was set is unknown, and each stays set if it is set.
    `upstreams` are those of the project's configuration. A copy of a credential under another name is one too.
    """
    own_keys = {upstream_key_variable(name) for name in upstreams}
    credentials = {name for name in environ if _is_credential(name) or name in own_keys}
    values = {environ[name] for name in credentials if len(environ[name]) >= _VALUE_LENGTH_MIN}
    result = {
        name: PLACEHOLDER if value and (name in credentials or value in values) else value
        for name, value in environ.items()
        if name not in _OWN_SECRETS and not (recorded and name in KEY_VARIABLES)
    }
    return result | dict.fromkeys(KEY_VARIABLES.intersection(recorded), PLACEHOLDER)


def list_missing_keys(environ: Mapping[str, str], providers: Collection[str]) -> list[str]:
    """For each provider of which no key variable is set, the one that its SDK reads."""
    variables = [PROVIDER_KEYS[provider] for provider in sorted(providers) if provider in PROVIDER_KEYS]
    return [names[0] for names in variables if not any(environ.get(name) for name in names)]


def _is_credential(name: str) -> bool:
    if name in KEY_VARIABLES or name in _CLOUD_VARIABLES:
        return True
    return re.fullmatch(_PROVIDER_CREDENTIAL, name.upper()) is not None
