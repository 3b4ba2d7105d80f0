"""Tools in a process that records and replays itself: which calls run, and what a replay gives instead."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import traceforge
from traceforge.errors import CallNotRecorded


class Kitchen:
    """Tools that count how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.price = 12.5

        @traceforge.tool
        def find_dish(name: str) -> dict[str, Any]:
            self.ran.append(f"find {name}")
            if name == "stone":
                raise LookupError("no such dish")
            return {"price": self.price, "name": name}

        @traceforge.tool
        async def find_wine(name: str) -> str:
            self.ran.append(f"wine {name}")
            await asyncio.sleep(0)
            return f"red {name}"

        @traceforge.tool
        def plan_menu(dish: str) -> str:
            self.ran.append(f"plan {dish}")
            return f"{find_dish(dish)['price']} in all"

        @traceforge.tool
        def open_kitchen(key: object) -> object:
            self.ran.append("open")
            return object()

        @traceforge.tool
        def add_dish(menu: list[str]) -> int:
            menu.append("fish")
            return len(menu)

        self.add_dish: Callable[[list[str]], int] = add_dish
        self.find_dish: Callable[[str], dict[str, Any]] = find_dish
        self.find_wine: Callable[[str], Awaitable[str]] = find_wine
        self.plan_menu: Callable[[str], str] = plan_menu
        self.open_kitchen: Callable[[object], object] = open_kitchen


@pytest.fixture
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kitchen:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return Kitchen()


def test_a_recorded_result_replays_without_a_run(kitchen: Kitchen) -> None:
    with traceforge.capture() as captured:
        first, second = kitchen.find_dish("soup"), asyncio.run(kitchen.find_wine("house"))
    kitchen.ran.clear()

    with traceforge.replay() as replayed:
        assert (first, second) == (kitchen.find_dish("soup"), asyncio.run(kitchen.find_wine("house")))

    assert (2, 2, []) == (captured.exchanges, replayed.played, kitchen.ran)


def test_a_recorded_error_is_raised_without_a_run(kitchen: Kitchen) -> None:
    with traceforge.capture(), pytest.raises(LookupError):
        kitchen.find_dish("stone")
    kitchen.ran.clear()

    with traceforge.replay(), pytest.raises(LookupError, match=r"\Ano such dish\Z"):
        kitchen.find_dish("stone")

    assert [] == kitchen.ran


def test_other_arguments_are_refused_and_do_not_run(kitchen: Kitchen) -> None:
    """The replay fails, although the application has swallowed the error."""
    with traceforge.capture():
        kitchen.find_dish("soup")
    kitchen.ran.clear()

    with (
        pytest.raises(CallNotRecorded),
        traceforge.replay(),
        pytest.raises(CallNotRecorded, match="no recorded call"),
    ):
        kitchen.find_dish("fish")

    assert [] == kitchen.ran


def test_a_tool_runs_where_the_test_says_so(kitchen: Kitchen) -> None:
    with traceforge.capture():
        kitchen.find_dish("soup")
    kitchen.ran.clear()

    with traceforge.replay() as replayed, traceforge.real_tools("find_dish"):
        kitchen.find_dish("soup")

    assert (["find soup"], 1) == (kitchen.ran, replayed.played)


def test_a_tool_that_runs_must_answer_as_approved(kitchen: Kitchen) -> None:
    with traceforge.capture():
        kitchen.find_dish("soup")
    kitchen.price = 13

    with (
        pytest.raises(CallNotRecorded, match="its answer is not the approved one"),
        traceforge.replay(),
        traceforge.real_tools(),
    ):
        assert {"price": 13, "name": "soup"} == kitchen.find_dish("soup")


def test_a_tool_that_calls_another_in_a_thread_runs_too(kitchen: Kitchen) -> None:
    """In one of its own, and in one of a pool that was there before."""
    results: list[Any] = []

    @traceforge.tool
    def plan_dinner(dish: str) -> int:
        kitchen.ran.append("dinner")
        thread = threading.Thread(target=lambda: results.append(kitchen.find_dish(dish)))
        thread.start()
        thread.join()
        return len(results)

    @traceforge.tool
    def plan_lunch(dish: str) -> str:
        kitchen.ran.append("lunch")
        return str(pool.submit(kitchen.find_dish, dish).result()["name"])

    def plan() -> str:
        plan_dinner("soup")
        return plan_lunch("salad")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(str).result()
        with traceforge.capture():
            plan()
        kitchen.ran.clear()
        with traceforge.replay() as replayed:
            assert "salad" == plan()

    assert (4, ["dinner", "lunch"]) == (replayed.played, kitchen.ran)


@pytest.mark.parametrize(("owner", "is_approved"), [("bob@kitchen.example", True), ("nobody at all", False)])
def test_a_redacted_answer_of_a_tool_that_runs_is_compared(kitchen: Kitchen, owner: str, is_approved: bool) -> None:
    """Once it is redacted, too: another address has the same place, and another text has not."""
    owners = ["ada@kitchen.example"]

    @traceforge.tool
    def find_owner() -> str:
        return f"{owners[0]} owns it"

    with traceforge.capture():
        find_owner()
    owners[0] = owner

    expected: Any = contextlib.nullcontext() if is_approved else pytest.raises(CallNotRecorded, match="approved one")
    with expected, traceforge.replay(), traceforge.real_tools():
        assert f"{owner} owns it" == find_owner()


def test_a_tool_that_calls_another_runs_and_the_other_replays(kitchen: Kitchen) -> None:
    """Otherwise nobody would compare what it asks the other, or a model."""
    with traceforge.capture() as captured:
        kitchen.plan_menu("soup")
    kitchen.ran.clear()

    with traceforge.replay() as replayed:
        assert "12.5 in all" == kitchen.plan_menu("soup")

    assert (["plan soup"], 2, 2) == (kitchen.ran, captured.exchanges, replayed.played)


def test_what_cannot_be_replayed_is_named_while_recording(kitchen: Kitchen) -> None:
    """The application gets what it asked for."""
    with traceforge.capture() as captured:
        assert type(kitchen.open_kitchen("key")) is object
        kitchen.open_kitchen(object())

    assert [
        "the tool open_kitchen answered with a builtins.object, which cannot be written as JSON",
        "the tool open_kitchen was called with a builtins.object, which cannot be written as JSON",
    ] == list(captured.not_seen)


def test_a_tool_that_changes_its_argument_is_named_while_recording(kitchen: Kitchen) -> None:
    """A replay returns the result alone, and the application would see the old list."""
    with traceforge.capture() as captured:
        assert 2 == kitchen.add_dish(["soup"])

    assert ["the tool add_dish changed an argument, which a replay would not do"] == list(captured.not_seen)
    with pytest.raises(CallNotRecorded), traceforge.replay(), pytest.raises(CallNotRecorded):
        kitchen.add_dish(["soup"])


@pytest.mark.parametrize("key", ["key", object()], ids=["result", "argument"])
def test_what_cannot_be_replayed_does_not_run_in_a_replay(kitchen: Kitchen, key: object) -> None:
    with traceforge.capture():
        kitchen.open_kitchen(key)
    kitchen.ran.clear()

    with pytest.raises(CallNotRecorded), traceforge.replay(), pytest.raises(CallNotRecorded):
        kitchen.open_kitchen(key)

    assert [] == kitchen.ran


def test_a_decorator_with_another_signature_lets_no_tool_run_in_a_replay(kitchen: Kitchen) -> None:
    """The signature that it takes over does not fit the call."""

    def with_menu(function: Callable[[str, str], str]) -> Callable[[str], str]:
        @functools.wraps(function)
        def call(name: str) -> str:
            return function("menu", name)

        return call

    @traceforge.tool
    @with_menu
    def find(menu: str, name: str) -> str:
        kitchen.ran.append(name)
        return f"{menu} {name}"

    with traceforge.capture():
        find("soup")
    with traceforge.replay() as replayed:
        assert "menu soup" == find("soup")

    assert (["soup"], 1) == (kitchen.ran, replayed.played)


def test_a_secret_of_a_tool_is_on_no_disk(kitchen: Kitchen, tmp_path: Path) -> None:
    """Neither of its arguments nor of its result."""
    secret = "sk-ant-api03-" + "Ab3dEf6hIj" * 9
    with traceforge.capture():
        kitchen.find_dish(secret)

    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert [] == [file for file in files if secret.encode() in file.read_bytes()]
