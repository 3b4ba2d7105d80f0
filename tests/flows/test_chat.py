"""`traceforge chat serve` as a user runs it: answers, prompts, restarts, errors, output."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.chat_servers import BUNDLED_UPSTREAM, PROMPTS, chat_process, write_prompts
from support.command import COMMAND, traceforge
from support.model_servers import model_server
from support.proxy_process import proxy
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream, upstream
from traceforge import capture
from traceforge.chat import conversation_memory
from traceforge.chat.conversation_memory import SESSIONS_MAX
from traceforge.chat.execution_trace import read_execution_trace
from traceforge.chat.model_address import PROVIDERS, find_address
from traceforge.chat.provider_model import TIMEOUT_S
from traceforge.chat.provider_model import ProviderModel as Model
from traceforge.cli import chat_commands as command
from traceforge.ids import id_pattern
from traceforge.wire.request_encoder import ANTHROPIC_TOKENS_MAX

HEX = {
    "system.md": "system_prompt_hash",
    "developer.md": "developer_prompt_hash",
    "session.md": "session_prompt_hash",
}


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return write_prompts(tmp_path / "prompts")


@pytest.fixture
def model() -> Iterator[Upstream]:
    """A model whose answers depend on the session's history."""

    def choose(received: ReceivedRequest) -> ScriptedResponse:
        messages = json.loads(received.body)["messages"]
        text = f"{len(messages)} messages, the last was {messages[-1]['content']}"
        return ScriptedResponse(
            [json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()]
        )

    with upstream() as server:
        server.choose = choose
        yield server


def _sha256sum(path: Path) -> str:
    return subprocess.run(["sha256sum", str(path)], capture_output=True, text=True, check=True).stdout.split()[0]


def test_the_chat_runs_without_a_key_and_without_an_argument(tmp_path: Path) -> None:
    """The model server and the prompts come with the package."""
    with chat_process(tmp_path) as chat:
        plain = chat.ask("hello")
        traced = chat.ask("hello", "other", trace=True)
        ended = chat.stop()

    assert ["reply"] == list(plain)
    assert ["reply", "trace"] == list(traced)
    assert plain["reply"] == traced["reply"] == traced["trace"]["output"]["assistant_message"]
    assert "local" == traced["trace"]["model"]
    assert (0, f"{BUNDLED_UPSTREAM}\nstopped\n") == ended
    assert [] == list(tmp_path.iterdir())


def test_the_model_gets_only_its_name_and_the_messages(tmp_path: Path, prompts: Path, model: Upstream) -> None:
    """Four layers in order; nothing is sent at the start; the trace is not part of the request."""
    with chat_process(tmp_path, "--prompts", str(prompts), "--upstream", model.url, "--model", "m-1") as chat:
        at_start = list(model.received)
        first = chat.ask("a", trace=True)
        chat.ask("b", trace=False)
    layers: list[dict[str, str]] = [
        {"role": "system", "content": PROMPTS["system.md"]},
        {"role": "developer", "content": PROMPTS["developer.md"]},
        {"role": "system", "content": PROMPTS["session.md"]},
    ]
    history = [{"role": "user", "content": "a"}, {"role": "assistant", "content": first["reply"]}]

    assert [] == at_start
    assert [
        {"model": "m-1", "messages": [*layers, {"role": "user", "content": "a"}]},
        {"model": "m-1", "messages": [*layers, *history, {"role": "user", "content": "b"}]},
    ] == [json.loads(request.body) for request in model.received]


def test_the_trace_has_the_hashes_of_the_prompt_files(tmp_path: Path, prompts: Path, model: Upstream) -> None:
    """And its fields in their documented order."""
    with chat_process(tmp_path, "--prompts", str(prompts), "--upstream", model.url, "--model", "m-1") as chat:
        answer = chat.ask("a", "session 1", trace=True)
    trace = answer["trace"]
    read = read_execution_trace(json.dumps(trace).encode())

    assert ["trace_id", "timestamp", "model", "session_id", "inputs", "output"] == list(trace)
    assert [*HEX.values(), "user_message"] == list(trace["inputs"])
    assert {HEX[name]: _sha256sum(prompts / name) for name in HEX} | {"user_message": "a"} == trace["inputs"]
    assert ("m-1", "session 1", answer["reply"]) == (read.model, read.session_id, read.output.assistant_message)
    assert hashlib.sha256(PROMPTS["developer.md"].encode()).hexdigest() == read.inputs.developer_prompt_hash
    assert re.match(id_pattern("trc"), read.trace_id)


@pytest.mark.slow
def test_only_the_session_prompt_changes_without_a_restart(tmp_path: Path, prompts: Path) -> None:
    """The hash and the model's input change together; after a restart all three prompts are new."""
    with chat_process(tmp_path, "--prompts", str(prompts)) as chat:
        before = chat.ask("hi", "1", trace=True)["trace"]["inputs"]
        for name in PROMPTS:
            (prompts / name).write_text(f"Changed {name}.")
        after = chat.ask("hi", "2", trace=True)["trace"]["inputs"]
        chat.stop()
    with chat_process(tmp_path, "--prompts", str(prompts)) as chat:
        restarted = chat.ask("hi", "3", trace=True)["trace"]["inputs"]

    assert [True, True, False] == [before[name] == after[name] for name in HEX.values()]
    assert _sha256sum(prompts / "session.md") == after["session_prompt_hash"]
    assert {HEX[name]: _sha256sum(prompts / name) for name in HEX} == {name: restarted[name] for name in HEX.values()}


@pytest.mark.parametrize("trace", [False, True])
def test_a_missing_session_prompt_fails_the_turn_before_the_model_is_called(
    tmp_path: Path, prompts: Path, model: Upstream, trace: bool
) -> None:
    """With or without a trace; and the next request reads the file again."""
    with chat_process(tmp_path, "--prompts", str(prompts), "--upstream", model.url, "--model", "m") as chat:
        (prompts / "session.md").unlink()
        refused = chat.post({"message": "a", "session_id": "s", "trace": trace})
        calls = len(model.received)
        (prompts / "session.md").write_text("Back.")
        reply = chat.ask("b", trace=trace)["reply"]

    assert (500, "prompt_unreadable", 0) == (refused.status_code, refused.json()["error"]["code"], calls)
    assert "session.md" in refused.json()["error"]["message"]
    assert str(tmp_path) not in refused.text
    assert "4 messages, the last was b" == reply


@pytest.mark.slow
def test_a_session_keeps_twenty_messages_until_a_restart(tmp_path: Path, prompts: Path, model: Upstream) -> None:
    """Three prompts, at most twenty earlier messages, and the new one."""
    arguments = ("--prompts", str(prompts), "--upstream", model.url, "--model", "m")
    with chat_process(tmp_path, *arguments) as chat:
        counts = [int(chat.ask(str(number))["reply"].split()[0]) for number in range(13)]
        other = chat.ask("x", "another session")["reply"]
        chat.stop()
    last = [message["content"] for message in json.loads(model.received[12].body)["messages"]]
    with chat_process(tmp_path, *arguments) as chat:
        after_restart = chat.ask("x")["reply"]

    assert [*range(4, 24, 2), 24, 24, 24] == counts
    assert "2" == last[3]  # the last ten of the twelve earlier questions
    assert "4 messages, the last was x" == other == after_restart


def test_the_number_of_sessions_is_bounded(tmp_path: Path, prompts: Path, model: Upstream) -> None:
    """The least recently used session is dropped."""
    arguments = ("--prompts", str(prompts), "--upstream", model.url, "--model", "m", "--sessions-max", "2")
    with chat_process(tmp_path, *arguments) as chat:
        replies = [chat.ask("x", name)["reply"].split()[0] for name in ("a", "b", "a", "c", "a", "b")]

    assert ["4", "4", "6", "4", "8", "4"] == replies


def test_a_failed_turn_gets_an_error_and_is_not_remembered(tmp_path: Path, prompts: Path, model: Upstream) -> None:
    """502 with a reason, 504 after the timeout; the session is unchanged."""
    arguments = ("--prompts", str(prompts), "--upstream", model.url, "--model", "m", "--timeout", "0.5")
    choose = model.choose
    with chat_process(tmp_path, *arguments) as chat:
        model.choose = None
        model.respond_with(ScriptedResponse([b'{"error":{"message":"overloaded"}}'], 529))
        overloaded = [chat.post({"message": "a", "session_id": "s", "trace": trace}) for trace in (False, True)]
        permits = threading.Semaphore(0)
        model.respond_with(ScriptedResponse([b"{}"], permits=permits, waits_first=True))
        late = [chat.post({"message": "a", "session_id": "s", "trace": trace}) for trace in (False, True)]
        permits.release(10)
        model.choose = choose
        reply = chat.ask("b")["reply"]

    assert [502, 502, 504, 504] == [response.status_code for response in (*overloaded, *late)]
    assert {"upstream_refused", "upstream_timeout"} == {
        response.json()["error"]["code"] for response in (*overloaded, *late)
    }
    assert overloaded[0].content == overloaded[1].content
    assert late[0].content == late[1].content
    assert "overloaded" in overloaded[0].json()["error"]["message"]
    assert "4 messages, the last was b" == reply


def test_requests_of_one_session_are_answered_in_the_order_of_arrival(tmp_path: Path, prompts: Path) -> None:
    """Each has the previous answer in its history, although all arrive during the first."""
    permits = threading.Semaphore(0)
    questions: list[str] = []

    def choose(received: ReceivedRequest) -> ScriptedResponse:
        question = json.loads(received.body)["messages"][-1]["content"]
        questions.append(question)
        body = json.dumps({"choices": [{"message": {"content": f"re {question}"}}]}).encode()
        return ScriptedResponse([body], permits=permits, waits_first=True)

    with upstream() as model:
        model.choose = choose
        with chat_process(tmp_path, "--prompts", str(prompts), "--upstream", model.url, "--model", "m") as chat:
            port = int(chat.url.rpartition(":")[2])
            clients = []
            for number in range(8):  # one after the other, each on its own connection
                client = socket.create_connection(("127.0.0.1", port), 10)
                body = json.dumps({"message": f"q{number}", "session_id": "s", "trace": number % 2 == 0}).encode()
                head = "POST /chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                clients.append(client)
                time.sleep(0.02)  # long enough for the system to hand them over in this order
            for _ in clients:
                permits.release()
            for client in clients:
                assert client.recv(65536).startswith(b"HTTP/1.1 200")
                client.close()
        bodies = [json.loads(request.body)["messages"] for request in model.received]

    assert [f"q{number}" for number in range(8)] == questions
    assert [f"re q{number}" for number in range(7)] == [message["content"] for message in bodies[-1][4:-1:2]]


@pytest.mark.parametrize("name", list(PROMPTS))
def test_a_missing_prompt_is_an_error_at_the_start(tmp_path: Path, prompts: Path, name: str) -> None:
    """With the code, the path and a hint."""
    (prompts / name).unlink()
    ran = traceforge("chat", "serve", "--port", "0", "--prompts", prompts, cwd=tmp_path)

    assert 3 == ran.code
    assert f"error TF201: {prompts / name}: no such file or folder" in ran.err
    assert "hint: A folder of prompts has system.md, developer.md and session.md" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--upstream", "openai"], "--upstream needs --model"),
        (["--upstream", "nowhere", "--model", "m"], "openai, anthropic, gemini, ollama"),
        (["--upstream", "openai", "--model", "m"], "set OPENAI_API_KEY"),
        (["--upstream", "https://api.anthropic.com/v1/complete", "--model", "m"], "cannot use this endpoint"),
        (["--upstream", "https://api.anthropic.com/v1/messages", "--model", "m"], "set ANTHROPIC_API_KEY"),
        (["--upstream", "ollama", "--model", "m", "--provider", "openai"], "--provider openai does not fit"),
        (["--upstream", "http://127.0.0.1:1", "--model", "m", "--provider", "nobody"], "'nobody' is not one of"),
        (["--provider", "openai"], "--provider needs --upstream"),
        (["--upstream", "ollama", "--model", "m", "--max-tokens", "9"], "--max-tokens is for Anthropic"),
        (["--max-tokens", "0"], "--max-tokens"),
        (["--upstream", "http://127.0.0.1:1", "--model", "m", "--key-from", "NOPE"], "set NOPE"),
        (["--key-from", "NOPE"], "--key-from needs --upstream"),
        (["--port", "70000"], "--port"),
        (["--timeout", "0"], "--timeout"),
        (["--sessions-max", "0"], "--sessions-max"),
        (["--host", "0.0.0.0"], "No such option"),
        (["extra"], "unexpected extra argument"),
    ],
)
def test_wrong_usage_is_exit_2_before_the_server_listens(tmp_path: Path, arguments: list[str], message: str) -> None:
    """There is no option to listen on another address than loopback."""
    ran = traceforge("chat", "serve", "--port", "0", *arguments, cwd=tmp_path)

    assert (2, "") == (ran.code, ran.out)
    assert message in ran.err


def test_a_port_that_is_taken_is_an_error_at_the_start(tmp_path: Path) -> None:
    """TF501, as for every server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ran = traceforge("chat", "serve", "--port", str(listener.getsockname()[1]), cwd=tmp_path)

    assert 3 == ran.code
    assert "error TF501: cannot listen on 127.0.0.1 port" in ran.err


def test_the_chat_listens_on_loopback_only(tmp_path: Path) -> None:
    with chat_process(tmp_path) as chat:
        port = int(chat.url.rpartition(":")[2])
        rows = [
            line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()
        ]
        listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]

    assert [f"0100007F:{port:04X}"] == listening


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_the_turn_in_flight_end(tmp_path: Path, prompts: Path, model: Upstream, number: int) -> None:
    """The client gets its reply, and the exit code is 0."""
    permits = threading.Semaphore(0)
    model.choose = None
    body = json.dumps({"choices": [{"message": {"content": "done"}}]}).encode()
    model.respond_with(ScriptedResponse([body], permits=permits, waits_first=True))
    replies: list[Any] = []
    with chat_process(tmp_path, "--prompts", str(prompts), "--upstream", model.url, "--model", "m") as chat:
        asking = threading.Thread(target=lambda: replies.append(chat.ask("a")))
        asking.start()
        while not model.received:
            pass
        chat.process.send_signal(number)
        permits.release()
        asking.join()
        _, err = chat.process.communicate(timeout=10)

    assert [{"reply": "done"}] == replies
    upstream_line, stopped = err.decode().splitlines()
    assert upstream_line.startswith(f"upstream: {model.url}")
    assert (0, "stopped") == (chat.process.returncode, stopped)


def test_a_stop_lets_a_slow_client_read_to_the_end(tmp_path: Path, prompts: Path, model: Upstream) -> None:
    """A response of megabytes that has begun is sent completely."""
    model.choose = None
    text = "x" * 6_000_000
    model.respond_with(ScriptedResponse([json.dumps({"choices": [{"message": {"content": text}}]}).encode()]))
    with chat_process(tmp_path, "--prompts", str(prompts), "--upstream", model.url, "--model", "m") as chat:
        client = socket.create_connection(("127.0.0.1", int(chat.url.rpartition(":")[2])), 10)
        body = b'{"message": "a", "session_id": "s"}'
        head = (
            b"POST /chat HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        )
        client.sendall(head % len(body) + body)
        received = client.recv(1)
        os.kill(chat.pid, signal.SIGTERM)
        time.sleep(0.2)
        while piece := client.recv(1 << 20):
            received += piece
        client.close()

    assert json.dumps({"reply": text}, separators=(",", ":")).encode() == received.partition(b"\r\n\r\n")[2]


def test_traces_are_printed_only_with_debug_trace(tmp_path: Path) -> None:
    """To stderr, with a note at the start."""
    with chat_process(tmp_path, "--debug-trace") as chat:
        chat.ask("untraced", "1")
        trace = chat.ask("traced \ud83d", "2", trace=True)["trace"]
        ended = chat.stop()
    note, upstream_line, line, stopped = ended.err.splitlines()

    assert note.startswith("note: --debug-trace is on")
    assert BUNDLED_UPSTREAM == upstream_line
    assert trace == json.loads(line)
    assert "stopped" == stopped
    assert b"" == chat.out


def test_a_closed_stderr_fails_no_request(tmp_path: Path) -> None:
    """Although the trace cannot be printed."""
    script = 'exec "$0" "$@" 2>&-'
    with chat_process(tmp_path, "--debug-trace", before=("bash", "-c", script)) as chat:
        assert chat.ask("a", trace=True)["trace"]


@pytest.mark.slow
def test_calls_through_the_proxy_are_recorded(tmp_path: Path, prompts: Path, model: Upstream) -> None:
    """Without any part of the execution trace."""
    with proxy(tmp_path, "--upstream", f"up={model.url}") as recording:
        arguments = ("--prompts", str(prompts), "--upstream", f"{recording.url}/up/v1", "--model", "m-1")
        with chat_process(tmp_path, *arguments) as chat:
            answer = chat.ask("needle", "my session", trace=True)
        recording.stop()
    listed = json.loads(traceforge("trace", "list", "--json", cwd=tmp_path).out)["data"]
    recorded = b"".join(path.read_bytes() for path in (tmp_path / ".ai-tests").rglob("*") if path.is_file())

    assert 1 == len(listed)
    assert b"needle" in recorded
    secret = [answer["trace"]["trace_id"], "my session", *list(answer["trace"]["inputs"].values())[:3]]
    assert [] == [text for text in secret if text.encode() in recorded]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "openai" else pytest.mark.slow) for name in PROVIDERS]
)
def test_calls_are_recorded_only_under_traceforge_run(tmp_path: Path, prompts: Path, name: str) -> None:
    """In each provider's API, without any part of the execution trace."""
    (tmp_path / ".git").mkdir()
    with model_server() as model:
        arguments = ("--prompts", str(prompts), "--upstream", model.url, "--provider", name, "--model", "m-1")
        with chat_process(tmp_path, *arguments) as chat:
            plain = chat.ask("needle", "my session", trace=True)
            chat.stop()
        before = sorted(path.name for path in tmp_path.iterdir())
        with chat_process(tmp_path, *arguments, before=(str(COMMAND), "run", "--")) as chat:
            recorded_chat = chat.ask("needle", "my session", trace=True)
            ended = chat.stop()
    (trace,) = (json.loads(path.read_bytes()) for path in (tmp_path / ".ai-tests" / "traces").glob("*.json"))
    recorded = b"".join(path.read_bytes() for path in (tmp_path / ".ai-tests").rglob("*") if path.is_file())

    assert [".git", "prompts"] == before
    assert 0 == ended.code
    assert plain["reply"] == recorded_chat["reply"] == trace["response"]["choices"][0]["message"]["content"]
    assert (name, "needle") == (trace["provider"], trace["request"]["messages"][-1]["content"])
    secret = [recorded_chat["trace"]["trace_id"], "my session", *list(recorded_chat["trace"]["inputs"].values())[:3]]
    assert [] == [text for text in secret if text.encode() in recorded]


def test_a_capture_in_this_process_records_the_chats_calls(
    tmp_path: Path, prompts: Path, model: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although other threads make them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    async def converse() -> int:
        chat_model = Model(find_address(model.url, {}), "m-1")
        with capture() as captured:
            await chat_model.reply([{"role": "user", "content": "captured"}])
        await chat_model.reply([{"role": "user", "content": "not captured"}])
        return len(captured.ids)

    assert 1 == asyncio.run(converse())
    assert 2 == len(model.received)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_conversation_in_the_api_of_each_provider(tmp_path: Path, prompts: Path, name: str) -> None:
    """The model server has all four; the turn is remembered, and the trace is the same."""
    with model_server() as model:
        arguments = ("--prompts", str(prompts), "--upstream", model.url, "--provider", name, "--model", "m-1")
        with chat_process(tmp_path, *arguments) as chat:
            at_start = model.served
            first = chat.ask("Where is Lyon?", trace=True)
            second = chat.ask("And Turin?")
            without_history = chat.ask("And Turin?", "another session")
            ended = chat.stop()
        served = model.served

    assert (0, 3) == (at_start, served)
    assert "Where is Lyon?" in first["reply"]
    assert "And Turin?" in second["reply"]
    assert second["reply"] != without_history["reply"]  # the history is a part of the request
    assert {HEX[file]: _sha256sum(prompts / file) for file in HEX}.items() <= first["trace"]["inputs"].items()
    assert first["reply"] == first["trace"]["output"]["assistant_message"]
    upstream_line, stopped = ended.err.splitlines()
    assert upstream_line.startswith(f"upstream: {model.url}")
    assert (0, "stopped") == (ended.code, stopped)


def test_the_defaults_of_the_command_are_those_of_the_code() -> None:
    """The command repeats them, so that listing the commands imports nothing."""
    assert (TIMEOUT_S, SESSIONS_MAX) == (command.TIMEOUT_S, command.SESSIONS_MAX)
    assert tuple(PROVIDERS) == command.PROVIDERS
    limit = next(option for option in command.serve.params if option.name == "tokens_max")
    assert f"[default: {ANTHROPIC_TOKENS_MAX}]" in str(getattr(limit, "help", ""))


def test_the_page_and_the_prompts_come_with_the_package() -> None:
    folder = Path(conversation_memory.__file__).parent
    assert {"page.html", "chat.css", "chat.js"} == set(os.listdir(folder / "frontend"))
    assert set(PROMPTS) == set(os.listdir(folder / "prompts"))
