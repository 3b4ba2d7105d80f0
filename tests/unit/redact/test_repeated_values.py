"""Values that were redacted beside their name, at places where they stand alone."""

from __future__ import annotations

import json

import pytest

from support.work_counts import count_lines
from traceforge.canon import JSON
from traceforge.redact.redactions import REDACTED, Redaction
from traceforge.redact.redactor import Redactor
from traceforge.redact.repeated_values import VALUES_SEARCHED_MAX, is_distinctive
from traceforge.redact.scanner import SecretSpan
from traceforge.redact.secret_finder import SecretFinder

REDACTOR = Redactor()
VALUE = "q7bz4kitten"


@pytest.mark.parametrize(
    "value",
    [VALUE, "hunter2", "Tr0ub4dor&3", "s3cr3t!", "open$esame", "84629173", "x7bz4kitten", "v1gorous-Fox",
     "pässwort7", "correct horse 7 staple", "kQzWvBxTnRpLmJhGfDsAeUiOyC"],
)  # fmt: skip
def test_a_value_that_no_text_holds_by_chance_is_distinctive(value: str) -> None:
    """Letters with digits or marks, random letters, or a long number."""
    assert is_distinctive(value)


@pytest.mark.parametrize(
    "value",
    ["", "a1b2c", "kitten", "Kitten!", "correct horse battery", "dashboard_settings", "password123", "2026", "123456",
     "20261117", "1763337600", "1763337600000", "sha256", "utf-8", "base64", "gpt-4o-mini",
     "claude-3-5-sonnet-20241022", "oauth2", "python3.12", "call_9f86d081884c", "$API_KEY1", "your-key-1",
     "------", "a1\0b2c3"],
)  # fmt: skip
def test_a_value_that_ordinary_text_may_hold_is_not_distinctive(value: str) -> None:
    """Words, years, dates, times, algorithms, models, ids: they would be removed from honest answers."""
    assert not is_distinctive(value)


def test_a_value_is_redacted_at_every_place_of_a_document() -> None:
    """Before and after its name, escaped inside JSON that is a text, and as the name of a member."""
    value = {
        "messages": [f"is {VALUE} right?", f"password: {VALUE}", {VALUE: 1}],
        "arguments": json.dumps({"query": f"x{VALUE}'s"}),
    }

    cleaned = REDACTOR.redact_json(value)

    assert VALUE not in json.dumps(cleaned.value)
    assert {VALUE} == {item.reveal() for item in cleaned.log}
    assert {"SECRET"} == {item.type for item in cleaned.log}


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/plain", f"{VALUE}: password={VALUE}"),
        ("application/x-www-form-urlencoded", f"password={VALUE}&note=I+say+{VALUE}"),
        ("application/xml", f"<a><Password>{VALUE}</Password><note>{VALUE}</note></a>"),
        ("application/x-ndjson", f'{{"text": "{VALUE}"}}\n{{"password": "{VALUE}"}}\n'),
        (
            "multipart/form-data; boundary=b",
            f'--b\r\nContent-Disposition: form-data; name="password"\r\n\r\n{VALUE}\r\n'
            f'--b\r\nContent-Disposition: form-data; name="note"\r\n\r\nmy {VALUE}\r\n--b--\r\n',
        ),
    ],
)
def test_a_value_is_redacted_at_every_place_of_a_body(media_type: str, body: str) -> None:
    """Of every media type, whole or in chunks of one byte."""
    data = body.encode()

    chunks = REDACTOR.redact_chunks([data[place : place + 1] for place in range(len(data))], media_type).value

    assert VALUE.encode() not in REDACTOR.redact_body(data, media_type).value
    assert VALUE.encode() not in b"".join(chunks)
    assert len(data) == len(chunks)


def test_a_text_is_redacted_at_every_place() -> None:
    """As a scope or an error is."""
    assert f"{REDACTED} and password={REDACTED}" == REDACTOR.redact_text(f"{VALUE} and password={VALUE}")


def test_a_value_is_redacted_in_the_spellings_of_json_and_urls() -> None:
    """An answer may escape it."""
    value = 'pé7"kit&ten'
    redactor = REDACTOR.with_values([Redaction("$", 0, "FIELD", value)])

    for text in (value, json.dumps(value), json.dumps(value, ensure_ascii=False), "?q=p%C3%A97%22kit%26ten"):
        assert "kit" not in redactor.redact_text(text)


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("FIELD", f"Bearer {VALUE}"),
        ("BASIC_AUTH", f"ann:{VALUE}"),
        ("FIELD", f'{{"user":"ann","codes":["{VALUE}"]}}'),
    ],
)
def test_a_value_is_found_without_what_stood_around_it(kind: str, secret: str) -> None:
    """The scheme of a header, the user of a password, the object of a member."""
    redactor = REDACTOR.with_values([Redaction("$", 0, kind, secret)])

    assert f"it is {REDACTED}" == redactor.redact_text(f"it is {VALUE}")


def test_an_allowed_value_is_kept_everywhere() -> None:
    """The user said so."""
    text = f"{VALUE} and password={VALUE}"

    assert text == Redactor(allow=(VALUE,)).redact_text(text)


def test_a_redactor_without_new_values_is_the_same() -> None:
    """What a detector finds anywhere, and what ordinary text may hold, is not looked for."""
    redactions = [Redaction("$", 0, "EMAIL", "ann.lee@corp-example.org"), Redaction("$", 0, "FIELD", "kitten")]

    assert REDACTOR is REDACTOR.with_values(redactions)


@pytest.mark.slow
def test_many_values_cost_linear_work() -> None:
    """Of a few values and of thousands, every place is found, and twice as many cost twice as much."""
    values = [f"q{number}bz4kitten" for number in range(4 * VALUES_SEARCHED_MAX)]
    for count in (1, VALUES_SEARCHED_MAX, 4 * VALUES_SEARCHED_MAX):
        redactor = REDACTOR.with_values(Redaction("$", 0, "FIELD", value) for value in values[:count])
        assert " ".join([REDACTED] * count) == redactor.redact_text(" ".join(values[:count]))

    def work(count: int) -> int:
        value = [f"password: q{number}bz4kitten" for number in range(count)]
        return count_lines(lambda: REDACTOR.redact_json(value))

    work(10)
    assert work(2_000) < 2.3 * work(1_000)


def test_a_value_is_redacted_in_names_and_headers_that_were_clean_before() -> None:
    """They were clean for the redactor that did not know the value, and are as long as the value, or longer."""
    redactor = Redactor()
    document: JSON = {VALUE: 1, f"id-{VALUE}": 2, "model": "m"}
    headers = [("x-note", VALUE), (f"x-{VALUE}", "1"), ("a", "b")]
    assert document is redactor.redact_json(document).value
    assert headers == redactor.redact_headers(headers).value
    repeating = redactor.with_values([Redaction("$", 0, "FIELD", VALUE)])

    assert {REDACTED: 1, f"id-{REDACTED}": 2, "model": "m"} == repeating.redact_json(document).value
    assert [("x-note", REDACTED), (f"x-{REDACTED}", "1"), ("a", "b")] == repeating.redact_headers(headers).value


def test_a_new_value_costs_no_look_at_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer of a provider may bring a cookie: names and headers that are too short for it are known."""
    redactor = Redactor()
    document: JSON = {"model": "m", "usage": {"tokens": 1}}
    headers = [("content-type", "text/plain"), ("server", "x")]
    redactor.redact_json(document)
    redactor.redact_headers(headers)
    repeating = redactor.with_values([Redaction("$", 0, "FIELD", "q7bz4" * 30)])
    scanned: list[bytes] = []
    find_secrets = SecretFinder.find_secrets

    def note_scan(finder: SecretFinder, text: bytes) -> list[SecretSpan]:
        scanned.append(text)
        return find_secrets(finder, text)

    monkeypatch.setattr(SecretFinder, "find_secrets", note_scan)
    repeating.redact_json(document)
    repeating.redact_headers(headers)

    assert [b'model": "m'] == scanned
