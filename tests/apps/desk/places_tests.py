"""Calls in fixtures, cases, threads and caches."""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import desk
import pytest


@lru_cache
def cached(question):
    return desk.ask(question)


def test_fixture(greeting):
    assert greeting


def test_fixture_again(greeting, opening_hours):
    assert greeting
    assert opening_hours


@pytest.mark.parametrize("colour", ["red", "green", "blue"])
def test_cases(colour):
    assert desk.ask(f"Do you have it in {colour}?")


def test_threads():
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(desk.ask, ["Which is one?", "Which is two?"]))


def test_cached():
    assert cached("What is cached?")


def test_cached_again():
    assert cached("What is cached?") == cached("What is cached?")


def test_twice():
    assert desk.ask("Ask it twice.") == desk.ask("Ask it twice.")


def test_no_call():
    assert desk.SYSTEM


def test_shared_first():
    assert desk.ask("What is shared?")


def test_shared_second():
    assert desk.ask("What is shared?")
