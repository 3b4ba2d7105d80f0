"""The proxy, recording, against nginx (the limit) and mitmproxy: calls a second, added time, delay of a chunk."""

from __future__ import annotations

import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from harness import Row, run
from streams import delays

ROUNDS = 5
SECONDS = 1
PATH = "/v1/chat/completions"
BODY = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "y" * 900}]})
ANSWER = json.dumps(
    {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"content": "x" * 900}}]}
)
MITMPROXY = Path(tempfile.gettempdir()) / "traceforge-bench-mitmproxy"
HEADERS = {
    "Content-Type": "application/json", "Authorization": "Bearer sk-none", "Accept": "application/json",
    "User-Agent": "OpenAI/Python 2.1.0", "Accept-Encoding": "gzip, deflate", "X-Stainless-Lang": "python",
}  # fmt: skip

_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_MEDIAN = re.compile(r"50%\s+([\d.]+)(us|ms|s)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class Target(NamedTuple):
    """Where a load goes."""

    port: int
    path: str = PATH


def rows() -> Iterator[Row]:
    """Everything is started once, and measured in turn."""
    for name in ("nginx", "wrk"):
        if shutil.which(name) is None:
            sys.exit(f"benchmark: {name} is missing: apt-get install nginx-light wrk")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        direct, streams, nginx, ours, mitm = (stack.enter_context(one) for one in _targets(folder))
        script = _script(folder)
        yield _rate("calls at 16 connections, one worker", script, ours, nginx, "nginx", 0.4)
        yield _added(script, direct, nginx, ours)
        yield _delay(nginx._replace(path="/streams" + PATH), ours._replace(path="/streams" + PATH), streams)
        yield _rate("calls at 16 connections, one worker", script, ours, mitm, "mitmdump", 12)


def _targets(folder: Path) -> Iterator[object]:
    direct, streams, front = Target(_free_port()), Target(_free_port()), Target(_free_port())
    yield _process(_nginx(folder, "direct", _origin_config(direct.port)), direct)
    yield _process([sys.executable, str(Path(__file__).parent / "streams.py"), str(streams.port)], streams)
    yield _process(_nginx(folder, "front", _front_config(front.port, direct.port, streams.port)), front)
    ours = Target(_free_port(), f"/json{PATH}")
    names = [f"json=http://127.0.0.1:{direct.port}", f"streams=http://127.0.0.1:{streams.port}"]
    command = [str(Path(sys.executable).parent / "traceforge"), "proxy", "--port", str(ours.port)]
    yield _process([*command, "--upstream", names[0], "--upstream", names[1]], ours, folder)
    mitm = Target(_free_port())
    yield _process(
        [str(_mitmdump()), "-q", "--mode", f"reverse:http://127.0.0.1:{direct.port}", "--listen-host", "127.0.0.1",
         "--listen-port", str(mitm.port), "--set", f"confdir={folder}", "-w", str(folder / "flows")],
        mitm,
    )  # fmt: skip


@contextmanager
def _process(command: list[str], target: Target, folder: Path | None = None) -> Iterator[Target]:
    """A peer that runs and accepts, or the end of the benchmark."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", target.port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"benchmark: {command[0]} did not run")
                time.sleep(0.02)
        yield target
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _mitmdump() -> Path:
    command = MITMPROXY / "bin" / "mitmdump"
    if not command.exists():
        venv.create(MITMPROXY, with_pip=True)
        run([str(MITMPROXY / "bin" / "python"), "-m", "pip", "install", "-qq", "mitmproxy"])
    return command


def _nginx(folder: Path, name: str, http: str) -> list[str]:
    base = f"daemon off; worker_processes 1; pid {folder}/{name}.pid; error_log {folder}/{name}.log crit;"
    temporary = "".join(
        f"{kind}_temp_path {folder}/{name}-{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / f"{name}.conf"
    config.write_text(
        f"{base} events {{ worker_connections 1024; }} http {{ access_log off; {temporary}"
        f"keepalive_requests 1000000000; {http} }}"
    )
    return ["nginx", "-c", str(config), "-e", f"{folder}/{name}.log"]


def _origin_config(port: int) -> str:
    answer = f"default_type application/json; return 200 '{ANSWER}';"
    return f"server {{ listen 127.0.0.1:{port}; location / {{ {answer} }} }}"


def _front_config(port: int, json_port: int, stream_port: int) -> str:
    forward = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
    return (
        f"upstream one {{ server 127.0.0.1:{json_port}; keepalive 64; keepalive_requests 1000000000; }}"
        f"upstream two {{ server 127.0.0.1:{stream_port}; keepalive 64; }}"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://one; {forward} }}"
        f"location /streams {{ proxy_pass http://two; {forward} }} }}"
    )


def _script(folder: Path) -> Path:
    script = folder / "post.lua"
    headers = "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in HEADERS.items())
    script.write_text(f"wrk.method = 'POST'\nwrk.body = '{BODY}'\n{headers}")
    return script


def _wrk(script: Path, target: Target, connections: int) -> str:
    url = f"http://127.0.0.1:{target.port}{target.path}"
    command = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "--latency", "-s", str(script), url]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if "Non-2xx" in told or "Socket errors" in told or not _RATE.search(told):
        sys.exit(f"benchmark: {url} did not answer every call:\n{told}")
    return told


def _rate(what: str, script: Path, ours: Target, peer: Target, peer_name: str, goal: float) -> Row:
    """Calls a second, against a peer's."""
    mine, theirs = _in_turn(lambda target: 1 / float(_RATE.findall(_wrk(script, target, 16))[0]), ours, peer)
    speed = statistics.median(t / m for m, t in zip(mine, theirs, strict=True))
    told = f"{speed:.2f}x as fast, goal {goal:g}x"
    return Row(what, min(mine), min(theirs), peer_name, speed, told, speed >= goal)


def _added(script: Path, direct: Target, nginx: Target, ours: Target) -> Row:
    """What a proxy adds to the median of a call, at one connection."""

    def median(target: Target) -> float:
        value, unit = _MEDIAN.findall(_wrk(script, target, 1))[0]
        return float(value) * _UNITS[unit]

    plain, theirs, mine = _in_turn(median, direct, nginx, ours)
    added = [(t - p, m - p) for p, t, m in zip(plain, theirs, mine, strict=True)]
    peer, own = (statistics.median(column) for column in zip(*added, strict=True))
    cost = own / max(peer, 1e-6)
    return Row("added p50, one connection", own, peer, "nginx", 1 / cost, f"{cost:.2f}x added, goal 2x", cost <= 2)


def _delay(nginx: Target, ours: Target, origin: Target) -> Row:
    """How late the median chunk of 16 streams is."""
    del origin  # It is behind both.
    theirs, mine = _in_turn(lambda target: statistics.median(delays(target.port, target.path)), nginx, ours)
    cost = statistics.median(m / t for m, t in zip(mine, theirs, strict=True))
    told = f"{cost:.2f}x the delay, goal 1.5x"
    return Row("delay p50 of a chunk, 16 streams", min(mine), min(theirs), "nginx", 1 / cost, told, cost <= 1.5)


def _in_turn(work: Callable[[Target], float], *targets: Target) -> list[list[float]]:
    """Measure each target in every round; a first round warms up and does not count."""
    found: list[list[float]] = [[] for _ in targets]
    for number in range(ROUNDS + 1):
        for target, values in zip(targets, found, strict=True):
            value = work(target)
            if number:
                values.append(value)
    return found
