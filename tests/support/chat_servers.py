"""The chat server, as the command `traceforge chat serve` and as an event loop in a thread of this process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import uvloop

from support.command import COMMAND
from support.proxy_process import SECONDS_MAX, ExitResult
from support.raw_sockets import Peer
from traceforge.canon import JSONObject
from traceforge.chat.chat_server import ChatServer
from traceforge.chat.conversation import Chat, ChatModel
from traceforge.chat.conversation_memory import ConversationMemory
from traceforge.chat.prompt_layers import PromptFolder
from traceforge.http.accept_loop import listen
from traceforge.http.bound_socket import bind_socket, socket_url
from traceforge.http.server_limits import CHAT_LIMITS, ServerLimits

PROMPTS = {"system.md": "You are careful.\n", "developer.md": "Answer shortly.", "session.md": "It is Monday.\n"}

BUNDLED_UPSTREAM = "upstream: the model server that comes with TraceForge"  # The first line on stderr.


def write_prompts(folder: Path, **texts: bytes) -> Path:
    """Write a folder of prompts; `texts`, by layer name, replace the default texts."""
    folder.mkdir(exist_ok=True)
    for name, text in PROMPTS.items():
        (folder / name).write_bytes(texts.get(name.removesuffix(".md"), text.encode()))
    return folder


class Client:
    """A client of the chat server at a URL."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=url, timeout=SECONDS_MAX, trust_env=False, headers=headers)

    def post(self, body: object, **headers: str) -> httpx.Response:
        """Send a body: bytes as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._client.post("/chat", content=data, headers={"content-type": "application/json", **headers})

    def ask(self, message: str, session_id: str = "s", **more: object) -> dict[str, Any]:
        """Post a message and return the body of the 200 response."""
        answer = self.post({"message": message, "session_id": session_id, **more})
        assert 200 == answer.status_code, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def get(self, path: str) -> httpx.Response:
        return self._client.get(path)

    def close(self) -> None:
        self._client.close()


class ChatProcess(Client):
    """`traceforge chat serve` in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.process = process
        self.line = process.stdout.readline()
        if not self.line:
            _, err = process.communicate(timeout=SECONDS_MAX)
            raise AssertionError(err.decode())
        ready = json.loads(self.line)
        self.pid: int = ready["pid"]  # not that of the process, where something else runs it
        self.token: str = ready.get("token", "")
        super().__init__(ready["url"], self.token)

    def stop(self, number: int = signal.SIGTERM) -> ExitResult:
        """Send it a signal and wait for its end."""
        self.close()
        os.kill(self.pid, number)
        self.out, err = self.process.communicate(timeout=SECONDS_MAX)
        return ExitResult(self.process.returncode, err.decode())

    def kill(self) -> None:
        """Kill the process if it still runs."""
        self.close()
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.process.kill()
        if not self.process.stdout.closed:  # A process that ended by itself leaves its pipes open.
            self.process.communicate()


@contextmanager
def chat_process(
    folder: Path,
    *arguments: str,
    before: tuple[str, ...] = (),
    command: tuple[str, ...] = (str(COMMAND),),
    **variables: str,
) -> Iterator[ChatProcess]:
    """Run the command in a folder, on a free port; `before` are the words of a wrapper command."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = subprocess.Popen(
        [*before, *command, "chat", "serve", "--port", "0", "--json", *arguments],
        cwd=folder,
        env={**environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        serving = ChatProcess(process)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    try:
        yield serving
    finally:
        serving.kill()


class Echo:
    """A model that repeats the last message, and stores the requests."""

    developer_role = "developer"

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def reply(self, messages: Sequence[JSONObject]) -> str:
        self.bodies.append(json.dumps({"messages": messages}).encode())
        await asyncio.sleep(0)
        return f"echo: {messages[-1]['content']}"


class RunningChat(Client):
    """A chat on its real loop, in a thread of this process."""

    def __init__(
        self,
        model: ChatModel,
        prompts: Path,
        memory: ConversationMemory | None = None,
        name: str = "m-1",
        limits: ServerLimits = CHAT_LIMITS,
        token: str = "",
    ) -> None:
        self._limits = limits
        self._token = token
        self._up = threading.Event()
        self.log_lines: list[str] = []
        self._peers: list[Peer] = []
        self.chat = Chat(name, model, PromptFolder(prompts), memory or ConversationMemory())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._up.wait(SECONDS_MAX)
        super().__init__(socket_url(self._sock), token)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._sock = bind_socket("127.0.0.1", 0)
        self.server = ChatServer(self.chat, self.log_lines.append, self._limits, self._token)
        server = await listen(self._sock, self.server.open_connection, self._limits.connections)
        self._up.set()
        await self._stop.wait()
        server.close()
        for connection in list(self.server.connections):
            connection.transport.abort()
        await asyncio.sleep(0.01)

    def call(self, work: Callable[[], Any]) -> Any:
        """Run `work` on the event loop of the chat."""

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(SECONDS_MAX)

    def connect(self) -> Peer:
        """A client that sends exact bytes."""
        port = int(self.url.rpartition(":")[2])
        self._peers.append(Peer(socket.create_connection(("127.0.0.1", port), SECONDS_MAX)))
        return self._peers[-1]

    def stop(self) -> None:
        self.close()
        for peer in self._peers:
            peer.close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()


@contextmanager
def running_chat(model: ChatModel, prompts: Path, memory: ConversationMemory | None = None) -> Iterator[RunningChat]:
    """Run a chat for the duration of a test."""
    running = RunningChat(model, prompts, memory)
    try:
        yield running
    finally:
        running.stop()
