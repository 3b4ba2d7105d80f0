"""Redaction of values, headers, URLs and bodies."""

from __future__ import annotations

import copy
import gzip
import json
import threading
import zlib
from collections.abc import Callable
from random import Random

import pytest
import zstandard

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


def test_a_value_without_secrets_is_returned_itself() -> None:
    """Nothing is copied where nothing is redacted."""
    value = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "stop": None}

    cleaned = REDACTOR.redact_json(value)

    assert cleaned.value is value
    assert [] == cleaned.log


def test_the_input_is_never_changed() -> None:
    """A redacted value is a copy."""
    value = {"a": [{"b": f"mail {MAIL}"}], "api_key": {"deep": [KEY]}}
    before = copy.deepcopy(value)

    REDACTOR.redact_json(value)

    assert before == value


def test_field_names_match_in_any_case_and_with_any_separators() -> None:
    """`api_key`, `apiKey` and `API-KEY` are one name; `max_tokens` is not `token`."""
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


def test_the_whole_value_of_a_secret_field_is_redacted() -> None:
    """Strings, numbers, objects and lists; null, booleans and empty values stay."""
    value = {
        "a": {"password": "x"}, "b": {"password": 1234}, "c": {"password": {"k": "v"}}, "d": {"password": ["v"]},
        "e": {"password": None}, "f": {"password": True}, "g": {"password": ""}, "h": {"password": {}},
    }  # fmt: skip

    cleaned = REDACTOR.redact_json(value).value

    assert isinstance(cleaned, dict)
    assert [{"password": REDACTED}] * 4 == [cleaned[name] for name in "abcd"]
    assert [value[name] for name in "efgh"] == [cleaned[name] for name in "efgh"]


def test_a_property_named_password_in_a_tool_s_schema_stays() -> None:
    """Its value is a description, not a password."""
    tool = {"parameters": {"properties": {"password": {"type": "string"}}, "required": ["password"]}}

    assert REDACTOR.redact_json(tool).value is tool


def test_a_card_that_is_a_json_number_becomes_a_string() -> None:
    """JSON stays JSON, and other numbers stay numbers."""
    cleaned = REDACTOR.redact_json(
        {"card": int(CARD), "n": [int(CARD)], "seed": int(CARD), "created": 1753879075170}
    ).value

    assert {"card": REDACTED, "n": [REDACTED], "seed": int(CARD), "created": 1753879075170} == cleaned


def test_a_secret_as_a_key_is_redacted_and_no_member_is_lost() -> None:
    """Some maps are keyed by address; two addresses stay two members."""
    second_email = SECRETS["EMAIL"](SOURCE)

    cleaned = REDACTOR.redact_json({MAIL: 1, second_email: 2})

    assert [1, 2] == list(cleaned.value.values()) if isinstance(cleaned.value, dict) else []
    assert MAIL not in str(cleaned)
    assert second_email not in str(cleaned)


def test_the_arguments_of_a_tool_call_stay_json() -> None:
    """Also where a number in their text was a card."""
    arguments = json.dumps({"card": int(CARD), "to": MAIL, "password": "x", "n": 5})

    cleaned = REDACTOR.redact_json({"arguments": arguments}).value

    assert isinstance(cleaned, dict)
    assert {"card": REDACTED, "to": REDACTED, "password": REDACTED, "n": 5} == json.loads(str(cleaned["arguments"]))
    assert {"card": REDACTED, "to": REDACTED, "password": REDACTED, "n": 5} == json.loads(
        REDACTOR.redact_text(arguments)
    )


def test_the_name_of_a_field_is_context_for_its_value() -> None:
    """`ssn` identifies nine digits, as it would in a text."""
    assert {"ssn": REDACTED, "zip": "078051122"} == REDACTOR.redact_json(
        {"ssn": "078051121", "zip": "078051122"}
    ).value


def test_a_text_is_no_context_for_the_next_text() -> None:
    """Texts are scanned together, with the result of scanning each alone."""
    parts = ["my ssn", "078051121", "password =", "correct-horse1", KEY[:20], KEY[20:], "-----BEGIN PRIVATE KEY-----"]

    assert REDACTOR.redact_json(parts).value == [REDACTOR.redact_text(part) for part in parts]


def test_headers_are_redacted_by_name_and_by_value() -> None:
    """Their order and names stay."""
    headers = [("Authorization", "Bearer x"), ("Accept", "*/*"), ("X-Note", f"for {MAIL}"), ("x-api-key", "k")]

    cleaned = REDACTOR.redact_headers(headers)

    assert [REDACTED, "*/*", f"for {REDACTED}", REDACTED] == [value for _, value in cleaned.value]
    assert [name for name, _ in headers] == [name for name, _ in cleaned.value]
    assert {"$.Authorization", '$["X-Note"]', '$["x-api-key"]'} == {item.path for item in cleaned.log}


@pytest.mark.parametrize("name", ["code", "code_verifier", "assertion", "client_assertion", "pass", "otp", "pin"])
def test_what_a_login_takes_is_redacted_in_urls_and_forms(name: str) -> None:
    """In the URL of a call, in the URL that an answer sends the client to, and in a form; not in a text."""
    form = f"grant_type=any&{name}=q7Wz01xx&scope=mail"
    expected = f"grant_type=any&{name}={REDACTED}&scope=mail"
    places = [f"/next?{form}", f"https://h/?{form}"]

    cleaned = REDACTOR.redact_headers([("Location", places[0]), ("Referer", places[1])], is_response=True)

    assert [f"/next?{expected}", f"https://h/?{expected}"] == [value for _, value in cleaned.value]
    assert [f"/next?{expected}", f"https://h/?{expected}"] == [REDACTOR.redact_url(url).value for url in places]
    assert expected.encode() == REDACTOR.redact_body(form.encode(), "application/x-www-form-urlencoded").value
    assert "see https://h/?code=overview" == REDACTOR.redact_text("see https://h/?code=overview")


@pytest.mark.parametrize("name", ["client_token", "client_assertion", "code_verifier", "db_pass", "mfa_code"])
def test_tokens_of_other_services_are_redacted_by_name(name: str) -> None:
    assert {"auth": {name: REDACTED}} == REDACTOR.redact_json({"auth": {name: "q7Wz01xx"}}).value


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
def test_only_the_secrets_of_a_url_are_redacted(url: str, expected: str) -> None:
    """User and password, parameters by name, and percent-encoded secrets."""
    assert expected == REDACTOR.redact_url(url).value
    assert expected == REDACTOR.redact_url(expected).value


def test_a_body_without_secrets_keeps_its_bytes() -> None:
    """White space, notation and order stay byte for byte."""
    body = b'{ "b" : 1.0,\n "a": 1e5, "big": 12345678901234567890123 }'

    assert body is REDACTOR.redact_body(body, "application/json").value


def test_numbers_next_to_a_secret_keep_their_digits() -> None:
    """An integer beyond a double is not rounded because another member was redacted."""
    cleaned = REDACTOR.redact_body(f'{{"m":"{MAIL}","id":9007199254740993,"f":0.1}}'.encode(), "application/json")

    assert f'{{"m":"{REDACTED}","id":9007199254740993,"f":0.1}}'.encode() == cleaned.value


def test_the_first_of_two_equal_keys_does_not_leak() -> None:
    """The last counts, and the first is not left in the bytes."""
    cleaned = REDACTOR.redact_body(f'{{"a":"{KEY}","a":"x"}}'.encode(), "application/json")

    assert b'{"a":"x"}' == cleaned.value


def test_forms_texts_and_bytes_are_redacted() -> None:
    """Forms by their names, other bodies as text, also where they are not UTF-8."""
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


def test_a_lone_surrogate_is_accepted() -> None:
    """JSON may hold one."""
    assert f"\ud800 {REDACTED}" == REDACTOR.redact_text(f"\ud800 {MAIL}")
    assert [f"\ud800 {REDACTED}"] == REDACTOR.redact_json([f"\ud800 {MAIL}"]).value


def test_a_project_adds_fields_patterns_and_exceptions() -> None:
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
def test_an_unusable_expression_is_refused_with_its_place(pattern: str) -> None:
    """Look-around, back-references, broken ones, and those that match everywhere."""
    with pytest.raises(InvalidConfig) as refused:
        Redactor(patterns=("fine", pattern))

    (finding,) = refused.value.findings
    assert "$.redact_patterns[1]" == finding.path
    assert ("no wider" if pattern == "a*" else "google-re2") in finding.hint


def test_threads_share_a_redactor() -> None:
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
    """Unescaped, so that the same value has the same fingerprint at any depth."""
    text = json.dumps({"password": value}, ensure_ascii=ascii_only)

    logs = [Redactor().redact_json(document).log for document in ({"password": value}, {"x": text})]

    assert [[value], [value]] == [[item.reveal() for item in log] for log in logs]


def test_only_a_text_without_secrets_is_not_scanned_again() -> None:
    """The memory of clean texts never answers for another field, a longer text or another redactor."""
    redactor = Redactor().with_memory()
    clean = "a conversation that is sent again with every call " * 4
    for _ in range(2):
        assert [] == redactor.redact_json({"messages": [clean], "content": clean}).log
        redacted = redactor.redact_json(
            {"messages": [clean, f"{clean} {SECRETS['OPENAI_KEY'](Random(1))}"], "content": clean}
        )
        assert ["$.messages[1]"] == [item.path for item in redacted.log]

    own = Redactor(patterns=("conversation",)).with_memory()
    assert ["CUSTOM"] * 4 == [item.type for item in own.redact_json([clean]).log]


def test_the_memory_of_clean_texts_is_bounded() -> None:
    """A thousand long texts, and one that is longer than the whole memory."""
    redactor = Redactor().with_memory()
    for number in range(1000):
        redactor.redact_json([f"{number} " + "x y " * 5_000])
    redactor.redact_json(["x y " * 2_000_000])

    assert sum(map(len, redactor._finder.clean_texts)) <= TEXTS_REMEMBERED_BYTES


# ---------------------------------------------------------------------------------------------
# Keys as names, and keys that are joined to other words


JOINED = {"GITHUB_TOKEN", "OPENAI_KEY", "AWS", "JWT", "HUGGINGFACE"}
URLS = (
    "http://h/v1/chat/completions/%s", "http://h/Team42/MyProject/Things/v1/%s", "http://h/v1/files/%s/content",
    "http://h/v1/%s:generateContent", "http://h/a-%s", "http://h/a_%s", "http://h/a;k=%s", "http://h/a%%2f%s",
    "http://h/a?%s", "http://h/a?%s=1", "http://h/a?b=1&c=x-%s", "http://h/a?q=b%%20x-%s", "http://h/a#%s",
    "http://h/a#b=%s&c", "http://h/a?b=/v1/chat/completions/and/more/%s",
)  # fmt: skip


@pytest.mark.parametrize("kind", sorted(JOINED))
@pytest.mark.parametrize("url", URLS)
def test_a_key_anywhere_in_a_url_is_redacted(url: str, kind: str) -> None:
    """In a step of the path after any other, in a name, a value or the fragment, and joined to a word before it."""
    key = SECRETS[kind](Random(5))

    assert key not in REDACTOR.redact_url(url % key).value
    encoded = "".join(f"%{byte:02x}" for byte in key.encode())
    assert encoded not in REDACTOR.redact_url(url % encoded).value


@pytest.mark.parametrize("kind", sorted(JOINED))
@pytest.mark.parametrize("is_response", [False, True])
def test_a_key_as_the_name_of_a_header_is_redacted(kind: str, is_response: bool) -> None:
    """Also with a prefix, and its path in the log does not name it."""
    key = SECRETS[kind](Random(6))
    for name, expected in ((key, REDACTED), (f"X-{key}", f"X-{REDACTED}")):
        cleaned = REDACTOR.redact_headers([(name, "1"), ("Accept", "*/*")], is_response=is_response)

        assert [(expected, "1"), ("Accept", "*/*")] == cleaned.value
        assert all(key not in item.path for item in cleaned.log)
        assert cleaned.log


@pytest.mark.parametrize("name", ["traceparent", "tracestate", "X-Request-Id", "If-None-Match"])
@pytest.mark.parametrize("kind", sorted(JOINED))
def test_a_key_that_is_joined_to_an_id_in_a_header_is_redacted(name: str, kind: str) -> None:
    key = SECRETS[kind](Random(7))
    for before in ("00-", "00-0af7651916cd43dd8448eb211c80319c-", "req_"):
        ((_, value),) = REDACTOR.redact_headers([(name, f"{before}{key}")]).value

        assert key not in value
        assert value.endswith(REDACTED)


def test_ids_in_headers_and_urls_stay() -> None:
    """What only resembles a key that is joined to a word."""
    headers = [
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("x-request-id", "req_011CSHoEeqs5C35K2UUqR7Fy"),
        ("x-class", "box-sk-estimator-doc-link"),
        ("cf-ray", "9a0b1c2d3e4f5a6b-FRA"),
    ]
    url = "http://h/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21&after=msg_abc-sk-1"

    assert headers == REDACTOR.redact_headers(headers).value
    assert url == REDACTOR.redact_url(url).value


@pytest.mark.parametrize(
    ("boundary", "body"),
    [
        ("b", "preamble %s\r\n--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\n"),
        ("b", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\nepilogue %s"),
        ("b", "--b\r\nContent-Disposition: form-data; name=\"x-%s\"\r\n\r\nx\r\n--b--\r\n"),
        ("b", "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"%s.txt\"\r\n\r\nx\r\n--b--\r\n"),
        ("b", "--b\r\nX-%s: 1\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\n"),
        ("%s", "--%s\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--%s--\r\n"),
        ("", "--%s\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--%s--\r\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", sorted(JOINED))
def test_a_key_anywhere_in_a_multipart_body_is_redacted(boundary: str, body: str, kind: str) -> None:
    """Before the first part, after the last, as the boundary, in the head and as the name of a part."""
    key = SECRETS[kind](Random(8))
    media_type = "multipart/form-data" + (f"; boundary={boundary.replace('%s', key)}" if boundary else "")

    cleaned = REDACTOR.redact_body(body.replace("%s", key).encode(), media_type)

    assert key.encode() not in cleaned.value
    assert REDACTED.encode() in cleaned.value
    assert b"\r\n\r\nx\r\n--" in cleaned.value


def test_an_encoded_name_of_a_part_is_redacted() -> None:
    encoded = "".join(f"%{byte:02x}" for byte in KEY.encode())
    body = f"--b\r\nContent-Disposition: form-data; name*=UTF-8''{encoded}\r\n\r\nx\r\n--b--\r\n".encode()

    cleaned = REDACTOR.redact_body(body, "multipart/form-data; boundary=b")

    assert encoded.encode() not in cleaned.value
    assert cleaned.value.endswith(b"\r\n\r\nx\r\n--b--\r\n")


def test_a_boundary_of_digits_stays() -> None:
    """Python divides parts by nineteen digits, which may look like a card."""
    digits = luhn(Random(9), "4", 16)
    body = f'--==={digits}==\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--==={digits}==--\r\n'.encode()

    assert body == REDACTOR.redact_body(body, f'multipart/form-data; boundary="==={digits}=="').value


@pytest.mark.parametrize("count", [2, 3, 6])
def test_a_key_over_several_parts_of_a_message_is_redacted(count: int) -> None:
    """In the first of them; the others lose their part of it, and everything else stays."""
    size = len(KEY) // count + 1
    texts = [KEY[place : place + size] for place in range(0, len(KEY), size)]
    texts[0], texts[-1] = "it is " + texts[0], texts[-1] + " ok"
    message = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}

    cleaned = REDACTOR.redact_json({"messages": [message]})

    expected = [f"it is {REDACTED}", *([""] * (len(texts) - 2)), " ok"]
    assert isinstance(cleaned.value, dict)
    assert expected == [part["text"] for part in cleaned.value["messages"][0]["content"]]  # type: ignore[index, call-overload]
    assert [KEY] == [item.reveal() for item in cleaned.log if item.reveal() == KEY]


def test_parts_of_a_message_do_not_make_a_secret_of_ordinary_text() -> None:
    parts = [{"text": "call 415555"}, {"text": "0132 now, the password:"}, {"text": "is kitten77 or not"}]

    assert parts == REDACTOR.redact_json(parts).value


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress, zstandard.ZstdCompressor().compress])
def test_a_compressed_body_is_examined_without_a_header(compress: Callable[[bytes], bytes]) -> None:
    """It is replaced as a whole, also one inside of another, or stays as it is where it holds nothing."""
    secret, clean = (compress(json.dumps({"model": "m", "note": note}).encode()) for note in (KEY, "nothing"))

    assert clean == REDACTOR.redact_body(clean, "application/json").value
    for body in (secret, compress(secret)):
        cleaned = REDACTOR.redact_body(body, "application/json")
        assert REDACTED.encode() == cleaned.value
        assert [KEY] == [item.reveal() for item in cleaned.log]


def test_a_compressed_body_that_cannot_be_read_is_not_stored() -> None:
    broken = gzip.compress(KEY.encode())[:10] + b"\xff" * 40

    assert REDACTED.encode() == REDACTOR.redact_body(broken).value
