"""`web/threads.py`: so many at a time, the others in order, and nothing for those who have left."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from traceforge.web.threads import Threads


def test_what_work_returns_and_raises_comes_back_from_another_thread() -> None:
    """A result, an error, and a thread that is fit for the next one."""
    threads = Threads(2, "crew")

    async def work() -> None:
        assert "crew_0" == await threads.run(lambda: threading.current_thread().name)
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)
        assert 3 == await threads.run(lambda: 1 + 2)

    asyncio.run(work())
    threads.close()


def test_no_more_work_at_once_than_there_may_be_threads_and_the_others_in_order() -> None:
    """Twelve come at once; three are done at a time."""
    threads, begun, at_once, most = Threads(3, "crew"), list[int](), 0, 0
    lock = threading.Lock()

    def job(number: int) -> str:
        nonlocal at_once, most
        with lock:
            begun.append(number)
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.01)
        with lock:
            at_once -= 1
        return threading.current_thread().name

    async def work() -> set[str]:
        return set(await asyncio.gather(*(threads.run(lambda n=n: job(n)) for n in range(12))))

    names = asyncio.run(work())
    threads.close()
    assert {"crew_0", "crew_1", "crew_2"} == names
    assert 3 == most
    assert [0, 1, 2] == sorted(begun[:3])
    assert all(abs(place - number) < 3 for place, number in enumerate(begun))


def test_one_caller_after_the_other_needs_one_thread() -> None:
    """Threads are started when they are needed, and kept."""
    threads = Threads(8, "crew")

    async def work() -> set[str]:
        return {await threads.run(lambda: threading.current_thread().name) for _ in range(50)}

    names = asyncio.run(work())
    threads.close()
    assert {"crew_0"} == names


def test_work_that_nobody_waits_for_is_not_begun_and_its_thread_goes_on() -> None:
    """Cancelled while it waits for its turn."""
    threads, held, done = Threads(1, "crew"), threading.Event(), list[str]()

    async def work() -> None:
        first = asyncio.create_task(threads.run(held.wait))
        left = asyncio.create_task(threads.run(lambda: done.append("left")))
        last = asyncio.create_task(threads.run(lambda: done.append("last")))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        held.set()
        await asyncio.gather(first, last)
        assert left.cancelled()

    asyncio.run(work())
    threads.close()
    assert ["last"] == done


def test_close_waits_for_what_has_begun_and_takes_nothing_more() -> None:
    """Even where its caller has gone."""
    threads, done = Threads(2, "crew"), list[str]()

    def slow() -> None:
        time.sleep(0.1)
        done.append("slow")

    async def work() -> None:
        task = asyncio.create_task(threads.run(slow))
        await asyncio.sleep(0.02)
        task.cancel()

    asyncio.run(work())
    threads.close()
    assert ["slow"] == done
    with pytest.raises(RuntimeError):
        asyncio.run(threads.run(lambda: None))
