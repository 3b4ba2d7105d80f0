"""Secrets that the shape of a JSON value gives away: collections of secrets, pairs of name and value, manifests."""

from __future__ import annotations

import json

import pytest

from traceforge.canon import JSON
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()
KEY = "hk3Jd82kLmQ9zXw1Pq7RtYv4"
PASSWORD = "Tr0ub4dor&3x"


@pytest.mark.parametrize(
    "value",
    [
        {"secrets": {"github": KEY}},
        {"Secrets": {"db": PASSWORD}},
        {"apiKeys": {"acme": KEY}},
        {"credentials": {"acme": {"value": KEY}}},
        {"credentials": {"db_password": PASSWORD, "host": "db"}},
        {"cookies": {"sessionid": KEY}},
        {"env": [{"Name": "DB_PASSWORD", "Value": PASSWORD}]},
        {"Parameters": [{"ParameterKey": "DbPassword", "ParameterValue": PASSWORD}]},
        {"fields": [{"id": "f1", "label": "password", "value": PASSWORD}]},
        {"headers": [{"header": "X-Acme-Key", "value": KEY}]},
        {"kind": "Secret", "data": {"dsn": "VHIwdWI0ZG9yJjN4"}},
        {"items": [{"kind": "Secret", "stringData": {"dsn": PASSWORD}}]},
    ],
)
def test_a_shape_gives_a_secret_away(value: JSON) -> None:
    """Though the name directly before the value says nothing; the same where the value is a string in JSON."""
    for body in (value, {"arguments": json.dumps(value)}):
        cleaned = REDACTOR.redact_body(json.dumps(body).encode()).value.decode()

        assert "[REDACTED]" in cleaned
        assert not any(secret in cleaned for secret in (KEY, PASSWORD, "VHIwdWI0ZG9yJjN4"))


@pytest.mark.parametrize(
    "value",
    [
        {"total_count": 1, "secrets": [{"name": "NPM", "created_at": "2019-08-10T14:59:22Z"}]},
        {"secrets": {"name": "db1", "createdAt": "2019-08-10T14:59:22Z", "id": "a1b2c3d4e5f6a7b8c9"}},
        {"properties": {"secrets": {"type": "object", "format": "v1beta2"}}},
        {"credentials": {"provider": "aws1", "region": "eu-west-1", "profile": "team2"}},
        {"cookies": {"theme": "dark-mode-2", "lang": "en"}},
        {"kind": "ConfigMap", "data": {"mode": "v1beta2x"}},
        {"name": "max_tokens", "value": "4096"},
        {"label": "Order", "value": "4be1-99a2-77c0"},
        {"key": "cache_key", "Value": "sha256-a1b2c3d4e5"},
    ],
)
def test_a_description_of_secrets_stays(value: JSON) -> None:
    """Names, dates and ids beside secrets, the properties of a schema, and pairs with another name are unchanged."""
    assert value == REDACTOR.redact_json(value).value
