"""`chat/connection.py` and `chat/door.py`, byte by byte: what a client may send, and what it is told otherwise."""

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

from support.chatting import Echo, Here, chatting, write_prompts
from support.sockets import Peer
from traceforge.canon import JSONObject
from traceforge.chat import chat_connection as module
from traceforge.chat import chat_server as server_module

ASK = b'{"message":"hi","session_id":"s"}'
TYPE = b"Content-Type: application/json\r\n"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    """A chat whose model says the message again."""
    with chatting(Echo(), write_prompts(tmp_path / "prompts")) as one:
        yield one


def post(body: bytes = ASK, headers: bytes = TYPE, *, path: bytes = b"/chat", host: bytes = b"127.0.0.1") -> bytes:
    """A request with a Content-Length."""
    return b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (path, host, len(body), headers, body)


def chunked(*pieces: bytes) -> bytes:
    """A request in chunks."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"
    return b"POST /chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + TYPE + b"\r\n" + body


def answer(peer: Peer) -> tuple[int, Any]:
    """The status and the JSON of the next answer."""
    found = peer.response()
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head[9:12]), json.loads(body)


def told(here: Here, data: bytes) -> tuple[int, str]:
    """The status and the code of what is refused."""
    peer = here.connect()
    peer.send(data)
    status, body = answer(peer)
    peer.close()
    return status, body["error"]["code"]


def test_requests_over_one_connection_are_answered_in_turn(here: Here) -> None:
    """Also those sent ahead, in one piece or byte by byte."""
    peer = here.connect()
    peer.send(post() * 3)
    assert [(200, {"reply": "echo: hi"})] * 3 == [answer(peer) for _ in range(3)]
    for byte in b"\r\n" + post():
        peer.send(bytes([byte]))
    assert (200, {"reply": "echo: hi"}) == answer(peer)
    peer.send(b"".join(post(json.dumps({"message": str(n), "session_id": "s"}).encode()) for n in range(50)))
    assert [f"echo: {number}" for number in range(50)] == [answer(peer)[1]["reply"] for _ in range(50)]
    peer.close()


def test_a_body_may_come_in_chunks(here: Here) -> None:
    """A length need not be known before."""
    peer = here.connect()
    peer.send(chunked(ASK[:7], ASK[7:]) + post())

    assert [(200, {"reply": "echo: hi"})] * 2 == [answer(peer) for _ in range(2)]
    peer.close()


def test_http_1_0_is_answered_and_closed(here: Here) -> None:
    """Without a Host, as it may be there."""
    peer = here.connect()
    peer.send(b"POST /chat HTTP/1.0\r\nContent-Length: %d\r\n%b\r\n%b" % (len(ASK), TYPE, ASK))
    found = peer.rest()

    assert found.endswith(b'{"reply":"echo: hi"}')
    assert b"Connection: close" in found


def test_who_expects_to_be_told_to_go_on_is_told(here: Here) -> None:
    """curl waits a second for it, where a body is long; a body that is too long is refused before it is sent."""
    peer = here.connect()
    peer.send(
        b"POST /chat HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n%b\r\n"
        % (len(ASK), TYPE)
    )
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == peer.head()
    peer.send(ASK)
    assert (200, {"reply": "echo: hi"}) == answer(peer)
    peer.close()
    large = (
        b"POST /chat HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 262145\r\n"
        + TYPE
        + b"\r\n"
    )
    assert (413, "body_too_large") == told(here, large)


def _sized(size: int) -> bytes:
    start = b'{"session_id":"s","message":"'
    return start + b"x" * (size - len(start) - 2) + b'"}'


@pytest.mark.parametrize("framed", [post, chunked], ids=["counted", "chunked"])
def test_a_body_of_256_kib_is_taken_and_a_byte_more_is_not(here: Here, framed: Any) -> None:
    """The refusal can be read, though the client is still sending."""
    peer = here.connect()
    peer.send(framed(_sized(256 << 10)))
    assert 200 == answer(peer)[0]
    peer.close()

    assert (413, "body_too_large") == told(here, framed(_sized((256 << 10) + 1)))
    assert (413, "body_too_large") == told(here, framed(_sized(1 << 20)))


def test_an_endless_body_is_read_only_so_far(here: Here) -> None:
    """Then the connection is cut."""
    peer = here.connect()
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
        (post(host=b"localhost@evil.example"), (421, "other_host")),
        (post(path=b"http://evil.example/chat"), (421, "other_host")),
        (post(headers=TYPE + b"Origin: http://evil.example\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Origin: null\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Origin: https://127.0.0.1\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Origin: http://127.0.0.1:8080\r\n"), (403, "other_origin")),
        (post(headers=TYPE + b"Sec-Fetch-Site: cross-site\r\n"), (403, "other_origin")),
    ],
    ids=lambda value: repr(value)[:70],
)  # fmt: skip
def test_what_is_not_let_in_is_told_why(here: Here, data: bytes, expected: tuple[int, str]) -> None:
    """The model is never asked, and the server goes on."""
    assert expected == told(here, data)
    assert [] == here.chat.memory.sessions
    assert {"reply": "echo: still here"} == here.ask("still here")


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
def test_what_is_right_is_let_in_however_it_is_spelled(here: Here, headers: bytes) -> None:
    """Header names and types have no case."""
    peer = here.connect()
    peer.send(post(headers=headers))

    assert (200, {"reply": "echo: hi"}) == answer(peer)
    peer.close()


def test_a_whole_url_is_a_target_too(here: Here) -> None:
    """As HTTP demands of every server."""
    peer = here.connect()
    peer.send(post(path=b"http://localhost/chat"))

    assert 200 == answer(peer)[0]
    peer.close()


def test_head_is_get_without_its_body(here: Here) -> None:
    """The length is that of the page."""
    peer = here.connect()
    peer.send(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    found = peer.rest()

    assert found.endswith(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(here.get("/").content) in found


def test_no_answer_may_be_kept(here: Here) -> None:
    """Neither by a browser nor by anything on the way; refusals neither."""
    answers = [here.post(ASK), here.post(b"{}"), here.get("/"), here.get("/chat.js"), here.get("/nowhere")]

    assert {"no-store"} == {one.headers["cache-control"] for one in answers}


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
    """The model's answer is dropped, nothing of it is remembered, and the next one in the queue is served."""
    model = Slow()
    with chatting(model, write_prompts(tmp_path / "prompts")) as here:
        leaver, patient, gone = here.connect(), here.connect(), here.connect()
        leaver.send(post(b'{"message":"first","session_id":"s"}'))
        _wait(lambda: model.begun == 1)
        gone.send(post(b'{"message":"never","session_id":"s"}'))
        _wait(lambda: here.call(lambda: here.chat.memory._sessions["s"].requests) == 2)
        patient.send(post(b'{"message":"second","session_id":"s"}'))
        _wait(lambda: here.call(lambda: here.chat.memory._sessions["s"].requests) == 3)
        gone.close()
        leaver.reset()
        _wait(lambda: model.begun == 2)
        here.call(model.gate.set)
        reply = answer(patient)
        patient.close()
        remembered = [one.content for one in here.chat.memory.history("s")]

    assert (200, {"reply": "echo: second"}) == reply
    assert (2, 1) == (model.begun, model.cancelled)  # the one who left while waiting was never asked about
    assert ["second", "echo: second"] == remembered


def test_a_request_that_does_not_come_is_not_waited_for(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a head, half a body: 408. Nothing at all, or nothing more: closed."""
    monkeypatch.setattr(module, "REQUEST_SECONDS_MAX", 0.1)
    monkeypatch.setattr(module, "IDLE_SECONDS_MAX", 0.1)

    assert (408, "too_slow") == told(here, b"POST /chat HTTP/1.1\r\nHost:")
    assert (408, "too_slow") == told(here, post()[:-3])
    silent = here.connect()
    assert b"" == silent.rest()
    idle = here.connect()
    idle.send(post())
    assert 200 == answer(idle)[0]
    assert b"" == idle.rest()


def test_a_client_too_many_is_told_so(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the others are served."""
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 1)
    first = here.connect()
    first.send(post())
    assert 200 == answer(first)[0]
    second = here.connect()
    status, body = answer(second)
    assert (503, "too_busy") == (status, body["error"]["code"])
    first.send(post())
    assert 200 == answer(first)[0]
    first.close()


def test_a_mistake_of_ours_is_a_500_that_says_nothing_of_the_request(tmp_path: Path) -> None:
    """Its kind is told, to the client and to the operator; its text may hold what somebody said."""

    class Broken(Echo):
        async def reply(self, messages: Sequence[JSONObject]) -> str:
            raise KeyError(str(messages))

    with chatting(Broken(), write_prompts(tmp_path / "prompts")) as here:
        found = here.post({"message": "my secret", "session_id": "s"})
        said = list(here.said)

    assert (500, "internal_error") == (found.status_code, found.json()["error"]["code"])
    assert "my secret" not in found.text
    assert ["internal error: KeyError"] == said


def test_a_client_that_takes_nothing_is_not_served_more(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests sent ahead without reading an answer fill no memory, and are cut in the end."""
    monkeypatch.setattr(module, "IDLE_SECONDS_MAX", 0.3)
    peer = here.connect()
    sent = 0
    peer.sock.settimeout(2)
    with suppress(OSError):  # The system's buffers are full, or it was cut.
        while sent < 2_000_000:
            peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            sent += 1000
    sizes = here.call(lambda: [one.transport.get_write_buffer_size() for one in here.server.connections])

    assert sent < 2_000_000
    assert all(size < 1 << 20 for size in sizes)
    _wait(lambda: not here.call(lambda: here.server.connections))
    assert {"reply": "echo: still here"} == here.ask("still here")


def test_who_reads_late_gets_every_answer(here: Here) -> None:
    """Though the server stopped serving for a while."""
    peer = here.connect()
    peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    time.sleep(0.3)
    page = here.get("/").content

    for _ in range(1000):
        assert peer.response().endswith(page)


def test_a_refusal_of_head_has_no_body(here: Here) -> None:
    """As any answer to it."""
    peer = here.connect()
    peer.send(b"HEAD /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
    found = peer.rest()

    assert found.startswith(b"HTTP/1.1 404")
    assert found.endswith(b"\r\n\r\n")
    peer = here.connect()
    peer.send(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    peer.head()
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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_sent_the_server_goes_on(here: Here, data: st.DataObject) -> None:
    """Requests that were cut, doubled and overwritten: each answer is HTTP, none is a 500, and others are served."""
    sent = bytearray(b"".join(data.draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=3))))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(sent)))
        sent[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=6))
    peer = here.connect()
    with suppress(ConnectionError):
        peer.send(bytes(sent))
        peer.sock.shutdown(socket.SHUT_WR)  # a client that leaves: it may have been answered or not
        found = peer.rest()
        assert all(one.startswith(b"HTTP/1.1 ") for one in [found] if one)
        assert b"HTTP/1.1 500" not in found
    peer.close()

    assert [] == here.said
    assert {"reply": "echo: still here"} == here.ask("still here")
