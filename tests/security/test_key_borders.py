"""Keys where terminals, diffs, Markdown, URLs and JSON put them: found to the end; what is longer than a key is kept.

Each place was a leak for at least one of these keys.
"""

from __future__ import annotations

import base64
import json
import re
from random import Random
from urllib.parse import quote, quote_plus

import pytest

from support.fake_secrets import URL_SAFE, draw, jwt, pem
from support.secret_shapes import hexadecimal, upper
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
SOURCE = Random(20261119)


def make_token(header: dict[str, str], indent: int | str | None = None, line_break: str = "\n") -> str:
    """A JWT whose header is written in this way."""
    text = json.dumps(header, indent=indent).replace("\n", line_break)
    claims = json.dumps({"sub": draw(SOURCE, 20)})
    parts = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (text, claims)]
    return ".".join([*parts, draw(SOURCE, 43, URL_SAFE)])


KEYS = {
    "OpenAI": "sk-proj-" + draw(SOURCE, 60, URL_SAFE),
    "Anthropic": "sk-ant-api03-" + draw(SOURCE, 95, URL_SAFE),
    "AWS": "AKIA" + upper(SOURCE, 16),
    "AWS, a role": "AROA" + upper(SOURCE, 16),
    "GitHub": "ghp_" + draw(SOURCE, 36),
    "GitLab": "glpat-" + draw(SOURCE, 20),
    "Google": "AIza" + draw(SOURCE, 35, URL_SAFE),
    "Google, of a login": "ya29.a0" + draw(SOURCE, 120, URL_SAFE),
    "Groq": "gsk_" + draw(SOURCE, 52),
    "Hugging Face": "hf_" + draw(SOURCE, 34),
    "Slack": f"xoxb-{SOURCE.randrange(10**11, 10**12)}-{draw(SOURCE, 24)}",
    "Stripe": "sk_live_" + draw(SOURCE, 24),
    "npm": "npm_" + draw(SOURCE, 36),
    "a vendor of the table": "dop_v1_" + hexadecimal(SOURCE, 64),
    "a token": jwt(SOURCE),
    "a token over several lines": make_token({"alg": "HS256", "typ": "JWT"}, indent=2),
    "a token of Windows": make_token({"alg": "HS256"}, indent=2, line_break="\r\n"),
    "a token with tabs": make_token({"alg": "HS256"}, indent="\t"),
    "a long token": make_token({"alg": "RS256"}) + draw(SOURCE, 2_000, URL_SAFE),
    "a token of an installation": "ghs_1234567_" + make_token({"alg": "RS256"}),
}
PLACES = {
    "coloured on a terminal": "\x1b[32m{}\x1b[0m",
    "coloured, in JSON": "\\u001b[1;31m{}\\u001b[0m",
    "a removed line of a diff": "-{}",
    "an item of a list": "\n- {}\n-{}",
    "the default of a variable": "${{X:-{}}}",
    "emphasis in Markdown": "it is _{}_ and __{}__",
    "behind a part that was cut": "...{} and {}...",
    "quoted-printable": "X=3D{}",
    "an escape of a program": "\\x22{}\\x22",
    "an octal escape": "\\042{}\\042",
    "a value of a form": "x=%22{}%22",
    "a URL in a URL": "https://h/?u=https%253A%252F%252Fg%252F%253Ft%253D{}%2526b",
    "a short option": "tool -t{} run",
    "behind a name and `_`": "PROD_{}",
    "behind a name and `-`": "key-{}",
    "behind a name and `.`": "conf.{}",
    "behind an id": "user-42-{}",
    "behind a number and `.`": "1.{}",
    "behind a rule": "------{}",
    "a user and a password of curl": "curl -u ann:{} https://h",
}
NAMED = {
    "a name in HTML": "api_key&quot;: &quot;{}&quot;",
    "a variable and what replaces it": 'os.getenv("API_KEY") or "{}"',
    "a key of Azure OpenAI, named": "azure openai key: {}",
    "behind the address of Azure OpenAI": "https://x.openai.azure.com/ {}",
    "a signing call of Java": 'signWith(SignatureAlgorithm.HS256, "{}")',
    "a signing call of Go": 'token.SignedString([]byte("{}"))',
    "a signing call of Node.js": "createHmac('sha256', '{}')",
    "a signing call of Python": 'hmac.new(b"{}", body, sha256)',
    "a user of Windows": "net user ann {} /add",
    "a password that is piped": "echo {} | sudo -S ls",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("issuer", KEYS)
def test_a_key_is_found_wherever_it_begins(issuer: str, place: str) -> None:
    """No character of it is left."""
    text = PLACES[place].replace("{}", KEYS[issuer]).replace("{{", "{").replace("}}", "}")

    redacted = REDACTOR.redact_text(text)

    assert KEYS[issuer][-10:] not in redacted
    assert KEYS[issuer][5:15] not in redacted


@pytest.mark.parametrize("place", NAMED)
def test_a_value_is_found_beside_what_names_it(place: str) -> None:
    """A key of hexadecimal digits, which nothing but its place tells from a checksum."""
    secret = hexadecimal(SOURCE, 32)

    assert secret not in REDACTOR.redact_text(NAMED[place].format(secret))


@pytest.mark.parametrize("spell", [quote, quote_plus, lambda text: quote(quote(text))])
def test_a_private_key_in_a_url_is_found(spell: object) -> None:
    """Its lines and spaces are escaped there, also twice."""
    assert callable(spell)
    block = pem(SOURCE)

    redacted = REDACTOR.redact_text("key=" + spell(block))

    assert spell(block)[200:220] not in redacted


@pytest.mark.parametrize("slash", ["/", "\\/", "%2F", "%252F"])
@pytest.mark.parametrize("host", ["hooks.slack.com", "hooks.slack-gov.com"])
def test_the_address_of_a_webhook_is_found(host: str, slash: str) -> None:
    """As JSON of PHP, a URL, and a URL inside of a URL write it."""
    secret = draw(SOURCE, 24)
    address = f"https://{host}/services/T{upper(SOURCE, 8)}/B{upper(SOURCE, 10)}/{secret}".replace("/", slash)

    assert secret not in REDACTOR.redact_text(f'"{address}"')


@pytest.mark.parametrize("password", ["a#4kitten9", "a?4kitten9", "p@4kitten9"])
def test_a_password_with_marks_in_an_address_is_found(password: str) -> None:
    """Nobody escapes them, though a URL demands it."""
    assert password[1:] not in REDACTOR.redact_text(f"postgres://ann:{password}@db.example.org/app")


def test_base64_in_a_url_is_redacted_to_its_end() -> None:
    """`+`, `/` and `=` are escaped there."""
    token = "IQoJb3JpZ2luX2Vj" + draw(SOURCE, 100) + "+/" + draw(SOURCE, 100) + "=="

    redacted = REDACTOR.redact_text("see https://h/x?note=" + quote(token, safe="") + " now")

    assert re.fullmatch(r"see https://h/x\?note=\[REDACTED\](?:%3D)* now", redacted)


@pytest.mark.parametrize("prefix", ["glpat-", "glrt-", "gldt-"])
def test_a_key_of_gitlab_in_base64_is_found(prefix: str) -> None:
    """Those of a runner and of a deployment as well."""
    encoded = base64.b64encode(f"{prefix}{draw(SOURCE, 20)}".encode()).decode()

    assert encoded[10:20] not in REDACTOR.redact_text(f"token: {encoded}")


def test_an_encrypted_token_in_base64_is_found() -> None:
    """Its second part is no JSON."""
    header = base64.urlsafe_b64encode(json.dumps({"alg": "dir", "enc": "A256GCM"}).encode()).decode().rstrip("=")
    token = ".".join([header, "", draw(SOURCE, 16), draw(SOURCE, 80), draw(SOURCE, 22)])
    encoded = base64.b64encode(token.encode()).decode()

    assert encoded[80:100] not in REDACTOR.redact_text(f"token: {encoded}")


def test_json_that_ends_in_a_line_break_is_no_header_of_a_token() -> None:
    """People encode files that way; no issuer does."""
    header, claims = (
        base64.urlsafe_b64encode(text).decode() for text in (b'{\n"alg": "none"\n}\n', b'{"sub": "ann b"}')
    )

    assert f"{header}.{claims}" == REDACTOR.redact_text(f"{header}.{claims}")


def test_a_bedrock_key_of_any_length_is_found() -> None:
    """What is encoded begins with its name."""
    key = "ABSK" + base64.b64encode(f"BedrockAPIKey-q7z4-at-1:{draw(SOURCE, 30)}".encode()).decode()

    assert key[30:] not in REDACTOR.redact_text(f"use {key} here")


@pytest.mark.parametrize(
    "text",
    [
        "glpat-" + draw(SOURCE, 60),  # longer than any
        "AKIA" + upper(SOURCE, 20),
        "http://localhost:8080?to=ann@h",
        "http://h:80#ann@h",
        'hmac.new(key, b"acme.match-key-id/1", "sha256")',
        "docs-sk-estimator-doc-link and --sk-header-height",
        f"x{KEYS['GitHub']}",  # part of a longer word
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo1Njc4OT_AKIAQ7QWERTY2345ABCD",  # base64 for URLs
    ],
)
def test_what_is_no_key_stays(text: str) -> None:
    assert text == REDACTOR.redact_text(text)
