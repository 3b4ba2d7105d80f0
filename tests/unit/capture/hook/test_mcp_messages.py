"""Messages of MCP as calls, and back: what two runs have alike is compared, and what a run makes up is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.capture.hook.mcp_messages import (
    CLOSED_LINE,
    decode_answer,
    encode_answer_line,
    encode_request,
    find_wrapped,
    is_closing,
    make_error,
    name_server,
    parse_messages,
    progress_token,
    read_refusal,
    request_url,
    server_address,
)
from traceforge.capture.hook.replayed_response import make_refusal

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}}
IDS = st.one_of(st.integers(), st.text(min_size=1))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("command", "arguments", "name"),
    [
        ("/usr/bin/python3.12", ["notes_server.py"], "notes_server"),
        ("python", ["-m", "acme.tools"], "acme.tools"),
        ("uvx", ["mcp-server-git@1.2.0", "--repository", "."], "mcp-server-git"),
        ("uvx", ["--from", "git+ssh://x/y", "acme-tools"], "acme-tools"),
        ("uv", ["run", "--directory", "/srv", "server.py"], "server"),
        ("npx", ["-y", "@acme/server-files@2025.1", "/data"], "server-files"),
        ("docker", ["run", "-i", "--rm", "-e", "TOKEN=x", "acme/tickets:latest"], "tickets"),
        ("npx", ["--auth-token", "hunter2", "-y", "@acme/server-files"], "server-files"),
        ("docker", ["run", "--API_KEY", "hunter2"], "docker"),
        ("node", ["build/index.js"], "index"),
        ("bash", ["-lc", "TOKEN=abc exec uvx mcp-server-git --key sk-1"], "mcp-server-git"),
        ("sh", ["-c", "/opt/notes --token sk-1"], "notes"),
        ("cmd", ["/c", "npx", "-y", "@acme/server-files"], "server-files"),
        ("python", ["-c", "import acme; acme.serve('sk-1')"], "python"),
        ("node", ["--eval", "serve('sk-1')"], "node"),
        ("docker", ["run", "--name", "mine", "--env-file", ".env", "acme/tickets:latest"], "tickets"),
        (r"C:\tools\files.exe", [], "files"),
        ("/opt/My Server", [], "my-server"),
        ("python", [], "python"),
        ("", [], "server"),
    ],
)
def test_a_server_is_named_after_its_program(command: str, arguments: list[str], name: str) -> None:
    """Folders, versions and launchers differ between machines; the program is the same."""
    assert name == name_server(command, arguments)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (server_address("notes"), "mcp://notes/tools/call"),
        ("https://tools.example/mcp/?key=x#y", "https://tools.example/mcp/tools/call"),
    ],
)
def test_a_request_has_the_url_of_its_server_and_its_method(address: str, url: str) -> None:
    """A query may hold a key, and decides nothing that the messages do not say."""
    assert url == request_url(address, "tools/call")


@given(first=IDS, second=IDS, token=IDS)
def test_ids_and_progress_tokens_are_not_compared(first: Any, second: Any, token: Any) -> None:
    """They count up in each run."""
    with_token = {**CALL, "id": second, "params": {**CALL["params"], "_meta": {"progressToken": token}}}

    assert encode_request({**CALL, "id": first}) == encode_request(with_token)


def test_what_each_request_says_of_its_run_is_not_compared() -> None:
    """In version 2 of the SDK, each request names its client, and the trace of OpenTelemetry that it belongs to."""

    def encode(version: str, trace: str, protocol: str = "2026-07-28") -> bytes:
        meta = {
            "io.modelcontextprotocol/clientInfo": {"name": "mcp", "version": version},
            "io.modelcontextprotocol/protocolVersion": protocol,
            **dict.fromkeys(("traceparent", "tracestate", "baggage"), trace),
        }
        return encode_request({**CALL, "params": {**CALL["params"], "_meta": meta}})

    assert encode("2.0", "a") == encode("2.1", "b")
    assert encode("2.0", "a") != encode("2.0", "a", protocol="2025-11-25")


def test_the_version_of_the_protocol_is_compared_and_that_of_the_client_is_not() -> None:
    """The one changes what the two may say to each other, the other with each update of a library."""

    def encode(protocol: str, client: str) -> bytes:
        info = {"name": "app", "version": client}
        params = {"protocolVersion": protocol, "capabilities": {}, "clientInfo": info}
        return encode_request({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})

    assert encode("2025-11-25", "1.0") == encode("2025-11-25", "2.0")
    assert encode("2025-11-25", "1.0") != encode("2025-06-18", "1.0")


@given(arguments=st.dictionaries(st.text(), VALUES, max_size=3), other=VALUES)
def test_what_a_tool_is_called_with_is_compared_whole(arguments: dict[str, Any], other: Any) -> None:
    """No argument is left out because of its name or its place."""
    changed = {**arguments, "progressToken": [other]}

    def encode(values: dict[str, Any]) -> bytes:
        return encode_request({**CALL, "params": {"name": "add", "arguments": values}})

    assert (arguments == changed) == (encode(arguments) == encode(changed))


@given(recorded=IDS, live=IDS, result=VALUES)
def test_an_answer_gets_the_id_of_the_request_that_is_answered(recorded: Any, live: Any, result: Any) -> None:
    """And is otherwise as the server sent it."""
    line = encode_answer_line({"jsonrpc": "2.0", "id": recorded, "result": result})

    assert [{"jsonrpc": "2.0", "id": live, "result": result}] == decode_answer(line, {**CALL, "id": live})


def test_progress_is_told_under_the_token_of_today() -> None:
    """A client that asks for no progress gets none."""
    progress = {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": 3, "progress": 1},
    }
    asking = {**CALL, "params": {**CALL["params"], "_meta": {"progressToken": "t-9"}}}
    line = encode_answer_line(progress)

    assert [{**progress, "params": {"progressToken": "t-9", "progress": 1}}] == decode_answer(line, asking)
    assert [] == decode_answer(line, CALL)


def test_a_request_of_the_server_keeps_its_id() -> None:
    """The client answers under it."""
    sampling = {"jsonrpc": "2.0", "id": 4, "method": "sampling/createMessage", "params": {"maxTokens": 5}}

    assert [sampling] == decode_answer(encode_answer_line(sampling), CALL)


def test_the_end_of_a_session_is_no_message_of_a_server() -> None:
    """A server cannot make a line that ends a replayed session."""
    assert [True] == [is_closing(message) for message in decode_answer(CLOSED_LINE, CALL)]
    assert not is_closing({"jsonrpc": "2.0", "closed": True})


@pytest.mark.parametrize("body", [b"[]\n", b"{", b"null\n", b"\xff\n"])
def test_an_answer_that_cannot_be_read_is_an_error(body: bytes) -> None:
    """It is refused by whoever replays it, and never taken for an empty one."""
    with pytest.raises(ValueError):  # noqa: PT011 (what it says is the JSON reader's)
        decode_answer(body, CALL)


def test_a_refusal_is_an_error_that_says_why() -> None:
    """The sentence of the replay reaches the application as the message of a JSON-RPC error."""
    reason = read_refusal(make_refusal("no recorded call matches").chunks)

    assert {"jsonrpc": "2.0", "id": 7, "error": {"code": -32000, "message": reason}} == make_error(CALL, reason)
    assert "TraceForge replay: no recorded call matches" == reason
    assert "TraceForge replay" in read_refusal([(0.0, b"nothing")])


def test_text_that_is_not_ascii_stays_as_it_is() -> None:
    """Reviewers read it in the diff."""
    line = encode_answer_line({"jsonrpc": "2.0", "id": 1, "result": {"text": "Übergröße 😀"}})

    assert "Übergröße 😀" in line.decode()
    assert {"text": "Übergröße 😀"} == json.loads(line)["result"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["mcp", "wrap", "--", "uvx", "mcp-server-git@1.2"], "mcp-server-git"),
        (["traceforge", "mcp", "wrap", "--", "python", "notes.py"], "notes"),
        (["-m", "traceforge", "mcp", "wrap", "--name", "My notes", "--", "python", "notes.py"], "my-notes"),
        (["mcp", "wrap", "--name=a b", "--", "x"], "a-b"),
        (["mcp", "wrap", "--"], "server"),
    ],
)
def test_a_wrapped_server_has_the_name_that_it_has_without_the_wrap(arguments: list[str], name: str) -> None:
    """So that a client that is watched, and one that is not, ask the same server."""
    assert name == name_server("traceforge", arguments)


@pytest.mark.parametrize("added", [{"tool": "drop"}, {"jsonrpc": "1.0"}, {"result": 1}])
def test_members_that_requests_do_not_have_are_compared(added: Any) -> None:
    """A server may read them."""
    assert encode_request({**CALL, **added}) != encode_request(CALL)


@pytest.mark.parametrize("words", [["mcp", "wrap"], ["wrap", "mcp", "--", "x"], ["--", "x"], []])
def test_a_server_that_is_not_wrapped_is_none(words: list[str]) -> None:
    assert find_wrapped(words) is None


@given(VALUES)
def test_any_value_is_a_message_or_none(value: Any) -> None:
    """What is taken for a message can be turned into a call, whatever else it holds."""
    message = parse_messages(json.dumps(value).encode())

    for item in message if isinstance(message, list) else [message] if message is not None else []:
        assert encode_answer_line(item).endswith(b"\n")
        progress_token(item)
        assert encode_request({**item, "method": "m"})
