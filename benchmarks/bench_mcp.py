"""The time that recording adds to a message between an MCP client and its server over stdio."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from harness import Row, is_quick

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.environments import installed_python

GOAL_MS = 0.2  # that recording may add to a message
MESSAGES = 2  # of a call: the request, and its response
CALLS = 50  # in a round
ROUNDS = 10 if is_quick() else 40
PAUSE_S = 0.3  # after a recorded round, so that the writing of its traces does not slow down the next one
COMMAND = str(Path(sys.executable).with_name("traceforge"))
SERVER = """
import json, sys
text = "The soup of the day is a pumpkin soup with ginger, at 12.50. " * 10
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = {"content": [{"type": "text", "text": text}]}
        if message["method"] == "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "menu", "version": "1"}}
            result = {"protocolVersion": message["params"]["protocolVersion"], **about}
        if message["method"] == "tools/list":
            result = {"tools": [{"name": "find_dish", "inputSchema": {"type": "object"}}]}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\\n")
        sys.stdout.buffer.flush()
"""
# Both read a number of calls, make them, and print the seconds that they took.
PLAIN_CLIENT = """
import json, subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
number = 0
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(int(line)):
        number += 1
        params = {"name": "find_dish", "arguments": {"name": f"soup {number}"}}
        request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        server.stdin.write(json.dumps(request).encode() + b"\\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == number
    print(time.perf_counter() - start, flush=True)
server.stdin.close()
server.wait()
"""
SDK_CLIENT = """
import asyncio, sys, time
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.list_tools()
        number = 0
        while line := sys.stdin.readline():
            start = time.perf_counter()
            for _ in range(int(line)):
                number += 1
                await session.call_tool("find_dish", {"name": f"soup {number}"})
            print(time.perf_counter() - start, flush=True)

asyncio.run(main())
"""


class AddedMessageTimeRow(Row):
    """A row about the time added to a message."""

    def text(self) -> str:
        """The row as it is printed."""
        ratio = f"{1 / self.speed:.2f}x the time ({self.peer_name})"
        times = f"{self.ours * 1e3:.2f} ms against {self.peer * 1e3:.2f} ms a call, {ratio}"
        return f"  {self.title:<46} {times:<62} {self.goal:<28} {'ok' if self.met else 'MISSED'}"


class Client:
    """A client in a process of its own, which keeps its server."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        environ = {**os.environ, "PYTHONPATH": ""}
        self._process = subprocess.Popen(
            command, cwd=folder, env=environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def call(self, count: int) -> float:
        """Make so many calls; the seconds that one took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"benchmark: a client of a tool server ended with {self._process.wait()}")
        return float(line) / count

    def close(self) -> None:
        """End it, and what it started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def rows() -> Iterator[Row]:
    """Both ways to record a server over stdio."""
    server = [sys.executable, "-c", SERVER]
    plain = [sys.executable, "-c", PLAIN_CLIENT]
    sdk = [str(installed_python("mcp")), "-c", SDK_CLIENT]
    wrap = [COMMAND, "mcp", "wrap", "--name", "menu", "--"]
    yield compare("a server behind `traceforge mcp wrap`", [*plain, *wrap, *server], [*plain, *server])
    yield compare("a server of the `mcp` SDK", [*sdk, *server], [*sdk, *server])


def count_traces(folder: str) -> int:
    """How many calls of the tool were recorded."""
    words = [COMMAND, "trace", "list", "--json", "--limit", str(10 * CALLS * (ROUNDS + 1))]
    listed = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return sum(trace["endpoint"].endswith("/tools/call") for trace in json.loads(listed.stdout)["data"])


def compare(name: str, recorded: Sequence[str], plain: Sequence[str]) -> Row:
    """A client that is recorded, and one that is not, in turns."""
    ours: list[float] = []
    theirs: list[float] = []
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # so that the disk does not decide
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=memory))
        clients = [Client([COMMAND, "run", "--", *recorded], folder), Client(plain, folder)]
        for client in clients:
            stack.callback(client.close)
            client.call(CALLS)
        for _ in range(ROUNDS):
            for client, times in zip(clients, (ours, theirs), strict=True):
                time.sleep(PAUSE_S)
                times.append(client.call(CALLS))
        clients[0].close()
        count = count_traces(folder)
    if count < CALLS * (ROUNDS + 1):
        sys.exit(f"benchmark: {name}: {count} of {CALLS * (ROUNDS + 1)} calls became traces")
    added_ms = statistics.median(mine - other for mine, other in zip(ours, theirs, strict=True)) * 1e3 / MESSAGES
    cost = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    result = f"{added_ms:+.3f} ms a message, goal {GOAL_MS:g}"
    return AddedMessageTimeRow(
        name, statistics.median(ours), statistics.median(theirs), "without", 1 / cost, result, added_ms <= GOAL_MS
    )
