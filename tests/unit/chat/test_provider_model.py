"""`chat/provider_model.py`: a text, or the reason why there is none; never an empty reply."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.certificates import make_certificate, server_context
from support.upstream import ScriptedResponse, Upstream, upstream
from traceforge.chat import provider_model as module
from traceforge.chat.chat_errors import ChatError
from traceforge.chat.model_address import PROVIDERS, find_address
from traceforge.chat.provider_model import ProviderModel as Model

BODY = b'{"model":"m","messages":[]}'


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A scripted provider."""
    with upstream() as server:
        yield server


def _reply(url: str, *, timeout_s: float = 5.0, **environ: str) -> str:
    address = find_address(url, environ, next(iter(environ), ""))
    return asyncio.run(Model(address, "m", timeout_s).reply([]))


def _refused(url: str, **options: Any) -> tuple[int, str, str]:
    with pytest.raises(ChatError) as caught:
        _reply(url, **options)
    return caught.value.status, caught.value.code.word, caught.value.message


def completion(content: Any = "Hello.", **message: Any) -> bytes:
    """An answer of OpenAI's shape."""
    text = {"role": "assistant", "content": content, **message}
    return json.dumps({"choices": [{"index": 0, "message": text, "finish_reason": "stop"}]}).encode()


def test_the_request_has_exactly_these_bytes(server: Upstream) -> None:
    """They do not depend on the time, on earlier requests, or on the sender."""
    server.respond_with(ScriptedResponse([completion()]))
    replies = [_reply(f"{server.url}/v1", MY_KEY="sk-1") for _ in range(2)]
    first, second = server.received

    authority = server.url.removeprefix("http://")
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: traceforge-chat\r\n"
        "Accept: application/json\r\nAccept-Encoding: identity\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(BODY)}\r\nConnection: close\r\nAuthorization: Bearer sk-1\r\n\r\n"
    )
    assert ["Hello.", "Hello."] == replies
    assert (head.encode(), BODY) == first == second


@pytest.mark.parametrize(
    "answer",
    [
        ScriptedResponse([completion()]),
        ScriptedResponse([completion()[:20], completion()[20:]], chunked=True),
        ScriptedResponse([gzip.compress(completion())], headers={"content-encoding": "gzip"}),
        ScriptedResponse([completion()], headers={}),
        ScriptedResponse([completion(None, refusal="Hello.")]),
        ScriptedResponse([completion([{"type": "text", "text": "Hello."}])]),
        ScriptedResponse(
            [b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',
             b'data: {"choices":[{"index":0,"delta":{"content":"lo."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'],
            headers={"content-type": "text/event-stream"}, chunked=True,
        ),
    ],
    ids=["plain", "chunked", "gzip", "unlabelled", "a refusal in words", "parts", "a stream nobody asked for"],
)  # fmt: skip
def test_an_answer_is_read_in_every_encoding_and_framing(server: Upstream, answer: ScriptedResponse) -> None:
    """Through the adapters that read recorded traffic."""
    server.respond_with(answer)

    assert "Hello." == _reply(server.url)


def test_ollama_answers_with_a_stream(server: Upstream) -> None:
    """Because the body has only model and messages, and streaming is its default."""
    lines = [
        b'{"message":{"role":"assistant","content":"Hel"},"done":false}\n',
        b'{"message":{"role":"assistant","content":"lo."},"done":true,"done_reason":"stop"}\n',
    ]
    server.respond_with(ScriptedResponse(lines, headers={"content-type": "application/x-ndjson"}, chunked=True))
    assert "Hello." == _reply(f"{server.url}/api/chat")

    server.respond_with(ScriptedResponse(lines[:1], headers={"content-type": "application/x-ndjson"}, chunked=True))
    assert (502, "upstream_broke_off") == _refused(f"{server.url}/api/chat")[:2]


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (
            ScriptedResponse([b'{"error":{"message":"No such model."}}'], 404),
            "upstream_refused",
            "404 Not Found: No such model.",
        ),
        (ScriptedResponse([b"<html>oops</html>"], 500), "upstream_refused", "500 Internal Server Error"),
        (ScriptedResponse([b""], 503), "upstream_refused", "503 Service Unavailable"),
        (ScriptedResponse([b"{}"], 418), "upstream_refused", "418"),
        (ScriptedResponse([b"{}"], 599), "upstream_refused", "599"),
        (ScriptedResponse([b""], 302, {"location": "http://127.0.0.1:1/"}), "upstream_refused", "302 Found"),
        (ScriptedResponse([b'{"error":{"message":"overloaded"}}']), "upstream_refused", "200 OK: overloaded"),
        (ScriptedResponse([b""]), "upstream_unreadable", "not what its endpoint answers with"),
        (ScriptedResponse([b"{}"]), "upstream_unreadable", "not what"),
        (ScriptedResponse([b"null"]), "upstream_unreadable", "not what"),
        (ScriptedResponse([b'"Hello."']), "upstream_unreadable", "not what"),
        (ScriptedResponse([b"Hello."]), "upstream_unreadable", "not what"),
        (ScriptedResponse([b"\xff\xfe"]), "upstream_unreadable", "not what"),
        (
            ScriptedResponse([b"not gzip"], headers={"content-encoding": "br"}),
            "upstream_unreadable",
            "compressed|not what",
        ),
        (ScriptedResponse([b'{"choices":[]}']), "upstream_empty", "no text"),
        (ScriptedResponse([completion("")]), "upstream_empty", r"no text \(finish reason: stop\)"),
        (ScriptedResponse([completion(None)]), "upstream_empty", "no text"),
        (ScriptedResponse([completion(7)]), "upstream_empty", "no text"),
        (
            ScriptedResponse([completion(None, tool_calls=[{"id": "1", "function": {"name": "f"}}])]),
            "upstream_empty",
            "tool calls",
        ),
        (ScriptedResponse([completion()], reset=True), "upstream_broke_off", "broke|closed"),
        (ScriptedResponse([], silent=True), "upstream_broke_off", "broke|closed"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value)[:60],
)
def test_a_failure_is_a_502_with_a_reason(server: Upstream, answer: ScriptedResponse, code: str, text: str) -> None:
    """Never an empty reply."""
    server.respond_with(answer)
    status, word, message = _refused(server.url)

    assert (502, code) == (status, word), message
    assert re.search(text, message), message


def test_an_unreachable_server_is_a_502() -> None:
    """A port without a server; a name without an address."""
    with socket.create_server(("127.0.0.1", 0)) as busy_port:
        port = busy_port.getsockname()[1]

    assert (502, "upstream_unreachable") == _refused(f"http://127.0.0.1:{port}/v1")[:2]
    assert (502, "upstream_unreachable") == _refused("http://nobody.invalid/v1")[:2]
    assert (502, "upstream_unreachable") == _refused(f"https://127.0.0.1:{port}/v1")[:2]


def test_malformed_http_is_a_502() -> None:
    """Whatever listens there."""
    for response in (b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=_speak, args=(listener, response))
            thread.start()
            status, word, _ = _refused(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
            thread.join()
        assert (502, "upstream_unreadable" if response else "upstream_broke_off") == (status, word)


def _speak(listener: socket.socket, response: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(response)


def test_an_interim_response_is_skipped() -> None:
    """103 Early Hints, then the response; and a response that ends with its connection."""
    response = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + completion()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_speak, args=(listener, response))
        thread.start()
        assert "Hello." == _reply(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        thread.join()


@pytest.mark.parametrize("stalled", [True, False], ids=["before its answer", "within its answer"])
def test_a_model_that_takes_too_long_is_a_504(server: Upstream, stalled: bool) -> None:
    """The time limit is for the complete answer; a byte now and then does not extend it."""
    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse([completion()[:9], completion()[9:]], permits=permits, waits_first=stalled))
    status, word, message = _refused(server.url, timeout_s=0.2)
    permits.release(2)

    assert (504, "upstream_timeout") == (status, word)
    assert "within 0.2 seconds" in message


def test_a_response_that_is_too_large_is_a_502(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read no further."""
    monkeypatch.setattr(module, "RESPONSE_BYTES_MAX", 1000)
    server.respond_with(ScriptedResponse([completion("x" * 2000)]))

    assert (502, "upstream_unreadable") == _refused(server.url)[:2]


def test_a_key_that_the_provider_repeats_is_redacted(server: Upstream) -> None:
    """The client that gets the reason need not know the operator's key."""
    key = "sk-proj-" + "A1b2C3d4E5f6G7h8I9j0" * 3
    text = json.dumps({"error": {"message": f"Incorrect API key provided: {key}. " + "x" * 900}})
    server.respond_with(ScriptedResponse([text.encode()], 401))
    message = _refused(f"{server.url}/v1", MY_KEY=key)[2]

    assert "401 Unauthorized: Incorrect API key provided:" in message
    assert key[:16] not in message
    assert len(message) < 400


def test_certificates_are_checked_with_the_systems_trust_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without trust, the key is not sent: 502 with the reason. SSL_CERT_FILE is respected."""
    certificate = make_certificate(tmp_path)
    context = server_context(certificate)
    received: list[bytes] = []
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(completion()), completion())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_speak_tls, args=(listener, context, response, received))
        thread.start()
        url = f"https://localhost:{listener.getsockname()[1]}/v1"
        status, word, message = _refused(url, MY_KEY="sk-1")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        reply = _reply(url, MY_KEY="sk-1")
        thread.join()

    assert (502, "upstream_unreachable") == (status, word)
    assert "its certificate cannot be trusted: self-signed certificate" in message
    assert "Hello." == reply
    assert [1] == [request.count(b"Bearer sk-1") for request in received]


def _speak_tls(listener: socket.socket, context: ssl.SSLContext, response: bytes, received: list[bytes]) -> None:
    for _ in range(2):
        connection, _ = listener.accept()
        with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
            received.append(secure.recv(65536))
            secure.sendall(response)


ANSWERS: dict[str, tuple[str, list[bytes], str]] = {
    "anthropic": (
        "/v1/messages",
        [b'{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":'
         b'"Hm.","signature":"x"},{"type":"text","text":"Hel"},{"type":"text","text":"lo."}],'
         b'"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}'],
        "application/json",
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        [b'{"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"Hel"},'
         b'{"text":"lo."}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3}}'],
        "application/json; charset=UTF-8",
    ),
    "ollama": (
        "/api/chat",
        [b'{"model":"m","message":{"role":"assistant","content":"Hel"},"done":false}\n',
         b'{"model":"m","message":{"role":"assistant","content":"lo."},"done":true,"done_reason":"stop"}\n'],
        "application/x-ndjson",
    ),
}  # fmt: skip
EMPTY: dict[str, bytes] = {
    "anthropic": b'{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"t","name":"f",'
    b'"input":{}}],"stop_reason":"tool_use"}',
    "gemini": b'{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"SAFETY","index":0}]}',
    "ollama": b'{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}',
}
CONVERSATION: list[Any] = [
    {"role": "system", "content": "You are careful."},
    {"role": "system", "content": ""},
    {"role": "system", "content": "It is Monday."},
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Which day?"},
]


@pytest.mark.parametrize("name", ANSWERS)
def test_each_provider_is_called_and_read_in_its_own_api(server: Upstream, name: str) -> None:
    """Reasoning is not part of the answer; failures are the same for all."""
    path, pieces, kind = ANSWERS[name]
    address = find_address(server.url, {"MY_KEY": "k-1"}, "MY_KEY", name)
    model = Model(address, "m", 5.0)
    server.respond_with(ScriptedResponse(pieces, headers={"content-type": kind}, chunked=True))
    reply = asyncio.run(model.reply(CONVERSATION))
    (sent,) = server.received
    refusals = []
    for answer in (
        ScriptedResponse([b'{"error":{"message":"overloaded"}}'], 529),
        ScriptedResponse([pieces[0][:-3]], reset=True),
        ScriptedResponse([b"<html>"]),
        ScriptedResponse([EMPTY[name]]),
    ):
        server.respond_with(answer)
        with pytest.raises(ChatError) as caught:
            asyncio.run(model.reply(CONVERSATION))
        refusals.append((caught.value.status, caught.value.code.word))

    assert "Hello." == reply
    assert f"POST {path} HTTP/1.1".encode() == sent.line
    assert 1 == sent.head.count(b"k-1")
    assert [
        (502, "upstream_refused"), (502, "upstream_broke_off"), (502, "upstream_unreadable"), (502, "upstream_empty"),
    ] == refusals  # fmt: skip


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (
            "anthropic",
            b'{"model":"m","max_tokens":1024,"system":[{"type":"text","text":"You are careful."},'
            b'{"type":"text","text":"It is Monday."}],"messages":[{"role":"user","content":"Hi."},'
            b'{"role":"assistant","content":"Hello."},{"role":"user","content":"Which day?"}]}',
        ),
        (
            "gemini",
            b'{"contents":[{"role":"user","parts":[{"text":"Hi."}]},{"role":"model","parts":[{"text":"Hello."}]},'
            b'{"role":"user","parts":[{"text":"Which day?"}]}],"systemInstruction":{"parts":'
            b'[{"text":"You are careful."},{"text":"It is Monday."}]}}',
        ),
        ("ollama", json.dumps({"model": "m", "messages": CONVERSATION}, separators=(",", ":")).encode()),
        ("openai", json.dumps({"model": "m", "messages": CONVERSATION}, separators=(",", ":")).encode()),
    ],
)
def test_each_provider_gets_exactly_these_bytes(server: Upstream, name: str, body: bytes) -> None:
    """Model and messages; Anthropic's limit is the only value of our own. An empty layer is no block."""
    server.respond_with(ScriptedResponse([b"{}"]))
    with pytest.raises(ChatError):
        asyncio.run(Model(find_address(server.url, {}, provider=name), "m", 5.0).reply(CONVERSATION))

    assert [body] == [request.body for request in server.received]


def test_the_token_limit_for_anthropic_can_be_set(server: Upstream) -> None:
    """Instead of the default."""
    server.respond_with(ScriptedResponse(ANSWERS["anthropic"][1]))
    model = Model(find_address(server.url, {}, provider="anthropic"), "m", 5.0, tokens_max=77)

    assert "Hello." == asyncio.run(model.reply(CONVERSATION))
    assert 77 == json.loads(server.received[0].body)["max_tokens"]


def test_a_cancelled_caller_ends_the_call() -> None:
    """The provider's connection is closed, and the thread is free for the next call."""
    event = threading.Event()

    def serve(listener: socket.socket) -> None:
        for last in (False, True):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                if last:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + completion())
                    return
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n{")
                if connection.recv(1) == b"":  # as long as the other side is there, nothing comes
                    event.set()

    async def run(model: Model) -> str:
        leaving = asyncio.create_task(model.reply([]))
        await asyncio.sleep(0.2)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await asyncio.to_thread(event.wait, 3)  # long before its time is over
        return await model.reply([])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        model = Model(find_address(f"http://127.0.0.1:{listener.getsockname()[1]}", {}), "m", 60.0)
        reply = asyncio.run(run(model))
        thread.join()

    assert "Hello." == reply


@pytest.mark.slow
def test_a_thousand_slow_sessions_do_not_starve_the_server(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limited number of calls is in flight, the others wait in order, and the event loop goes on."""
    monkeypatch.setattr(module, "CALLS_MAX", 8)
    permits = threading.Semaphore(0)
    server.respond_with(ScriptedResponse([completion()], permits=permits, waits_first=True))
    before = threading.active_count()

    async def run() -> tuple[list[str], int, int]:
        model = Model(find_address(server.url, {}), "m", 60.0)
        turns = [
            asyncio.create_task(model.reply([{"role": "user", "content": str(number)}])) for number in range(1000)
        ]
        while len(server.received) < 8:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        sent, threads = len(server.received), threading.active_count() - before
        permits.release(1000)
        return await asyncio.gather(*turns), sent, threads

    replies, sent, threads = asyncio.run(run())
    order = [int(json.loads(request.body)["messages"][0]["content"]) for request in server.received]

    assert ["Hello."] * 1000 == replies
    assert 8 == sent
    assert threads <= 16  # those of the test's own server included
    assert all(number - place < 8 for place, number in enumerate(order))  # Nobody overtakes but those under way.


def test_the_time_limit_includes_the_wait_for_a_thread(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is not started in time gets a 504, and the model is never called."""
    monkeypatch.setattr(module, "CALLS_MAX", 1)
    free = threading.Event()
    server.respond_with(ScriptedResponse([completion()]))

    async def run() -> list[Any]:
        model = Model(find_address(server.url, {}), "m", 0.3)
        busy = asyncio.create_task(model._threads.run(lambda: free.wait(10)))
        await asyncio.sleep(0)
        errors = await asyncio.gather(*(model.reply([]) for _ in range(3)), return_exceptions=True)
        free.set()
        await busy
        return [*errors, await model.reply([])]

    *late, reply = asyncio.run(run())

    assert [504, 504, 504] == [error.status for error in late]
    assert "Hello." == reply
    assert 1 == len(server.received)


@pytest.mark.parametrize("name", PROVIDERS)
def test_no_provider_key_of_the_environment_is_sent_to_your_own_address(
    server: Upstream, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Only the key that was named for it; adapters alone would take a provider's."""
    keys = {"OPENAI_API_KEY": "k-o", "ANTHROPIC_API_KEY": "k-a", "GEMINI_API_KEY": "k-g", "GOOGLE_API_KEY": "k-go"}
    for variable, key in keys.items():
        monkeypatch.setenv(variable, key)
    server.respond_with(ScriptedResponse([b"{}"]))
    with pytest.raises(ChatError):
        asyncio.run(Model(find_address(server.url, keys, provider=name), "m", 5.0).reply(CONVERSATION))

    assert b"k-" not in server.received[0].head
