"""`http/thread_pool.py`: so many at a time, the others in order, and nothing for callers that have left."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import threading
import time
import weakref
from contextvars import ContextVar

import pytest

from traceforge.http.thread_pool import ThreadPool

_where: ContextVar[str] = ContextVar("where", default="nowhere")


def test_work_beyond_the_threads_waits_in_order_of_arrival() -> None:
    """A hundred jobs at once; three run at a time."""
    began: list[int] = []
    busy: list[int] = []
    lock = threading.Lock()
    now = 0

    def work(number: int) -> int:
        nonlocal now
        with lock:
            began.append(number)
            now += 1
            busy.append(now)
        time.sleep(0.002)
        with lock:
            now -= 1
        return number * 2

    async def run() -> tuple[list[int], int]:
        pool = ThreadPool(3, "crew")
        results = await asyncio.gather(*(pool.run(lambda number=number: work(number)) for number in range(100)))  # type: ignore[misc]
        return results, pool.threads

    results, threads = asyncio.run(run())

    assert [number * 2 for number in range(100)] == results
    assert (3, 3) == (threads, max(busy))
    assert all(abs(place - number) < 3 for place, number in enumerate(began))  # threads note it in any order


def test_consecutive_work_needs_one_thread() -> None:
    """Threads are started when they are needed, and kept."""

    async def run() -> tuple[set[int], int]:
        pool = ThreadPool(64, "crew")
        thread_ids = set()
        for _ in range(20):
            thread_ids.add(await pool.run(threading.get_ident))
            await asyncio.sleep(0.002)  # until it waits again
        return thread_ids, pool.threads

    thread_ids, threads = asyncio.run(run())

    assert len(thread_ids) == threads <= 2


def test_work_of_a_cancelled_caller_is_never_started() -> None:
    """It is not kept in memory either, and the work behind it runs."""
    gate = threading.Event()
    began: list[str] = []

    def work(name: str) -> str:
        began.append(name)
        gate.wait(5)
        return name

    async def run() -> list[str]:
        pool = ThreadPool(1, "crew")
        first = asyncio.create_task(pool.run(lambda: work("first")))
        while not began:
            await asyncio.sleep(0.001)
        leavers_work = functools.partial(work, "leaver")
        is_kept = weakref.ref(leavers_work)
        leaver = asyncio.create_task(pool.run(leavers_work))
        del leavers_work
        last = asyncio.create_task(pool.run(lambda: work("last")))
        await asyncio.sleep(0.01)
        leaver.cancel()
        await asyncio.sleep(0.01)
        assert is_kept() is None
        gate.set()
        return [await first, await last]

    assert ["first", "last"] == asyncio.run(run())
    assert ["first", "last"] == began


def test_an_exception_is_raised_in_the_caller_and_the_thread_goes_on() -> None:
    """A caller that was cancelled gets nothing."""
    gate = threading.Event()

    async def run() -> str:
        pool = ThreadPool(1, "crew")
        with pytest.raises(KeyError, match="mine"):
            await pool.run(lambda: {}["mine"])  # type: ignore[misc]
        begun = threading.Event()

        def slow() -> None:
            begun.set()
            gate.wait(5)
            raise ValueError("nobody hears it")

        leaver = asyncio.create_task(pool.run(slow))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        gate.set()
        return await pool.run(lambda: "still here")

    assert "still here" == asyncio.run(run())


def test_work_runs_in_the_context_of_its_caller() -> None:
    """Context variables have the caller's values."""

    async def run() -> list[str]:
        pool = ThreadPool(1, "crew")
        before = await pool.run(_where.get)
        _where.set("here")
        return [before, await pool.run(_where.get)]

    assert ["nowhere", "here"] == asyncio.run(run())


def test_a_busy_thread_does_not_keep_the_process_from_ending() -> None:
    """The end does not wait for, say, a name server that does not answer."""
    script = (
        "import asyncio, time\nfrom traceforge.http.thread_pool import ThreadPool\n"
        "async def main():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.05):\n"
        "            await ThreadPool(1, 'crew').run(lambda: time.sleep(60))\n"
        "    except TimeoutError:\n"
        "        print('late')\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True)

    assert ("late\n", "") == (ran.stdout, ran.stderr)


def test_results_and_exceptions_come_back_from_another_thread() -> None:
    """The thread is fit for the next job afterwards."""
    pool = ThreadPool(2, "crew")

    async def work() -> None:
        assert "crew_0" == await pool.run(lambda: threading.current_thread().name)
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0)
        assert 3 == await pool.run(lambda: 1 + 2)

    asyncio.run(work())
    pool.close()


def test_close_waits_for_running_work_and_accepts_no_more() -> None:
    """Even if the caller was cancelled."""
    pool, results = ThreadPool(2, "crew"), list[str]()

    def slow() -> None:
        time.sleep(0.1)
        results.append("slow")

    async def work() -> None:
        task = asyncio.create_task(pool.run(slow))
        await asyncio.sleep(0.02)
        task.cancel()

    asyncio.run(work())
    pool.close()
    assert ["slow"] == results
    with pytest.raises(RuntimeError):
        asyncio.run(pool.run(lambda: None))
