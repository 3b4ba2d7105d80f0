"""Random made-up secrets of every type: none is written in a file, so that secret scanners stay quiet."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from random import Random

LETTERS = string.ascii_letters
ALNUM = LETTERS + string.digits
URL_SAFE = ALNUM + "-_"


def draw(source: Random, length: int, alphabet: str = ALNUM) -> str:
    """A random text that always has a digit and ends in a letter, so that no test depends on luck."""
    middle = "".join(source.choices(alphabet, k=length - 4))
    return (
        source.choice(LETTERS) + source.choice("23456789") + middle + source.choice("2468") + source.choice(LETTERS)
    )


def luhn(source: Random, prefix: str, length: int) -> str:
    """A card number with a valid check digit."""
    body = prefix + "".join(source.choices(string.digits, k=length - 1 - len(prefix)))
    total = sum(
        sum(divmod(int(digit) * 2, 10)) if place % 2 == 0 else int(digit)
        for place, digit in enumerate(reversed(body))
    )
    return body + str(-total % 10)


def grouped(number: str, mark: str) -> str:
    return mark.join(number[place : place + 4] for place in range(0, len(number), 4))


def jwt(source: Random) -> str:
    """A token with a real JWT header."""
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": draw(source, 10)})]
    return ".".join([base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts] + [draw(source, 43)])


def pem(source: Random) -> str:
    """A block that looks like a private key."""
    body = "\n".join(draw(source, 64, ALNUM + "+/") for _ in range(4))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"


def us_phone(source: Random) -> str:
    """A US phone number; area and exchange start with 2 to 9."""
    area, exchange, line = source.randint(200, 999), source.randint(200, 999), source.randint(0, 9999)
    shapes = ("({}) {}-{:04}", "{}-{}-{:04}", "+1 {} {} {:04}", "{}.{}.{:04}", "+1{}{}{:04}")
    return source.choice(shapes).format(area, exchange, line)


def ssn(source: Random) -> str:
    """A social security number in a valid range."""
    area = source.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03}-{source.randint(1, 99):02}-{source.randint(1, 9999):04}"


SECRETS: dict[str, Callable[[Random], str]] = {
    "OPENAI_KEY": lambda source: source.choice(["sk-", "sk-proj-", "sk-admin-", "sk-svcacct-"]) + draw(source, 48),
    "ANTHROPIC_KEY": lambda source: "sk-ant-api03-" + draw(source, 95, URL_SAFE),
    "GOOGLE_API_KEY": lambda source: "AIza" + draw(source, 35, URL_SAFE),
    "AWS": lambda source: "AKIA" + draw(source, 16, string.ascii_uppercase + "234567").upper(),
    "AZURE": lambda source: draw(source, 52) + "JQQJ99B" + draw(source, 25),
    "GITHUB_TOKEN": lambda source: source.choice(["ghp_", "gho_", "ghs_", "ghu_", "ghr_"]) + draw(source, 36),
    "GITLAB_TOKEN": lambda source: "glpat-" + draw(source, 20),
    "SLACK": lambda source: f"xoxb-{source.randrange(10**11, 10**12)}-{source.randrange(10**12)}-" + draw(source, 24),
    "STRIPE": lambda source: source.choice(["sk_live_", "rk_live_", "sk_test_"]) + draw(source, 24),
    "HUGGINGFACE": lambda source: "hf_" + draw(source, 34),
    "GROQ": lambda source: "gsk_" + draw(source, 52),
    "JWT": jwt,
    "PRIVATE_KEY": pem,
    "EMAIL": lambda source: (
        f"{draw(source, 9).lower()}@{draw(source, 8).lower()}.{source.choice(['com', 'org', 'io'])}"
    ),
    "PHONE": us_phone,
    "US_SSN": ssn,
    "CREDIT_CARD": lambda source: source.choice(
        [
            luhn(source, "4", 16),
            luhn(source, "37", 15),
            grouped(luhn(source, "55", 16), " "),
            grouped(luhn(source, "6011", 16), "-"),
        ]
    ),
}
