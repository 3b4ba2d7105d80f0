"""The names whose value is a secret.

In: the name of a header, a field or a query parameter. Out: yes or no. Case, `-` and `_` make no difference:
`api_key`, `apiKey` and `API-Key` are one name. Never: matches a part of a field's name: `token` does not hit
`max_tokens`. A header is judged by its last word as well: `X-Litellm-Key`, `X-Any-Token`.

Names that real provider traffic uses for other things are left out on purpose: `token` (a piece of text in
logprobs), `key` and `signature` in a body, `user`, `session`, `prompt_cache_key`, `encrypted_content`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from traceforge.redact.lazy_pattern import LazyPattern

FIELD_NAMES = (
    "Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "Cookie2", "Set-Cookie2",
    "X-API-Key", "API-Key", "X-Goog-API-Key", "Ocp-Apim-Subscription-Key", "X-Functions-Key",
    "X-Auth-Token", "X-Access-Token", "X-CSRF-Token", "X-Amz-Security-Token", "X-GitHub-Token", "X-Vault-Token",
    "X-Honeycomb-Team", "Private-Token", "Job-Token", "Deploy-Token",
    "access_token", "refresh_token", "id_token", "auth_token", "bearer_token", "session_token", "authorization_token",
    "api_token", "oauth_token", "bot_token", "secret_token", "hf_token", "github_token", "gitlab_token",
    "slack_token",
    "client_secret", "secret", "secret_key", "secret_access_key", "aws_secret_access_key", "aws_session_token",
    "aws_access_key_id", "access_key_id", "access_key", "account_key", "subscription_key", "private_key",
    "signing_key", "encryption_key", "signing_secret", "webhook_secret", "jwt_secret", "app_secret",
    "openai_api_key", "anthropic_api_key", "google_api_key", "gemini_api_key", "azure_openai_api_key",
    "groq_api_key", "mistral_api_key", "cohere_api_key", "openai_admin_key", "service_account_key",
    "password", "passwd", "passphrase", "db_password", "user_password", "current_password", "new_password",
    "master_key", "admin_key", "auth_key", "api_secret", "api_secret_key", "consumer_secret", "shared_secret",
    "token_secret", "access_token_secret", "oauth_token_secret", "app_password", "client_password", "secret_string",
    "personal_access_token", "private_token", "deploy_token", "webhook_signing_secret",
    "client_token", "client_assertion", "code_verifier", "db_pass", "mfa_code", "totp_code", "otp_code",
    "SAMLResponse", "one_time_password", "recovery_code", "recovery_codes", "backup_codes",
)  # fmt: skip

# Headers in which a provider names the account of the caller, in a request or in its answer.
ACCOUNT_HEADERS = (
    "OpenAI-Organization", "OpenAI-Project", "Anthropic-Organization-ID", "Anthropic-Workspace-ID",
    "ChatGPT-Account-ID", "X-Goog-User-Project",
)  # fmt: skip

# In a URL these are secrets as well; in a body they are not.
PARAMETER_NAMES = (
    "key", "token", "auth", "sig", "signature", "jwt", "pwd", "pass", "apikey", "session_id", "X-Amz-Signature",
    "X-Amz-Credential", "X-Goog-Signature", "X-Goog-Credential",
)  # fmt: skip

# In the URL of a call and in a form, also these: OAuth's codes and assertions, keys of Azure Functions (`?code=`),
# and what a login takes. In URLs that a text only mentions, they are not.
LOGIN_NAMES = ("code", "assertion", "passcode", "otp", "totp", "pin")

# Headers whose value is a URL, of which the parameters are judged as well.
URL_HEADERS = frozenset({"location", "content-location", "referer"})

# Under these keys of a JSON Schema, a name is the name of a property and its object describes the property.
SCHEMA_KEYS = frozenset({"properties", "$defs", "definitions", "patternProperties"})

# An object with one of the first and one of the second is a name and its value, as in the environment of a container.
PAIR_NAME_KEYS = (
    "name", "Name", "key", "Key", "label", "header", "field", "variable", "parameter", "ParameterKey",
    "ParameterName",
)  # fmt: skip
PAIR_VALUE_KEYS = ("value", "Value", "ParameterValue")
# The same with a type that says it: a parameter of AWS, a field of a form or of a password manager.
PAIR_TYPE_KEYS = ("type", "Type")
PAIR_SECRET_TYPES = frozenset({"securestring", "password", "concealed"})

# What an object of one of these names holds is judged by that name as well: `{"secrets": {"github": "…"}}`.
COLLECTION_NAMES = (
    "secrets", "credentials", "passwords", "passphrases", "api_keys", "secret_keys", "access_keys", "private_keys",
    "access_tokens", "auth_tokens", "api_tokens", "cookies",
)  # fmt: skip

# Cookies of a session, as they are called where a list of names and values does not say that it holds cookies.
SESSION_COOKIES = ("session", "session_id", "sid", "connect.sid", "PHPSESSID", "JSESSIONID", "ASP.NET_SessionId")

# The members of a Secret of Kubernetes that hold its secrets, and the name by which they are judged.
MANIFEST_KEYS = ("data", "stringData")
MANIFEST_NAME = "secrets"

# A JSON Web Key, known by the member that says its type, and its private members; the others are public.
WEB_KEY_TYPE = "kty"
_WEB_KEY_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})

_SEPARATORS = str.maketrans("", "", "-_")
_HEADER_ENDING = LazyPattern(
    r"(?:^|[-_])(?:auth|jwt|key|token|credentials?|cookie|bearer|otp)$"
    r"|(?:authorization|authentication|api[-_]?keys?|access[-_]?key|token|secret|passw(?:or)?d|passphrase|passcode)$"
    r"|(?:jwt|saml|identity|client)[-_]assertion$"
    r"|-sign(?:ature)?(?:-[0-9]{1,3})?$"  # of a webhook or a request; with `_`, it is the signature of a function
)
_PLAIN_HEADER = LazyPattern(
    r"(?:^|[-_])(?:idempotency|cache|surrogate|websocket|public|partition|routing|sort|primary|row|object|dedup"
    r"|deduplication|page|next|continuation|sync|per|time|max|min|model)[-_](?:key|token)$|-allow-credentials$"
)
# Members that describe a secret and are none, in an object of secrets.
_DESCRIPTION = LazyPattern(
    r"(?:^|[-_]|[a-z](?=[A-Z]))(?i:ids?|name|type|kind|url|uri|path|file|at|date|time|user|username|login|email|host"
    r"|scopes?|status|version|description|region|provider|source|namespace|title|store|mount|object"
    r"|arn|from|ref|reference|alias|label|owner|digest|hash|fingerprint|hint|engine|schema|database|project)$"
)
_ACCOUNT_ENDING = LazyPattern(
    r"(?:^|[-_])(?:organi[sz]ation|org|project|account|tenant|workspace|team|customer|subscription|billing[-_]?account)"
    r"(?:[-_]?(?:id|uuid))?$"
)


def fold_name(name: str) -> str:
    """The one spelling under which a name is compared."""
    return name.lower().translate(_SEPARATORS)


def fold_names(names: Iterable[str]) -> frozenset[str]:
    """Names, as they are compared; a name of separators alone would fold to nothing and is left out."""
    return frozenset(filter(None, map(fold_name, names)))


def is_secret_header_name(name: str) -> bool:
    """Whether the name of a header says that its value is a secret, by its whole name or by its last word."""
    name = name.lower()
    return fold_name(name) in _FIELDS or (
        _HEADER_ENDING.search(name) is not None and _PLAIN_HEADER.search(name) is None
    )


def is_secret_field_name(name: str) -> bool:
    """Whether the value of a field of this name is always a secret."""
    return fold_name(name) in _FIELDS


def name_collection(name: str) -> str:
    """The name by which the members of a collection are judged: of cookies, only the random ones are secret."""
    return "credentials" if fold_name(name) == "cookies" else name


def list_private_members(members: dict[str, Any]) -> list[str]:
    """The names of the private members of a JSON Web Key; none of another object."""
    if type(members.get(WEB_KEY_TYPE)) is not str:
        return []
    return [key for key, child in members.items() if key in _WEB_KEY_PRIVATE and type(child) is str]


def is_description(name: str) -> bool:
    """Whether a member of an object of secrets only describes a secret: its id, its user, its date."""
    return _DESCRIPTION.search(name) is not None


def is_account_header_name(name: str) -> bool:
    """Whether a provider names the caller's organisation, project or account in a header of this name."""
    return fold_name(name) in _ACCOUNTS


def is_account_response_header_name(name: str) -> bool:
    """The same for the headers of a response, where any `X-Organization-ID` is the caller's.

    In a request such a header is the application's own, and a part of what it asks.
    """
    return is_account_header_name(name) or _ACCOUNT_ENDING.search(name.lower()) is not None


_FIELDS, _ACCOUNTS = fold_names(FIELD_NAMES), fold_names(ACCOUNT_HEADERS)
