"""Recording fails, or a process dies: the application's calls go on, and what became of them is counted.

Calls are made by threads of this process, through `traceforge proxy` or in process; what is expected of a call is
that its answer is whole. Every trace that is on the disk afterwards must be a whole trace of one of those calls.
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
PADDING = "x" * 2000  # so that a call is of a usual size


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A provider that names the model it was asked for, and says nothing to a client that died."""
    with upstream() as one:
        one.choose = _answer
        yield one


def _answer(received: ReceivedRequest) -> ScriptedResponse:
    if not received.body.endswith(b"}"):
        return ScriptedResponse([], silent=True)  # Its client was killed within its request.
    model = json.loads(received.body)["model"]
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": PADDING}}
    said = {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
    return ScriptedResponse([json.dumps(said).encode()])


class Load:
    """Threads that ask one call after the other, and count whole answers by the name of their model."""

    def __init__(self, url: str, threads: int = 4) -> None:
        self._url = url
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.whole: list[str] = []
        self.broken: list[str] = []
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(threads)]
        for one in self._threads:
            one.start()

    def _work(self, thread: int) -> None:
        number = 0
        with httpx.Client(timeout=SECONDS_MAX) as client:
            while not self._stop.is_set():
                number += 1
                model = f"m-{thread}-{number}"
                try:
                    response = client.post(self._url + PATH, content=question(model), headers=HEADERS)
                    whole = response.status_code == 200 and response.json()["model"] == model
                except httpx.HTTPError as exc:
                    with self._lock:
                        self.broken.append(f"{model}: {exc!r}")
                    if isinstance(exc, httpx.ConnectError):
                        return  # nobody is there any more
                else:
                    with self._lock:
                        (self.whole if whole else self.broken).append(model)

    def wait(self, count: int) -> None:
        """Until so many were whole."""
        until = time.monotonic() + SECONDS_MAX
        while len(self.whole) < count and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.whole) >= count, self.broken[:3]

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()
        for one in self._threads:
            one.join(SECONDS_MAX)


def question(model: str) -> bytes:
    """A request."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": PADDING}]}).encode()


def check_traces(project: Path) -> list[str]:
    """The models of all traces: each whole, each of one call, none with a secret."""
    stored = read_traces(project)
    for one in stored:
        assert ("success", "complete") == (one.trace["metadata"]["status"], one.trace["wire"]["ending"])
        assert one.trace["response"]["model"] == one.trace["request"]["model"]
    models = [one.trace["request"]["model"] for one in stored]
    assert len(models) == len(set(models))
    assert [] == find_files_with(project, KEY.encode())
    return models


def summary(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The numbers of the last line that a proxy says; signals it first if it is still there."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert 0 == process.returncode, err.decode()
    (line,) = [line for line in err.decode().splitlines() if line.startswith("stopped: ")]
    return {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", line)}


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    return [int(one) for file in Path(f"/proc/{process}/task").glob("*/children") for one in file.read_text().split()]


# -- through the proxy


def test_everything_is_kept_and_on_the_disk_after_sigterm_under_load(server: Upstream, tmp_path: Path) -> None:
    """Calls in flight end; a client that comes later finds nobody; each whole answer is a trace in a file."""
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        load = Load(f"{base}/openai")
        load.wait(100)
        told = summary(process)
        load.stop()
    files = list((tmp_path / ".ai-tests" / "traces").glob("*.json"))
    models = check_traces(tmp_path)

    assert set(load.whole) <= set(models)
    assert told["recorded"] == len(files) == len(models) == len(server.received)
    # The kernel resets a connection that it had accepted and the proxy had not: such a call was never seen.
    resets = {line.partition(":")[0] for line in load.broken if "ReadError" in line}
    assert resets.isdisjoint(models), load.broken
    others = [line for line in load.broken if line.partition(":")[0] not in resets]
    assert all("ConnectError" in line or "RemoteProtocolError" in line for line in others), load.broken


def _wait_until_recorded(base: str, number: int) -> None:
    """Wait until a proxy says that it has kept so many."""
    until = time.monotonic() + 30
    found = None
    while not found or int(found[1]) < number:
        assert time.monotonic() < until, "they are never kept"
        time.sleep(0.05)
        with urllib.request.urlopen(f"{base}/metrics") as page:
            found = re.search(r'exchanges_total{result="recorded",[^}]*} (\d+)', page.read().decode())


def test_what_was_kept_before_a_sigkill_is_whole(server: Upstream, tmp_path: Path) -> None:
    """The process that keeps outlives the proxy until it has kept what it was sent; nothing is kept twice."""
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        load = Load(f"{base}/openai")
        load.wait(100)
        before = len(load.whole)
        (keeper,) = children(process.pid)
        _wait_until_recorded(base, before)
        process.kill()
        process.wait()
        load.stop()
        _wait_for_the_end_of(keeper)
    models = check_traces(tmp_path)

    assert set(load.whole[:before]) <= set(models)
    assert set(models) <= {json.loads(one.body)["model"] for one in server.received if one.body.endswith(b"}")}


def test_a_recorder_that_is_killed_is_replaced_and_what_it_lost_is_counted(server: Upstream, tmp_path: Path) -> None:
    """No call notices; calls that come later are kept, and the numbers add up."""
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        load = Load(f"{base}/openai")
        load.wait(50)
        (first,) = children(process.pid)
        os.kill(first, signal.SIGKILL)
        load.wait(len(load.whole) + 200)
        load.stop()
        _wait_for_the_end_of(first)
        after = len(server.received)
        last = httpx.post(f"{base}/openai{PATH}", content=question("the-last"), headers=HEADERS)
        told = summary(process)
    models = check_traces(tmp_path)

    assert ([], 200, after + 1) == (load.broken, last.status_code, len(server.received))
    assert "the-last" in models
    assert told["calls"] == len(server.received)
    assert told["recorded"] + told["lost"] == len(server.received)
    assert told["recorded"] <= len(models) <= len(server.received)


def _wait_for_the_end_of(process: int) -> None:
    until = time.monotonic() + SECONDS_MAX
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{process}/stat").read_text().split()[2] != "Z":
            assert time.monotonic() < until
            time.sleep(0.02)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A folder on a disk that is soon full; where none can be mounted, the test is skipped."""
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


def test_a_full_disk_stops_no_call(server: Upstream, tmp_path: Path) -> None:
    """What could not be kept is counted, with the reason; what was, is whole."""
    with small_disk(tmp_path / "small") as project:
        with proxy_process(project, {"openai": server.url}) as (base, process):
            with httpx.Client() as client:
                for number in range(200):
                    got = client.post(f"{base}/openai{PATH}", content=question(f"m-{number}"), headers=HEADERS)
                    assert (200, f"m-{number}") == (got.status_code, got.json()["model"])
            time.sleep(0.6)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        models = check_traces(project)

    assert 0 == process.returncode
    assert "no space left on device" in err.decode().lower()
    assert 0 < len(models) < 200


def test_a_limit_on_the_size_of_files_stops_no_call(server: Upstream, tmp_path: Path) -> None:
    """The same as a full disk, for those who may not mount one."""
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
            got = client.post(f"{base}/openai{PATH}", content=question(f"m-{number}"), headers=HEADERS)
            assert (200, f"m-{number}") == (got.status_code, got.json()["model"])
    time.sleep(0.6)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert 0 == process.returncode
    assert "not recorded" in err.decode()
    assert set(check_traces(tmp_path)) <= {f"m-{number}" for number in range(20)}


def test_a_file_in_the_way_stops_no_call(server: Upstream, tmp_path: Path) -> None:
    """As where a folder may not be written to."""
    (tmp_path / ".ai-tests").write_text("not a folder")
    with proxy_process(tmp_path, {"openai": server.url}) as (base, process):
        got = httpx.post(f"{base}/openai{PATH}", content=question("m"), headers=HEADERS)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert (200, "m", 0) == (got.status_code, got.json()["model"], process.returncode)
    assert "1 not recorded: " in err.decode()
    assert "1 recording failures" in err.decode()


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """A folder that may not be written to: for root, on a disk that cannot be."""
    if os.geteuid():
        folder.mkdir(mode=0o500)
        yield folder
        return
    with small_disk(folder):
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield folder


def test_a_folder_that_may_not_be_written_to_stops_no_call(server: Upstream, tmp_path: Path) -> None:
    """The reason is said."""
    with read_only(tmp_path / "fixed") as project, proxy_process(project, {"openai": server.url}) as (base, process):
        got = httpx.post(f"{base}/openai{PATH}", content=question("m"), headers=HEADERS)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)

    assert (200, "m", 0) == (got.status_code, got.json()["model"], process.returncode)
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


@pytest.mark.parametrize("how", ["limit", "file", "disk"])
def test_an_application_whose_traces_cannot_be_kept_runs_on(server: Upstream, tmp_path: Path, how: str) -> None:
    """It has its answers, nothing is printed, and `lost` says how many were not kept."""
    with small_disk(tmp_path / "small") if how == "disk" else contextlib.nullcontext(tmp_path) as project:
        if how == "file":
            (project / ".ai-tests").write_text("not a folder")
        count = 20 if how != "disk" else 50
        ran = application(server, project, count, limit="yes" if how == "limit" else "")
        models = check_traces(project) if how != "file" else []

    *said, last = ran.stdout.splitlines()
    assert (0, "", [f"m-{number}" for number in range(count)]) == (ran.returncode, ran.stderr, said)
    assert int(last.removeprefix("lost ")) >= count - len(models) > 0 or how == "disk"
    assert int(last.removeprefix("lost ")) > 0


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_an_application_that_is_killed_has_kept_what_it_could(server: Upstream, tmp_path: Path, name: str) -> None:
    """The spool of a process that is gone is read by the next command; what is there is whole."""
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


@pytest.mark.parametrize("edge", ["proxy", "inprocess"])
def test_bodies_that_are_too_large_to_keep_go_through(
    server: Upstream, tmp_path: Path, edge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """70 MB up and 70 MB down, byte for byte; the trace says that it has not all of them."""
    server.choose = huge(server)
    body = json.dumps({"model": "huge", "messages": []}).encode() + b" " * (70 << 20)
    bare = _digests(server.url, body)
    if edge == "proxy":
        with proxy_process(tmp_path, {"openai": server.url}) as (base, _):
            got = _digests(f"{base}/openai", body)
    else:
        import traceforge

        monkeypatch.chdir(tmp_path)
        with traceforge.capture():
            got = _digests(server.url, body)

    assert bare == got
    assert [hashlib.sha256(body).digest()] * 2 == [hashlib.sha256(one.body).digest() for one in server.received]
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
