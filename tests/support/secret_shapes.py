"""Shapes of secrets: keys of many vendors, and names beside values. Made at random, so that no file holds one."""

from __future__ import annotations

import base64
import string
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from support.fake_secrets import ALNUM, URL_SAFE, draw, jwt, pem

HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits


class Shape(NamedTuple):
    """A text with a secret in it, and the secret."""

    text: str
    secret: str


def hexadecimal(source: Random, length: int) -> str:
    """Hexadecimal digits, some of them letters."""
    return "a3" + "".join(source.choices(HEX, k=length - 4)) + "7f"


def uuid4(source: Random) -> str:
    """A random UUID."""
    digits = hexadecimal(source, 32)
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def lower(source: Random, length: int) -> str:
    return "q7" + "".join(source.choices(LOWER, k=length - 4)) + "z4"


def upper(source: Random, length: int) -> str:
    return "Q7" + "".join(source.choices(UPPER, k=length - 4)) + "Z4"


def discord(source: Random) -> str:
    """A bot token: a number in base64, a time and a signature."""
    number = str(source.randrange(4 * 10**17, 7 * 10**17))
    return f"{base64.b64encode(number.encode()).decode().rstrip('=')}.G{draw(source, 5)}.{draw(source, 38, URL_SAFE)}"


# The issuer, and a key of it. One for each format that was once stored, and their neighbours.
VENDOR_KEYS: dict[str, Callable[[Random], str]] = {
    "traceforge": lambda s: "tf_live_" + draw(s, 43, URL_SAFE),
    "vault service": lambda s: "hvs." + draw(s, 92, URL_SAFE),
    "vault batch": lambda s: "hvb." + draw(s, 140, URL_SAFE),
    "vault recovery": lambda s: "hvr." + draw(s, 40),
    "vault legacy": lambda s: "s." + draw(s, 24),
    "terraform": lambda s: draw(s, 14) + ".atlasv1." + draw(s, 67),
    "digitalocean": lambda s: "dop_v1_" + hexadecimal(s, 64),
    "digitalocean refresh": lambda s: "dor_v1_" + hexadecimal(s, 64),
    "shopify": lambda s: "shpat_" + hexadecimal(s, 32),
    "shopify shared": lambda s: "shpss_" + hexadecimal(s, 32),
    "notion": lambda s: "ntn_" + draw(s, 46),
    "notion legacy": lambda s: "secret_" + draw(s, 43),
    "pinecone": lambda s: "pcsk_" + draw(s, 6) + "_" + draw(s, 63),
    "cerebras": lambda s: "csk-" + lower(s, 48),
    "fireworks": lambda s: "fw_" + draw(s, 24),
    "elevenlabs": lambda s: "sk_" + hexadecimal(s, 48),
    "atlassian": lambda s: "ATATT3xFfGF0" + draw(s, 172, URL_SAFE) + "=" + upper(s, 8),
    "docker": lambda s: "dckr_pat_" + draw(s, 27, URL_SAFE),
    "discord": discord,
    "telegram": lambda s: f"{s.randrange(10**8, 10**10)}:AA" + draw(s, 33, URL_SAFE),
    "github": lambda s: "ghp_" + draw(s, 36),
    "github fine-grained": lambda s: "github_pat_" + draw(s, 22) + "_" + draw(s, 59),
    "gitlab": lambda s: "glpat-" + draw(s, 20),
    "gitlab runner": lambda s: "glrt-" + draw(s, 20),
    "slack app": lambda s: f"xapp-1-A{upper(s, 10)}-{s.randrange(10**12)}-" + hexadecimal(s, 64),
    "stripe": lambda s: "sk_live_" + draw(s, 24),
    "stripe webhook": lambda s: "whsec_" + draw(s, 32),
    "twilio": lambda s: "SK" + hexadecimal(s, 32),
    "sendgrid": lambda s: "SG." + draw(s, 22) + "." + draw(s, 43),
    "mailgun": lambda s: "key-" + hexadecimal(s, 32),
    "mailgun, of letters": lambda s: "key-" + lower(s, 32),
    "salesblink": lambda s: "key-" + draw(s, 64),
    "chec": lambda s: "sk_" + lower(s, 45),
    "iex cloud": lambda s: "sk_" + lower(s, 32),
    "facebook, of the explorer": lambda s: "EAACEdEose0cBA" + draw(s, 24),
    "mailchimp": lambda s: hexadecimal(s, 32) + "-us13",
    "brevo": lambda s: "xkeysib-" + hexadecimal(s, 64) + "-" + lower(s, 16),
    "resend": lambda s: "re_" + draw(s, 8) + "_" + draw(s, 24),
    "npm": lambda s: "npm_" + draw(s, 36),
    "pypi": lambda s: "pypi-AgEIcHlwaS5vcmc" + draw(s, 120, URL_SAFE),
    "rubygems": lambda s: "rubygems_" + hexadecimal(s, 48),
    "crates.io": lambda s: "cio" + draw(s, 32),
    "nuget": lambda s: "oy2" + lower(s, 43),
    "hugging face": lambda s: "hf_" + draw(s, 34),
    "replicate": lambda s: "r8_" + draw(s, 37),
    "groq": lambda s: "gsk_" + draw(s, 52),
    "perplexity": lambda s: "pplx-" + draw(s, 48),
    "xai": lambda s: "xai-" + draw(s, 80),
    "openrouter": lambda s: "sk-or-v1-" + hexadecimal(s, 64),
    "anthropic": lambda s: "sk-ant-api03-" + draw(s, 95, URL_SAFE),
    "openai project": lambda s: "sk-proj-" + draw(s, 120, URL_SAFE),
    "deepseek": lambda s: "sk-" + hexadecimal(s, 32),
    "moonshot": lambda s: "sk-" + draw(s, 48),
    "google": lambda s: "AIza" + draw(s, 35, URL_SAFE),
    "google oauth secret": lambda s: "GOCSPX-" + draw(s, 28, URL_SAFE),
    "google access": lambda s: "ya29." + draw(s, 120, URL_SAFE),
    "google refresh": lambda s: "1//0" + draw(s, 90, URL_SAFE),
    "aws id": lambda s: "AKIA" + upper(s, 16),
    "aws session": lambda s: "IQoJb3JpZ2lu" + draw(s, 300, ALNUM + "+/"),
    "bedrock": lambda s: "bedrock-api-key-" + base64.b64encode(draw(s, 120).encode()).decode(),
    "azure openai": lambda s: draw(s, 52) + "JQQJ99B" + draw(s, 25),
    "azure devops": lambda s: draw(s, 76) + "AZDO" + draw(s, 4),
    "azure client secret": lambda s: draw(s, 4)[:3] + "8Q~" + draw(s, 34),
    "databricks": lambda s: "dapi" + hexadecimal(s, 32),
    "supabase": lambda s: "sbp_" + hexadecimal(s, 40),
    "supabase secret": lambda s: "sb_secret_" + draw(s, 31, URL_SAFE),
    "linear": lambda s: "lin_api_" + draw(s, 40),
    "figma": lambda s: "figd_" + draw(s, 40, URL_SAFE),
    "airtable": lambda s: "pat" + draw(s, 14) + "." + hexadecimal(s, 64),
    "postman": lambda s: "PMAK-" + hexadecimal(s, 24) + "-" + hexadecimal(s, 34),
    "new relic": lambda s: "NRAK-" + upper(s, 27),
    "new relic licence": lambda s: hexadecimal(s, 36) + "NRAL",
    "grafana": lambda s: "glsa_" + draw(s, 32) + "_" + hexadecimal(s, 8),
    "grafana cloud": lambda s: "glc_" + draw(s, 100),
    "sentry": lambda s: "sntryu_" + hexadecimal(s, 64),
    "sentry organisation": lambda s: "sntrys_eyJpYXQiOjE" + draw(s, 90) + "_" + draw(s, 43),
    "doppler": lambda s: "dp.pt." + draw(s, 43),
    "doppler service": lambda s: "dp.st.dev." + draw(s, 43),
    "planetscale": lambda s: "pscale_tkn_" + draw(s, 43, URL_SAFE),
    "netlify": lambda s: "nfp_" + draw(s, 36),
    "vercel": lambda s: "vcp_" + draw(s, 56),
    "fly.io": lambda s: "fo1_" + draw(s, 43, URL_SAFE),
    "fly.io macaroon": lambda s: "fm2_" + draw(s, 200, ALNUM + "+/"),
    "heroku": lambda s: "HRKU-AA" + draw(s, 58, URL_SAFE),
    "square": lambda s: "sq0atp-" + draw(s, 22, URL_SAFE),
    "square access": lambda s: "EAAA" + draw(s, 60, URL_SAFE),
    "adyen": lambda s: "AQE" + draw(s, 150, ALNUM + "+/"),
    "dropbox": lambda s: "sl." + draw(s, 140, URL_SAFE),
    "mapbox": lambda s: "sk.eyJ" + draw(s, 70) + "." + draw(s, 22),
    "langsmith": lambda s: "lsv2_pt_" + hexadecimal(s, 32) + "_" + hexadecimal(s, 10),
    "langfuse": lambda s: "sk-lf-" + uuid4(s),
    "langfuse public": lambda s: "pk-lf-" + uuid4(s),
    "weights and biases": lambda s: "wandb_v1_" + draw(s, 60, URL_SAFE),
    "voyage": lambda s: "pa-" + draw(s, 43, URL_SAFE),
    "jina": lambda s: "jina_" + hexadecimal(s, 32) + draw(s, 28),
    "tavily": lambda s: "tvly-" + draw(s, 32),
    "firecrawl": lambda s: "fc-" + hexadecimal(s, 32),
    "e2b": lambda s: "e2b_" + hexadecimal(s, 40),
    "modal": lambda s: "ak-" + draw(s, 22),
    "modal secret": lambda s: "as-" + draw(s, 22),
    "together": lambda s: "tgp_v1_" + draw(s, 43, URL_SAFE),
    "nvidia": lambda s: "nvapi-" + draw(s, 64, URL_SAFE),
    "llamacloud": lambda s: "llx-" + draw(s, 48),
    "apify": lambda s: "apify_api_" + draw(s, 36),
    "zhipu": lambda s: hexadecimal(s, 32) + "." + draw(s, 16),
    "alibaba": lambda s: "LTAI" + draw(s, 20),
    "dynatrace": lambda s: "dt0c01." + upper(s, 24) + "." + upper(s, 64),
    "tailscale": lambda s: "tskey-auth-" + draw(s, 12) + "-" + draw(s, 24),
    "pulumi, of letters": lambda s: "pul-" + lower(s, 40),
    "rubygems, of letters": lambda s: "rubygems_" + lower(s, 42),
    "pulumi": lambda s: "pul-" + hexadecimal(s, 40),
    "hubspot": lambda s: "pat-na1-" + uuid4(s),
    "age": lambda s: "AGE-SECRET-KEY-1" + upper(s, 58),
    "posthog": lambda s: "phx_" + draw(s, 43, URL_SAFE),
    "sourcegraph": lambda s: "sgp_" + hexadecimal(s, 40),
    "asana": lambda s: f"1/{s.randrange(10**15, 10**16)}:" + hexadecimal(s, 32),
    "an unknown vendor": lambda s: "acme_live_" + draw(s, 32),
    "a token": jwt,
    "a key block": pem,
    "a key without lines": lambda s: "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + draw(s, 600, ALNUM + "+/"),
    "an encoded key block": lambda s: base64.b64encode(pem(s).encode()).decode(),
    "an encoded key block, shifted": lambda s: base64.b64encode(b"\n" + pem(s).encode()).decode(),
}  # fmt: skip

# A name and a value beside it, as people write them; `{}` is the value.
HEX32 = "hex32"
PASSWORD = "password"
NAMED: dict[str, tuple[str, str]] = {
    "an environment variable": ("AZURE_OPENAI_KEY={}", HEX32),
    "an exported variable": ("export FOO_TOKEN={}", HEX32),
    "a quoted variable": ("MISTRAL_API_KEY='{}'", HEX32),
    "a variable of a cloud": ("AWS_SECRET_ACCESS_KEY={}", "aws"),
    "a password in yaml": ("db:\n  password: {}\n", PASSWORD),
    "a short password": ("password: {}", "short"),
    "a secret in yaml": ('jwtsecret: "{}"', "marks"),
    "a secret in json": ('{{"jwtsecret": "{}"}}', "marks"),
    "json in a string": ('"{{\\"service\\": {{\\"accessKey\\": \\"{}\\"}}}}"', HEX32),
    "toml": ('[db]\nadmin_password = "{}"', PASSWORD),
    "ini": ("[mail]\nsmtp_pass = {}", PASSWORD),
    "php": ("'secret' => '{}',", PASSWORD),
    "go": ('apiKey := "{}"', HEX32),
    "a personal access token": ('ado_pat = "{}"', "lower52"),
    "a key of a vendor without a prefix": ("deepgram_key={}", HEX32),
    "a word before the value": ("your api key {}", HEX32),
    "a sentence": ("the password is {} for now", PASSWORD),
    "a token in a sentence": ("use token {} please", HEX32),
    "a value that is glued to its name": ("my-secret-{}", HEX32),
    "curl with a bearer": ("curl -H 'Authorization: Bearer {}' https://h", HEX32),
    "curl with a key": ('curl -H "X-Acme-Key: {}" https://h', HEX32),
    "curl with a user": ("curl -u ann:{} https://h", PASSWORD),
    "an option": ("agent --api-key {} --verbose", HEX32),
    "an option with a sign": ("agent --token={}", HEX32),
    "an option with a password": ("agent --db-password {} run", PASSWORD),
    "mysql": ("mysql -u root -p{} app", PASSWORD),
    "docker login": ("docker login -u ann -p {}", PASSWORD),
    "sshpass": ("sshpass -p '{}' ssh h", PASSWORD),
    "netrc": ("machine h login ann password {}", PASSWORD),
    "a connection string": ("Server=h;Uid=app;Pwd={};Database=d", PASSWORD),
    "an azure connection string": ("Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey={}", "base64"),
    "a url": ("postgres://ann:{}@db/app", PASSWORD),
    "a parameter": ("https://h/x?api_key={}", HEX32),
    "a vendor whose name begins as counts do": ("MINIMAX_API_KEY={}", HEX32),
    "the same, in yaml": ("maxmind_license_key: {}", HEX32),
    "the same, in code": ("numverifyToken = '{}'", HEX32),
    "the same, in a header": ("curl -H 'pagerduty-token: {}' https://h", HEX32),
    "a vendor that is called as a place in a list": ("CURSOR_API_KEY={}", HEX32),
    "a token of a page": ("page_access_token={}", HEX32),
    "the environment of a container": ("env:\n  - name: ACME_API_KEY\n    value: {}\n", HEX32),
    "a pair in a text": ('see {{"name": "acme_token", "value": "{}"}}', HEX32),
    "a row of a table": ("| ACME_API_KEY | `{}` |", HEX32),
    "a row of values": ("acme_secret,{},9", HEX32),
    "a value of two parts": ("ACME_TOKEN={}", "parts"),
    "a value with few digits": ("acme_key = '{}'", "letters"),
    "a token in an option": ("agent --acme-jwt {} run", HEX32),
}  # fmt: skip


def make_value(kind: str, source: Random) -> str:
    """A value that only its name gives away."""
    makers: dict[str, Callable[[Random], str]] = {
        HEX32: lambda s: hexadecimal(s, 32),
        PASSWORD: lambda s: draw(s, 10) + "9!x",
        "short": lambda s: lower(s, 5) + "kitten",
        "marks": lambda s: f"7`D{draw(s, 8)})T;W5]EB" + draw(s, 12) + "?3CF=",
        "aws": lambda s: draw(s, 40, ALNUM + "/+"),
        "lower52": lambda s: lower(s, 52),
        "base64": lambda s: draw(s, 43, ALNUM + "/+") + "=",
        "parts": lambda s: f"a{draw(s, 23)}.b{draw(s, 31)}",
        "letters": lambda s: (
            "".join(s.choice(string.ascii_lowercase) + s.choice(string.ascii_uppercase) for _ in range(18)) + "7"
        ),
    }
    return makers[kind](source)


def make_shape(name: str, source: Random) -> Shape:
    """A text with the secret of this shape."""
    if name in VENDOR_KEYS:
        secret = VENDOR_KEYS[name](source)
        return Shape(f"use {secret} here", secret)
    template, kind = NAMED[name]
    secret = make_value(kind, source)
    return Shape(template.format(secret), secret)


SHAPES = (*VENDOR_KEYS, *NAMED)
