"""Context stores that call models on loopback, and the responses for a scripted provider."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.operation_store import Store
from support.upstream import ScriptedResponse, Upstream
from traceforge.capture.recorder import MemoryRecorder
from traceforge.context.model_calls import ModelClients
from traceforge.context.responses.model_releases import PROVIDERS
from traceforge.model_server.http_server import ModelServer


@contextmanager
def model_server(salt: str = "") -> Iterator[ModelServer]:
    """The bundled model server, which implements all four providers' APIs."""
    with ModelServer(salt=salt) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def scripted_provider() -> Iterator[Upstream]:
    """Run a scripted provider for the duration of a test."""
    upstream = Upstream()
    try:
        yield upstream
    finally:
        upstream.close()


def connect_models(store: Store, url: str, *, timeout_s: float = 20.0, **upstreams: str) -> Store:
    """The same project with every provider at `url`, or at the URL given for it by name."""
    named = {**dict.fromkeys(PROVIDERS, url), **upstreams}
    models = ModelClients(named, recorder=MemoryRecorder(), timeout_s=timeout_s)
    return Store(store.database, store.keyring, store.project_id, models)


def chat_answer(text: str, **more: Any) -> bytes:
    """A chat completion with this text."""
    message = {"role": "assistant", "content": text, **more}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in more else "stop"}
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
    return json.dumps(body).encode()


def chat_events(*texts: str) -> list[bytes]:
    """A chat stream with one event per text, and its end."""

    def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    first = event({"role": "assistant", "content": texts[0]})
    return [first, *(event({"content": text}) for text in texts[1:]), event({}, "stop") + b"data: [DONE]\n\n"]


def streamed_response(*texts: str, permits: threading.Semaphore | None = None) -> ScriptedResponse:
    """A scripted chat stream; each piece but the first waits for one of `permits`."""
    return ScriptedResponse(
        chat_events(*texts), headers={"content-type": "text/event-stream"}, chunked=True, permits=permits
    )
