"""Recording fails, or a process dies: the application's calls continue, and every call is recorded or counted.

Threads of this process make calls through `traceforge proxy` or in process; every answer must be complete. Every
trace on the disk afterwards must be a complete trace of one of those calls.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.application import clean_environment, find_files_with, proxy_process, read_traces
from support.command import COMMAND
from support.upstream import ReceivedRequest, ScriptedResponse, Upstream, upstream

KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
PATH = "/v1/chat/completions"
SECONDS_MAX = 30.0
HEADERS = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
PADDING = "x" * 2000  # for a call of usual size


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A provider that answers with the requested model's name, and not at all to a killed client."""
    with upstream() as provider:
        provider.choose = _answer
        yield provider


def _answer(received: ReceivedRequest) -> ScriptedResponse:
    if not received.body.endswith(b"}"):
        return ScriptedResponse([], silent=True)  # Its client was killed within its request.
    model = json.loads(received.body)["model"]
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": PADDING}}
    completion = {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
    return ScriptedResponse([json.dumps(completion).encode()])


class Load:
    """Threads that make one call after the other, and collect the models of complete answers."""

    def __init__(self, url: str, threads: int = 4) -> None:
        self._url = url
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.complete: list[str] = []
        self.broken: list[str] = []
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def _work(self, thread: int) -> None:
        number = 0
        with httpx.Client(timeout=SECONDS_MAX) as client:
            while not self._stop.is_set():
                number += 1
                model = f"m-{thread}-{number}"
                try:
                    response = client.post(self._url + PATH, content=question(model), headers=HEADERS)
                    is_complete = response.status_code == 200 and response.json()["model"] == model
                except httpx.HTTPError as exc:
                    with self._lock:
                        self.broken.append(f"{model}: {exc!r}")
                    if isinstance(exc, httpx.ConnectError):
                        return  # the proxy has stopped
                else:
                    with self._lock:
                        (self.complete if is_complete else self.broken).append(model)

    def wait(self, count: int) -> None:
        """Wait for `count` complete answers."""
        until = time.monotonic() + SECONDS_MAX
        while len(self.complete) < count and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.complete) >= count, self.broken[:3]

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(SECONDS_MAX)


def question(model: str) -> bytes:
    """The body of a request."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": PADDING}]}).encode()


def check_traces(project: Path) -> list[str]:
    """The models of all traces: each complete, each of one call, none with a secret."""
    stored = read_traces(project)
    for stored_trace in stored:
        assert ("success", "complete") == (
            stored_trace.trace["metadata"]["status"],
            stored_trace.trace["wire"]["ending"],
        )
        assert stored_trace.trace["response"]["model"] == stored_trace.trace["request"]["model"]
    models = [stored_trace.trace["request"]["model"] for stored_trace in stored]
    assert len(models) == len(set(models))
    assert [] == find_files_with(project, KEY.encode())
    return models


def summary(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The numbers of the last line that a proxy prints; signals it first if it still runs."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert 0 == process.returncode, err.decode()
    (line,) = [line for line in err.decode().splitlines() if line.startswith("stopped: ")]
    return {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", line)}


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    return [int(pid) for file in Path(f"/proc/{process}/task").glob("*/children") for pid in file.read_text().split()]


# -- through the proxy


@pytest.mark.slow
def test_every_call_is_on_the_disk_after_sigterm_under_load(server: Upstream, tmp_path: Path) -> None:
    """Calls in flight end, later clients are refused, and each complete answer is a trace in a file."""
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        load = Load(f"{base}/openai")
        load.wait(100)
        counts = summary(process)
        load.stop()
    files = list((tmp_path / ".ai-tests" / "traces").glob("*.json"))
    models = check_traces(tmp_path)

    assert set(load.complete) <= set(models)
    assert counts["recorded"] == len(files) == len(models) == len(server.received)
    # The kernel resets a connection that it had accepted and the proxy had not: such a call was never seen.
    resets = {line.partition(":")[0] for line in load.broken if "ReadError" in line}
    assert resets.isdisjoint(models), load.broken
    others = [line for line in load.broken if line.partition(":")[0] not in resets]
    assert all("ConnectError" in line or "RemoteProtocolError" in line for line in others), load.broken


def _wait_until_recorded(base: str, number: int) -> None:
    """Wait until a proxy reports so many recorded calls."""
    until = time.monotonic() + 30
    match = None
    while not match or int(match[1]) < number:
        assert time.monotonic() < until, "they are never kept"
        time.sleep(0.05)
        with urllib.request.urlopen(f"{base}/metrics") as page:
            match = re.search(r'exchanges_total{result="recorded",[^}]*} (\d+)', page.read().decode())


@pytest.mark.slow
def test_traces_before_a_sigkill_are_complete(server: Upstream, tmp_path: Path) -> None:
    """The recorder process outlives the proxy until everything it received is recorded, once."""
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        load = Load(f"{base}/openai")
        load.wait(100)
        before = len(load.complete)
        (keeper,) = children(process.pid)
        _wait_until_recorded(base, before)
        process.kill()
        process.wait()
        load.stop()
        _wait_for_the_end_of(keeper)
    models = check_traces(tmp_path)

    assert set(load.complete[:before]) <= set(models)
    assert set(models) <= {
        json.loads(request.body)["model"] for request in server.received if request.body.endswith(b"}")
    }


@pytest.mark.slow
def test_a_killed_recorder_is_replaced_and_its_lost_calls_are_counted(server: Upstream, tmp_path: Path) -> None:
    """No call notices; later calls are recorded, and the numbers add up."""
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        load = Load(f"{base}/openai")
        load.wait(50)
        (first,) = children(process.pid)
        os.kill(first, signal.SIGKILL)
        load.wait(len(load.complete) + 200)
        load.stop()
        _wait_for_the_end_of(first)
        after = len(server.received)
        last = httpx.post(f"{base}/openai{PATH}", content=question("the-last"), headers=HEADERS)
        counts = summary(process)
    models = check_traces(tmp_path)

    assert ([], 200, after + 1) == (load.broken, last.status_code, len(server.received))
    assert "the-last" in models
    assert counts["calls"] == len(server.received)
    assert counts["recorded"] + counts["lost"] == len(server.received)
    assert counts["recorded"] <= len(models) <= len(server.received)


def _wait_for_the_end_of(process: int) -> None:
    until = time.monotonic() + SECONDS_MAX
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{process}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < until
            time.sleep(0.02)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A folder on a disk that is soon full; skips the test where none can be mounted."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_calls_continue_on_a_full_disk(server: Upstream, tmp_path: Path) -> None:
    """Unrecorded calls are counted, with the reason; recorded ones are complete."""
    with small_disk(tmp_path / "small") as project:
        with proxy_process(project, {"openai": server.url}) as (base, process):
            with httpx.Client() as client:
                for number in range(200):
                    response = client.post(f"{base}/openai{PATH}", content=question(f"m-{number}"), headers=HEADERS)
                    assert (200, f"m-{number}") == (response.status_code, response.json()["model"])
            time.sleep(0.6)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        models = check_traces(project)

    assert 0 == process.returncode
    assert "no space left on device" in err.decode().lower()
    assert 0 < len(models) < 200


@pytest.mark.slow
def test_calls_continue_beyond_a_file_size_limit(server: Upstream, tmp_path: Path) -> None:
    """As on a full disk, for users who may not mount one."""
    process = subprocess.Popen(
        ["sh", "-c", 'ulimit -f 32 && exec "$0" "$@"', str(COMMAND), "proxy", "--port", "0", "--json", "--upstream",
         f"openai={server.url}"],
        cwd=tmp_path, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    base = json.loads(process.stdout.readline())["url"]
    with httpx.Client() as client:
        for number in range(20):
            response = client.post(f"{base}/openai{PATH}", content=question(f"m-{number}"), headers=HEADERS)
            assert (200, f"m-{number}") == (response.status_code, response.json()["model"])
    time.sleep(0.6)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert 0 == process.returncode
    assert "not recorded" in err.decode()
    assert set(check_traces(tmp_path)) <= {f"m-{number}" for number in range(20)}


@pytest.mark.slow
def test_calls_continue_where_a_file_blocks_the_traces_folder(server: Upstream, tmp_path: Path) -> None:
    (tmp_path / ".ai-tests").write_text("not a folder")
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        response = httpx.post(f"{base}/openai{PATH}", content=question("m"), headers=HEADERS)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert (200, "m", 0) == (response.status_code, response.json()["model"], process.returncode)
    assert "1 not recorded: " in err.decode()
    assert "1 recording failures" in err.decode()


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """A read-only folder: for root, on a read-only disk."""
    if os.geteuid():
        folder.mkdir(mode=0o500)
        yield folder
        return
    with small_disk(folder):
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield folder


@pytest.mark.slow
def test_calls_continue_where_the_traces_folder_is_read_only(server: Upstream, tmp_path: Path) -> None:
    """The reason is printed."""
    with read_only(tmp_path / "fixed") as project, proxy_process(project, {"openai": server.url}) as (base, process):
        response = httpx.post(f"{base}/openai{PATH}", content=question("m"), headers=HEADERS)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert (200, "m", 0) == (response.status_code, response.json()["model"], process.returncode)
    assert "1 not recorded: " in err.decode()
    assert re.search("read-only file system|permission denied", err.decode().lower())


# -- in process

APPLICATION = """
import os, resource, sys, httpx, traceforge
if os.environ.get("LIMIT"):
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, 16_000))
bodies = [line.encode() for line in os.environ["BODIES"].split("|")]
with traceforge.capture() as seen:
    with httpx.Client() as client:
        for body in bodies:
            headers = {"authorization": "Bearer " + os.environ["KEY"]}
            got = client.post(os.environ["URL"], content=body, headers=headers)
            assert got.status_code == 200, got
            print(got.json()["model"])
    KILL
print("lost", seen.lost)
"""


def application(
    server: Upstream, folder: Path, count: int, kill: str = "pass", limit: str = ""
) -> subprocess.CompletedProcess[str]:
    """A program that records its calls in process."""
    bodies = "|".join(question(f"m-{number}").decode() for number in range(count))
    environ = clean_environment(URL=server.url + PATH, BODIES=bodies, KEY=KEY, LIMIT=limit)
    return subprocess.run(
        [sys.executable, "-c", APPLICATION.replace("KILL", kill)],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("fault", ["limit", "file", "disk"])
def test_an_application_whose_traces_cannot_be_written_continues(
    server: Upstream, tmp_path: Path, fault: str
) -> None:
    """It gets its answers, nothing is printed, and `lost` counts the calls."""
    with small_disk(tmp_path / "small") if fault == "disk" else contextlib.nullcontext(tmp_path) as project:
        if fault == "file":
            (project / ".ai-tests").write_text("not a folder")
        count = 20 if fault != "disk" else 50
        ran = application(server, project, count, limit="yes" if fault == "limit" else "")
        models = check_traces(project) if fault != "file" else []

    *answers, last = ran.stdout.splitlines()
    assert (0, "", [f"m-{number}" for number in range(count)]) == (ran.returncode, ran.stderr, answers)
    assert int(last.removeprefix("lost ")) >= count - len(models) > 0 or fault == "disk"
    assert int(last.removeprefix("lost ")) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_the_traces_of_a_killed_application_are_complete(server: Upstream, tmp_path: Path, name: str) -> None:
    """The next command reads the spool that it left."""
    kill = f"import signal, time; time.sleep(0.6); os.kill(os.getpid(), signal.{name})"
    ran = application(server, tmp_path, 30, kill)

    assert -int(getattr(signal, name)) == ran.returncode, ran.stderr
    assert {f"m-{number}" for number in range(30)} == set(check_traces(tmp_path))


# -- huge bodies


def huge(server: Upstream) -> Callable[[ReceivedRequest], ScriptedResponse]:
    """An answer of 70 MB."""
    piece = os.urandom(1 << 20)
    return lambda received: ScriptedResponse(
        [piece] * 70, headers={"content-type": "application/octet-stream"}, chunked=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("edge", ["proxy", pytest.param("inprocess", marks=pytest.mark.slow)])
def test_bodies_too_large_to_record_are_passed_on(
    server: Upstream, tmp_path: Path, edge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """70 MB up and 70 MB down, byte for byte; the trace says that it is incomplete."""
    server.choose = huge(server)
    body = json.dumps({"model": "huge", "messages": []}).encode() + b" " * (70 << 20)
    bare = _digests(server.url, body)
    if edge == "proxy":
        with proxy_process(tmp_path, {"openai": server.url}) as (base, _):
            digests = _digests(f"{base}/openai", body)
    else:
        import traceforge

        monkeypatch.chdir(tmp_path)
        with traceforge.capture():
            digests = _digests(server.url, body)

    assert bare == digests
    assert [hashlib.sha256(body).digest()] * 2 == [
        hashlib.sha256(request.body).digest() for request in server.received
    ]
    (stored,) = read_traces(tmp_path)
    assert "a body of more than 67108864 bytes is not kept" == stored.trace["wire"]["incomplete"]
    assert (None, None) == (stored.trace["provider_request"], stored.trace["provider_response"])
    assert ("success", 200) == (stored.trace["metadata"]["status"], stored.trace["wire"]["status"])
    assert [] == find_files_with(tmp_path / ".ai-tests", KEY.encode())


def _digests(url: str, body: bytes) -> tuple[int, Any]:
    digest = hashlib.sha256()
    with (
        httpx.Client(timeout=120) as client,
        client.stream("POST", url + PATH, content=body, headers=HEADERS) as response,
    ):
        for piece in response.iter_raw():
            digest.update(piece)
        return response.status_code, digest.digest()


DYING_APPLICATION = """
import os, sys
import httpx

def ask(model):
    return {"model": model, "messages": [{"role": "user", "content": "hi"}]}

url = sys.argv[1] + "/v1/chat/completions"
httpx.post(url, json=ask("whole"))
with httpx.stream("POST", url, json=ask("dies")):
    os._exit(0)
"""


def test_record_says_which_calls_it_lost(server: Upstream, tmp_path: Path) -> None:
    """The call that was whole is recorded; the one whose process died in it is counted, and exit code 3 says so."""
    (tmp_path / "application.py").write_text(DYING_APPLICATION)

    words = [str(COMMAND), "record", "--", sys.executable, "application.py", server.url]
    ran = subprocess.run(words, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)

    assert "1 model call: 0 answered from snapshots, 1 live" in ran.stderr
    assert "lost: 1 call whose process ended in the middle of it" in ran.stderr
    assert 3 == ran.returncode
