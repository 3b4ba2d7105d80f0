"""What a redaction took out, in words for a page.

In: the type of a secret, as a trace names it. Out: what a reader calls it. Never: has a name for a type that it does
not know: that is shown as it is.
"""

from __future__ import annotations

_NAMES = {
    "ACCOUNT": "account in the name of a resource",
    "ANTHROPIC_KEY": "Anthropic API key",
    "API_KEY": "API key",
    "AWS": "AWS key",
    "AZURE": "Azure key",
    "BASIC_AUTH": "user name and password",
    "BEARER": "token of an authorization header",
    "CREDIT_CARD": "credit card number",
    "CUSTOM": "match of a pattern of your configuration",
    "EMAIL": "e-mail address",
    "FIELD": "field with a secret name",
    "GITHUB_TOKEN": "GitHub token",
    "GITLAB_TOKEN": "GitLab token",
    "GOOGLE_API_KEY": "Google API key",
    "GROQ": "Groq API key",
    "HUGGINGFACE": "Hugging Face token",
    "JWT": "JSON web token",
    "OPENAI_KEY": "OpenAI API key",
    "PARAMETER": "secret parameter of an address",
    "PHONE": "phone number",
    "PRIVATE_KEY": "private key",
    "SECRET": "password or another secret",
    "SLACK": "Slack token",
    "STRIPE": "Stripe key",
    "US_SSN": "US social security number",
}


def redaction_name(kind: str) -> str:
    """What a reader calls a secret of this type."""
    return _NAMES.get(kind, kind)
