"""Secrets that what stands beside them gives away: found in every notation, and what looks alike is kept.

Each of these was stored before it was found.
"""

from __future__ import annotations

import base64
import json
from random import Random

import pytest

from support.fake_secrets import draw
from traceforge.redact.redactor import Redactor

SOURCE = Random(20261119)
KEY = "9f" + draw(SOURCE, 16) + "K7"
HEX_32 = "a3" + "".join(SOURCE.choices("0123456789abcdef", k=28)) + "7f"
HEX_40 = HEX_32 + "0f9e8d7c"
AWS_ID = "AKIA" + "".join(SOURCE.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", k=16))
AWS_SECRET = draw(SOURCE, 22) + "/" + draw(SOURCE, 16) + "+"
PART = draw(SOURCE, 43)
UUID = "0c9f1b7e-63a4-4d12-9b7a-5f0e8a1d2c3b"
PPK = base64.b64encode(SOURCE.randbytes(48)).decode()

TEXTS = {
    "curl, options joined": (f"curl -su ann:{KEY} https://example.com", KEY),
    "curl, option and user joined": (f"curl -uann@example.com:{KEY} https://example.com", KEY),
    "curl as a list": (f'run(["curl", "-u", "ann:{KEY}", url])', KEY),
    "curl as a list in JSON in a text": (f'[\\"curl\\", \\"--user\\", \\"ann:{KEY}\\"]', KEY),
    "curl, the user is the key": (f"curl -u {KEY}: https://example.com", KEY),
    "curl, the password is any letter": (f'curl --user "{KEY}:x" https://example.com', KEY),
    "libcurl in PHP": (f"curl_setopt($c, CURLOPT_USERPWD, 'ann:{KEY}');", KEY),
    "an AWS id and its secret": (f"{AWS_ID}:{AWS_SECRET}", AWS_SECRET),
    "the same on two lines": (f"{AWS_ID}\n{AWS_SECRET}\n", AWS_SECRET),
    "the same after a word": (f"id: {AWS_ID}, key: {AWS_SECRET}", AWS_SECRET),
    "the same after a stroke": (f"{AWS_ID} / {AWS_SECRET}", AWS_SECRET),
    "a text of three quotes": (f'AWS_SECRET_ACCESS_KEY="""{AWS_SECRET}"""', AWS_SECRET),
    "another": (f"token = '''{KEY}'''", KEY),
    "the same as arguments": (f'client("s3", "{AWS_ID}", "{AWS_SECRET}")', AWS_SECRET),
    "the same in a row": (f"ann,{AWS_ID},{AWS_SECRET}\n", AWS_SECRET),
    "the same in JSON in a text": (f'[\\"{AWS_ID}\\",\\"{AWS_SECRET}\\"]', AWS_SECRET),
    "a JSON Web Key": (json.dumps({"kty": "EC", "crv": "P-256", "x": PART[::-1], "d": PART}), PART),
    "a symmetric one": (json.dumps({"k": PART, "kty": "oct"}), PART),
    "one in a text": (f"key: {{'kty': 'RSA', 'n': '{PART[::-1]}', 'e': 'AQAB', 'd': '{PART}'}}", PART),
    "a file of PuTTY": (f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\n{PPK}\nPrivate-MAC: 00\n", PPK),
    "a signer": (f'jwt.sign(payload, "{KEY}")', KEY),
    "a signer by name": (f"jwt.encode(payload, key='{KEY}', algorithm='HS256')", KEY),
    "a verifier": (f'jwt.verify(token, "{KEY}", done)', KEY),
    "signed cookies": (f'app.use(cookieParser("{KEY}"))', KEY),
    "a section of a configuration": (f'{{"Jwt": {{"Issuer": "me", "Key": "{KEY}"}}}}', KEY),
    "a section and an address": (f'"AzureOpenAI": {{"Endpoint": "https://a.example", "Key": "{HEX_32}"}}', HEX_32),
    "a key beside an address": (f'endpoint = "https://z.openai.azure.com/"\nkey = "{HEX_32}"', HEX_32),
    "a credential object": (f'new AzureKeyCredential("{HEX_32}")', HEX_32),
    "a method before a space": (f'set_token ("{KEY}")', KEY),
    "a part of a form": (f'form-data; name="client_secret"\r\n\r\n{HEX_32}\r\n--b', HEX_32),
    "an encrypted token without a key": (
        "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0.." + f"{PART[:16]}.{PART}.{PART[:22]}",
        PART,
    ),
    "a workflow token of Slack": (f"xwfp-462955361603-989331467753-{KEY}abcdefgh", KEY),
    "a UUID under a name that is secret": (f"X-Functions-Key: {UUID}", UUID),
    "a directory": (f"ldapsearch -D cn=a -w {KEY} -b dc=x", KEY),
    "SQL Server": (f"sqlcmd -S h -U sa -P {KEY}", KEY),
    "Oracle": (f"sqlplus ann/{KEY}@orcl", KEY),
    "Oracle in Java": (f"jdbc:oracle:thin:ann/{KEY}@h:1521:x", KEY),
    "a keystore": (f"keytool -storepass {KEY} -list", KEY),
    "Azure": (f"az login --service-principal -u a -p {KEY} --tenant t", KEY),
    "Vault": (f"vault login {KEY}", KEY),
    "a share": (f"net use \\\\h\\s /user:ann {KEY}", KEY),
    "a pipe": (f'echo "{KEY}" | docker login -u ann --password-stdin', KEY),
    "a pipe into another": (f"echo {HEX_40} | gh auth login --with-token", HEX_40),
    "csh": (f"setenv NPM_TOKEN {KEY}", KEY),
    "cmd": (f"set DEPLOY_TOKEN {KEY}", KEY),
    "Composer": (f"composer config github-oauth.github.com {HEX_40}", HEX_40),
}
HARMLESS = [
    "docker login -u ann --password-stdin",
    'echo "done" | docker login --password-stdin',
    "curl -su ann:$PASSWORD https://example.com",
    "curl -u ann:$PASSWORD https://example.com",
    "curl -u admin: https://example.com",
    'run(["ls", "-u", "2024-11-18T10:11:12.123456"])',
    f"the commit {HEX_40} of {HEX_32[:6]}",
    '{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}',
    "jwt.sign(payload, process.env.JWT_SECRET)",
    'jwt.decode(token, options={"verify_signature": False}, algorithms=["HS256"])',
    'cookieParser("change-me")',
    '{"credentials": {"provider": "vault", "key": "database"}}',
    '"key": "9f86d081884c7d659a2feaa0c55ad015"',
    "X-Request-Key: 0c9f1b7e-63a4-4d12-9b7a-5f0e8a1d2c3b",
    "setenv EDITOR_KEY vim",
    "set token limit 4096",
    'translate_key ("messages.errors.invalid_v2_form")',
    'form-data; name="prompt"\r\n\r\nWrite a poem about 2024.\r\n--b',
    "vault login -method=oidc role=dev2024",
    "sqlplus /nolog",
    "ldapsearch -x -h host2024 -b dc=example",
    "the bcp -P flag takes a password",
]


@pytest.mark.parametrize("notation", TEXTS)
def test_a_secret_is_found_by_what_stands_beside_it(notation: str) -> None:
    """In a text, and in the text of a message."""
    text, secret = TEXTS[notation]

    assert secret not in Redactor().redact_text(text)
    body = json.dumps({"messages": [{"role": "user", "content": f"Run this:\n{text}"}]}).encode()
    assert secret not in Redactor().redact_body(body).value.decode()


@pytest.mark.parametrize("name", ["d", "p", "q", "dp", "dq", "qi", "k"])
def test_the_private_half_of_a_json_web_key_is_found_in_a_body(name: str) -> None:
    """And the public half is kept: it names the key."""
    key = {"kty": "RSA", "n": PART[::-1], "e": "AQAB", name: PART}

    cleaned = json.loads(Redactor().redact_body(json.dumps({"keys": [key]}).encode()).value)

    assert {**key, name: "[REDACTED]"} == cleaned["keys"][0]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_looks_alike_is_kept(text: str) -> None:
    """Public halves of keys, options without a value, placeholders, words."""
    assert text == Redactor().redact_text(text)
