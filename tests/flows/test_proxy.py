"""`traceforge proxy` as a user runs it: it prints its address, forwards, and stops cleanly."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge
from support.proxy_process import ProxyProcess, start_proxy
from support.raw_sockets import SECONDS_MAX, Peer, Upstream, request, response

ALL = ("PATH", "HOME", "LANG")


class RunningProxy:
    """The command, ready to accept."""

    def __init__(self, process: subprocess.Popen[bytes], upstream: Upstream) -> None:
        assert process.stdout is not None
        self.process = process
        self.upstream = upstream
        self.line = json.loads(process.stdout.readline())
        self.port = int(self.line["url"].rpartition(":")[2])
        self._clients: list[Peer] = []

    def connect(self) -> Peer:
        import socket

        self._clients.append(Peer(socket.create_connection(("127.0.0.1", self.port), SECONDS_MAX)))
        return self._clients[-1]

    def call(self) -> bytes:
        """One complete call on its own connection; the response."""
        client = self.connect()
        client.send(request())
        server = self.upstream.accept()
        server.request()
        server.send(response(b"answer"))
        received = client.response()
        client.close()
        server.close()
        return received

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Signal it; its exit code and output."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; its exit code and output."""
        _, err = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, err.decode()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@contextmanager
def running(folder: Path, *arguments: str, **variables: str) -> Iterator[RunningProxy]:
    """Start the proxy in a folder, with an upstream named `up`."""
    upstream = Upstream()
    process = subprocess.Popen(
        [str(COMMAND), "proxy", "--port", "0", "--json", "--upstream", f"up={upstream.url}", *arguments],
        cwd=folder,
        env={**{name: os.environ[name] for name in ALL if name in os.environ}, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    proxy = RunningProxy(process, upstream)
    try:
        yield proxy
    finally:
        proxy.close()
        upstream.close()


def test_the_proxy_prints_its_url_forwards_and_stops_with_a_summary(tmp_path: Path) -> None:
    """One line of JSON when it is ready; a summary on stderr and exit 0 at the end."""
    with running(tmp_path) as proxy:
        assert response(b"answer") == proxy.call()
        code, err = proxy.stop()

    assert {"url": f"http://127.0.0.1:{proxy.port}", "pid": proxy.process.pid} == proxy.line
    assert 0 == code
    *upstream_lines, summary = err.splitlines()
    assert upstream_lines[0].startswith("upstream up: ")
    assert [] == [line for line in upstream_lines if not line.startswith("upstream ")]
    assert summary.startswith("stopped: 1 call, ")
    assert "0 upstream errors" in err


def test_a_call_in_flight_ends_before_the_proxy_does(tmp_path: Path) -> None:
    """After SIGTERM no client is accepted, idle ones are closed, and the response in flight is completed."""
    with running(tmp_path) as proxy:
        idle = proxy.connect()
        idle.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        idle.response()
        client = proxy.connect()
        client.send(request())
        server = proxy.upstream.accept()
        server.request()
        server.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.read_head()
        proxy.process.send_signal(signal.SIGTERM)
        assert b"" == idle.read_to_end()
        with pytest.raises(ConnectionError):
            proxy.connect()
        server.send(b"2\r\nok\r\n0\r\n\r\n")

        assert b"2\r\nok\r\n0\r\n\r\n" == client.read_to_end()
        code, err = proxy.ended()
    assert 0 == code
    assert "cut off at the stop" not in err


@pytest.mark.slow
def test_a_call_that_does_not_end_in_time_is_cut_and_counted(tmp_path: Path) -> None:
    """`--drain-seconds` is its limit."""
    with running(tmp_path, "--drain-seconds", "0.1") as proxy:
        client = proxy.connect()
        client.send(request())
        server = proxy.upstream.accept()
        server.request()
        code, err = proxy.stop(signal.SIGINT)

        assert server.is_closed_by_peer()
        assert client.is_closed_by_peer()
    assert 0 == code
    assert "1 cut off at the stop" in err


@pytest.mark.slow
def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "--drain-seconds", "600") as proxy:
        idle = proxy.connect()
        idle.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        idle.response()
        client = proxy.connect()
        client.send(request())
        proxy.upstream.accept().request()
        proxy.process.send_signal(signal.SIGTERM)
        idle.read_to_end()  # It has received the first.
        code, err = proxy.stop()

    assert 0 == code
    assert "1 cut off at the stop" in err


def test_upstreams_come_from_the_project_and_the_command_line_wins(tmp_path: Path) -> None:
    """`upstreams` in the configuration names them for the whole project."""
    other = Upstream()
    settings = {"upstreams": {"corp": other.url, "up": "http://127.0.0.1:9"}}
    (tmp_path / "traceforge.config.json").write_text(json.dumps(settings), encoding="utf-8")
    with running(tmp_path) as proxy:
        client = proxy.connect()
        client.send(request("/corp/v1/x"))
        assert other.accept().request().startswith(b"POST /v1/x ")
        assert response(b"answer") == proxy.call()
    other.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode", "sometimes"], "sometimes"),
        (["--upstream", "corp"], "NAME=URL"),
        (["--upstream", "corp=ftp://example.com"], "http"),
        (["--upstream", "corp=http://me:pass@example.com"], "user or a password"),
        (["--upstream", "v1=http://example.com"], "name"),
        (["--host", "0.0.0.0"], "TRACEFORGE_PROXY_TOKEN"),
        (["--port", "70000"], "70000"),
        (["--workers", "0"], "workers"),
    ],
)
def test_wrong_usage_of_the_proxy_is_exit_2_with_a_reason(tmp_path: Path, arguments: list[str], message: str) -> None:
    """Nothing is started; a password is not repeated."""
    ran = traceforge("proxy", *arguments, cwd=tmp_path)

    assert 2 == ran.code
    assert message in ran.err
    assert "pass@" not in ran.err


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    """It names the address and what to do."""
    other = Upstream()
    ran = traceforge("proxy", "--port", str(other.port), cwd=tmp_path)
    other.close()

    assert 3 == ran.code
    assert f"TF501: cannot listen on 127.0.0.1 port {other.port}: address already in use" in ran.err


def test_on_another_address_the_token_is_required(tmp_path: Path) -> None:
    """And it is not sent to the upstream."""
    with running(tmp_path, "--host", "0.0.0.0", TRACEFORGE_PROXY_TOKEN="s3cret") as proxy:
        client = proxy.connect()
        client.send(request())
        assert client.response().startswith(b"HTTP/1.1 401 ")
        client.send(request(headers=b"X-TraceForge-Token: wrong\r\n"))
        assert client.response().startswith(b"HTTP/1.1 401 ")
        client.send(request(headers=b"X-TraceForge-Token: s3cret\r\n"))
        assert b"s3cret" not in proxy.upstream.accept().request()


@pytest.mark.slow
def test_workers_share_a_port_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    """All of them answer; a killed one is restarted and counted; the totals are summed."""
    with running(tmp_path, "--workers", "2") as proxy:
        for _ in range(8):
            assert response(b"answer") == proxy.call()
        first, second = sorted(children(proxy.process.pid))
        os.kill(first, signal.SIGKILL)
        assert proxy.process.stderr is not None
        lines = iter(proxy.process.stderr.readline, b"")
        assert b"is started again" in next(line for line in lines if not line.startswith(b"upstream "))
        for _ in range(8):
            assert response(b"answer") == proxy.call()
        code, err = proxy.stop()

    assert 0 == code
    assert "1 workers restarted" in err
    assert not any(Path(f"/proc/{worker}").exists() for worker in (first, second))


@pytest.mark.slow
def test_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    """The port is free afterwards."""
    with running(tmp_path, "--workers", "2") as proxy:
        workers = children(proxy.process.pid)
        proxy.process.kill()
        proxy.process.communicate(timeout=SECONDS_MAX)  # stderr ends with the last process that holds it

    assert 2 == len(workers)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


SLOW_RECORDER = """
import os, sys, time

if "traceforge.capture.recorder_process" in sys.orig_argv:
    open(os.environ["RECORDER_MAY_START"] + ".asked", "w").close()
    while not os.path.exists(os.environ["RECORDER_MAY_START"]):
        time.sleep(0.01)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_the_proxy_is_ready_when_its_recorder_reads(tmp_path: Path, workers: int) -> None:
    """However slowly that starts: a proxy that is killed right after it was ready loses only calls in transit."""
    (tmp_path / "sitecustomize.py").write_text(SLOW_RECORDER)
    may_start = tmp_path / "may-start"
    variables = {"PYTHONPATH": str(tmp_path), "RECORDER_MAY_START": str(may_start)}
    with start_proxy(tmp_path, "--workers", str(workers), **variables) as process:
        assert process.stdout is not None
        while not Path(f"{may_start}.asked").exists():
            assert process.poll() is None
            time.sleep(0.01)
        is_ready_early = bool(select.select([process.stdout], [], [], 1)[0])
        may_start.touch()
        running = ProxyProcess(process)
        stopped = running.stop()

    assert not is_ready_early
    assert 0 == stopped.code, stopped
