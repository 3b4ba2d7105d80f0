"""`chat/conversation_memory.py`: bounded, append-only, one at a time."""

from __future__ import annotations

import asyncio
import random

import pytest

from traceforge.chat.chat_errors import ChatError
from traceforge.chat.conversation_memory import MESSAGES_MAX, ConversationMemory


async def _turn(memory: ConversationMemory, session_id: str, message: str) -> None:
    async with memory.turn(session_id) as session:
        memory.append(session, message, f"re: {message}")


def _texts(memory: ConversationMemory, session_id: str) -> list[str]:
    return [message.content for message in memory.history(session_id)]


def test_a_session_keeps_its_last_twenty_messages_in_order() -> None:
    """Ten questions with their answers; an eleventh pushes out the first, with its answer."""
    memory = ConversationMemory()
    for number in range(25):
        asyncio.run(_turn(memory, "s", str(number)))

    expected = [text for number in range(15, 25) for text in (str(number), f"re: {number}")]
    assert 20 == MESSAGES_MAX
    assert expected == _texts(memory, "s")
    assert ["user", "assistant"] * 10 == [message.role for message in memory.history("s")]


def test_the_session_that_was_used_longest_ago_is_dropped() -> None:
    """A request counts as use; a dropped session is empty when it comes again."""
    memory = ConversationMemory(sessions_max=3)

    async def work() -> None:
        for name in ("a", "b", "c", "a", "d"):
            await _turn(memory, name, "hi")

    asyncio.run(work())
    assert ["c", "a", "d"] == memory.sessions
    assert [] == memory.history("b")
    asyncio.run(_turn(memory, "b", "again"))
    assert ["again", "re: again"] == _texts(memory, "b")
    assert ["a", "d", "b"] == memory.sessions


def test_a_session_in_use_is_never_dropped() -> None:
    """If all are in use, a further one is refused, and no other loses anything."""
    memory = ConversationMemory(sessions_max=2)

    async def work() -> None:
        async with memory.turn("a") as session, memory.turn("b"):
            with pytest.raises(ChatError) as caught:
                await _turn(memory, "c", "hi")
            assert (503, "too_busy") == (caught.value.status, caught.value.code.word)
            memory.append(session, "x", "y")
        await _turn(memory, "c", "hi")

    asyncio.run(work())
    assert ["a", "c"] == memory.sessions  # b never had a turn that ended
    assert ["x", "y"] == _texts(memory, "a")


def test_a_failed_turn_leaves_no_trace_in_memory() -> None:
    """Neither a message, nor an empty session, nor a session that stays in use."""
    memory = ConversationMemory()

    async def work() -> None:
        with pytest.raises(RuntimeError):
            async with memory.turn("a"):
                raise RuntimeError
        await _turn(memory, "b", "hi")
        with pytest.raises(RuntimeError):
            async with memory.turn("b"):
                raise RuntimeError

    asyncio.run(work())
    assert ["b"] == memory.sessions
    assert ["hi", "re: hi"] == _texts(memory, "b")


def test_the_bytes_of_all_sessions_are_bounded() -> None:
    """Old sessions are dropped as soon as a turn exceeds the limit, and the count is exact."""
    memory = ConversationMemory(bytes_max=100_000)

    async def work() -> None:
        for number in range(50):
            await _turn(memory, f"s{number}", "é" * random.Random(number).randrange(5000))
            assert memory.size <= 100_000

    asyncio.run(work())
    assert 0 < len(memory.sessions) < 50
    assert "s49" == memory.sessions[-1]
    assert memory.size == sum(memory._sessions[name].size for name in memory.sessions)


def test_requests_of_a_session_are_served_in_order_of_arrival() -> None:
    """However long each takes, and also if some are cancelled; other sessions do not wait."""
    served: list[tuple[str, int]] = []
    inside = {"a": 0, "b": 0}

    async def take_turn(memory: ConversationMemory, name: str, number: int, seconds: float) -> None:
        async with memory.turn(name):
            inside[name] += 1
            assert 1 == inside[name]
            await asyncio.sleep(seconds)
            served.append((name, number))
            inside[name] -= 1

    async def work() -> None:
        memory = ConversationMemory()
        dice = random.Random(7)
        tasks = [
            asyncio.create_task(take_turn(memory, name, number, dice.random() / 200))
            for number in range(40)
            for name in ("a", "b")
        ]
        await asyncio.sleep(0)
        for leaver in tasks[10:30:2]:  # all of them of session a: numbers 5 to 14
            leaver.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [] == memory.sessions

    asyncio.run(work())
    leavers = set(range(5, 15))
    assert [number for number in range(40) if number not in leavers] == [
        number for name, number in served if name == "a"
    ]
    assert list(range(40)) == [number for name, number in served if name == "b"]
    assert served != sorted(served)  # the two sessions took turns


@pytest.mark.parametrize("seed", range(20))
def test_the_counts_are_exact_whatever_happens(seed: int) -> None:
    """Turns that end, fail, are refused or cancelled at any time: nothing stays in use, and the sum is exact."""
    dice = random.Random(seed)
    memory = ConversationMemory(sessions_max=3, bytes_max=20_000)
    remembered = 0

    async def take_turn(name: str) -> None:
        nonlocal remembered
        async with memory.turn(name) as session:
            await asyncio.sleep(dice.random() / 500)
            if dice.random() < 0.3:
                raise RuntimeError
            memory.append(session, "q" * dice.randrange(3000), "a" * dice.randrange(3000))
            assert 1 <= len(memory.sessions) <= 3
            remembered += 1

    async def work() -> None:
        tasks = []
        for _ in range(120):
            tasks.append(asyncio.create_task(take_turn(dice.choice("abcdefg"))))
            if dice.random() < 0.5:
                await asyncio.sleep(dice.random() / 500)
            if dice.random() < 0.3:
                dice.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(work())
    sessions = [memory._sessions[name] for name in memory.sessions]
    assert (True, True) == (remembered > 20, len(sessions) <= 3)  # none, where the last three to come have failed
    assert [0] * len(sessions) == [session.requests for session in sessions]
    assert all(session.messages and not session.turn_lock.locked() for session in sessions)
    assert sum(session.size for session in sessions) == memory.size <= 20_000
