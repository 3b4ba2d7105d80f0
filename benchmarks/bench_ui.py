"""The web view over 100,000 traces, a stream of 10,000 chunks and a branch of 2,000 events; goals are absolute."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx

from bench_traces import exchange
from harness import GoalRow, Row
from support.context_builders import append_events, new_session
from support.context_project import open_project_store
from support.stored_traces import call, store_calls, time_ago, trace_id
from support.ui_browser import UiPage, visit
from traceforge.capture.trace_writer import RecorderSettings, TraceWriter
from traceforge.config import load_config
from traceforge.traces.trace_index import TraceIndex

FIRST_PAGE_MS_GOAL = 150
SEARCH_MS_GOAL = 300
TASK_MS_GOAL = 50  # What a browser calls a long task: a person notices that the page did not follow.
GROWTH_MB_GOAL = 32  # The threads of the server have an index each, and SQLite a cache in each of them.
TRACES = 100_000
CHUNKS = 10_000
EVENTS = 2_000
ROUNDS = 15
READS = 200  # Pages, before which and after which memory is compared.
SEGMENT_TRACES = 5_000  # About what a recorder turns into files at once.
START_SECONDS = 60.0
PAUSE_SECONDS = 0.2  # Between two pages of somebody who clicks fast.
SCROLLS = 80
_PAGES = ("/traces", "/traces?q=lantern", "/traces?status=error", "/sessions", "/?range=all")

# Scrolls down and up, a step a frame, and gives the longest task in milliseconds; 0 where none was long.
_SCROLL = """
(async () => {
  const tasks = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((task) => task.duration)));
  observer.observe({ type: "longtask" });
  const box = document.querySelector(SELECTOR) ?? document.scrollingElement;
  const nextFrame = () => new Promise((done) => requestAnimationFrame(done));
  for (const direction of [1, -1]) {
    for (let step = 0; step < COUNT; step += 1) {
      box.scrollBy(0, (direction * box.scrollHeight) / COUNT);
      await nextFrame();
    }
  }
  await new Promise((done) => setTimeout(done, 200));
  observer.disconnect();
  return Math.max(0, ...tasks);
})()
"""


class Server(NamedTuple):
    """A running `traceforge ui`, and a client that is signed in."""

    process: subprocess.Popen[str]
    url: str
    client: httpx.Client

    def seconds(self, path: str) -> float:
        """How long one page takes, from the request to its last byte."""
        start = time.perf_counter()
        response = self.client.get(path)
        if response.status_code != httpx.codes.OK:
            sys.exit(f"benchmark: {path} answered {response.status_code}: {response.text[:300]}")
        return time.perf_counter() - start

    def address(self, path: str) -> str:
        """The address that signs in and opens a page."""
        base, _, token = self.url.partition("/?")
        return f"{base}{path}?{token}"

    @property
    def memory_mb(self) -> float:
        """What the process holds in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def rows() -> Iterator[Row]:
    """Lists and searches over HTTP, then scrolling in Chromium."""
    with tempfile.TemporaryDirectory(prefix="traceforge-bench-") as folder:
        project = Path(folder)
        record_traces(project)
        with running_server(project) as server:
            yield from list_rows(server, project)
        yield from browser_rows(project)


def record_traces(project: Path) -> None:
    """Record as the recorder of the proxy does: segments become files, and the index has them at once."""
    (project / "traceforge.config.json").write_text("{}")
    writer = TraceWriter(RecorderSettings.from_project(load_config(str(project))), keeps_index=True)
    chance = random.Random(11)
    start = time.perf_counter()
    for number in range(TRACES):
        writer.write(exchange(number, chance))
        if number % SEGMENT_TRACES == SEGMENT_TRACES - 1:
            writer.write_files()
    writer.write_files()
    writer.confirm_index(START_SECONDS)
    print(f"  recorded {TRACES / (time.perf_counter() - start):,.0f} traces/s, as files and in the index")


@contextmanager
def running_server(project: Path) -> Iterator[Server]:
    """`traceforge ui` in a process of its own."""
    command = [str(Path(sys.executable).parent / "traceforge"), "ui", "--no-open", "--json", "--port", "0"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = json.loads(process.stdout.readline())["url"]
        base = url.partition("/?")[0]
        with httpx.Client(base_url=base, timeout=START_SECONDS * 5, trust_env=False) as client:
            client.get(url)  # It gives the cookie, and renders no page.
            try:
                yield Server(process, url, client)
            finally:
                process.terminate()


def list_rows(server: Server, project: Path) -> Iterator[Row]:
    """The first page, a search, and what both leave in memory."""
    yield limit(f"first page after {TRACES:,} were recorded", [server.seconds("/traces")], FIRST_PAGE_MS_GOAL)
    yield limit("the first page again", measured(lambda: server.seconds("/traces")), FIRST_PAGE_MS_GOAL)
    yield limit("a page of one status", measured(lambda: server.seconds("/traces?status=error")), FIRST_PAGE_MS_GOAL)
    start = time.perf_counter()
    with listening(server):
        while_indexed = pages_until_searchable(server, project / load_config(str(project)).config.traces_dir)
    print(f"  every word was indexed in {time.perf_counter() - start:.0f} s, while a page was open")
    yield limit("a page meanwhile", while_indexed, FIRST_PAGE_MS_GOAL)
    yield limit("search for two words", measured(lambda: server.seconds("/traces?q=lantern+harbour")), SEARCH_MS_GOAL)
    yield limit("search for a number", measured(lambda: server.seconds("/traces?q=412345")), SEARCH_MS_GOAL)
    for path in _PAGES:
        server.seconds(path)
    before = server.memory_mb
    for number in range(READS):
        server.seconds(_PAGES[number % len(_PAGES)])
    growth = server.memory_mb - before
    result = f"{before:.0f} MB, {growth:+.0f} MB, goal {GROWTH_MB_GOAL} MB"
    yield GoalRow(f"memory after {READS} more pages", 0.0, 0.0, "absolute", growth, result, growth <= GROWTH_MB_GOAL)


def pages_until_searchable(server: Server, traces_dir: Path) -> list[float]:
    """The times of pages until every trace can be searched."""
    index = TraceIndex(str(traces_dir))
    times: list[float] = []
    while not times or index.rows_without_text(1):
        times.append(server.seconds("/traces"))
        time.sleep(PAUSE_SECONDS)
    index.close()
    return times


def measured(work: Callable[[], float]) -> list[float]:
    """The times of several rounds."""
    return [work() for _ in range(ROUNDS)]


def limit(title: str, seconds: Sequence[float], goal_ms: float) -> Row:
    """A row about the median of some times."""
    median = statistics.median(seconds)
    result = f"{median * 1000:.0f} ms, goal {goal_ms:g} ms"
    return GoalRow(title, median, 0.0, "absolute", 1 / median, result, median * 1000 <= goal_ms)


@contextmanager
def listening(server: Server) -> Iterator[None]:
    """A page that is open: it listens for events, and the server prepares searches meanwhile."""
    ended = threading.Event()

    def listen() -> None:
        with suppress(httpx.TransportError), server.client.stream("GET", "/events") as response:  # the server ends it
            for _ in response.iter_lines():
                if ended.is_set():
                    return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def browser_rows(folder: Path) -> Iterator[Row]:
    """The longest task of Chromium's main thread while somebody scrolls."""
    project = folder / "long"
    project.mkdir()
    (project / "traceforge.config.json").write_text("{}")
    words = ("one ", "two ", "three ", "four\n", "five ")
    store_calls(project, call(1, "Count.", [words[place % 5] for place in range(CHUNKS)], at=time_ago(minutes=1)))
    store = open_project_store(project)
    session = new_session(store, "You are helpful.")
    append_events(store, session, EVENTS, "An event with some words in it,")
    store.close()
    branch = f"/context/branches/{session.default_branch_id}"
    pages = (
        (f"a stream of {CHUNKS:,} chunks", f"/traces/{trace_id(1)}/stream", "[data-text]"),
        (f"the page of a call of {CHUNKS:,} chunks", f"/traces/{trace_id(1)}", ""),
        (f"a branch of {EVENTS:,} events", branch, ""),
    )
    longest: dict[str, float] = {}
    with running_server(project) as server:

        async def work(page: UiPage) -> None:
            for title, path, selector in pages:
                await page.go(server.url.partition("/?")[0] + path)
                script = _SCROLL.replace("SELECTOR", json.dumps(selector or "body > none")).replace(
                    "COUNT", str(SCROLLS)
                )
                longest[title] = await page.tab.eval(script)

        visit(folder, server.address("/traces"), work)
    for title, task_ms in longest.items():
        result = f"{task_ms:.0f} ms, goal {TASK_MS_GOAL} ms" if task_ms else f"none over {TASK_MS_GOAL} ms"
        met = task_ms <= TASK_MS_GOAL
        yield GoalRow(f"scrolling {title}", 0.0, 0.0, "absolute, longest task", task_ms, result, met)
