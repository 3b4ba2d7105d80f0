"""Which line of the application made a call."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import requests

import traceforge
from support.corpus import PROJECT
from support.http_clients import DRIVERS, Driver
from support.upstream import upstream
from support.work_counts import count_lines
from traceforge.capture.hook.callsite import CallSites
from traceforge.capture.recorder import MemoryRecorder

THIS_FILE = "tests/unit/capture/hook/test_callsite.py"
PATH = "/v1/responses"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a model."""
    with upstream() as server:
        yield server.url + PATH


def source_of(work: Callable[[], object]) -> str:
    """The call site of the only call that `work` makes."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        work()
    (exchange,) = sink.exchanges
    return exchange.caller.source


def line_of(function: Callable[..., object], more: int) -> int:
    """The number of a line below a function's first."""
    return function.__code__.co_firstlineno + more  # type: ignore[attr-defined]


def ask_httpx(url: str) -> None:
    """One line below this is the call."""
    httpx.post(url)


async def ask_async(url: str) -> None:
    """Two lines below this is the call."""
    async with httpx2.AsyncClient() as client:
        await client.post(url)


def test_the_call_site_is_a_line_of_the_application(url: str) -> None:
    """File from the root of the project, line, function."""
    assert f"{THIS_FILE}:{line_of(ask_httpx, 2)}:ask_httpx" == source_of(lambda: ask_httpx(url))


def test_the_awaiting_coroutine_is_the_caller(url: str) -> None:
    """The coroutines that await it are on the stack, also in a task of its own."""
    expected = f"{THIS_FILE}:{line_of(ask_async, 3)}:ask_async"

    async def in_a_task() -> None:
        await asyncio.create_task(ask_async(url))

    assert expected == source_of(lambda: asyncio.run(ask_async(url)))
    assert expected == source_of(lambda: asyncio.run(in_a_task()))


LIBRARY = """
import asyncio, anyio
async def gathered(work): return await asyncio.gather(work())
async def waited(work): return await asyncio.wait([asyncio.ensure_future(work())])
async def waited_for(work): return await asyncio.wait_for(work(), 10)
async def shielded(work): return await asyncio.shield(work())
async def gathered_twice(work): return await asyncio.gather(asyncio.create_task(gathered(work)))
async def awaited(work): return await asyncio.create_task(work())
async def grouped(work):
    async with asyncio.TaskGroup() as group:
        group.create_task(work())
async def grouped_by_anyio(work):
    async with anyio.create_task_group() as group:
        group.start_soon(work)
"""


@pytest.mark.parametrize(
    "how", [line.split()[2].partition("(")[0] for line in LIBRARY.splitlines() if "def " in line]
)
def test_a_task_of_a_library_is_followed_to_the_task_that_waits_for_it(url: str, how: str) -> None:
    """LangChain gathers, others have groups: the line of the application is the one that awaits the library."""
    library: dict[str, Callable[..., Any]] = {}
    exec(compile(LIBRARY + PARTLY, httpx.__file__, "exec"), library)

    async def application() -> None:
        await asyncio.sleep(0)
        await library[how](functools.partial(library["post"], url))

    async def another() -> None:
        await asyncio.sleep(1)

    async def main() -> None:
        task = asyncio.create_task(another())
        await application()
        task.cancel()

    assert f"{THIS_FILE}:{line_of(application, 2)}:application" == source_of(lambda: asyncio.run(main()))


PARTLY = """
import httpx2
async def post(url):
    async with httpx2.AsyncClient() as client:
        await client.post(url)
"""


def test_a_task_without_a_waiter_belongs_to_the_line_that_runs_the_loop(url: str) -> None:
    """No better line is known."""
    library: dict[str, Callable[..., Any]] = {}
    exec(compile(PARTLY, httpx.__file__, "exec"), library)

    async def main() -> None:
        event = asyncio.Event()
        asyncio.create_task(library["post"](url)).add_done_callback(lambda _: event.set())
        await event.wait()

    source = source_of(lambda: asyncio.run(main()))
    assert source.startswith(THIS_FILE)
    assert source.endswith(":<lambda>")


def test_a_comprehension_is_a_part_of_its_function(url: str) -> None:
    """As it is in every Python from 3.12 on."""

    def several() -> None:
        [requests.post(where) for where in [url]]

    assert f"{THIS_FILE}:{line_of(several, 1)}:several" == source_of(several)


def test_a_function_in_a_thread_is_the_caller(url: str) -> None:
    """It is on the thread's own stack."""
    with ThreadPoolExecutor(1) as pool:
        source = source_of(lambda: pool.submit(ask_httpx, url).result())

    assert f"{THIS_FILE}:{line_of(ask_httpx, 2)}:ask_httpx" == source


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_every_client_is_skipped(driver: Driver, url: str) -> None:
    """The call site is the file that uses the client, not the client, asyncio or TraceForge."""
    assert source_of(lambda: driver.post(url, b"{}")).startswith("tests/support/http_clients.py:")


def test_without_a_frame_of_the_application_the_call_site_is_the_test(url: str) -> None:
    """A client's method given to a pool leaves only library frames."""
    with ThreadPoolExecutor(1) as pool:
        source = source_of(lambda: pool.submit(functools.partial(requests.post, url)).result())

    assert f"{THIS_FILE}:0:test_without_a_frame_of_the_application_the_call_site_is_the_test" == source


def test_a_header_counts_only_without_a_frame_of_the_application(url: str) -> None:
    """The stack comes first."""
    headers = {"X-TraceForge-Source": "app.py:3:ask"}
    with ThreadPoolExecutor(1) as pool:
        without = source_of(lambda: pool.submit(functools.partial(requests.post, url, headers=headers)).result())

    assert "app.py:3:ask" == without
    assert source_of(lambda: requests.post(url, headers=headers)).startswith(THIS_FILE)


def test_a_function_that_hides_itself_is_skipped(url: str) -> None:
    """As pytest understands `__tracebackhide__`."""

    def hidden() -> None:
        __tracebackhide__ = True
        ask()

    def ask() -> None:
        __tracebackhide__ = True
        httpx.post(url)

    def caller() -> None:
        hidden()

    assert source_of(caller).endswith(":caller")


def test_folders_and_files_that_the_project_skips_are_skipped() -> None:
    """By whole names: `support` is not `supporter.py`."""
    sites = CallSites(str(PROJECT), ["tests/support", "tests/unit/capture/hook/test_callsite.py"])

    assert ("", "", "tests/supporter.py") == (
        sites._name(str(PROJECT / "tests/support/http_clients.py")),
        sites._name(__file__),
        sites._name(str(PROJECT / "tests/supporter.py")),
    )


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (os.__file__, ""),
        (httpx.__file__, ""),
        (str(Path(sys.executable).parent / "pytest"), ""),
        (traceforge.__file__, ""),
        ("<frozen importlib._bootstrap>", ""),
        ("<string>", "<string>"),
        (str(PROJECT / "app" / "main.py"), "app/main.py"),
        (str(PROJECT.parent / "other" / "x.py"), "../other/x.py"),
        ("/opt/venv-of-another/lib/python3.9/site-packages/x.py", ""),
        ("/usr/lib/python3/dist-packages/x.py", ""),
    ],
)
def test_files_of_the_application_are_told_from_others(file: str, expected: str) -> None:
    """The standard library, installed packages, scripts and TraceForge are not."""
    assert expected == CallSites(str(PROJECT))._name(file)


def test_a_script_is_the_last_resort(url: str, tmp_path: Path) -> None:
    """With line 0, because its line is not known; code of `python -c` has its own line."""
    script = tmp_path / "job.py"
    script.write_text(f"""
import functools, requests, traceforge
from concurrent.futures import ThreadPoolExecutor
from traceforge.capture.recorder import MemoryRecorder
sink = MemoryRecorder()
with traceforge.capture(sink=sink), ThreadPoolExecutor(1) as pool:
    pool.submit(requests.post, {url!r}).result()
    requests.post({url!r})
print([e.caller.source for e in sink.exchanges])
""")
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    (tmp_path / ".git").mkdir()
    of_file = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    typed = subprocess.run(
        [sys.executable, "-c", script.read_text()],
        cwd=tmp_path, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "['job.py:0:<module>', 'job.py:8:<module>']\n" == of_file.stdout, of_file.stderr
    assert "['', '<string>:8:<module>']\n" == typed.stdout, typed.stderr


def test_a_walk_through_thirty_library_frames_is_little_work() -> None:
    """A few lines of Python for each frame of a library that is passed on the way to the application."""
    sites = CallSites(str(PROJECT))
    deep = compile("def deep(n, f):\n    return deep(n - 1, f) if n else f()", httpx.__file__, "exec")
    space: dict[str, Callable[..., object]] = {}
    exec(deep, space)  # type: ignore[arg-type]
    space["deep"](30, sites.find)  # What is learned once about a file is not counted.

    assert count_lines(lambda: space["deep"](30, sites.find)) < 31 + 30 * 12 + 100
