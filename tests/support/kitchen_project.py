"""The small suite whose calls `test_call_counts` counts: a kitchen, its fixtures and its tests."""

from __future__ import annotations

KITCHEN = """
import os
from functools import lru_cache

import httpx

SETTINGS = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 20}
VARIED = {"model": "gpt-4.1", "max_tokens": 20}


def post(path, body):
    url, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
    return httpx.post(f"{url}/{path}", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=30)


def ask(question, settings=SETTINGS):
    body = {**settings, "messages": [{"role": "user", "content": question}]}
    return post("chat/completions", body).raise_for_status().json()["choices"][0]["message"]["content"]


def embed(text):
    return post("embeddings", {"model": "text-embedding-3-small", "input": text}).raise_for_status().json()["data"]


@lru_cache
def cached(question):
    return ask(question)


if __name__ == "__main__":
    ask("Name a knife.")
    ask("Name a knife.")
"""
CONFTEST = """
import pytest

from kitchen import ask

ask("Open the kitchen.")


@pytest.fixture(scope="session")
def menu():
    yield ask("Name the menu.")
    ask("Close the menu.")


@pytest.fixture(scope="module")
def table():
    return ask("Lay the table.")


@pytest.fixture
def spoon():
    return ask("Take a spoon.")
"""
SOUPS = """
import pytest

from kitchen import SETTINGS, VARIED, ask, cached, embed, post

IMPORTED = ask("Heat the water.")


class TestClass:
    @classmethod
    def setup_class(cls):
        ask("Start the class.")

    def test_method(self):
        pass


def test_once():
    assert ask("Name a soup.")


def test_twice():
    assert ask("Name a soup.") and ask("Name a soup.")


@pytest.mark.parametrize("spice", ["salt", "pepper"])
def test_cases(spice):
    assert ask("Name a spice.")


def test_case_of_all():
    assert ask("Name a spice.")


def test_first_cached():
    assert cached("What is cold?")


def test_second_cached():
    assert cached("What is cold?")


def test_varied():
    assert ask("Name a herb.", VARIED) and ask("Name a herb.", VARIED)


def test_embedding():
    assert embed("soup")


def test_error():
    assert post("chat/completions", {"model": "gpt-4.1-mini", "messages": "wrong"}).status_code == 400


def test_menu(menu, table):
    assert menu


def test_spoon(menu, table, spoon):
    assert menu
"""
SALADS = """
def test_salad(menu, table):
    assert menu
"""
FILES = {"kitchen.py": KITCHEN, "conftest.py": CONFTEST, "test_soups.py": SOUPS, "test_salads.py": SALADS}
CONFIG: dict[str, dict[str, dict[str, object]]] = {"models": {"gpt-4.1": {"gate": "request", "temperature": 1}}}
