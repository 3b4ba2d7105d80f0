"""No secret of a call reaches the disk, whatever its shape and wherever it stands."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from urllib.parse import quote
from zlib import crc32

import pytest
from msgspec.structs import replace

from support.exchanges import COMPOSER, make_exchange, trace_id
from support.fake_secrets import draw
from support.secret_shapes import SHAPES, make_shape
from support.wire_transcripts import CHAT
from traceforge.exchange import Caller, Exchange
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_store import TraceStore

REDACTOR = Redactor()
PROMPT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}


def record(folder: Path, exchanges: Sequence[Exchange]) -> None:
    """Store calls as a recorder does: the spool, the files of the traces, the index."""
    writer = SpoolWriter(str(folder))
    for exchange in exchanges:
        writer.append(COMPOSER.compose(exchange))
    writer.seal()
    store = TraceStore(str(folder))
    store.update_index()
    store.close()


def read_disk(folder: Path) -> bytes:
    """Every byte under the folder, and what is base64 in it decoded, also from UTF-16."""
    data = b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return data + b"".join(_decoded(data))


def _decoded(data: bytes) -> Iterator[bytes]:
    for match in re.finditer(rb'"b64": ?"([A-Za-z0-9+/=]+)"', data):
        inner = base64.b64decode(match[1])
        yield inner + inner.replace(b"\0", b"")


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
    "response header": _in_response_header, "scope, session and state": _in_caller,
}  # fmt: skip


def _is_stored(secret: str, disk: bytes) -> bool:
    """Whether the secret is on the disk, plain, escaped or encoded; and of a long one no end may be left either."""
    forms = {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), secret.replace("\n", " ")}
    if len(secret) >= 20 and "PRIVATE KEY" not in secret:
        forms.add(secret[-12:])
    return any(form.encode() in disk for form in forms)


def _find_stored(folder: Path, cases: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Record a call for each shape and place; those whose secret reached the disk."""
    planted = [(name, place, make_shape(name, Random(crc32(f"{name} {place}".encode())))) for name, place in cases]
    record(
        folder, [replace(PLACES[place](shape.text), id=trace_id(n)) for n, (_, place, shape) in enumerate(planted)]
    )
    disk = read_disk(folder)
    return [(name, place) for name, place, shape in planted if _is_stored(shape.secret, disk)]


def test_no_shape_of_a_secret_is_stored(tmp_path: Path) -> None:
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


def _with_response_headers(exchange: Exchange, headers: Sequence[tuple[str, str]]) -> Exchange:
    return replace(exchange, response_headers=tuple(headers))
