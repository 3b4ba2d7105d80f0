"""Secrets in the notations that programs, shells and people write them in: found, and what looks alike is kept.

Each of these was stored before it was found.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from support.fake_secrets import draw
from traceforge.canon import JSON
from traceforge.redact.redactor import Redactor

SOURCE = Random(20261118)
KEY = "9f" + draw(SOURCE, 16) + "K7"
PASSWORD = "mellon!" + draw(SOURCE, 4) + "9"

BODIES: dict[str, JSON] = {
    "a name and its value, judged as a header": {"name": "X-Session", "value": KEY},
    "a parameter store": {"Name": "/prod/db", "Type": "SecureString", "Value": PASSWORD},
    "a field of a password manager": {"label": "db", "type": "CONCEALED", "value": PASSWORD},
    "a field of a form": {"type": "password", "value": PASSWORD},
    "a name around a value": {"token": {"value": KEY}},
    "objects in a list of secrets": {"secrets": [{"github": KEY}]},
    "names and values in a list of secrets": {"secrets": [{"name": "github", "value": KEY}]},
    "a collection in a collection": {"secrets": {"ci": {"github": KEY}}},
    "a list in a collection": {"secrets": {"ci": [KEY]}},
    "a credential with its history": {"credentials": {"prod": {"current": KEY}}},
}
TEXTS = {
    "a pair in a sentence": f'Result: {{"Name": "API_KEY", "Value": "{KEY}"}}',
    "a pair of Python": f"{{'Name': 'API_KEY', 'Value': '{KEY}'}}",
    "a collection in a block of code": f'```json\n{{"secrets": {{"github": "{KEY}"}}}}\n```',
    "a collection over lines": f'Here:\n{{\n "credentials": {{\n  "github": "{KEY}"\n }}\n}}',
    "a collection of Python": f"{{'secrets': {{'github': '{KEY}'}}}}",
    "a mapping of YAML": f"secrets:\n  github: {KEY}\n",
    "a list of YAML": f"build:\n  secrets:\n    - {KEY}\n",
    "a section of TOML": f'[secrets]\ngithub = "{KEY}"\n',
    "a table of psql": f" user | password \n------+----------\n ann  | {PASSWORD}\n",
    "a table of mysql": f"+---+----------+\n| u | password |\n+---+----------+\n| a | {PASSWORD} |\n",
    "PHP appends": f'$acmeToken .= "{KEY}";',
    "Make sets once": f'ACME_TOKEN ?= "{KEY}"',
    "Make expands": f'ACME_TOKEN ::= "{KEY}"',
    "POSIX Make expands": f'ACME_TOKEN :::= "{KEY}"',
    "a default in JavaScript": f"token ??= '{KEY}'",
    "a comparison": f'if (apiKey === "{KEY}") {{',
    "an inequality": f'if (api_key != "{KEY}") {{',
    "R": f'token <- "{KEY}"',
    "a setter": f'client.setToken("{KEY}")',
    "a builder": f'.withApiKey("{KEY}")',
    "a short name": f"pw: {PASSWORD}",
    "another": f"pass: {PASSWORD}",
    "a sentence": f"log in as ann, password {PASSWORD}",
    "a possessive": f"the password's {PASSWORD}",
    "a header in a call": f'request.Header.Set("X-Api-Key", "{KEY}")',
    "an item of a store": f"localStorage.setItem('token', '{KEY}')",
    "a salt of WordPress": f"define('AUTH_SALT', 'q8$;{KEY}%(x+[7>|e!^9Zw')",
    "the start of a client": f'client.init("{KEY}a4b5c6", options)',
    "a key in two calls": f'new SymmetricSecurityKey(Encoding.UTF8.GetBytes("{KEY}"))',
    "a login after a host": f'mysql_connect("localhost", "ann", "{PASSWORD}")',
    "a login in Kotlin": f'credentials("ann", "{PASSWORD}")',
    "a variable of Terraform": f'variable "acme_token" {{\n  default = "{KEY}"\n}}',
    "a password in Terraform": f'variable "db_password" {{ type = string\n default = "{PASSWORD}" }}',
    "a router": f"username ann password 7 0822{PASSWORD}",
    "a parameter of Digest": f'Authorization: Digest username="ann", realm="x", response="{KEY}"',
    "a parameter of Hawk": f'Authorization: Hawk id="ann", ts="1353832234", mac="{KEY}="',
    "an escaped field of a form": f"user%5Bpassword%5D={PASSWORD}",
    "a numbered key": f"VAULT_UNSEAL_KEY_1={KEY}",
    "a key in a path": f"wss://mainnet.infura.io/ws/v3/{KEY}",
    "a code of a login": f"https://app.example/callback?code={KEY}{KEY[::-1]}",
    "a field with a type": f'form-data; name="auth_token"\r\nContent-Type: text/plain\r\n\r\n{KEY}\r\n',
    "an unsealed vault": f"vault operator unseal {KEY}",
    "a share of Windows": f"net use Z: \\\\files\\home {PASSWORD} /user:ann",
    "a file of Apache": f"htpasswd -b .htpasswd ann {PASSWORD}",
    "a login over two lines": f"curl https://x.example \\\n-u ann:{PASSWORD}",
    "a server of FileZilla": f"<Server><Pass>{PASSWORD}</Pass></Server>",
}
HARMLESS = [
    "secrets:\n  - db_password\n  - api-token\n",
    "secrets:\n  DB_PASSWORD:\n    required: true\n",
    "secrets:\n  npm: ${{ secrets.NPM_TOKEN }}\nsteps:\n  - uses: a/b@11bd71901bbe5b1630ceea73d27597364c9af683\n",
    "credentials:\n  profile: production-eu-west-1\n",
    'credentials = { "region": "eu-west-1", "role": "arn:aws:iam::123456789012:role/Deploy2024" }',
    '[secrets]\nprovider = "vault-1.15.2"\n[build]\nsha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"\n',
    " user | password \n------+----------\n ann  | required\n",
    "PASS: test_login_v2 (0.03s)",
    "pass@1: 67.3%",
    "pw: see wiki#2024",
    'if password != "": pass',
    'translateKey("messages.errors.invalid_v2_form")',
    'findByKey("9f86d081884c7d659a2feaa0c55ad015")',
    'setToken("<token>")',
    'if method in ("password", "base64url22", "otp"):',
    't("token", "The token that you sent is not valid any more (2024-11-18).")',
    'cache.get("cache_key", "9f86d081884c7d659a2feaa0c55ad015")',
    'client.login("ann")',
    'connect("localhost", "postgres")',
    'variable "token" { description = "The token", default = "" }',
    "The login code is 12 lines long, and the pin is 4 digits.",
    "pin: 3.1415, port code: 8080/tcp",
    "https://github.com/acme/hooks/releases",
    'Authorization: Digest username="ann", realm="x"',
]
CODES = ["Your one-time password is {}.", "OTP: {}", "PIN code is {}", "verification code: **{}**"]
HARMLESS_VALUES: list[JSON] = [
    {"credentials": {"db": {"engine": "postgres15", "host": "db-1.internal", "port": "5432"}}},
    {"credentials": [{"type": "public-key", "id": "AbCdEfGhIjKl0123456789MnOpQrStUv"}]},
    {"name": "sort_key", "value": "created_at_2024"},
    {"name": "session", "value": "nightly-2024-11-18"},
    {"type": "password", "label": "Password"},
    {"token": {"value": "identifier_name", "type": "Identifier"}},
    {"properties": {"secrets": {"type": "array", "items": {"type": "object"}}}},
]


@pytest.mark.parametrize("name", BODIES)
def test_a_secret_is_found_by_the_shape_of_its_object(name: str) -> None:
    """In a body, and where the body is a text of another one, as the arguments of a tool call are."""
    body = json.dumps(BODIES[name])

    for data in (body, json.dumps({"arguments": body})):
        redacted = Redactor().redact_body(data.encode(), "application/json").value.decode()
        assert (False, False) == (KEY in redacted, PASSWORD in redacted), redacted


@pytest.mark.parametrize("name", TEXTS)
def test_a_secret_is_found_in_the_notation_of_its_language(name: str) -> None:
    """As a text of its own, and as the message of a request."""
    body = json.dumps({"messages": [{"role": "user", "content": TEXTS[name]}]})

    for data in (TEXTS[name], body):
        redacted = Redactor().redact_body(data.encode(), "").value.decode()
        assert (False, False) == (KEY in redacted, PASSWORD in redacted), redacted


@pytest.mark.parametrize("text", CODES)
def test_a_code_of_digits_is_found_by_what_it_is_called(text: str) -> None:
    """Digits have no other sign."""
    assert "482913" not in Redactor().redact_text(text.format(482913))


def test_a_key_with_a_percent_sign_and_a_bracket_is_no_placeholder() -> None:
    """Django makes its keys of such signs; `%(name)s` in a format is one."""
    redactor = Redactor()

    assert PASSWORD not in redactor.redact_text(f"SECRET_KEY = 'django-insecure-%(^+=gr@{PASSWORD}v9-v7'")
    assert "%(password)s" in redactor.redact_text('password = "%(password)s-2024x"')


@pytest.mark.parametrize("text", HARMLESS)
def test_a_text_that_names_secrets_is_kept(text: str) -> None:
    assert text == Redactor().redact_text(text)


@pytest.mark.parametrize("value", HARMLESS_VALUES)
def test_an_object_that_describes_secrets_is_kept(value: JSON) -> None:
    assert value == Redactor().redact_json(value).value


@pytest.mark.parametrize("opening", ['{"secrets": ', '{"secrets": [{"a": '])
def test_a_collection_inside_of_itself_is_cleaned(opening: str) -> None:
    """Also as deep as JSON may be, where a walk could run out of stack."""
    closing = "".join({"{": "}", "[": "]"}[mark] for mark in reversed(opening) if mark in "{[")
    depth = 195 // len(closing)
    body = opening * depth + f'"{KEY}"' + closing * depth

    assert KEY not in Redactor().redact_body(body.encode(), "application/json").value.decode()
