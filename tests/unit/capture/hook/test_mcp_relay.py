"""Between a client and its server over stdio: what passes, what is answered, and what is noted."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from traceforge.capture.hook import dispatch, mcp_lines
from traceforge.capture.hook.guarded_call import GuardedCall
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.hook.mcp_relay import TOO_LONG, UNREADABLE, UNREADABLE_ANSWER, Ends, Relay
from traceforge.capture.hook.replayed_response import ReplayedResponse, make_refusal

CALL = b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"add"}}\n'
RESULT = b'{"jsonrpc":"2.0","id":"x","result":{"n":1}}\n'


class RecordedCall(GuardedCall):
    """A call that is looked up among recordings first."""

    def __init__(self, call: InFlightCall, response: ReplayedResponse | None) -> None:
        super().__init__(call)
        self.replays_first = True
        self._response = response

    def replay(self, body: bytes) -> Any:
        return self._response


class Wire:
    """A relay in a thread, with the far ends of its pipes."""

    def __init__(self, *, with_server: bool) -> None:
        client_output, self.to_relay = os.pipe()
        self.from_relay, client_input = os.pipe()
        self.server_input, to_server = os.pipe()
        from_server, self.server_output = os.pipe()
        self._files = [self.to_relay, self.from_relay, self.server_input, self.server_output]
        server = Ends(from_server, to_server) if with_server else None
        self._relay = Relay("mcp://notes", Ends(client_output, client_input), server)
        self._ours = [client_output, client_input] + ([] if with_server else [from_server, to_server])
        self.is_ended_by_client: bool | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.is_ended_by_client = self._relay.run()

    def close(self, *files: int) -> None:
        for file in files:
            if file in self._files:
                self._files.remove(file)
                os.close(file)

    def join(self) -> bool | None:
        self._thread.join(10)
        assert not self._thread.is_alive()
        return self.is_ended_by_client

    def end(self) -> None:
        self.close(*self._files)
        self._thread.join(10)
        for file in self._ours:
            os.close(file)


class Watched:
    """What the relay reported."""

    def __init__(self) -> None:
        self.ended: list[InFlightCall] = []
        self.unseen: list[str] = []
        self.refused: list[str] = []
        self.replays = False
        self.responses: list[ReplayedResponse | None] = []

    def begin(self, url: str, headers: Any) -> GuardedCall:
        call = InFlightCall(self.ended.append, "POST", url, ())
        return RecordedCall(call, self.responses.pop(0)) if self.replays else GuardedCall(call)

    def summaries(self) -> list[tuple[str, str, list[Any]]]:
        """The outcome of each call, and the lines of its answer."""
        bodies = [b"".join(data for _, data in call.response_chunks) for call in self.ended]
        lines = [[json.loads(line) for line in body.splitlines()] for body in bodies]
        return [(call.url, call.outcome, answer) for call, answer in zip(self.ended, lines, strict=True)]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    reported = Watched()
    monkeypatch.setattr(dispatch, "begin_tool_call", reported.begin)
    monkeypatch.setattr(dispatch, "note_unseen", reported.unseen.append)
    monkeypatch.setattr(dispatch, "refuse_tool_message", reported.refused.append)
    monkeypatch.setattr(dispatch, "is_replaying", lambda: reported.replays)
    return reported


@pytest.fixture
def wire(watched: Watched) -> Iterator[Wire]:
    relay = Wire(with_server=True)
    yield relay
    relay.end()


def replayed(*messages: dict[str, Any]) -> ReplayedResponse:
    body = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    return ReplayedResponse(200, (), [(0.0, body)])


def read(file: int, size: int) -> bytes:
    """So many bytes, or all that there are before the end."""
    data = b""
    while len(data) < size and (more := os.read(file, size - len(data))):
        data += more
    return data


def test_a_request_and_its_answer_are_a_call(wire: Wire, watched: Watched) -> None:
    """The bytes of both pass unchanged."""
    os.write(wire.to_relay, CALL)
    assert CALL == read(wire.server_input, len(CALL))
    os.write(wire.server_output, RESULT)
    assert RESULT == read(wire.from_relay, len(RESULT))
    wire.close(wire.to_relay)
    assert b"" == os.read(wire.server_input, 1)
    wire.close(wire.server_output)

    assert wire.join()
    assert [("mcp://notes/tools/call", "answered", [{"jsonrpc": "2.0", "result": {"n": 1}}])] == watched.summaries()


@pytest.mark.parametrize(
    "data",
    [
        b"no line end", b"\xff\xfe\x00\n", b"[" * 100_000 + b"\n", b"[]\n", b"{}\n", b"null\n",
        b'{"id":{},"method":[]}\n',
        b'{"id":"x","method":"tools/call","params":[1]}\n', b'{"id":1e999,"result":NaN}\n', b"\n\n\r\n",
        b'{"id":' + b"9" * 5000 + b',"result":1}\n',
        b'[{"id":"x","result":1},{"method":"notifications/message"}]\n',
        b'{"method":"notifications/progress","params":{"progressToken":{"a":[]}}}\n',
        b'{"id":"y","method":"m","params":{"_meta":3}}\n',
    ],
)  # fmt: skip
def test_whatever_a_side_writes_passes_unchanged(wire: Wire, data: bytes) -> None:
    """At once, also before a line has its end, and the session goes on."""
    for to, out in ((wire.server_output, wire.from_relay), (wire.to_relay, wire.server_input)):
        writing = threading.Thread(target=os.write, args=(to, data))
        writing.start()
        assert data == read(out, len(data))
        writing.join()
    os.write(wire.to_relay, b"\n" + CALL)

    assert b"\n" + CALL == read(wire.server_input, len(CALL) + 1)


def test_a_message_that_is_too_long_passes_and_leaves_no_answer(
    watched: Watched, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been the answer to any request that is open, so that none of them can be approved."""
    monkeypatch.setattr(mcp_lines, "LINE_BYTES_MAX", 100)
    os.write(wire.to_relay, CALL)
    read(wire.server_input, len(CALL))
    os.write(wire.server_output, b"x" * 101 + b"\n" + RESULT)
    assert b"x" * 101 + b"\n" + RESULT == read(wire.from_relay, 102 + len(RESULT))
    wire.close(wire.to_relay, wire.server_output)
    wire.join()

    assert [TOO_LONG] == sorted(set(watched.unseen))
    assert [("mcp://notes/tools/call", "cut", [])] == watched.summaries()


UNREADABLE_RESULTS = [
    RESULT.replace(b'"x"', b'"x", "y":"\xff"'),
    RESULT.replace(b"1}}", b"9" * 5000 + b"}}"),
    RESULT.replace(b"1}}", b"[" * 100_000 + b"]" * 100_000 + b"}}"),
    RESULT.replace(b"{", b'{"params":[],', 1),
    b"\xef\xbb\xbf" + RESULT,
    b'\t[ {"jsonrpc":"2.0","id":{},"result":1},' + RESULT.strip() + b"]\n",
    RESULT.replace(b"jsonrpc", b"\\u006asonrpc").replace(b"1}}", b"1,}}"),
    RESULT.replace(b"1}}", b'2,"n":1}}'),
]


@pytest.mark.parametrize("line", UNREADABLE_RESULTS, ids=range(len(UNREADABLE_RESULTS)))
def test_a_result_that_cannot_be_read_leaves_no_answer(watched: Watched, wire: Wire, line: bytes) -> None:
    """Other clients can read it. The trace once said that the client had left before there was an answer."""
    writing = threading.Thread(target=os.write, args=(wire.server_output, line))
    os.write(wire.to_relay, CALL)
    read(wire.server_input, len(CALL))
    writing.start()
    assert line == read(wire.from_relay, len(line))
    writing.join()
    wire.close(wire.to_relay, wire.server_output)
    wire.join()

    assert [UNREADABLE_ANSWER] == watched.unseen
    assert [("mcp://notes/tools/call", "cut", [])] == watched.summaries()


@pytest.mark.parametrize(
    "line", [b"{ started: true }\n", b"[INFO] ready\n", b"{\n", b"[]\n", b"jsonrpc 2.0\n", b"\xff\n"]
)
def test_lines_of_a_log_between_messages_are_passed_over(watched: Watched, wire: Wire, line: bytes) -> None:
    os.write(wire.to_relay, CALL)
    read(wire.server_input, len(CALL))
    os.write(wire.server_output, line + RESULT)
    assert line + RESULT == read(wire.from_relay, len(line + RESULT))
    wire.close(wire.to_relay, wire.server_output)
    wire.join()

    assert [] == watched.unseen
    assert [("mcp://notes/tools/call", "answered", [{"jsonrpc": "2.0", "result": {"n": 1}}])] == watched.summaries()


@pytest.mark.parametrize("ends_first", ["server", "client"])
def test_who_ends_a_session_is_known(watched: Watched, wire: Wire, ends_first: str) -> None:
    """A server that dies is an answer; a client that leaves gets none."""
    os.write(wire.to_relay, CALL)
    read(wire.server_input, len(CALL))
    if ends_first == "client":
        wire.close(wire.to_relay)
        os.read(wire.server_input, 1)
    wire.close(wire.server_output, wire.server_input)

    assert (ends_first == "client") is wire.join()
    expected = ("answered", [{"closed": True}]) if ends_first == "server" else ("left", [])
    assert [("mcp://notes/tools/call", *expected)] == watched.summaries()


def test_a_server_is_told_that_its_client_reads_no_more(watched: Watched, wire: Wire) -> None:
    """It gets the error that it would get without us."""
    wire.close(wire.from_relay)

    def write_for_ever() -> None:
        while True:
            os.write(wire.server_output, RESULT)

    with pytest.raises(BrokenPipeError):
        write_for_ever()


def test_an_approved_request_is_not_sent(watched: Watched) -> None:
    """Its result does not cut a line of the server; other lines pass, in their order."""
    watched.replays = True
    watched.responses = [replayed({"jsonrpc": "2.0", "result": {"n": 7}}), None]
    wire = Wire(with_server=True)
    os.write(wire.server_output, b'{"jsonrpc":')
    assert b'{"jsonrpc":' == read(wire.from_relay, 11)
    notice = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    os.write(wire.to_relay, CALL + notice + CALL.replace(b'"x"', b"2"))

    assert notice + CALL.replace(b'"x"', b"2") == read(wire.server_input, len(notice + CALL) - 2)
    rest = b'"2.0","method":"notifications/message"}\n'
    os.write(wire.server_output, rest)
    answer = b'{"jsonrpc":"2.0","result":{"n":7},"id":"x"}\n'
    assert rest + answer == read(wire.from_relay, len(rest + answer))
    wire.end()


def test_without_a_server_what_is_recorded_is_told(watched: Watched) -> None:
    """A refusal is an error for the client; what is no message is refused and counted."""
    watched.replays = True
    watched.responses = [
        replayed({"jsonrpc": "2.0", "result": {"n": 7}}),
        make_refusal("no recorded call matches"),
        replayed({"closed": True}),
    ]
    wire = Wire(with_server=False)
    batch = b"[" + CALL.strip() + b',{"method":"n"}]\n'
    os.write(wire.to_relay, CALL + CALL + b"noise\n" + batch + CALL)

    assert wire.join() is False
    told = [json.loads(line) for line in os.read(wire.from_relay, 1 << 16).splitlines()]

    assert [7, None] == [message.get("result", {}).get("n") for message in told[:2]]
    assert "no recorded call matches" in told[1]["error"]["message"]
    assert ["x"] == [error["id"] for error in told[2]]
    assert 2 == len(watched.refused)
    assert all(UNREADABLE in reason for reason in watched.refused)
    wire.end()


@pytest.mark.parametrize(
    "line",
    [
        CALL.replace(b'"add"', b'"drop","name":"add"'),
        CALL.replace(b'"add"', b'"drop","n\\u0061me":"add"'),
        CALL.replace(b'{"name"', b'{"name":"drop"},"params":{"name"'),
        CALL.replace(b'"add"', b'"add","arguments":{"list":[{"a":1,"b":2,"a":2}]}'),
    ],
)
def test_a_request_that_two_servers_read_otherwise_is_not_compared(watched: Watched, wire: Wire, line: bytes) -> None:
    """The last of two members of one name was compared; a server may take the first one."""
    os.write(wire.to_relay, line)
    assert line == read(wire.server_input, len(line))
    wire.close(wire.to_relay, wire.server_output)
    wire.join()
    watched.replays, watched.responses = True, [replayed({"jsonrpc": "2.0", "result": {"n": 7}})]
    offline = Wire(with_server=False)
    os.write(offline.to_relay, line)
    answer = json.loads(os.read(offline.from_relay, 1 << 16))
    offline.end()

    assert ([UNREADABLE], []) == (watched.unseen, watched.ended)
    assert [f"{UNREADABLE} cannot be replayed"] == watched.refused
    assert ("x", True) == (answer["id"], "error" in answer)


def test_a_client_may_write_all_its_requests_before_it_reads(watched: Watched) -> None:
    """More answers than a pipe holds: a server that answers in tasks of its own would not be held up either."""
    count = 300
    watched.replays = True
    watched.responses = [replayed({"jsonrpc": "2.0", "result": {"text": "x" * 1000}}) for _ in range(count)]
    wire = Wire(with_server=False)
    requests = b"".join(CALL.replace(b'"add"', b'"%0500d"' % number) for number in range(count))
    writing = threading.Thread(target=os.write, args=(wire.to_relay, requests), daemon=True)
    writing.start()
    writing.join(10)

    assert not writing.is_alive()
    answers = b""
    while answers.count(b"\n") < count:
        answers += os.read(wire.from_relay, 1 << 16)
    wire.close(wire.to_relay)
    assert wire.join()
    wire.end()


def test_a_client_is_told_that_its_server_reads_no_more(wire: Wire) -> None:
    """While the server still writes: it gets the error that it would get without us."""
    wire.close(wire.server_input)

    def write_for_ever() -> None:
        while True:
            os.write(wire.to_relay, CALL)

    with pytest.raises(BrokenPipeError):
        write_for_ever()
    os.write(wire.server_output, RESULT)
    assert RESULT == read(wire.from_relay, len(RESULT))
    wire.close(wire.server_output)

    assert wire.join() is False


def test_an_id_that_is_used_again_leaves_no_call_open(wire: Wire, watched: Watched) -> None:
    """The answer may belong to either, so that the first has none."""
    os.write(wire.to_relay, CALL + CALL)
    read(wire.server_input, 2 * len(CALL))
    os.write(wire.server_output, RESULT)
    read(wire.from_relay, len(RESULT))
    wire.close(wire.to_relay, wire.server_output)
    wire.join()

    assert ["cut", "answered"] == [call.outcome for call in watched.ended]
