"""Load on an HTTP server: processes, and wrk.

In: commands and ports. Out: calls a second, times of a call, CPU time and memory of a process and its children.
Never: counts a call that was not answered with 200.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PATH = "/v1/chat/completions"
START_SECONDS_MAX = 90  # LiteLLM imports for half a minute on a slow machine.
TIMEOUT_SECONDS = 20  # of one call: the slowest peer takes seconds at 64 connections
SEED_PLACE = "#" * 18
SENTENCE = "The train to the coast leaves at nine, and the tickets are cheaper when they are bought a day before. "

# that replays what it knows would not record it; the number that makes it so does not look like that of a card.
ANSWER = json.dumps(
    {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-4o",
     "choices": [{"index": 0, "message": {"role": "assistant", "content": SENTENCE * 7}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}},
    indent=2,
)  # fmt: skip
BODY = json.dumps(
    {"messages": [{"role": "user", "content": f"Question {SEED_PLACE}. {SENTENCE * 9}"}], "model": "gpt-4o"},
    separators=(",", ":"),
)
HEADERS = {
    "Content-Type": "application/json", "Authorization": "Bearer sk-none", "Accept": "application/json",
    "User-Agent": "OpenAI/Python 2.1.0", "Accept-Encoding": "gzip, deflate", "X-Stainless-Lang": "python",
}  # fmt: skip

_LUA = """
wrk.method = 'POST'
wrk.body = '%s'
%s
local before, behind, count, seed
function init(args)
  local whole = wrk.format()
  local from, to = string.find(whole, '%s', 1, true)
  before, behind = string.sub(whole, 1, from - 1), string.sub(whole, to + 1)
  count, seed = 0, args[1]
  if args[2] then
    local ffi = require('ffi')
    ffi.cdef('typedef struct {long s; long n;} moment; int clock_gettime(int, moment *);')
    local moment, sent, pace, began = ffi.new('moment'), 0, tonumber(args[2]), nil
    function delay()
      ffi.C.clock_gettime(1, moment)
      local now = tonumber(moment.s) + tonumber(moment.n) / 1e9
      began, sent = began or now, sent + 1
      return math.max(0, math.floor((began + sent / pace - now) * 1000))
    end
  end
end
function request()
  count = count + 1
  return before .. seed .. string.format('x%%08d', count) .. behind
end
"""
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_CALLS = re.compile(r"(\d+) requests in")
_TIMES = re.compile(r"(50|99)%\s+([\d.]+)(us|ms|s)\b")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_runs = itertools.count(time.time_ns() // 1000 % 10**9)


class Target(NamedTuple):
    """The server under load."""

    name: str
    port: int
    path: str = PATH
    headers: Mapping[str, str] = {}
    process: int = 0  # whose CPU time and memory are measured, with its children's

    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"


class Load(NamedTuple):
    """The result of one run of wrk."""

    calls: int
    rate: float  # calls a second
    p50: float  # seconds
    p99: float


class NotRunning(Exception):
    """A peer could not be started, or does not answer every call."""


def free_port() -> int:
    """A port that is free at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def process(
    command: list[str], target: Target, folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Target]:
    """A running server that accepts connections.

    Raises:
        NotRunning: it does not start or accept.
    """
    log = folder / f"{target.name}.out"
    with log.open("wb") as out:
        started = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not is_accepting(target.port):
            if started.poll() is not None or time.monotonic() > deadline:
                raise NotRunning(f"{target.name} did not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.02)
        yield target._replace(process=started.pid)
    finally:
        stop(started)


def stop(started: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    started.terminate()
    try:
        started.wait(30)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait(10)


def is_accepting(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def call_once(target: Target, body: str = "") -> None:
    """Send one request: the first takes long where a program loads lazily.

    Raises:
        NotRunning: it was not answered with 200.
    """
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=START_SECONDS_MAX)
    try:
        body = body or BODY.replace(SEED_PLACE, f"{next(_runs)}")
        connection.request("POST", target.path, body, {**HEADERS, **target.headers})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as exc:
        raise NotRunning(f"{target.name} did not answer: {type(exc).__name__} {exc}") from None
    finally:
        connection.close()
    if status != 200:
        raise NotRunning(f"{target.name} answered {status}")


def wrk(target: Target, folder: Path, connections: int, seconds: int, pace: int = 0, *, body: str = "") -> Load:
    """Load the target from one thread: as fast as it answers, or with `pace` calls a second. Every request is
    different, unless there is a `body`.

    Raises:
        NotRunning: a call was not answered with 200.
    """
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={TIMEOUT_SECONDS}", "--latency"]
    seed = f"{next(_runs):09d}"
    script = str(_script(target, folder, body))
    output = subprocess.run(
        [*command, "-s", script, target.url(), "--", seed, *([str(pace)] if pace else [])],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    rate, calls = _RATE.search(output), _CALLS.search(output)
    if "Non-2xx" in output or "Socket errors" in output or not rate or not calls or calls[1] == "0":
        raise NotRunning(f"{target.name} did not answer every call: {' '.join(output.split())}")
    times = {percentile: float(value) * _UNITS[unit] for percentile, value, unit in _TIMES.findall(output)}
    return Load(int(calls[1]), float(rate[1]), times["50"], times["99"])


def _script(target: Target, folder: Path, body: str) -> Path:
    script = folder / f"{target.name}.lua"
    headers = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in {**HEADERS, **target.headers}.items())
    script.write_text(
        f"wrk.method = 'POST'\nwrk.body = '{body}'\n{headers}" if body else _LUA % (BODY, headers, SEED_PLACE)
    )
    return script


class Use(NamedTuple):
    """CPU seconds and bytes of memory of a process."""

    cpu: float = 0.0
    memory: int = 0

    def plus(self, other: Use) -> Use:
        return Use(self.cpu + other.cpu, self.memory + other.memory)


def use_of(pid: int) -> Use:
    """The use of one process; zero where it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return Use()
    return Use((int(stat[11]) + int(stat[12])) / _TICKS, int(stat[21]) * _PAGE)


def children_of(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += [int(child) for child in (task / "children").read_text().split()]
    return children + [grandchild for child in children for grandchild in children_of(child)]


def use_of_all(pid: int) -> Use:
    """The use of a process and its children."""
    used = use_of(pid)
    for child in children_of(pid):
        used = used.plus(use_of(child))
    return used


if __name__ == "__main__":
    sys.exit("benchmark: this is a part of bench_proxy")
