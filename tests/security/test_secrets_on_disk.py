"""No secret of a call reaches the disk, whatever its shape and wherever it stands."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from support.exchanges import COMPOSER, make_exchange
from support.fake_secrets import draw
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
    return Exchange(
        exchange.id, exchange.started_at, exchange.method, exchange.url, exchange.request_headers,
        exchange.request_body, exchange.status, tuple(headers), exchange.chunks, exchange.duration_ms,
    )  # fmt: skip
