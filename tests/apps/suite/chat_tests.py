"""72 tests of openai."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import provider_calls
import pytest


@pytest.mark.parametrize("number", range(20))
def test_plain(number: int) -> None:
    assert provider_calls.chat(f"Name {number} soups.")


class TestStreams:
    @pytest.mark.parametrize("number", range(15))
    def test_stream(self, number: int) -> None:
        assert len(provider_calls.chat_stream(f"Name {number} laws.")) > 1


class TestAsync:
    @pytest.mark.parametrize("number", range(12))
    def test_one_call(self, number: int) -> None:
        assert asyncio.run(provider_calls.chat_async(f"Name {number} rivers."))

    @pytest.mark.parametrize("number", range(3))
    def test_many_at_once(self, number: int) -> None:
        async def gather_chats() -> list[str]:
            return await asyncio.gather(
                *(provider_calls.chat_async(f"Name {number}{digit} seas.") for digit in range(3))
            )

        assert len(set(asyncio.run(gather_chats()))) == 3


@pytest.mark.parametrize("dish", ["soup", "bread", "fish", "rice", "cake", "tea", "salad", "pie"])
def test_tools(dish: str) -> None:
    assert provider_calls.chat_tools(f"What is the price of {dish}?")


@pytest.mark.parametrize("text", ["soup", "grüße", "a/b", "two words"])
def test_embedding(text: str) -> None:
    assert len(provider_calls.embed(text)) > 3


@pytest.mark.parametrize("number", range(3))
def test_pool(number: int) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(provider_calls.chat, [f"Name {number}{digit} hills." for digit in range(3)]))) == 3


def test_bare_thread() -> None:
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(provider_calls.chat("Name a lake.")))
    thread.start()
    thread.join()
    assert answers


@pytest.mark.parametrize("number", range(6))
def test_responses(number: int) -> None:
    assert provider_calls.respond(f"Name {number} moons.")
