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


def test_no_more_threads_than_it_was_told_and_the_others_wait_in_order() -> None:
    """A hundred come at once; three are done at a time, and each begins in its turn."""
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
        done = await asyncio.gather(*(pool.run(lambda number=number: work(number)) for number in range(100)))  # type: ignore[misc]
        return done, pool.threads

    done, threads = asyncio.run(run())

    assert [number * 2 for number in range(100)] == done
    assert (3, 3) == (threads, max(busy))
    assert all(abs(place - number) < 3 for place, number in enumerate(began))  # threads note it in any order


def test_one_after_the_other_needs_one_thread() -> None:
    """Threads are started when they are needed, and kept."""

    async def run() -> tuple[set[int], int]:
        pool = ThreadPool(64, "crew")
        seen = set()
        for _ in range(20):
            seen.add(await pool.run(threading.get_ident))
            await asyncio.sleep(0.002)  # until it waits again
        return seen, pool.threads

    seen, threads = asyncio.run(run())

    assert len(seen) == threads <= 2


def test_what_nobody_waits_for_is_not_begun() -> None:
    """Whoever leaves the line is not served, and those behind are."""
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


def test_what_is_raised_is_raised_there_and_the_thread_goes_on() -> None:
    """And a caller who has left is not told anything."""
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


def test_work_is_done_in_the_context_of_who_asked() -> None:
    """Whoever watches that context sees what is done in it."""

    async def run() -> list[str]:
        pool = ThreadPool(1, "crew")
        before = await pool.run(_where.get)
        _where.set("here")
        return [before, await pool.run(_where.get)]

    assert ["nowhere", "here"] == asyncio.run(run())


def test_a_thread_at_work_does_not_keep_the_process() -> None:
    """A name server that does not answer must not be waited for at the end."""
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


def test_what_work_returns_and_raises_comes_back_from_another_thread() -> None:
    """A result, an error, and a thread that is fit for the next one."""
    pool = ThreadPool(2, "crew")

    async def work() -> None:
        assert "crew_0" == await pool.run(lambda: threading.current_thread().name)
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0)
        assert 3 == await pool.run(lambda: 1 + 2)

    asyncio.run(work())
    pool.close()


def test_close_waits_for_what_has_begun_and_takes_nothing_more() -> None:
    """Even where its caller has gone."""
    pool, done = ThreadPool(2, "crew"), list[str]()

    def slow() -> None:
        time.sleep(0.1)
        done.append("slow")

    async def work() -> None:
        task = asyncio.create_task(pool.run(slow))
        await asyncio.sleep(0.02)
        task.cancel()

    asyncio.run(work())
    pool.close()
    assert ["slow"] == done
    with pytest.raises(RuntimeError):
        asyncio.run(pool.run(lambda: None))
