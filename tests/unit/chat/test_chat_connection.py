"""`chat/chat_connection.py`, byte by byte: the requests a client may send, and the errors for all others."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.chat_servers import Echo, RunningChat, running_chat, write_prompts
from support.example_counts import scale_examples
from support.raw_sockets import Peer
from traceforge.canon import JSONObject
from traceforge.http.server_limits import CHAT_LIMITS

ASK = b'{"message":"hi","session_id":"s"}'
TYPE = b"Content-Type: application/json\r\n"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningChat]:
    """A chat whose model says the message again."""
    with running_chat(Echo(), write_prompts(tmp_path / "prompts")) as chat:
        yield chat


def post(body: bytes = ASK, headers: bytes = TYPE, *, path: bytes = b"/chat", host: bytes = b"127.0.0.1") -> bytes:
    """A request with a Content-Length."""
    return b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (path, host, len(body), headers, body)


def chunked(*pieces: bytes) -> bytes:
    """A request in chunks."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return b"POST /chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + TYPE + b"\r\n" + body


def answer(peer: Peer) -> tuple[int, Any]:
    """The status and the JSON of the next answer."""
    received = peer.response()
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head[9:12]), json.loads(body)


def error_response(running: RunningChat, data: bytes) -> tuple[int, str]:
    """The status and the code of what is refused."""
    peer = running.connect()
    peer.send(data)
    status, body = answer(peer)
    peer.close()
    return status, body["error"]["code"]


TOKEN = "a-token"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningChat]:
    """A chat that requires a token."""
    chat = RunningChat(Echo(), write_prompts(tmp_path / "prompts"), token=TOKEN)
    yield chat
    chat.stop()


@pytest.mark.parametrize(
    "header",
    [b"", b"Authorization: Bearer a-toke\r\n", b"Authorization: Bearer a-token2\r\n", b"Authorization: a-token\r\n",
     b"Authorization: Basic a-token\r\n", b"Authorization: Bearer \xe9\r\n", b"Cookie: token=a-token\r\n",
     b"X-TraceForge-Token: a-token\r\n", b"Authorization: Bearer x\r\nAuthorization: Bearer a-token\r\n"],
)  # fmt: skip
def test_without_the_token_there_is_no_answer(guarded: RunningChat, header: bytes) -> None:
    """The refusal comes with the head, before the body is read; pages and health need no token."""
    peer = guarded.connect()
    peer.send(post(b"", TYPE + header).replace(b"Content-Length: 0", b"Content-Length: 33"))

    status, body = answer(peer)
    assert (401, "wrong_token") == (status, body["error"]["code"])
    assert [200] * 4 == [guarded.get(path).status_code for path in ("/", "/chat.js", "/chat.css", "/healthz")]


def test_with_the_token_a_client_is_answered_and_keeps_its_connection_in_a_flood(guarded: RunningChat) -> None:
    """Host and Origin are checked all the same."""
    token = b"Authorization: Bearer %b\r\n" % TOKEN.encode()
    peer = guarded.connect()
    peer.send(post(ASK, TYPE + token))

    assert (200, {"reply": "echo: hi"}) == answer(peer)
    assert [True] == [connection.is_authenticated for connection in guarded.server.connections]
    assert (403, "other_origin") == error_response(
        guarded, post(ASK, TYPE + token + b"Origin: http://127.0.0.1:1\r\n")
    )
    assert (421, "other_host") == error_response(guarded, post(ASK, TYPE + token, host=b"evil.example"))
    peer.send(post())
    assert 401 == answer(peer)[0]


def test_requests_over_one_connection_are_answered_in_turn(running: RunningChat) -> None:
    """Pipelined ones too, in one read or byte by byte."""
    peer = running.connect()
    peer.send(post() * 3)
    assert [(200, {"reply": "echo: hi"})] * 3 == [answer(peer) for _ in range(3)]
    for byte in b"\r\n" + post():
        peer.send(bytes([byte]))
    assert (200, {"reply": "echo: hi"}) == answer(peer)
    peer.send(b"".join(post(json.dumps({"message": str(n), "session_id": "s"}).encode()) for n in range(50)))
    assert [f"echo: {number}" for number in range(50)] == [answer(peer)[1]["reply"] for _ in range(50)]
    peer.close()


def test_a_body_may_be_chunked(running: RunningChat) -> None:
    """Its length need not be known in advance."""
    peer = running.connect()
    peer.send(chunked(ASK[:7], ASK[7:]) + post())

    assert [(200, {"reply": "echo: hi"})] * 2 == [answer(peer) for _ in range(2)]
    peer.close()


def test_http_1_0_gets_a_response_and_a_close(running: RunningChat) -> None:
    """Without a Host, which HTTP/1.0 does not demand."""
    peer = running.connect()
    peer.send(b"POST /chat HTTP/1.0\r\nContent-Length: %d\r\n%b\r\n%b" % (len(ASK), TYPE, ASK))
    received = peer.read_to_end()

    assert received.endswith(b'{"reply":"echo: hi"}')
    assert b"Connection: close" in received


def test_expect_100_continue_is_answered(running: RunningChat) -> None:
    """curl waits a second for it before a long body; a body that is too long is refused before it is sent."""
    peer = running.connect()
    peer.send(
        b"POST /chat HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n%b\r\n"
        % (len(ASK), TYPE)
    )
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == peer.read_head()
    peer.send(ASK)
    assert (200, {"reply": "echo: hi"}) == answer(peer)
    peer.close()
    large = (
        b"POST /chat HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 262145\r\n"
        + TYPE
        + b"\r\n"
    )
    assert (413, "body_too_large") == error_response(running, large)


def _sized(size: int) -> bytes:
    start = b'{"session_id":"s","message":"'
    return start + b"x" * (size - len(start) - 2) + b'"}'


@pytest.mark.parametrize("framed", [post, chunked], ids=["counted", "chunked"])
def test_a_body_of_256_kib_is_accepted_and_one_byte_more_is_refused(running: RunningChat, framed: Any) -> None:
    """The client can read the refusal though it is still sending."""
    peer = running.connect()
    peer.send(framed(_sized(256 << 10)))
    assert 200 == answer(peer)[0]
    peer.close()

    assert (413, "body_too_large") == error_response(running, framed(_sized((256 << 10) + 1)))
    assert (413, "body_too_large") == error_response(running, framed(_sized(1 << 20)))


def test_an_endless_body_is_read_up_to_a_limit(running: RunningChat) -> None:
    """Then the connection is cut."""
    peer = running.connect()
    peer.send(b"POST /chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + TYPE + b"\r\n")
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    sent = 0
    with suppress(OSError):  # reset or broken pipe: both say that it was cut
        while sent < 64 << 20:
            peer.send(piece)
            sent += len(piece)
    assert sent < 32 << 20  # the rest lay in the buffers of the system
    peer.close()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"hello\r\n\r\n", (400, "malformed_http")),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400, "malformed_http")),
        (b"POST /chat HTTP/1.1\r\n\r\n", (400, "malformed_http")),
        (b"POST /chat HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", (400, "malformed_http")),
        (post(headers=TYPE + b"Content-Length: 3\r\n"), (400, "malformed_http")),
        (post(headers=TYPE + b"Transfer-Encoding: chunked\r\n"), (400, "malformed_http")),
        (post(headers=TYPE + b" folded: x\r\n"), (400, "malformed_http")),
        (b"POST /chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", (400, "malformed_http")),
        (chunked(b"x").replace(b"\r\n\r\n1\r\n", b"\r\n\r\nzz\r\n"), (400, "malformed_http")),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", (431, "head_too_large")),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 300 + b"\r\n", (431, "head_too_large")),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (505, "http_version")),
        (post(path=b"/nowhere"), (404, "no_such_path")),
        (post(path=b"/chat/"), (404, "no_such_path")),
        (post(path=b"/chat/../etc/passwd"), (404, "no_such_path")),
        (b"GET /frontend/page.html HTTP/1.1\r\nHost: localhost\r\n\r\n", (404, "no_such_path")),
        (b"CONNECT example.com:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", (404, "no_such_path")),
        (b"GET /chat HTTP/1.1\r\nHost: localhost\r\n\r\n", (405, "wrong_method")),
        (b"PUT /chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", (405, "wrong_method")),
        (b"OPTIONS /chat HTTP/1.1\r\nHost: localhost\r\n\r\n", (405, "wrong_method")),
        (post(path=b"/"), (405, "wrong_method")),
        (post(path=b"/chat?trace=true"), (400, "unknown_field")),
        (post(b""), (400, "not_json")),
        (post(headers=b""), (415, "wrong_content_type")),
        (post(headers=b"Content-Type: text/plain\r\n"), (415, "wrong_content_type")),
        (post(headers=b"Content-Type: application/x-www-form-urlencoded\r\n"), (415, "wrong_content_type")),
        (post(headers=b"Content-Type: application/jsonx\r\n"), (415, "wrong_content_type")),
        (post(headers=b"Content-Type: application/json; charset=latin-1\r\n"), (415, "wrong_content_type")),
        (post(headers=TYPE * 2), (415, "wrong_content_type")),
        (post(headers=TYPE + b"Content-Encoding: gzip\r\n"), (415, "wrong_content_type")),
        (post(host=b"evil.example"), (421, "other_host")),
        (post(host=b"127.0.0.1.evil.example"), (421, "other_host")),
        (post(host=b"localhost@evil.example"), (400, "malformed_http")),
        (post(path=b"http://evil.example/chat"), (421, "other_host")),
        (post(headers=TYPE + b"Origin: http://evil.example\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Origin: null\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Origin: https://127.0.0.1\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Origin: http://127.0.0.1:8080\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Sec-Fetch-Site: cross-site\r\n"), (403, "other_origin")),
    ],
    ids=lambda value: repr(value)[:70],
)  # fmt: skip
def test_a_refused_request_gets_its_reason(running: RunningChat, data: bytes, expected: tuple[int, str]) -> None:
    """The model is never called, and the server goes on."""
    assert expected == error_response(running, data)
    assert [] == running.chat.memory.sessions
    assert {"reply": "echo: still here"} == running.ask("still here")


@pytest.mark.parametrize(
    "headers",
    [
        b"content-type: APPLICATION/JSON\r\n",
        b"Content-Type: application/json; charset=utf-8\r\n",
        b'Content-Type: application/json;charset="UTF-8"\r\n',
        TYPE + b"Content-Encoding: identity\r\n",
        TYPE + b"Origin: http://127.0.0.1\r\nSec-Fetch-Site: same-origin\r\n",
        TYPE + b"Upgrade: h2c\r\nConnection: keep-alive, Upgrade\r\n",
    ],
)
def test_header_names_and_media_types_are_case_insensitive(running: RunningChat, headers: bytes) -> None:
    """A correct request is admitted in any spelling."""
    peer = running.connect()
    peer.send(post(headers=headers))

    assert (200, {"reply": "echo: hi"}) == answer(peer)
    peer.close()


def test_a_request_target_may_be_an_absolute_url(running: RunningChat) -> None:
    """HTTP demands it of every server."""
    peer = running.connect()
    peer.send(post(path=b"http://localhost/chat"))

    assert 200 == answer(peer)[0]
    peer.close()


def test_the_response_to_head_is_that_of_get_without_its_body(running: RunningChat) -> None:
    """The length is that of the page."""
    peer = running.connect()
    peer.send(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    received = peer.read_to_end()

    assert received.endswith(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(running.get("/").content) in received


def test_no_response_may_be_cached(running: RunningChat) -> None:
    """Neither by a browser nor by a proxy on the way; errors neither."""
    answers = [
        running.post(ASK),
        running.post(b"{}"),
        running.get("/"),
        running.get("/chat.js"),
        running.get("/nowhere"),
    ]

    assert {"no-store"} == {answer.headers["cache-control"] for answer in answers}


class Slow(Echo):
    """A model that waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.cancelled = 0
        self.gate = asyncio.Event()

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        """Say it when the gate opens."""
        self.begun += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().reply(messages)


def _wait(condition: Any) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_client_that_leaves_ends_its_turn(tmp_path: Path) -> None:
    """The model's answer is dropped, nothing of it is remembered, and the next request is served."""
    model = Slow()
    with running_chat(model, write_prompts(tmp_path / "prompts")) as running:
        leaver, patient, leaving_client = running.connect(), running.connect(), running.connect()
        leaver.send(post(b'{"message":"first","session_id":"s"}'))
        _wait(lambda: model.begun == 1)
        leaving_client.send(post(b'{"message":"never","session_id":"s"}'))
        _wait(lambda: running.call(lambda: running.chat.memory._sessions["s"].requests) == 2)
        patient.send(post(b'{"message":"second","session_id":"s"}'))
        _wait(lambda: running.call(lambda: running.chat.memory._sessions["s"].requests) == 3)
        leaving_client.close()
        leaver.reset()
        _wait(lambda: model.begun == 2)
        running.call(model.gate.set)
        reply = answer(patient)
        patient.close()
        remembered = [message.content for message in running.chat.memory.history("s")]

    assert (200, {"reply": "echo: second"}) == reply
    assert (2, 1) == (model.begun, model.cancelled)  # the request that was cancelled while it waited was never sent
    assert ["second", "echo: second"] == remembered


def test_an_incomplete_request_expires(running: RunningChat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a head, half a body: 408. No bytes, or no further ones: closed."""
    limits = CHAT_LIMITS._replace(head_seconds=0.1, body_seconds=0.1, idle_seconds=0.1)
    monkeypatch.setattr(running.server, "_limits", limits)

    assert (408, "too_slow") == error_response(running, b"POST /chat HTTP/1.1\r\nHost:")
    assert (408, "too_slow") == error_response(running, post()[:-3])
    silent = running.connect()
    assert b"" == silent.read_to_end()
    idle = running.connect()
    idle.send(post())
    assert 200 == answer(idle)[0]
    assert b"" == idle.read_to_end()


def test_a_bug_of_ours_is_a_500_that_repeats_nothing_of_the_request(tmp_path: Path) -> None:
    """Client and operator get the type of the exception; its message may quote a user."""

    class Broken(Echo):
        async def reply(self, messages: Sequence[JSONObject]) -> str:
            raise KeyError(str(messages))

    with running_chat(Broken(), write_prompts(tmp_path / "prompts")) as running:
        received = running.post({"message": "my secret", "session_id": "s"})
        log_lines = list(running.log_lines)

    assert (500, "internal_error") == (received.status_code, received.json()["error"]["code"])
    assert "my secret" not in received.text
    assert ["internal error: KeyError"] == log_lines


def test_a_client_that_reads_nothing_is_not_served_more(
    running: RunningChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipelined requests without reading a response fill no memory, and are cut in the end."""
    monkeypatch.setattr(running.server, "_limits", CHAT_LIMITS._replace(write_seconds=0.3, idle_seconds=0.3))
    peer = running.connect()
    sent = 0
    peer.sock.settimeout(2)
    with suppress(OSError):  # The system's buffers are full, or it was cut.
        while sent < 2_000_000:
            peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            sent += 1000
    sizes = running.call(
        lambda: [connection.transport.get_write_buffer_size() for connection in running.server.connections]
    )

    assert sent < 2_000_000
    assert all(size < 1 << 20 for size in sizes)
    _wait(lambda: not running.call(lambda: running.server.connections))
    assert {"reply": "echo: still here"} == running.ask("still here")


def test_a_client_that_reads_late_gets_every_response(running: RunningChat) -> None:
    """Though the server stopped serving for a while."""
    peer = running.connect()
    peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    time.sleep(0.3)
    page = running.get("/").content

    for _ in range(1000):
        assert peer.response().endswith(page)


def test_an_error_in_response_to_head_has_no_body(running: RunningChat) -> None:
    """As any response to HEAD."""
    peer = running.connect()
    peer.send(b"HEAD /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
    received = peer.read_to_end()

    assert received.startswith(b"HTTP/1.1 404")
    assert received.endswith(b"\r\n\r\n")
    peer = running.connect()
    peer.send(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    peer.read_head()
    peer.send(b"what?\r\n\r\n")  # the next request is another matter
    status, body = answer(peer)
    assert (400, "malformed_http") == (status, body["error"]["code"])


SEEDS = [
    post(),
    chunked(ASK[:5], ASK[5:]),
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    post(b"{}"),
    post(path=b"/x"),
]


@settings(
    max_examples=scale_examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_mutated_requests_never_break_the_server(running: RunningChat, data: st.DataObject) -> None:
    """Cut, doubled or overwritten ones: each response is HTTP, none is a 500, and other clients are served."""
    sent = bytearray(b"".join(data.draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=3))))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(sent)))
        sent[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    peer = running.connect()
    with suppress(ConnectionError):
        peer.send(bytes(sent))
        peer.sock.shutdown(socket.SHUT_WR)  # a client that leaves: it may have been answered or not
        received = peer.read_to_end()
        assert not received or received.startswith(b"HTTP/1.1 ")
        assert b"HTTP/1.1 500" not in received
    peer.close()

    assert [] == running.log_lines
    assert {"reply": "echo: still here"} == running.ask("still here")
