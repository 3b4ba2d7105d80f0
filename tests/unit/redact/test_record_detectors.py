"""Secrets that the shape of a record gives away, and records of the same shape that hold none."""

from __future__ import annotations

import json

import pytest

from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
HEX = "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0"
KEY = "hk3Jd82kLmQ9zXw1Pq7RtYv4"
SEED = "velvet orbit candle marble thunder pocket lunar basket copper window garden island"
NUMBERED = " ".join(f"{number}. {word}" for number, word in enumerate(SEED.split(), start=1))


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("host=db port=5432 user=app pass=§ dbname=x", "Blue8moon!"),
        ("Server=db;User=app;Pass=§;Database=x", "Blue8moon!"),
        ("Server=db; Uid=app; Pass=§; Database=x", "mellon"),
        ("Pass=§;Server=db", "Blue8moon!"),
        ("jdbc:mysql://db/x?user=app&password=§", "mellon"),
        ("https://example.com/login?user=ann&pass=§", "mellon"),
        ("https://example.com/login?pass=§", "Blue8moon1"),
        ("redis://cache:6379?pwd=§", "Blue8moon1"),
        ("db.example.com:5432:app:ann:§", "mellon"),
        ("# ~/.pgpass\nlocalhost:5433:*:ann:§\n", "Blue8moon!"),
        ("*:*:*:ann:§\n", "Blue8moon!"),
        ("/var/run/postgresql:5432:app:ann:§", "mellon"),
        ("seed phrase: §", SEED),
        ("My recovery phrase is §.", SEED),
        ("mnemonic = '§'", SEED),
        ("Backup words:\n§\n", NUMBERED),
        ("**Seed phrase:** `§`", SEED),
        ("X-Signature: §", HEX),
        ("X-Hub-Signature-256: sha256=§", HEX),
        ("'X-Hub-Signature': 'sha1=§'", HEX[:40]),
        ("x-amz-signature=§", HEX),
        ("https://b.example.com/k?X-Amz-Date=20240501T000000Z&X-Amz-Signature=§", HEX),
    ],
)
def test_a_secret_in_a_record_is_redacted(text: str, secret: str) -> None:
    """Alone, and as a text of a JSON body; redacting twice changes nothing."""
    expected = text.replace("§", "[REDACTED]")
    body = json.dumps({"content": text.replace("§", secret)}, ensure_ascii=False).encode()

    assert expected == REDACTOR.redact_text(text.replace("§", secret))
    assert expected == REDACTOR.redact_text(expected)
    assert {"content": expected} == json.loads(REDACTOR.redact_body(body, "application/json").value)


@pytest.mark.parametrize(
    "text",
    [
        "tests: pass=optimize-v2 fail=0",
        "see localhost:5432:a:b:cccccc for it",
        "bypass=Blue8moon! host=db",
        "Server=db;Uid=app;Pass=your_password;",
        "Server=db;Uid=app;Pass=${DB_PASS};",
        "https://example.com/wiki?user=ann&pass=pass",
        "localhost:5432:db:user:password",
        "src/app.py:5432:foo:bar:bazqux",
        "docker run -p 127.0.0.1:5432:5432 postgres:16",
        "at 10:5432:a:b:c",
        "arn:*:iam:ann:role1x",
        "seed phrase: write these twelve words on paper and keep them where nobody looks for them",
        "mnemonic: every good boy deserves fudge",
        "Your seed phrase is the only way to get your money back when the phone breaks",
        "secret words: apple, pear, plum",
        "X-Signature: required",
        "X-Signature: see-the-documentation-of-the-webhook",
        "X-Signature-Version: 2",
    ],
)
def test_a_record_without_a_secret_is_unchanged(text: str) -> None:
    """Counts of tests, options, placeholders, line numbers, sentences, and names of headers."""
    assert text == REDACTOR.redact_text(text)


@pytest.mark.parametrize(
    "body",
    [
        {"cookies": [{"name": "a", "value": KEY, "path": "/"}, {"name": "theme", "value": "dark-high-contrast-v2"}]},
        {"name": "b", "value": KEY, "domain": ".example.com", "httpOnly": True},
        {"list": [{"name": "JSESSIONID", "value": KEY}, {"name": "connect.sid", "value": KEY}]},
        {"headers": [{"name": "X-Hub-Signature-256", "value": KEY}, {"name": "Stripe-Signature", "value": KEY}]},
    ],
)
def test_a_cookie_or_signature_of_an_archive_of_calls_is_redacted(body: dict[str, object]) -> None:
    """As HAR and browsers list them, also where the archive is a text of the body."""
    data = json.dumps(body)
    expected = json.loads(data.replace(KEY, "[REDACTED]"))

    assert expected == json.loads(REDACTOR.redact_body(data.encode(), "application/json").value)
    nested = REDACTOR.redact_body(json.dumps({"content": data}).encode(), "application/json").value
    assert expected == json.loads(json.loads(nested)["content"])


@pytest.mark.parametrize(
    "body",
    [
        {"name": "checksum", "value": HEX},
        {"name": "session", "value": "morning-yoga-class-2024"},
        {"cookies": [{"name": "consent", "value": "accepted-all-2024"}, {"name": "lang", "value": "en-US"}]},
        {"name": "function_signature", "value": "def parse(text: str) -> list[int]"},
        {"cookies": ["oatmeal", "ginger"], "signature": HEX},
    ],
)
def test_a_pair_that_is_no_secret_is_unchanged(body: dict[str, object]) -> None:
    """A checksum, words under the name of a session, choices of a visitor, the signature of a function or a model."""
    data = json.dumps(body).encode()

    assert data == REDACTOR.redact_body(data, "application/json").value


def test_a_signature_header_is_redacted() -> None:
    """Of a webhook or a signed request; its version is none."""
    names = ("X-Signature", "X-Hub-Signature", "X-Hub-Signature-256", "X-Amz-Signature", "Stripe-Signature")
    plain = [("X-Signature-Version", "2"), ("X-Signature", "1")]

    assert [(name, "[REDACTED]") for name in names] == REDACTOR.redact_headers([(name, HEX) for name in names]).value
    assert plain == REDACTOR.redact_headers(plain).value


def test_an_address_of_a_call_is_redacted_by_pass() -> None:
    """As a parameter of the call itself, with any value."""
    assert "https://example.com/?pass=[REDACTED]" == REDACTOR.redact_url("https://example.com/?pass=mellon").value
