"""Attacks on the model server: by a page in the browser of its user, and by requests that ask for too much."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from support.model_servers import ModelServer, model_server
from traceforge.canon import JSON
from traceforge.model_server import http_server

SCHEMAS: dict[str, dict[str, JSON]] = {
    "a thousand million items": {"type": "array", "minItems": 10**9},
    "lists in lists": {"type": "array", "minItems": 99, "items": {"type": "array", "minItems": 99, "items": {
        "type": "array", "minItems": 99}}},
    "a text of a gigabyte": {"type": "string", "minLength": 10**9},
    "a pattern that repeats": {"type": "string", "pattern": "x{1000000000}"},
    "itself": {"$ref": "#"},
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def ask(server: ModelServer, schema: Any = None, **headers: str) -> httpx.Response:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    if schema is not None:
        properties = {"x": schema}
        json_schema = {"name": "s", "schema": {"type": "object", "properties": properties, "required": ["x"]}}
        body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=60, trust_env=False)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1.evil.example", "null", "http://192.0.2.1"]
)
def test_a_page_of_another_origin_is_refused(server: ModelServer, origin: str) -> None:
    """A browser sends a POST of any page to loopback; its own pages may ask."""
    assert [403, 200] == [
        ask(server, Origin=origin).status_code,
        ask(server, Origin="http://localhost:3000").status_code,
    ]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_that_asks_for_too_much_is_refused(server: ModelServer, name: str) -> None:
    """The answer would take the memory of the machine."""
    assert 400 == ask(server, SCHEMAS[name]).status_code


def test_a_body_that_expands_without_end_is_refused(server: ModelServer) -> None:
    data = gzip.compress(b" " * (http_server.BODY_BYTES_MAX + 2))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    response = httpx.post(
        f"{server.url}/v1/chat/completions", content=data, headers=headers, timeout=60, trust_env=False
    )

    assert 413 == response.status_code


@pytest.mark.parametrize(
    "request_head",
    [
        b"Content-Length: 99999999999\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    ],
)
def test_a_size_beyond_the_limit_is_not_waited_for(server: ModelServer, request_head: bytes) -> None:
    """The connection is closed behind the refusal."""
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + request_head)
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    assert b"HTTP/1.1 413" == answer[:12]
    assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])


def test_a_client_that_sends_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would wait for ever."""
    monkeypatch.setattr(http_server._Handler, "timeout", 0.2)
    with model_server() as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(b"POST /v1/chat")

            assert b"" == client.recv(1)
