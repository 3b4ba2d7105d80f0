"""No secret of a call reaches the disk, whatever its shape and wherever it stands."""

from __future__ import annotations

import base64
import json
import quopri
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from urllib.parse import quote
from zlib import crc32

import pytest
from msgspec.structs import replace

from support.exchanges import make_exchange, trace_id
from support.fake_secrets import draw
from support.planted_secrets import ANSWER, BOUNDARY, PROMPT, is_stored, make_multipart, read_disk, record
from support.secret_shapes import SHAPES, make_shape
from support.wire_transcripts import CHAT
from traceforge.audit.secret_scan import scan_paths
from traceforge.canon import JSON
from traceforge.exchange import Caller, Exchange
from traceforge.redact.redactor import Redactor

REDACTOR = Redactor()


def _in_prompt(text: str) -> Exchange:
    return make_exchange(request={"model": "m", "messages": [{"role": "user", "content": text}]}, answer=ANSWER)


def _in_header(text: str) -> Exchange:
    return make_exchange(request=PROMPT, answer=ANSWER, headers=[("X-Note", text.replace("\n", " "))])


def _in_query(text: str) -> Exchange:
    return make_exchange(f"{CHAT}?note={quote(text, safe='')}", request=PROMPT, answer=ANSWER)


def _in_tool_arguments(text: str) -> Exchange:
    function = {"name": "run", "arguments": json.dumps({"command": text})}
    call = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    return make_exchange(request={"model": "m", "messages": [call]}, answer=ANSWER)


def _in_answer(text: str) -> Exchange:
    message = {"role": "assistant", "content": text}
    answer = {**ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return make_exchange(request=PROMPT, answer=answer)


def _in_stream(text: str) -> Exchange:
    """Cut into deltas of a few characters, and the events into chunks."""
    deltas = [text[place : place + 5] for place in range(0, len(text), 5)]
    events = [{**ANSWER, "choices": [{"index": 0, "delta": {"content": delta}}]} for delta in deltas]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    return make_exchange(
        request={**PROMPT, "stream": True}, answer=body, media_type="text/event-stream", cuts=range(0, len(body), 97)
    )


def _in_multipart(text: str) -> Exchange:
    body = make_multipart(
        ('Content-Disposition: form-data; name="purpose"', b"assistants"),
        (
            'Content-Disposition: form-data; name="file"; filename="notes.txt"\r\nContent-Type: text/plain',
            text.encode(),
        ),
    )
    return make_exchange(request=body, answer=ANSWER, request_media_type=f"multipart/form-data; boundary={BOUNDARY}")


def _in_xml(text: str) -> Exchange:
    body = f"<request><note>{text} </note></request>".encode()
    return make_exchange(request=body, answer=ANSWER, request_media_type="application/xml")


def _in_utf16(text: str) -> Exchange:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode("utf-16")
    return make_exchange(request=body, answer=ANSWER, request_media_type="application/json; charset=utf-16")


def _in_error(text: str) -> Exchange:
    return make_exchange(request=PROMPT, answer={"error": {"message": text, "type": "x"}}, status=401)


def _in_page(text: str) -> Exchange:
    return make_exchange(request=PROMPT, answer=f"<html>{text} </html>".encode(), status=502, media_type="text/html")


def _in_response_header(text: str) -> Exchange:
    exchange = make_exchange(request=PROMPT, answer=ANSWER)
    return _with_response_headers(exchange, (*exchange.response_headers, ("X-Upstream", text.replace("\n", " "))))


def _in_caller(text: str) -> Exchange:
    source = f"a.py:1:{text}" if text.isprintable() and ":" not in text else "a.py:1:f"
    return make_exchange(request=PROMPT, answer=ANSWER, caller=Caller(source, text, text, state={"note": text}))


PLACES: dict[str, Callable[[str], Exchange]] = {
    "prompt": _in_prompt, "header": _in_header, "query": _in_query, "tool arguments": _in_tool_arguments,
    "answer": _in_answer, "stream": _in_stream, "error": _in_error, "page": _in_page,
    "multipart": _in_multipart, "xml": _in_xml, "utf-16": _in_utf16,
    "response header": _in_response_header, "scope, session and state": _in_caller,
}  # fmt: skip


def _find_stored(folder: Path, cases: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Record a call for each shape and place; those whose secret reached the disk."""
    planted = [(name, place, make_shape(name, Random(crc32(f"{name} {place}".encode())))) for name, place in cases]
    record(
        folder, [replace(PLACES[place](shape.text), id=trace_id(n)) for n, (_, place, shape) in enumerate(planted)]
    )
    disk = read_disk(folder)
    return [(name, place) for name, place, shape in planted if is_stored(shape.secret, disk)]


def test_no_shape_of_a_secretis_stored(tmp_path: Path) -> None:
    """Each shape in one of the places."""
    places = list(PLACES)
    cases = [(name, places[number % len(places)]) for number, name in enumerate(SHAPES)]

    assert (True, []) == (len(cases) >= 134, _find_stored(tmp_path, cases))


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_no_shape_of_a_secret_is_stored_in_any_place(place: str, tmp_path: Path) -> None:
    """Every shape in every place."""
    assert [] == _find_stored(tmp_path, [(name, place) for name in SHAPES])


SECRET_HEADERS = (
    "X-Litellm-Key", "Authentication", "X-Acme-Token", "X-Acme-Secret", "X-Acme-Apikey", "Helicone-Auth",
    "X-Portkey-Api-Key", "Acme_Access_Key", "X-Service-Password", "CF-Access-Client-Secret",
    "X-Shopify-Access-Token", "X-Session-Token",
    "X-Goog-IAM-Authorization-Token", "X-Amz-Credential-Token", "X-Auth", "X-Hasura-Admin-Secret", "X-Jwt",
)  # fmt: skip
PLAIN_HEADERS = (
    ("x-ratelimit-remaining-tokens", "149984"), ("Idempotency-Key", "stainless-python-retry-9f86d081"),
    ("X-Request-ID", "req_9f86d081884c7d659a2feaa0c55ad015"), ("anthropic-version", "2023-06-01"),
    ("X-Time-Per-Token", "10"), ("X-Max-Token", "4096"), ("CF-Ray", "8f1a2b3c4d5e6f70-AMS"),
    ("Surrogate-Key", "models/gpt-4o page-7"), ("access-control-allow-credentials", "true"),
)  # fmt: skip


def test_the_value_of_a_header_whose_last_word_is_secret_is_not_stored(tmp_path: Path) -> None:
    """In requests and in responses, with a value that nothing else gives away."""
    source = Random(1)
    values = {name: draw(source, 12) for name in SECRET_HEADERS}
    exchange = make_exchange(request=PROMPT, answer=ANSWER, headers=list(values.items()))
    response_headers = (*exchange.response_headers, *((name, value[::-1]) for name, value in values.items()))

    record(tmp_path, [_with_response_headers(exchange, response_headers)])

    disk = read_disk(tmp_path)
    assert [] == [name for name, value in values.items() if value.encode() in disk or value[::-1].encode() in disk]


def test_headers_that_only_sound_secret_are_unchanged() -> None:
    """Counts, identifiers of requests and cache keys are needed to compare calls."""
    assert list(PLAIN_HEADERS) == REDACTOR.redact_headers(PLAIN_HEADERS, is_response=True).value


@pytest.mark.parametrize(
    "name",
    [
        "openai-organization", "openai-project", "anthropic-organization-id", "x-organization-id", "x-project-id",
        "x-acme-account-id", "x-tenant-id",
    ],
)  # fmt: skip
def test_the_account_in_a_response_header_is_not_stored(name: str, tmp_path: Path) -> None:
    exchange = make_exchange(request=PROMPT, answer=ANSWER)

    record(tmp_path, [_with_response_headers(exchange, (*exchange.response_headers, (name, "acme-of-springfield")))])

    assert b"acme-of-springfield" not in read_disk(tmp_path)


def test_an_account_header_of_the_application_is_a_part_of_its_request() -> None:
    """It is compared, so that the answer of one tenant is never replayed to another."""
    assert [("X-Tenant-ID", "north")] == REDACTOR.redact_headers([("X-Tenant-ID", "north")]).value


@pytest.mark.parametrize("template", ["a.py:7:{}", "{}/a.py:7:f", "a.py:7:call_{}", "/home/u/{}.py:1:<module>"])
def test_no_part_of_the_source_header_stores_a_secret(template: str, tmp_path: Path) -> None:
    """The file and the function are texts of the caller like any other."""
    secret = "ghp_" + draw(Random(3), 36)
    caller = Caller(template.replace("call_{}", "{}").format(secret), f"test {secret}", f"session {secret}")

    record(tmp_path, [make_exchange(request=PROMPT, answer=ANSWER, caller=caller)])

    assert secret.encode() not in read_disk(tmp_path)


@pytest.mark.parametrize(
    "head",
    [
        'Content-Disposition: form-data; name="api_key"',
        "content-disposition: form-data; name=password",
        'Content-Disposition: form-data; name="X-Acme-Token"\r\nContent-Type: text/plain',
        "Content-Disposition: form-data; name*=utf-8''client%5Fsecret",
        'Content-Type: text/plain\r\nContent-Disposition: form-data; filename="a"; name="token"',
    ],
)
def test_a_part_with_a_secret_name_is_not_stored(head: str, tmp_path: Path) -> None:
    """Its content need not look like a secret."""
    body = make_multipart((head, b"open sesame"), ('Content-Disposition: form-data; name="model"', b"whisper-1"))
    kind = f'multipart/form-data; boundary="{BOUNDARY}"'

    record(tmp_path, [make_exchange(request=body, answer=ANSWER, request_media_type=kind)])

    disk = read_disk(tmp_path)
    assert (False, True) == (b"sesame" in disk, b"whisper-1" in disk)


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
def test_a_part_with_a_transfer_encoding_is_examined(encoding: str) -> None:
    """It is decoded for that, and encoded again where a secret was in it."""
    secret = "ghp_" + draw(Random(5), 36)
    content = f"note = {secret} ü".encode()
    encoded = base64.encodebytes(content) if encoding == "base64" else quopri.encodestring(content)
    head = f"Content-Disposition: form-data; name=n\r\nContent-Transfer-Encoding: {encoding}"

    cleaned = REDACTOR.redact_body(make_multipart((head, encoded)), f"multipart/form-data; boundary={BOUNDARY}").value

    inner = cleaned.split(b"\r\n\r\n")[1].split(f"--{BOUNDARY}".encode())[0]
    decoded = base64.b64decode(inner) if encoding == "base64" else quopri.decodestring(inner)
    assert "note = [REDACTED] ü" == decoded.decode().strip()


def test_a_multipart_body_without_a_secret_is_unchanged() -> None:
    """Also an image, a part inside of a part, and a body without its last line."""
    image = bytes(range(256)) * 4
    inner = make_multipart(("Content-Type: image/png", image)).replace(BOUNDARY.encode(), b"inner")
    body = make_multipart(
        ('Content-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png', image),
        ("Content-Type: multipart/mixed; boundary=inner", inner),
    )
    kind = f"multipart/form-data; boundary={BOUNDARY}"

    assert (body, body[:-9]) == (REDACTOR.redact_body(body, kind).value, REDACTOR.redact_body(body[:-9], kind).value)


@pytest.mark.parametrize(
    "text",
    [
        "<Password>{}</Password>",
        '<soap:Body><wsse:Password Type="Text">{}</wsse:Password></soap:Body>',
        "<apiKey><![CDATA[{}]]></apiKey>",
        "<client_secret>\n  {}\n</client_secret>",
        '<login user="ann" password="{}"/>',
        '<add key="ApiKey" value="{}"/>',
        "<input name='password' type='hidden' value='{}'>",
        "<key>Password</key>\n<string>{}</string>",
        "&lt;Password&gt;{}&lt;/Password&gt;",
    ],
)
def test_a_secret_element_or_attribute_is_not_stored(text: str, tmp_path: Path) -> None:
    """In a body of XML, in a prompt and in a tool's arguments; with a value that does not look like a secret."""
    bodies = [
        _in_xml(text.format("mellon")),
        _in_prompt(text.format("mellon")),
        _in_tool_arguments(text.format("mellon")),
    ]

    record(tmp_path, [replace(exchange, id=trace_id(number)) for number, exchange in enumerate(bodies)])

    assert b"mellon" not in read_disk(tmp_path)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("tail", [b"", b"x"])
def test_no_encoding_of_unicode_hides_a_secret(codec: str, tail: bytes, tmp_path: Path) -> None:
    """With and without a byte order mark and a charset, and with half a character at the end."""
    secret = "sk_live_" + draw(Random(7), 24)
    body = json.dumps({"messages": [{"content": f"ü {secret} 请"}], "password": "mellon"}, ensure_ascii=False)
    exchanges = [
        make_exchange(request=body.encode(codec) + tail, answer=body.encode(codec) + tail, number=1),
        make_exchange(
            request=b"\xff\xfa" + body.encode(codec), answer=ANSWER, number=2, request_media_type="image/png"
        ),
    ]

    record(tmp_path, exchanges)

    disk = read_disk(tmp_path)
    assert (False, False) == (secret.encode() in disk, b"mellon" in disk)


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"a\0b\0"])
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded"]
)
def test_a_wrong_mark_or_charset_hides_nothing(mark: bytes, kind: str) -> None:
    """What claims to be UTF-16 is examined as bytes, too."""
    secret = "sk_live_" + draw(Random(8), 24)

    assert secret.encode() not in REDACTOR.redact_body(mark + f"&note={secret}".encode(), kind).value


def test_a_wide_body_without_a_secret_is_unchanged() -> None:
    for codec in ("utf-16", "utf-16-le", "utf-32-be"):
        body = '{"messages": ["Grüße, 请"], "max_tokens": 4096}'.encode(codec)

        assert body == REDACTOR.redact_body(body, "application/json").value


def test_redact_check_reads_wide_files_and_finds_what_redaction_finds(tmp_path: Path) -> None:
    """A file in UTF-16 is text, and no binary file."""
    shapes = [make_shape(name, Random(9)) for name in SHAPES]
    for number, shape in enumerate(shapes):
        (tmp_path / f"{number:03}.txt").write_bytes(shape.text.encode("utf-16" if number % 2 else "utf-8"))

    scan = scan_paths(REDACTOR, [str(tmp_path)])

    assert len(shapes) == scan.checked
    assert [f"{number:03}.txt" for number in range(len(shapes))] == sorted(
        {Path(finding.file).name for finding in scan.findings}
    )


@pytest.mark.parametrize(
    "value",
    [
        {"name": "OPENAI_API_KEY", "value": "mellon"},
        {"key": "Authorization", "value": "mellon"},
        {"env": [{"name": "DB_PASSWORD", "value": "mellon"}]},
        {"parameters": [{"key": "X-Acme-Token", "value": "mellon", "enabled": True}]},
    ],
)
def test_a_value_beside_a_secret_name_is_not_stored(value: JSON, tmp_path: Path) -> None:
    """As Kubernetes lists variables, and clients of HTTP list headers."""
    record(tmp_path, [make_exchange(request={"model": "m", "metadata": value}, answer=ANSWER)])

    assert b"mellon" not in read_disk(tmp_path)


def _with_response_headers(exchange: Exchange, headers: Sequence[tuple[str, str]]) -> Exchange:
    return replace(exchange, response_headers=tuple(headers))
