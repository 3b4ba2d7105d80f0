"""Values, headers, URLs and bodies."""

from __future__ import annotations

import copy
import json
import threading
from random import Random

import pytest

from support.fake_secrets import SECRETS, luhn
from traceforge.errors import InvalidConfig
from traceforge.redact.redactions import REDACTED, TextSpan
from traceforge.redact.redactor import Redactor
from traceforge.redact.secret_finder import TEXTS_REMEMBERED_BYTES

REDACTOR = Redactor()
SOURCE = Random(5)
KEY = SECRETS["OPENAI_KEY"](SOURCE)
MAIL = SECRETS["EMAIL"](SOURCE)
CARD = luhn(SOURCE, "4", 16)


def test_a_clean_value_is_the_same_object() -> None:
    """Nothing is copied where nothing is redacted."""
    value = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "stop": None}

    cleaned = REDACTOR.redact_json(value)

    assert cleaned.value is value
    assert [] == cleaned.log


def test_the_input_is_never_changed() -> None:
    """A redacted value is a copy; the caller's stays as it was."""
    value = {"a": [{"b": f"mail {MAIL}"}], "api_key": {"deep": [KEY]}}
    before = copy.deepcopy(value)

    REDACTOR.redact_json(value)

    assert before == value


def test_names_match_whole_whatever_their_case_and_separators() -> None:
    """`api_key`, `apiKey` and `API-KEY` are one name; `max_tokens` is another than `token`."""
    value = {
        "api_key": "a",
        "apiKey": "b",
        "API-KEY": "c",
        "max_tokens": 5,
        "token": "Hello",
        "tokens": ["x"],
        "key": "k",
    }

    cleaned = REDACTOR.redact_json(value).value

    assert {**value, "api_key": REDACTED, "apiKey": REDACTED, "API-KEY": REDACTED} == cleaned


def test_a_secret_name_takes_its_whole_value_but_not_what_says_nothing() -> None:
    """Strings, numbers, objects and lists are replaced; null, booleans and what is empty stay."""
    value = {
        "a": {"password": "x"}, "b": {"password": 1234}, "c": {"password": {"k": "v"}}, "d": {"password": ["v"]},
        "e": {"password": None}, "f": {"password": True}, "g": {"password": ""}, "h": {"password": {}},
    }  # fmt: skip

    cleaned = REDACTOR.redact_json(value).value

    assert isinstance(cleaned, dict)
    assert [{"password": REDACTED}] * 4 == [cleaned[name] for name in "abcd"]
    assert [value[name] for name in "efgh"] == [cleaned[name] for name in "efgh"]


def test_the_schema_of_a_tool_may_have_a_password() -> None:
    """A property that is called password is described, not filled in."""
    tool = {"parameters": {"properties": {"password": {"type": "string"}}, "required": ["password"]}}

    assert REDACTOR.redact_json(tool).value is tool


def test_a_card_as_a_number_becomes_the_text_redacted() -> None:
    """JSON stays JSON, and a number that is no card stays that number."""
    cleaned = REDACTOR.redact_json(
        {"card": int(CARD), "n": [int(CARD)], "seed": int(CARD), "created": 1753879075170}
    ).value

    assert {"card": REDACTED, "n": [REDACTED], "seed": int(CARD), "created": 1753879075170} == cleaned


def test_a_secret_that_is_a_name_is_replaced_and_no_member_is_lost() -> None:
    """Maps keyed by address exist; two addresses stay two members."""
    other = SECRETS["EMAIL"](SOURCE)

    cleaned = REDACTOR.redact_json({MAIL: 1, other: 2})

    assert [1, 2] == list(cleaned.value.values()) if isinstance(cleaned.value, dict) else []
    assert MAIL not in str(cleaned)
    assert other not in str(cleaned)


def test_the_arguments_of_a_tool_call_stay_json() -> None:
    """A text that is JSON is JSON afterwards, also where a number in it was a card."""
    arguments = json.dumps({"card": int(CARD), "to": MAIL, "password": "x", "n": 5})

    cleaned = REDACTOR.redact_json({"arguments": arguments}).value

    assert isinstance(cleaned, dict)
    assert {"card": REDACTED, "to": REDACTED, "password": REDACTED, "n": 5} == json.loads(str(cleaned["arguments"]))
    assert {"card": REDACTED, "to": REDACTED, "password": REDACTED, "n": 5} == json.loads(
        REDACTOR.redact_text(arguments)
    )


def test_the_name_of_a_field_is_context_for_its_value() -> None:
    """`ssn` says what nine digits are, as it would in a text."""
    assert {"ssn": REDACTED, "zip": "078051121"} == REDACTOR.redact_json(
        {"ssn": "078051121", "zip": "078051121"}
    ).value


def test_one_text_never_speaks_for_its_neighbour() -> None:
    """Texts are scanned side by side, and found as if each were alone."""
    parts = ["my ssn", "078051121", "password =", "correct-horse1", KEY[:20], KEY[20:], "-----BEGIN PRIVATE KEY-----"]

    assert REDACTOR.redact_json(parts).value == [REDACTOR.redact_text(part) for part in parts]


def test_headers_are_redacted_by_name_and_by_text() -> None:
    """The order and the names stay."""
    headers = [("Authorization", "Bearer x"), ("Accept", "*/*"), ("X-Note", f"for {MAIL}"), ("x-api-key", "k")]

    cleaned = REDACTOR.redact_headers(headers)

    assert [REDACTED, "*/*", f"for {REDACTED}", REDACTED] == [value for _, value in cleaned.value]
    assert [name for name, _ in headers] == [name for name, _ in cleaned.value]
    assert {"$.Authorization", '$["X-Note"]', '$["x-api-key"]'} == {item.path for item in cleaned.log}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h/v1/models/m:generate?key=abc&alt=sse", f"https://h/v1/models/m:generate?key={REDACTED}&alt=sse"),
        ("https://ann:pw@h/x", f"https://{REDACTED}@h/x"),
        ("https://h/?a=ann%40example.org&b=1", f"https://h/?a={REDACTED}&b=1"),
        ("https://h/u/ann%40example.org/x", f"https://h/u/{REDACTED}/x"),
        ("https://h/cb#access_token=abc&x=1", f"https://h/cb#access_token={REDACTED}&x=1"),
        ("https://h/?api-version=2024-02-01&max_tokens=5", "https://h/?api-version=2024-02-01&max_tokens=5"),
        (f"https://h/{KEY}", f"https://h/{REDACTED}"),
    ],
)
def test_urls_lose_their_secrets_and_nothing_else(url: str, expected: str) -> None:
    """User and password, parameters by name, and whatever hides behind percent signs."""
    assert expected == REDACTOR.redact_url(url).value
    assert expected == REDACTOR.redact_url(expected).value


def test_a_clean_body_keeps_its_bytes() -> None:
    """White space, notation and order stay byte for byte."""
    body = b'{ "b" : 1.0,\n "a": 1e5, "big": 12345678901234567890123 }'

    assert body is REDACTOR.redact_body(body, "application/json").value


def test_numbers_beside_a_secret_keep_their_digits() -> None:
    """An integer beyond a double is not rounded because its neighbour was redacted."""
    cleaned = REDACTOR.redact_body(f'{{"m":"{MAIL}","id":9007199254740993,"f":0.1}}'.encode(), "application/json")

    assert f'{{"m":"{REDACTED}","id":9007199254740993,"f":0.1}}'.encode() == cleaned.value


def test_a_member_that_another_replaced_does_not_leak() -> None:
    """Of two equal names the last counts, and the first is not kept in the bytes."""
    cleaned = REDACTOR.redact_body(f'{{"a":"{KEY}","a":"x"}}'.encode(), "application/json")

    assert b'{"a":"x"}' == cleaned.value


def test_forms_texts_and_bytes_are_cleaned_too() -> None:
    """By their names, as text, and even where they are no text at all."""
    assert (
        f"a=1&password={REDACTED}".encode()
        == REDACTOR.redact_body(b"a=1&password=x%21", "application/x-www-form-urlencoded").value
    )
    assert (
        f"see {REDACTED}".encode() == REDACTOR.redact_body(f"see {KEY}".encode(), "text/plain; charset=utf-8").value
    )
    assert b"\xff\xfe " + REDACTED.encode() == REDACTOR.redact_body(b"\xff\xfe " + KEY.encode()).value
    assert (
        f"{{broken {REDACTED}".encode() == REDACTOR.redact_body(f"{{broken {KEY}".encode(), "application/json").value
    )


def test_spans_are_in_code_points_of_the_input() -> None:
    """An accent is one, an emoji is one."""
    text = f"é 😀 {MAIL}"

    assert [TextSpan(4, 4 + len(MAIL), "EMAIL")] == REDACTOR.find_secrets(text)


def test_a_lone_surrogate_does_no_harm() -> None:
    """JSON may hold one, and so may what we clean."""
    assert f"\ud800 {REDACTED}" == REDACTOR.redact_text(f"\ud800 {MAIL}")
    assert [f"\ud800 {REDACTED}"] == REDACTOR.redact_json([f"\ud800 {MAIL}"]).value


def test_own_fields_patterns_and_exceptions() -> None:
    """A project adds names and expressions, and lists what may stay."""
    mine = Redactor(fields=("custom_secret_field",), patterns=(r"ACME-\d{4}",), allow=("*@example.org", "ACME-0000"))
    value = {"Custom-Secret-Field": "x", "t": f"ACME-1234 ACME-0000 docs@example.org {MAIL}"}

    assert {"Custom-Secret-Field": REDACTED, "t": f"{REDACTED} ACME-0000 docs@example.org {REDACTED}"} == (
        mine.redact_json(value).value
    )
    assert f'{{"custom_secret_field": "{REDACTED}"}}' == mine.redact_text('{"custom_secret_field": "x"}')
    assert value["t"] == REDACTOR.redact_text(value["t"]).replace(
        REDACTED, MAIL, 1
    ) or REDACTED in REDACTOR.redact_text(value["t"])


@pytest.mark.parametrize("pattern", [r"(?<=a)b", r"(?=a)", r"(a)\1", "(", "a*"])
def test_an_expression_that_cannot_be_used_is_refused_with_its_place(pattern: str) -> None:
    """Look-around, back-references, broken ones, and those that match everywhere."""
    with pytest.raises(InvalidConfig) as refused:
        Redactor(patterns=("fine", pattern))

    (finding,) = refused.value.findings
    assert "$.redact_patterns[1]" == finding.path
    assert "google-re2" in finding.hint


def test_threads_share_a_redactor() -> None:
    """It holds nothing that one call could spoil for another."""
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.extend(REDACTOR.redact_text(f"{n} {MAIL}") for n in range(200)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(f"{n} {REDACTED}" for n in range(200)) * 4 == sorted(results) or 800 == len(results)
    assert not any(MAIL in result for result in results)


@pytest.mark.parametrize("value", ['a"b', "back\\slash", "é 日本 😀", "line\nfeed"])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_secret_in_json_that_is_a_text_is_logged_as_its_value(value: str, ascii_only: bool) -> None:
    """Not as it is escaped there: the same value has the same fingerprint at any depth."""
    text = json.dumps({"password": value}, ensure_ascii=ascii_only)

    logs = [Redactor().redact_json(document).log for document in ({"password": value}, {"x": text})]

    assert [[value], [value]] == [[item.reveal() for item in log] for log in logs]


def test_a_text_that_was_clean_is_not_scanned_again_and_one_with_a_secret_is() -> None:
    """What is remembered is never an answer to another question: another field, a longer text, another redactor."""
    redactor = Redactor().with_memory()
    clean = "a conversation that is sent again with every call " * 4
    for _ in range(2):
        assert [] == redactor.redact_json({"messages": [clean], "content": clean}).log
        found = redactor.redact_json(
            {"messages": [clean, f"{clean} {SECRETS['OPENAI_KEY'](Random(1))}"], "content": clean}
        )
        assert ["$.messages[1]"] == [item.path for item in found.log]

    own = Redactor(patterns=("conversation",)).with_memory()
    assert ["CUSTOM"] * 4 == [item.type for item in own.redact_json([clean]).log]


def test_what_is_remembered_of_clean_texts_is_bounded() -> None:
    """A thousand long texts, and one that is longer than all that is remembered."""
    redactor = Redactor().with_memory()
    for number in range(1000):
        redactor.redact_json([f"{number} " + "x y " * 5_000])
    redactor.redact_json(["x y " * 2_000_000])

    assert sum(map(len, redactor._finder.clean_texts)) <= TEXTS_REMEMBERED_BYTES
