"""The servers that the benchmarks of the proxy send load to: nginx, and our proxy with its recorder."""

from __future__ import annotations

import http.client
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from load import ANSWER, PATH, NotRunning, Target, Use, children_of, free_port, process, use_of

SETTLE_SECONDS_MAX = 60

# All but the sustained load writes to memory: removing files takes longer than making them, and ext4 looks at every
# inode that was freed in the last minutes when it makes a new file, so that one round would slow down the next.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
TRACEFORGE = str(Path(sys.executable).parent / "traceforge")


@contextmanager
def start_traceforge(folder: Path, upstream: Target) -> Iterator[Target]:
    folder.mkdir()
    target = Target("ours", free_port(), f"/up{PATH}")
    command = [TRACEFORGE, "proxy", "--port", str(target.port), "--upstream", f"up={base_url(upstream)}"]
    with process(command, target, folder) as started:
        yield started


@contextmanager
def start_nginx(folder: Path, upstream: Target) -> Iterator[Target]:
    target = Target("nginx", free_port())
    command = nginx_command(folder, "nginx", _front_config(target.port, upstream.port))
    with process(command, target, folder) as started:
        yield started


def base_url(target: Target) -> str:
    return f"http://127.0.0.1:{target.port}"


def settle(target: Target) -> None:
    """Wait until every call of ours is a file."""
    until = time.monotonic() + SETTLE_SECONDS_MAX
    spool = Path(f"/proc/{target.process}/cwd/.ai-tests/traces/spool")
    while _has_waiting_traces(target) or any(spool.glob("*.segment")):
        if time.monotonic() > until:
            raise NotRunning(f"{target.name} still had traces to write")
        time.sleep(0.1)


def _has_waiting_traces(target: Target) -> bool:
    """Whether traces are not on the disk yet. The recorder reports them twice a second."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read()
    connection.close()
    return re.search(rb"exchanges_waiting{[^}]*} 0\n", page) is None


def recorder_use(target: Target) -> Use:
    used = Use()
    for child in children_of(target.process):
        used = used.plus(use_of(child))
    return used


# -- nginx


def nginx_command(folder: Path, name: str, http: str) -> list[str]:
    """nginx with one worker."""
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


def origin_config(port: int) -> str:
    """A server with one answer to every request."""
    answer = f"default_type application/json; return 200 '{ANSWER}';"
    return f"server {{ listen 127.0.0.1:{port}; location / {{ {answer} }} }}"


def _front_config(port: int, upstream: int) -> str:
    forward = 'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;'
    return (
        f"upstream one {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://one; {forward} }} }}"
    )
