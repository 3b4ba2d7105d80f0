"""Secrets in JSON that is a string inside of JSON."""

from __future__ import annotations

import json

import pytest

from traceforge.canon import JSON
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()


@pytest.mark.parametrize("level", range(10))
@pytest.mark.parametrize(
    "value",
    [{"password": "q7bzkitten"}, {"note": 'password = "q7bz4kitten"', "n": 1}, [{"api_key": "kitten-friend"}]],
)
def test_json_inside_of_json_hides_no_secret(value: JSON, level: int) -> None:
    """However often it was written as a string; the levels stay, and redacting twice changes nothing."""
    for _ in range(level):
        value = {"arguments": json.dumps(value), "id": "call_1"}

    cleaned = REDACTOR.redact_body(json.dumps(value).encode(), "application/json")

    inner = json.loads(cleaned.value)
    for _ in range(level):
        inner = json.loads(inner["arguments"])
    assert b"kitten" not in cleaned.value
    assert "[REDACTED]" in json.dumps(inner)
    assert cleaned.value == REDACTOR.redact_body(cleaned.value, "application/json").value


def test_json_inside_of_json_without_a_secret_is_unchanged() -> None:
    """Byte for byte."""
    value: JSON = {"note": "a plain text", "max_tokens": 5}
    for _ in range(6):
        value = {"arguments": json.dumps(value)}
    body = json.dumps(value).encode()

    assert body == REDACTOR.redact_body(body, "application/json").value


def test_json_inside_of_json_may_begin_with_a_space() -> None:
    """A string that is JSON after spaces and line ends is examined as well."""
    inner = json.dumps({"arguments": json.dumps({"arguments": json.dumps({"password": "q7bzkitten"})})})

    cleaned = REDACTOR.redact_json({"arguments": f" \r\n\t{inner}"})

    assert "kitten" not in json.dumps(cleaned.value)


def test_a_secret_that_repeats_is_redacted_everywhere() -> None:
    """Equal texts are scanned once, and all of them change."""
    note = "password = q7bz4kitten"

    cleaned = REDACTOR.redact_json([{"note": note, "id": 1}, {"note": "plain"}, {"note": note}, {"note": "plain"}])

    assert "kitten" not in json.dumps(cleaned.value)
    assert 2 == json.dumps(cleaned.value).count("[REDACTED]")
