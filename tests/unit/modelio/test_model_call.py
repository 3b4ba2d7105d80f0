"""`modelio/model_call.py`: one call, all of its answer, and a reason that a program can read where there is none."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import traceforge
from support.corpus import need_shared
from support.corpus_traffic import Interaction, interactions
from support.model_servers import ModelServer, model_server
from support.stepped_clock import SteppedClock
from support.upstream import ScriptedResponse, Upstream, upstream
from traceforge.capture import http_client
from traceforge.errors import FailureKind, ProviderFailed
from traceforge.modelio import adapter_for
from traceforge.modelio.provider_adapters import ADAPTERS
from traceforge.wire.response_reader import ResponseEnding

QUESTION: list[Any] = [{"role": "user", "content": "Where is Lyon?"}]
SAMPLE = 40  # of each dialect and way of answering, spread over the corpus
TOOL = {"type": "function", "function": {"name": "find_city", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def provider() -> Iterator[Upstream]:
    """A scripted provider."""
    with upstream() as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One for all tests of this file."""
    with model_server() as running:
        yield running


def completion(content: Any = "Hello.", **message: Any) -> bytes:
    """An answer of OpenAI's shape."""
    reply = {"role": "assistant", "content": content, **message}
    return json.dumps({"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}]}).encode()


def _failed(url: str, name: str = "openai", **options: Any) -> ProviderFailed:
    with pytest.raises(ProviderFailed) as caught:
        adapter_for(name, "m", url=url, api_key="sk-1").prepare_call(QUESTION, **options).wait()
    return caught.value


def _sample(name: str, *, streaming: bool) -> list[Interaction]:
    traffic = [
        interaction
        for interaction in interactions(need_shared("corpus/llm"))
        if interaction.generates
        and (interaction.endpoint.dialect, interaction.endpoint.kind) == (name, ADAPTERS[name].kind)
        and interaction.streaming is streaming
        and interaction.body.strip()
    ]
    return traffic[:: max(1, len(traffic) // SAMPLE)]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_the_corpus_is_read_completely(provider: Upstream, name: str, streaming: bool) -> None:
    """What real providers sent, sent again by a server: the unified view is that of the recording, text by text."""
    adapter = adapter_for(name, "m", url=provider.url, api_key="k")
    sample = _sample(name, streaming=streaming)
    texts = 0
    for item in sample:
        expected = item.read()
        pieces = [item.body[start : start + 777] for start in range(0, len(item.body), 777)]
        provider.respond_with(ScriptedResponse(pieces, item.status, {"content-type": item.media_type}, chunked=True))
        asking = adapter.prepare_call(QUESTION, stream=streaming)
        if item.status < 300 and expected.ending is ResponseEnding.COMPLETE and expected.unified is not None:
            text = "".join(asking)
            answered = asking.response
            assert (expected.unified, expected.body) == (answered.unified, answered.body), item.name
            assert (item.status, item.media_type) == (answered.status, answered.media_type)
            assert expected.streamed is answered.streamed
            if answered.streamed and len(answered.unified["choices"]) == 1:  # type: ignore[arg-type]
                assert answered.text == text, item.name
                texts += bool(text)
        else:
            with pytest.raises(ProviderFailed) as caught:
                asking.wait()
            assert caught.value.kind in (FailureKind.REFUSED, FailureKind.CUT, FailureKind.UNREADABLE)
            assert item.status == caught.value.status

    assert len(sample) > 15
    assert texts > 10 or not streaming


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("stream", [False, True, None])
def test_a_response_has_all_its_fields(server: ModelServer, name: str, stream: bool | None) -> None:
    """Text, finish reason and tokens; without a recorder it has no trace. Ollama streams by default."""
    asking = adapter_for(name, "m", url=server.url, api_key="k").prepare_call(QUESTION, stream=stream)
    texts = list(asking)
    answered = asking.response

    assert answered.text
    assert "stop" == answered.finish_reason
    assert [] == answered.tool_calls
    assert answered.usage.get("prompt_tokens") or (stream and name == "openai")  # where it is told to
    assert (200, None, None) == (answered.status, answered.trace_id, asking.trace_id)
    streams = bool(stream) or (stream is None and name == "ollama")
    assert streams is answered.streamed
    assert answered.text == "".join(texts) if streams else not texts


def test_a_response_has_its_tool_calls(provider: Upstream) -> None:
    """As the unified view has them."""
    call = {"id": "c1", "type": "function", "function": {"name": "find_city", "arguments": "{}"}}
    provider.respond_with(ScriptedResponse([completion(None, tool_calls=[call])]))
    answered = adapter_for("openai", "m", url=provider.url).prepare_call(QUESTION, {"tools": [TOOL]}).wait()

    assert ([call], "", "stop") == (answered.tool_calls, answered.text, answered.finish_reason)
    assert [TOOL] == json.loads(provider.received[0].body)["tools"]


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (ScriptedResponse([b'{"error":{"message":"no such model","type":"not_found"}}'], 404), "refused", 404),
        (ScriptedResponse([b'{"error":{"message":"overloaded"}}']), "refused", 200),
        (ScriptedResponse([b""], 307, {"location": "http://127.0.0.1:9/"}), "refused", 307),
        (ScriptedResponse([b"hello"]), "unreadable", 200),
        (ScriptedResponse([b"{}"]), "unreadable", 200),
        (ScriptedResponse([b"\x00\x01"], headers={"content-encoding": "br"}), "unreadable", 200),
        (ScriptedResponse([completion()], reset=True), "cut", 0),
        (ScriptedResponse([], silent=True), "cut", 0),
        (
            ScriptedResponse([b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'], chunked=True),
            "cut",
            200,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:50],
)
def test_a_failure_has_a_kind(provider: Upstream, answer: ScriptedResponse, kind: str, status: int) -> None:
    """And the HTTP status; the provider's text is available for redaction, and in no message."""
    provider.respond_with(answer)
    failed = _failed(provider.url)

    assert (kind, status) == (failed.kind, failed.status), failed.message
    assert failed.message.endswith(failed.reason)
    assert 1 == len(provider.received)
    if failed.provider_text:
        assert failed.provider_text not in str(failed)
        assert failed.provider_text in ("no such model", "overloaded")


def test_a_missing_server_is_unreachable() -> None:
    """A port without a server, a name without an address, and a name that is none."""
    for url in ("http://127.0.0.1:9", "https://127.0.0.1:9", "http://nobody.invalid", f"http://{'x' * 80}.example"):
        assert FailureKind.UNREACHABLE is _failed(url).kind, url


@pytest.mark.parametrize(
    "response_bytes",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
)
def test_malformed_http_is_unreadable(response_bytes: bytes) -> None:
    with _speaking(response_bytes) as url:
        failed = _failed(url)

    assert FailureKind.UNREADABLE is failed.kind
    assert "not valid HTTP" in failed.reason


@pytest.mark.parametrize("cut", [b"5\r\nabc", b"5\r\nabcde\r\n", b"5\r\nabcde"])
def test_chunks_that_end_early_are_cut(cut: bytes) -> None:
    """An end between two chunks is an end too early as well."""
    with _speaking(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + cut) as url:
        assert FailureKind.CUT is _failed(url).kind


def test_informational_responses_are_skipped() -> None:
    """100 Continue, 103 Early Hints, and then an answer that ends with its connection."""
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    with _speaking(hints + b"HTTP/1.1 200 OK\r\n\r\n" + completion()) as url:
        assert "Hello." == adapter_for("openai", "m", url=url).prepare_call(QUESTION).wait().text


class _speaking:  # noqa: N801 (a context)
    """A server that reads once, says this, and closes."""

    def __init__(self, response_bytes: bytes) -> None:
        self._said = response_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(self._said)


def test_each_step_of_a_call_has_the_seconds_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its timeout, counted from its start."""
    clock = SteppedClock()
    monkeypatch.setattr(http_client, "time", clock)
    control = http_client.CallControl(10)
    control.start_timer()
    clock.sleep(4)
    assert 6 == control.seconds_left()

    clock.sleep(6)
    with pytest.raises(TimeoutError):
        control.seconds_left()


@pytest.mark.parametrize("stalled", [True, False], ids=["before its answer", "within its answer"])
def test_the_timeout_is_for_the_whole_call(provider: Upstream, stalled: bool) -> None:
    """A byte now and then does not extend it."""
    permits = threading.Semaphore(0)
    provider.respond_with(ScriptedResponse([b" "] * 500, permits=permits, waits_first=stalled))
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(0.02):
            permits.release()

    thread = threading.Thread(target=dribble)
    if not stalled:
        thread.start()
    failed = _failed(provider.url, timeout_s=0.3)
    stop.set()
    permits.release(500)
    if not stalled:
        thread.join()

    assert FailureKind.TIMEOUT is failed.kind


def test_reading_stops_when_a_response_is_too_large(provider: Upstream) -> None:
    """Whether compressed or not."""
    large = completion("x" * 20_000)
    for body, headers in ((large, {}), (gzip.compress(large), {"content-encoding": "gzip"})):
        provider.respond_with(ScriptedResponse([body], headers={"content-type": "application/json", **headers}))
        assert FailureKind.TOO_LARGE is _failed(provider.url, bytes_max=5000).kind
        assert "x" * 20_000 == adapter_for("openai", "m", url=provider.url).prepare_call(QUESTION).wait().text


@pytest.mark.parametrize("stalled", [True, False], ids=["before its answer", "within its answer"])
def test_another_thread_can_cancel_a_call(provider: Upstream, stalled: bool) -> None:
    """The reader wakes at once, and the provider sees the connection close."""
    permits = threading.Semaphore(0)
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    provider.respond_with(
        ScriptedResponse(
            [piece] * 3,
            headers={"content-type": "text/event-stream"},
            chunked=True,
            permits=permits,
            waits_first=stalled,
        )
    )
    asking = adapter_for("openai", "m", url=provider.url).prepare_call(QUESTION, stream=True)
    threading.Timer(0.2, asking.cancel).start()
    texts: list[str] = []
    with pytest.raises(ProviderFailed) as caught:
        texts.extend(asking)
    permits.release(10)

    assert FailureKind.CLIENT_LEFT is caught.value.kind
    asking.cancel()  # again, and long after


def test_a_call_cancelled_before_it_began_is_never_sent(provider: Upstream) -> None:
    """Nothing reaches the provider."""
    asking = adapter_for("openai", "m", url=provider.url).prepare_call(QUESTION)
    asking.cancel()
    with pytest.raises(ProviderFailed) as caught:
        asking.wait()

    assert FailureKind.CLIENT_LEFT is caught.value.kind
    assert [] == provider.received
    with pytest.raises(ValueError, match="not ended"):
        _ = asking.response


def test_leaving_a_call_closes_the_connection(provider: Upstream) -> None:
    """The provider's next write fails, so it can stop."""
    permits = threading.Semaphore(0)
    broke = threading.Event()
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + piece)
            permits.acquire(timeout=10)
            try:
                while True:
                    connection.sendall(piece)
                    time.sleep(0.01)
            except OSError:
                broke.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        asking = adapter_for("openai", "m", url=f"http://127.0.0.1:{listener.getsockname()[1]}").prepare_call(
            QUESTION, stream=True
        )
        assert "a" == next(asking)
        asking.close()
        permits.release()
        assert broke.wait(5)
        thread.join()


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_recorded_call_has_the_id_of_its_trace(
    server: ModelServer, provider: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also if it failed; an unfinished call has its outcome, and a replayed call has no trace."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    provider.respond_with(ScriptedResponse([b"{}"], 500))
    adapter = adapter_for(name, "m", url=server.url, api_key="k")
    unread_call = adapter.prepare_call([{"role": "user", "content": "Tell me a story."}], stream=True)
    with traceforge.capture() as captured:
        answered = adapter.prepare_call(QUESTION).wait()
        failing = adapter_for(name, "m", url=provider.url, api_key="k").prepare_call(QUESTION)
        with pytest.raises(ProviderFailed):
            failing.wait()
        next(unread_call)
        unread_call.cancel()
        with pytest.raises(ProviderFailed):
            unread_call.wait()
    traces = {
        document["id"]: document["wire"]["outcome"]
        for file in (tmp_path / ".ai-tests" / "traces").glob("*.json")
        if (document := json.loads(file.read_bytes()))
    }
    with traceforge.replay():
        second = adapter.prepare_call(QUESTION).wait()

    assert [answered.trace_id, failing.trace_id, unread_call.trace_id] == list(captured.ids)
    assert ["answered", "answered", "left"] == [traces[name] for name in captured.ids]
    assert answered._replace(trace_id=None) == second


def test_equal_calls_are_equal_on_the_wire(provider: Upstream) -> None:
    """Head and body; the user agent can be set."""
    provider.respond_with(ScriptedResponse([completion()]))
    adapter = adapter_for("openai", "m", url=f"{provider.url}/v1", api_key="sk-1", agent="somebody")
    for _ in range(2):
        adapter.prepare_call(QUESTION).wait()
    first, second = provider.received
    authority = provider.url.removeprefix("http://")
    body = b'{"model":"m","messages":[{"role":"user","content":"Where is Lyon?"}]}'

    assert first == second
    assert body == first.body
    assert (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: somebody\r\n"
        "Accept: application/json\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nAuthorization: Bearer sk-1\r\n\r\n"
    ).encode() == first.head


@pytest.mark.parametrize(
    ("name", "url", "line"),
    [
        ("openai", "", "/v1/chat/completions"),
        ("openai", "/v1", "/v1/chat/completions"),
        ("openai", "/v1/", "/v1/chat/completions"),
        ("openai", "/proxy/openai/v1", "/proxy/openai/v1/chat/completions"),
        ("openai", "/custom/chat/completions", "/custom/chat/completions"),
        ("anthropic", "", "/v1/messages"),
        ("anthropic", "/v1", "/v1/messages"),
        ("anthropic", "/own/messages", "/own/messages"),
        ("gemini", "", "/v1beta/models/m:generateContent"),
        ("gemini", "/v1beta", "/v1beta/models/m:generateContent"),
        ("ollama", "", "/api/chat"),
        ("ollama", "/api", "/api/chat"),
        ("ollama", "/api/chat", "/api/chat"),
    ],
)
def test_a_url_is_a_base_or_an_endpoint(provider: Upstream, name: str, url: str, line: str) -> None:
    """A version or an endpoint in the URL is not added a second time."""
    provider.respond_with(ScriptedResponse([b"{}"]))
    _failed(f"{provider.url}{url}", name)

    assert f"POST {line} HTTP/1.1".encode() == provider.received[0].line


@pytest.mark.parametrize(
    ("name", "header"), [("openai", b"authorization"), ("anthropic", b"x-api-key"), ("gemini", b"x-goog-api-key")]
)
def test_without_a_key_no_header_is_sent(
    provider: Upstream, monkeypatch: pytest.MonkeyPatch, name: str, header: bytes
) -> None:
    """An empty key is none, also where the environment has one; without a word about it, that one is used."""
    monkeypatch.setenv(ADAPTERS[name].key_variable, "from-the-environment\n")
    provider.respond_with(ScriptedResponse([b"{}"]))
    for key in ("", None, "given"):
        with pytest.raises(ProviderFailed):
            adapter_for(name, "m", url=provider.url, api_key=key).prepare_call(QUESTION).wait()
    without, environ, explicit = (request.head.lower() for request in provider.received)

    assert header not in without
    assert b"from-the-environment\r\n" in environ
    assert b"given\r\n" in explicit
    with pytest.raises(ValueError, match="not allowed in a header") as caught:
        adapter_for(name, "m", api_key="sk-1\r\nx: y")
    assert "sk-1" not in str(caught.value)


def test_a_provider_is_one_of_four() -> None:
    """And an address is one."""
    with pytest.raises(ValueError, match="openai, anthropic, gemini, ollama"):
        adapter_for("nobody", "m")
    assert ["openai-chat", "anthropic-messages", "gemini-generate", "ollama-chat"] == [
        adapter_for(name, "m").adapter_id for name in ADAPTERS
    ]


def test_the_proxy_of_the_environment_is_used_except_for_loopback(
    provider: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the full URL and the credentials; loopback and `NO_PROXY` hosts are called directly."""
    monkeypatch.setenv("http_proxy", provider.url.replace("://", "://me:p%40ss@"))
    monkeypatch.setenv("no_proxy", "nobody.invalid")
    provider.respond_with(ScriptedResponse([completion()]))
    assert "Hello." == adapter_for("openai", "m", url="http://llm.example/v1").prepare_call(QUESTION).wait().text
    (through,) = provider.received

    assert b"POST http://llm.example/v1/chat/completions HTTP/1.1" == through.line
    assert b"\r\nHost: llm.example\r\n" in through.head
    assert b"\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n" in through.head
    assert FailureKind.UNREACHABLE is _failed("http://nobody.invalid/v1").kind
    adapter_for("openai", "m", url=provider.url).prepare_call(QUESTION).wait()
    assert b"POST /v1/chat/completions HTTP/1.1" == provider.received[1].line
    assert 2 == len(provider.received)


def test_an_https_url_goes_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy learns the host and nothing of the call."""
    heads: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            heads.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            heads.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        failed = _failed("https://llm.example/v1", timeout_s=5)
        thread.join()

    assert FailureKind.UNREACHABLE is failed.kind
    assert heads[0].startswith(b"CONNECT llm.example:443 HTTP/1.")
    assert b"sk-1" not in heads[0]
    assert b"\x16\x03" == heads[1][:2]  # a TLS handshake, and no word in the clear


def test_without_a_timeout_each_read_has_one(provider: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no call waits for ever."""
    monkeypatch.setattr(http_client, "TIMEOUT_S", 0.2)
    permits = threading.Semaphore(0)
    provider.respond_with(ScriptedResponse([b"{}"], permits=permits, waits_first=True))
    assert FailureKind.TIMEOUT is _failed(provider.url).kind
    permits.release()
