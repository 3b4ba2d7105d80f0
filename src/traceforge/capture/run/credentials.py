"""Credentials in environment variables: those of model providers, and TraceForge's own.

In: an environment. Out: which of its variables a tested command must not see as they are. Never: takes a variable of
the application for one of these: a `DATABASE_PASSWORD` is the application's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping

from traceforge.capture.hook.token_exchange import AWS_KEY_VARIABLE, DUMMY_AWS_KEY
from traceforge.config import MATCH_KEY_VARIABLE

PLACEHOLDER = DUMMY_AWS_KEY

# Variables in which SDKs look for a key. Applications choose a provider by them, and without a key most clients
# cannot be created. A recording names those that were set.
KEY_VARIABLES = frozenset(
    {
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AZURE_OPENAI_API_KEY",
        "CO_API_KEY", "COHERE_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY",
        "GROQ_API_KEY", "MISTRAL_API_KEY", "OLLAMA_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY",
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
        "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AZURE_CLIENT_SECRET",
        "AZURE_INFERENCE_CREDENTIAL", "AZURE_PASSWORD", "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_APPLICATION_CREDENTIALS_JSON", "GOOGLE_CREDENTIALS", "IBM_CLOUD_API_KEY", "IBMCLOUD_API_KEY",
        "TENCENTCLOUD_SECRET_KEY", "TRACEFORGE_CONTEXT_API_KEY",
    }
)  # fmt: skip
_PROVIDERS = (
    "AI21|AIMLAPI|AI_GATEWAY|ALEPH_ALPHA|ANTHROPIC|ANYSCALE|ARK|AZURE_?AI|AZURE_?OPENAI|BAICHUAN|BASETEN|BEDROCK"
    "|CEREBRAS|CHATGPT|CHUTES|CLAUDE|CLOUDFLARE|CODEX|COHERE|DASHSCOPE|DATABRICKS|DEEPINFRA|DEEPSEEK|DIFY|FEATHERLESS"
    "|FIREWORKS(?:_AI)?|FRIENDLI|GEMINI|GIGACHAT|GITHUB_MODELS|GOOGLE_AI(?:_STUDIO)?|GOOGLE_GENAI|GOOGLE_GENERATIVE_AI"
    "|GPT[0-9]*|GROQ|HF|HUGGING_?FACE(?:HUB)?|HUNYUAN|HYPERBOLIC|INFERENCE|JINA|KIMI|LITELLM|LLAMA|LLM|MINIMAX|MISTRAL"
    "|MOONSHOT|NEBIUS|NGC|NOVITA|NVIDIA(?:_NIM)?|OLLAMA|OPEN_?AI|OPENROUTER|OVH_AI(?:_ENDPOINTS)?|PALM"
    "|PERPLEXITY(?:AI)?|PORTKEY|QIANFAN|REKA|REPLICATE|RUNPOD|SAMBANOVA|SILICONFLOW|SNOWFLAKE|STEPFUN|TOGETHER(?:_?AI)?|UPSTAGE"
    "|VERTEX(?:_?AI)?|VOLCENGINE|VOYAGE|WATSONX|XAI|YANDEX|ZAI|ZHIPUAI"
)
_KINDS = (
    "API|ACCESS|ACCOUNT|AD|ADMIN|AUTH|CLIENT|CODE|DEV|HUB|MASTER|OAUTH|ORG|PROD|PROJECT|SECRET|SERVICE|STAGING|TEST"
    "|USER|VIRTUAL"
)
_ENDINGS = "KEYS?|TOKEN|SECRET|CREDENTIALS?|PASSWORD|PAT|SK"
# Compiled on first use, where a name ends like that of a credential. Two underscores divide the names of nested
# settings.
_PROVIDER_CREDENTIAL = (
    rf"(?:\w+_)?(?:(?:{_PROVIDERS})(?:_+(?:{_KINDS}))*_*"
    rf"(?:API)?(?:{_ENDINGS})|AZURE_API_KEY)(?:_?[0-9]+|(?P<word>_\w+))?"
)
# Few names match it, and compiling it takes a tenth of the time that the pattern above takes.
_PERHAPS_CREDENTIAL = rf"\w*(?:{_ENDINGS})(?:_?[0-9]+|_\w+)?"
# What a key of a model provider looks like, whatever its variable is called. Keys that also open other things, as
# those of AWS do, are not here: without their variable, nobody can tell what an application needs them for.
_PROVIDER_KEY = (
    r"(?<![A-Za-z0-9_-])(?:sk-(?:proj|svcacct|admin|ant|or-v1)-[\w-]{20,}|sk-[A-Za-z0-9]{32,}"
    r"|AIza[\w-]{35}|(?:gsk|hf|r8)_[A-Za-z0-9]{30,}|(?:xai|pplx|nvapi|csk)-[\w-]{32,}|tgp_v1_[\w-]{32,}"
    r"|ABSK[A-Za-z0-9+/=]{60,}|bedrock-api-key-[\w+/=-]{20,})"
)
# With these a command could forge what redacted values are compared by, use the proxy of another run, or approve its
# own changes in the web view.
_OWN_SECRETS = frozenset({MATCH_KEY_VARIABLE, "TRACEFORGE_PROXY_TOKEN", "TRACEFORGE_UI_TOKEN"})
_REGION_VARIABLES = ("AWS_DEFAULT_REGION", "AWS_REGION")
_VALUE_LENGTH_MIN = 16  # A shorter value may be equal by accident.
_GENERATED_TEXT = r"(?!\w+://)(?=.*[0-9])[\w+.:=-][\w+./:=-]{15,}"  # no number, switch, word, path or address


def upstream_key_variable(upstream: str) -> str:
    """The variable with the API key of an upstream of your own: `NAME_API_KEY`."""
    return re.sub(r"[^A-Z0-9]", "_", upstream.upper()) + "_API_KEY"


def filter_credentials(
    environ: Mapping[str, str], recorded: Collection[str], upstreams: Collection[str] = ()
) -> dict[str, str]:
    """The environment without real credentials of model providers, and without TraceForge's own.

    `recorded` names the key variables that were set while the calls were recorded: these are set, the other ones of
    `KEY_VARIABLES` are not. Where it names none, what was set is unknown, and each stays set if it is set.
    `upstreams` are those of the project's configuration. A copy of a credential under another name is one too, and so
    is a key within another value, such as `Bearer sk-…`: there it alone is replaced.
    """
    own_keys = {upstream_key_variable(name) for name in upstreams}
    credentials = {name for name, value in environ.items() if name in own_keys or _is_credential(name, value)}
    values = {environ[name] for name in credentials if len(environ[name]) >= _VALUE_LENGTH_MIN}
    find_values = _compile_values(values)
    result = {
        name: PLACEHOLDER if value and name in credentials else find_values(PLACEHOLDER, value)
        for name, value in environ.items()
        if name not in _OWN_SECRETS and not (recorded and name in KEY_VARIABLES)
    }
    return result | dict.fromkeys(KEY_VARIABLES.intersection(recorded), PLACEHOLDER)


def list_missing_keys(environ: Mapping[str, str], providers: Collection[str]) -> list[str]:
    """For each provider of which no key variable is set, the one that its SDK reads."""
    variables = [PROVIDER_KEYS[provider] for provider in sorted(providers) if provider in PROVIDER_KEYS]
    return [names[0] for names in variables if not any(environ.get(name) for name in names)]


def add_bedrock_variables(environ: Mapping[str, str], region: str) -> dict[str, str]:
    """The environment with what a client of Bedrock needs before it sends anything: a key to sign with, and a region.

    The key is never a real one, and while it is set, a hook keeps botocore from looking for another. The region is
    `region` if the environment names none; a file that names one does not count, because it is not in the repository.
    """
    names_region = any(environ.get(name) for name in _REGION_VARIABLES)
    added = dict.fromkeys((AWS_KEY_VARIABLE, "AWS_SECRET_ACCESS_KEY"), PLACEHOLDER)
    return {**environ, **added, **({} if names_region else {"AWS_DEFAULT_REGION": region})}


def _is_credential(name: str, value: str) -> bool:
    """Whether a variable is one of a model provider.

    A word behind the name may be an environment (`OPENAI_API_KEY_PROD`), a limit or a file: there the value decides.
    """
    if name in KEY_VARIABLES or name in _CLOUD_VARIABLES:
        return True
    name = name.upper()
    match = re.fullmatch(_PERHAPS_CREDENTIAL, name) and re.fullmatch(_PROVIDER_CREDENTIAL, name)
    return match is not None and (match["word"] is None or re.fullmatch(_GENERATED_TEXT, value) is not None)


def _compile_values(values: Collection[str]) -> Callable[[str, str], str]:
    """Replaces keys in a value: those that look like one, and copies of a credential, also within another text.

    A path is a copy only as a whole: it may be the beginning of other paths.
    """
    paths = [re.escape(value) for value in values if os.path.isabs(value)]
    copies = [re.escape(value) for value in values if not os.path.isabs(value)]
    parts = [_PROVIDER_KEY, *sorted(copies, key=len, reverse=True), *(rf"\A{path}\Z" for path in paths)]
    return re.compile("|".join(parts)).sub
