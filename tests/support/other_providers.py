"""A proxy that answers in the place of every provider, with the documented calls of the dialects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from support.dialect_files import DialectCall, dialect_calls
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream, upstream

# Servers of one's own have names here, as they are asked through a proxy.
LOCAL = {
    "127.0.0.1:8080": "llama.example", "127.0.0.1:8000": "vllm.example", "127.0.0.1:3000": "tgi.example",
    "127.0.0.1:11434": "ollama.example",
}  # fmt: skip
NOT_FOUND = ScriptedResponse([b'{"error": {"message": "no such call is documented"}}'], 404)


@contextmanager
def other_providers() -> Iterator[Upstream]:
    """The proxy."""
    with upstream() as server:
        server.choose = choose
        yield server


def choose(request: ReceivedRequest) -> ScriptedResponse:
    """The documented answer for this address, streamed or not, with or without tools."""
    _, address, _ = request.line.decode().split(" ")
    body = json.loads(request.body) if request.body.startswith(b"{") else {}
    call = next((call for call in dialect_calls() if _fits(call, address, body)), None)
    if call is None:
        return NOT_FOUND
    headers = {"content-type": call.media_type}
    return ScriptedResponse(call.pieces, headers=headers, chunked=call.stream is not None)


def _fits(call: DialectCall, address: str, body: dict[str, Any]) -> bool:
    asked, documented = urlsplit(address), urlsplit(call.url)
    host = LOCAL.get(documented.netloc, documented.netloc)
    return (
        (asked.netloc or host, asked.path) == (host, documented.path)
        and bool(body.get("stream")) == (call.stream is not None)
        and bool(body.get("tools")) == bool(call.request.get("tools"))
    )


def documented_streams() -> list[dict[str, Any]]:
    """Address and body of every documented stream that says so in its body."""
    return [
        {"url": _plain_address(call.url), "request": call.request}
        for call in dialect_calls()
        if call.stream and call.request.get("stream")
    ]


def _plain_address(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(scheme="http", netloc=LOCAL.get(parts.netloc, parts.netloc)).geturl()
