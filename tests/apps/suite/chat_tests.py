"""72 tests of openai."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import asking
import pytest


@pytest.mark.parametrize("number", range(20))
def test_plain(number: int) -> None:
    assert asking.chat(f"Name {number} soups.")


class TestStreams:
    @pytest.mark.parametrize("number", range(15))
    def test_stream(self, number: int) -> None:
        assert len(asking.chat_stream(f"Name {number} laws.")) > 1


class TestAsync:
    @pytest.mark.parametrize("number", range(12))
    def test_one(self, number: int) -> None:
        assert asyncio.run(asking.chat_async(f"Name {number} rivers."))

    @pytest.mark.parametrize("number", range(3))
    def test_many_at_once(self, number: int) -> None:
        async def all_of_them() -> list[str]:
            return await asyncio.gather(*(asking.chat_async(f"Name {number}{one} seas.") for one in range(3)))

        assert len(set(asyncio.run(all_of_them()))) == 3


@pytest.mark.parametrize("dish", ["soup", "bread", "fish", "rice", "cake", "tea", "salad", "pie"])
def test_tools(dish: str) -> None:
    assert asking.chat_tools(f"What is the price of {dish}?")


@pytest.mark.parametrize("text", ["soup", "grüße", "a/b", "two words"])
def test_embedding(text: str) -> None:
    assert len(asking.embed(text)) > 3


@pytest.mark.parametrize("number", range(3))
def test_pool(number: int) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(asking.chat, [f"Name {number}{one} hills." for one in range(3)]))) == 3


def test_bare_thread() -> None:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(asking.chat("Name a lake.")))
    thread.start()
    thread.join()
    assert said


@pytest.mark.parametrize("number", range(6))
def test_responses(number: int) -> None:
    assert asking.respond(f"Name {number} moons.")
