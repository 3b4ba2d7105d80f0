"""Secrets that a phrase, a call or a command gives away."""

from __future__ import annotations

import pytest

from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
KEY = "hk3Jd82kLmQ9zXw1Pq7RtYv4"
PASSWORD = "Tr0ub4dor&3x"
UUID = "6f1c2b7e-93aa-4c1d-8e55-0b7d1f2a9c34"


@pytest.mark.parametrize(
    "text",
    [
        f"The token for staging is {KEY}.",
        f"Here is the API key for prod: {KEY}",
        f"use the API key ({KEY}) please",
        f"Here is my API key:\n\n{KEY}\n\nthanks",
        f"Here is the token:\n```\n{KEY}\n```",
        f"API Key\n{KEY}\n",
        f"My Wise API token is {UUID}, thanks",
        f"**API key:** {KEY}",
        f"**API key**: `{KEY}`",
        f"- Password — {PASSWORD}",
        f"password → {PASSWORD}",
        f"api_key: >-\n  {KEY}\n",
        f"token: |\n  {KEY}\n",
        f"SECRET_KEY = b'{KEY}'",
        f"api_key=SecretStr('{KEY}')",
        f'const API_KEY: &str = "{KEY}";',
        f"const token = process.env.TOKEN || '{KEY}'",
        f"const apiKey = process.env.API_KEY ?? '{KEY}'",
        f"headers=[(b'x-api-key', b'{KEY}')]",
        f'headers.set("Authorization", "{KEY}")',
        f"define('DB_PASSWORD', '{PASSWORD}');",
        f'props.put("password", "{PASSWORD}");',
        f"requests.get(u, auth=('ann', '{PASSWORD}'))",
        f'new NetworkCredential("ann", "{PASSWORD}")',
        f"> Cookie: theme=dark; sessionid={KEY}",
        f"< Set-Cookie: sid={KEY}; Path=/; HttpOnly",
        f"curl -b 'sid={KEY}' https://x.com",
        f"curl -uann:{PASSWORD} https://x.com",
        f"http -a ann:{PASSWORD} https://x.com",
        f"curl -H 'X-Session: {KEY}' https://x.com",
        f"headers = {{'X-Session': '{KEY}'}}",
        f"ENV DB_PASSWORD {PASSWORD}",
        f"kubectl create secret generic x --from-literal=db={PASSWORD}",
        f"gh secret set ACME --body '{KEY}'",
        f"ConvertTo-SecureString '{PASSWORD}' -AsPlainText",
        f"aws ssm put-parameter --name x --type SecureString --value {KEY}",
        f"Passwort: {PASSWORD}",
        f"contraseña: {PASSWORD}",
        f"mot de passe : {PASSWORD}",
        f'<meta name="csrf-token" content="{KEY}">',
        '<input type="password" value="Tr0ub4dor3x">',
    ],
)
def test_a_phrase_gives_a_secret_away(text: str) -> None:
    """In a prompt, a log, a script, a manifest; redacting twice changes nothing."""
    cleaned = REDACTOR.redact_text(text)

    assert "[REDACTED]" in cleaned
    assert not any(secret in cleaned for secret in (KEY, PASSWORD, UUID, "Tr0ub4dor3x"))
    assert cleaned == REDACTOR.redact_text(cleaned)


@pytest.mark.parametrize(
    "text",
    [
        "The token is invalid. Commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b broke it.",
        "Rotate the secret after commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "the next page token\nchatcmpl9fK2x8Lm4Qp7Rt1Yv3Zw",
        "no API key was sent with request 9f86d081884c7d659a2feaa0c55ad015",
        f"the token of session {UUID}",
        "the secret of convertUtf8ToUtf16Base64",
        '["username", "password", "base64url22"]',
        'if method in ("password", "base64url22", "otp"):',
        "Cookie: theme=dark; lang=en",
        "grep -b offset=12 file",
        "password = getpass('Password v2: ')",
        "token = os.getenv('ACME_TOKEN_V2')",
        "api_key = os.environ.get('OPENAI_API_KEY')",
        "auth=('user', 'password')",
        "ENV DB_PASSWORD $DB_PASSWORD",
        "--from-literal=password=$PASSWORD",
        "**Password:** required",
        "const token = process.env.TOKEN || 'undefined'",
        "X-Session: checkout-flow",
        f"X-Session: {UUID}",
        "integrity sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC",
        "tracking number 1Z999AA10123456784, order 4be199a277c04be199a277c0",
        "gpt-4o-2024-08-06 and claude-3-5-sonnet-20241022 count the tokens of toolu_01A09q90qw90lq917835lq9",
        "![x](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk)",
        "!function(e,t){var n=e[t0x4f3a2b1c9d8e7f6a5b4c3d2e1f];return n}(window,9)",
        "cache key v1:user:9f86d081884c7d659a2feaa0c55ad015",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    """Hashes, ids, lists of names, code that reads a secret, placeholders, images and minified code."""
    assert text == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-Session", KEY), ("X-SID", KEY), ("X-CSRF", KEY), ("X-Cookie", f"sid={KEY}"), ("X-Bearer", KEY)],
)
def test_a_header_of_a_session_is_redacted_if_its_value_is_random(name: str, value: str) -> None:
    """A session is a credential; the id that groups calls is a word or a UUID, and is left for the comparison."""
    assert [(name, "[REDACTED]")] == REDACTOR.redact_headers([(name, value)]).value
    plain = [("X-Session", "checkout"), ("X-Session", UUID), ("X-Session-Id", UUID), ("mcp-session-id", UUID)]
    assert plain == REDACTOR.redact_headers(plain).value
