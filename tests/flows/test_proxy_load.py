"""The proxy under load, then stopped, killed, or without a disk: every call is a file, or is counted."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.command import COMMAND, traceforge
from support.example_counts import lengthen
from traceforge.traces.spool import find_segments
from traceforge.traces.spool_drain import drain_spool
from traceforge.traces.trace_format import read_trace

CLIENTS = 8
PAUSE_SECONDS = 0.05  # In an hour: at most 160 calls a second, so half a million files, and a recorder that keeps up.
MEMORY_SAMPLES = 36  # 100 seconds apart in an hour.
MEMORY_GROWTH_MIB_MAX = 32  # An index of names may grow; a body of 1 KiB a call that stays would be 500.
SECONDS_MAX = 60
SUMMARY = re.compile(r"stopped: (\d+) calls?, (\d+) recorded, (\d+) lost, (\d+) recording failures")
WAITING = re.compile(r"(\d+) still being recorded")
ANSWER = json.dumps(
    {"id": "c", "object": "chat.completion", "created": 1, "model": "m",
     "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}
).encode()  # fmt: skip
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER) + ANSWER

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for processes in /proc")


class AnsweringProtocol(asyncio.Protocol):
    """An upstream that answers every request; a request is one piece, or ends with its body's brace."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}"):
            self.transport.write(RESPONSE)


@contextmanager
def upstream() -> Iterator[int]:
    """The port of an upstream."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(AnsweringProtocol, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class Client(threading.Thread):
    """Makes calls, with or without a pause, until the connection ends; notes the number of each answered one."""

    def __init__(self, port: int, first: int, pause_seconds: float) -> None:
        super().__init__()
        self._port = port
        self._pause_seconds = pause_seconds
        self._number = first
        self.answered: list[int] = []
        self.strange: list[bytes] = []

    def run(self) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), SECONDS_MAX) as connection:
            while self._call(connection):
                time.sleep(self._pause_seconds)

    def _call(self, connection: socket.socket) -> bool:
        self._number += 1
        body = b'{"model":"m","messages":[{"role":"user","content":"call %d."}]}' % self._number
        head = b"POST /up/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        response = b""
        while not response.endswith(ANSWER):
            data = connection.recv(65536)
            if not data:
                return False
            response += data
        if not response.startswith(b"HTTP/1.1 200 OK\r\n"):
            self.strange.append(response)
        self.answered.append(self._number)
        return b"connection: close" not in response.lower()


class LoadedProxy:
    """A proxy with clients that call until it ends, with or without a pause."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], pause_seconds: float) -> None:
        assert process.stdout is not None
        self.folder = folder
        self.traces = folder / ".ai-tests" / "traces"
        self.process = process
        self.stopped = 0.0
        port = self._port = int(json.loads(process.stdout.readline())["url"].rpartition(":")[2])
        self.recorders = _children(process.pid)
        self.clients = [Client(port, number * 10_000_000, pause_seconds) for number in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def end(self, number: int) -> str:
        """Signal the proxy, wait for all processes and clients; its output."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=SECONDS_MAX)
        self.stopped = time.monotonic()
        for client in self.clients:
            client.join()
            assert [] == client.strange
        until = time.monotonic() + SECONDS_MAX
        while any(_runs(recorder) for recorder in self.recorders):
            assert time.monotonic() < until, "the recorder did not end"
            time.sleep(0.01)
        return err.decode()

    def memory_mib(self) -> int:
        """The memory of the proxy and its recorders now."""
        texts = [Path(f"/proc/{pid}/status").read_text() for pid in (self.process.pid, *self.recorders)]
        return sum(int(text.partition("VmRSS:")[2].split()[0]) for text in texts) // 1024

    def answered(self) -> set[int]:
        """Every answered call."""
        return {number for client in self.clients for number in list(client.answered)}

    def wait_until_recorded(self) -> tuple[set[int], int]:
        """The calls that are answered now, once they are recorded, and how many of all calls were lost.

        Calls are recorded in the order in which they end.
        """
        answered = self.answered()
        ended_max = self._count("calls_total") + self._count("in_flight")
        until = time.monotonic() + SECONDS_MAX
        while self._count("exchanges_total") < ended_max:
            assert time.monotonic() < until, "calls are never recorded"
            time.sleep(0.01)
        return answered, self._count("exchanges_total", result="lost")

    def _count(self, metric: str, result: str = "") -> int:
        """The sum of a metric of the proxy, or of its samples with this result."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS_MAX)
        with closing(connection):
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        samples = re.findall(rf"^traceforge_proxy_{metric}({{.*}}) (\d+)$", page, re.MULTILINE)
        assert samples, page
        return sum(int(count) for labels, count in samples if result in labels)

    def recorded_calls(self) -> set[int]:
        """The calls whose traces are files; each is complete."""
        files = [path for path in self.traces.iterdir() if path.suffix == ".json"]
        requests = [json.dumps(read_trace(path.read_bytes()).body["request"]) for path in files]
        numbers = [int(text.partition("call ")[2].partition(".")[0]) for text in requests]
        assert len(numbers) == len(set(numbers)), "one call, one trace"
        return set(numbers)


def _children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def loaded(folder: Path, pause_seconds: float = 0) -> Iterator[LoadedProxy]:
    """A proxy under load, in a folder."""
    with upstream() as port:
        process = subprocess.Popen(
            [str(COMMAND), "proxy", "--port", "0", "--json", "--upstream", f"up=http://127.0.0.1:{port}"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        load = LoadedProxy(folder, process, pause_seconds)
        try:
            yield load
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
            for client in load.clients:
                client.join()


def _counted(output: str) -> tuple[int, int, int, int]:
    match = SUMMARY.search(output)
    assert match, output
    calls, recorded, lost, failed = map(int, match.groups())
    return calls, recorded, lost, failed


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.5, 8])
def test_a_stop_under_load_leaves_every_call_as_a_file(tmp_path: Path, seconds: float) -> None:
    """Or counts it. Where the time limit was too short, the rest is reported, and recorded later."""
    with loaded(tmp_path) as load:
        time.sleep(seconds)
        _stop_and_check(load)


@pytest.mark.soak
def test_an_hour_of_load_takes_no_more_memory_than_its_first_minutes(tmp_path: Path, record_property: Any) -> None:
    """And every call is a file at the end."""
    seconds = lengthen(MEMORY_SAMPLES)
    memory = []
    with loaded(tmp_path, PAUSE_SECONDS) as load:
        for _ in range(MEMORY_SAMPLES):
            time.sleep(seconds / MEMORY_SAMPLES)
            memory.append(load.memory_mib())
        calls = _stop_and_check(load)

    quarter = MEMORY_SAMPLES // 4
    assert max(memory[-quarter:]) <= max(memory[:quarter]) + MEMORY_GROWTH_MIB_MAX, memory
    record_property(
        "summary", f"proxy: {calls} calls in {seconds} s; with its recorder {memory[0]} MiB, at the end {memory[-1]}"
    )


def _stop_and_check(load: LoadedProxy) -> int:
    """Stop the proxy, and compare its counts with the files and with what the clients saw; the number of calls."""
    began = time.monotonic()
    output = load.end(signal.SIGTERM)
    calls, recorded, lost, failed = _counted(output)
    late = WAITING.search(output)
    waiting = int(late[1]) if late else 0
    if late or "stays in the spool for now" in output:
        assert load.stopped - began >= 30
        drain_spool(str(load.traces))
    stored, answered = load.recorded_calls(), load.answered()
    assert 100 < len(answered) <= calls
    assert calls == recorded + waiting + lost + failed
    assert (recorded + waiting, 0) == (len(stored), failed)
    assert len(answered - stored) <= lost
    assert 0 == load.process.returncode
    assert [] == find_segments(str(load.traces))
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 5])
def test_a_kill_under_load_loses_only_calls_in_transit(tmp_path: Path, seconds: float) -> None:
    """Every file is complete, the recorder finishes, and the next command finds everything."""
    with loaded(tmp_path) as load:
        time.sleep(seconds)
        recorded, lost = load.wait_until_recorded()
        load.end(signal.SIGKILL)

    until = time.monotonic() + 120
    while True:  # A command drains for a few seconds, and the recorder is still busy.
        listed = json.loads(traceforge("trace", "list", "--limit", "1000000", "--json", cwd=tmp_path).out)["data"]
        if not find_segments(str(load.traces)):
            break
        assert time.monotonic() < until, "the spool is never empty"
    stored = load.recorded_calls()
    assert [] == [path for path in load.traces.rglob("*") if path.name.endswith(".tmp")]
    assert 100 < len(stored) == len(listed)
    assert len(recorded - stored) <= lost


@pytest.mark.slow
def test_clients_do_not_notice_a_full_disk_under_load(tmp_path: Path) -> None:
    """Earlier traces are complete; the others are counted at the end, with the reason."""
    with loaded(tmp_path) as load:
        for recorder in load.recorders:  # Writes fail as on a full disk.
            resource.prlimit(recorder, resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))
        time.sleep(1.5)
        output = load.end(signal.SIGTERM)

    calls, recorded, lost, failed = _counted(output)
    assert 0 < failed
    assert 0 < recorded == len(load.recorded_calls())
    assert calls == recorded + lost + failed
    assert failed == sum(map(int, re.findall(r"(\d+) not recorded: TF202", output)))


@pytest.mark.slow
def test_clients_do_not_notice_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """It is reported at the end."""
    (tmp_path / ".ai-tests").mkdir()
    (tmp_path / ".ai-tests" / "traces").write_text("a file stands in the way")
    with loaded(tmp_path) as load:
        time.sleep(1)
        output = load.end(signal.SIGTERM)

    calls, recorded, lost, failed = _counted(output)
    assert 100 < len(load.answered()) <= calls
    assert (0, calls) == (recorded, lost + failed)
    assert "not recorded: TF202" in output
    assert os.path.isfile(load.traces)
