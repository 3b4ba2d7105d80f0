"""The names whose value is always a secret.

In: the name of a header, a field or a query parameter. Out: yes or no. Never: matches a part of a name: `token`
does not hit `max_tokens`. Case, `-` and `_` make no difference: `api_key`, `apiKey` and `API-Key` are one name.

Names that real provider traffic uses for other things are left out on purpose: `token` (a piece of text in
logprobs), `key` and `signature` in a body, `user`, `session`, `prompt_cache_key`, `encrypted_content`.
"""

from __future__ import annotations

from collections.abc import Iterable

FIELD_NAMES = (
    "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie",
    "X-API-Key", "API-Key", "X-Goog-API-Key", "Ocp-Apim-Subscription-Key", "X-Functions-Key",
    "X-Auth-Token", "X-Access-Token", "X-CSRF-Token", "X-Amz-Security-Token", "X-GitHub-Token", "X-Vault-Token",
    "Private-Token", "Job-Token", "Deploy-Token",
    "access_token", "refresh_token", "id_token", "auth_token", "bearer_token", "session_token", "authorization_token",
    "api_token", "oauth_token", "bot_token", "secret_token", "hf_token", "github_token", "gitlab_token",
    "slack_token",
    "client_secret", "secret", "secret_key", "secret_access_key", "aws_secret_access_key", "aws_session_token",
    "aws_access_key_id", "access_key_id", "access_key", "account_key", "subscription_key", "private_key",
    "signing_key", "encryption_key", "signing_secret", "webhook_secret", "jwt_secret", "app_secret",
    "openai_api_key", "anthropic_api_key", "google_api_key", "gemini_api_key", "azure_openai_api_key",
    "groq_api_key", "mistral_api_key", "cohere_api_key", "openai_admin_key", "service_account_key",
    "password", "passwd", "passphrase", "db_password", "user_password",
)  # fmt: skip

# In a URL these are secrets as well; in a body they are not.
PARAMETER_NAMES = (
    "key", "token", "auth", "sig", "signature", "jwt", "pwd", "apikey", "session_id", "X-Amz-Signature",
    "X-Amz-Credential", "X-Goog-Signature", "X-Goog-Credential",
)  # fmt: skip

# Under these keys of a JSON Schema, a name is the name of a property and its object describes the property.
SCHEMA_KEYS = frozenset({"properties", "$defs", "definitions", "patternProperties"})

_SEPARATORS = str.maketrans("", "", "-_")


def fold_name(name: str) -> str:
    """The one spelling under which a name is compared."""
    return name.lower().translate(_SEPARATORS)


def fold_names(names: Iterable[str]) -> frozenset[str]:
    """Names, as they are compared; a name of separators alone would fold to nothing and is left out."""
    return frozenset(filter(None, map(fold_name, names)))
