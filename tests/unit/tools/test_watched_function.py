"""A watched function: what it is where nothing watches, and which of its arguments are compared."""

from __future__ import annotations

import asyncio
import functools
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

import traceforge
from traceforge.tools import watched_function
from traceforge.tools.watched_function import Tool


class RunContext:
    """As frameworks call what they hand to a tool."""


def find_dish(context: RunContext, name: str, *more: str, count: int = 1, **extra: object) -> str:
    """Find a dish."""
    return f"{count} {name}"


def test_a_decorated_function_does_what_it_did() -> None:
    """Frameworks read the signature and the docstring, and tell the model."""
    watched = traceforge.tool(find_dish)

    assert "2 soup" == watched(RunContext(), "soup", count=2)
    assert (inspect.signature(find_dish), "Find a dish.") == (inspect.signature(watched), watched.__doc__)


def test_a_decorated_coroutine_function_is_one() -> None:
    @traceforge.tool(name="find-dish")
    async def find(name: str) -> str:
        return name

    assert (True, "soup") == (inspect.iscoroutinefunction(find), asyncio.run(find("soup")))


def test_the_arguments_of_a_call_have_names_and_defaults() -> None:
    """The same call, however it is written. What a framework injects is no argument of the model."""
    tool = Tool("find", find_dish, ["extra_key"])

    assert {"name": "soup", "more": ("hot",), "count": 1, "spice": "salt"} == tool.find_arguments(
        (RunContext(), "soup", "hot"), {"spice": "salt", "extra_key": object()}
    )


def test_the_receiver_of_a_method_is_no_argument() -> None:
    class Kitchen:
        @traceforge.tool
        def cook(self, dish: str) -> str:
            return dish

    assert "soup" == Kitchen().cook("soup")
    assert {"dish": "soup"} == Tool("cook", Kitchen.cook, ()).find_arguments((Kitchen(), "soup"), {})


def test_parameters_that_langchain_injects_are_no_arguments() -> None:
    """State and stores of its own, marked in an annotation, also in one that is a text."""

    class InjectedState:
        """As LangChain calls it."""

    class InjectedToolCallId:
        """The same."""

    def find(
        name: str, state: Annotated[dict[str, Any], InjectedState], call: Annotated[str, InjectedToolCallId]
    ) -> str:
        return name

    find.__annotations__["state"] = Annotated[dict[str, Any], InjectedState]

    assert {"name": "soup"} == Tool("find", find, ()).find_arguments(("soup", {}, "c1"), {})


def test_arguments_of_one_name_are_not_taken_for_each_other() -> None:
    """A parameter that has no name for callers, and a further argument of that name."""

    def find(name: str, /, **more: str) -> str:
        return name

    tool = Tool("find", find, ())

    assert {"name/": "soup", "name": "a"} == tool.find_arguments(("soup",), {"name": "a"})
    assert {"name": "soup"} == tool.find_arguments(("soup",), {})


def test_a_decorator_that_adds_an_argument_hides_no_call() -> None:
    """`wraps` tells the signature of the inner function, which the outer one does not have."""

    def with_database(function: Callable[[str, str], str]) -> Callable[[str], str]:
        @functools.wraps(function)
        def call(name: str) -> str:
            return function("database", name)

        return call

    @with_database
    def find(database: str, name: str) -> str:
        return f"{database} {name}"

    assert {"name": "soup"} == Tool("find", find, ()).find_arguments(("soup",), {})


@pytest.mark.parametrize("is_outside", [True, False], ids=["outside", "inside"])
def test_a_method_of_a_class_may_be_decorated_on_either_side(is_outside: bool) -> None:
    """And stays what it is."""

    def find(name: str) -> str:
        return name

    def cook(cls: type, name: str) -> str:
        return f"{cls.__name__} {name}"

    class Kitchen:
        find_dish: Any = traceforge.tool(staticmethod(find)) if is_outside else staticmethod(traceforge.tool(find))
        cook_dish: Any = traceforge.tool(classmethod(cook)) if is_outside else classmethod(traceforge.tool(cook))

    assert ("soup", "Kitchen soup", "soup") == (
        Kitchen.find_dish("soup"), Kitchen.cook_dish("soup"), Kitchen().find_dish("soup")
    )  # fmt: skip


def test_what_a_partial_binds_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one function are no two calls of the same."""

    def find(menu: str, name: str) -> str:
        return f"{menu} {name}"

    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(watched_function, "call_tool", lambda tool, _, *call: seen.append(tool.find_arguments(*call)))

    traceforge.tool(functools.partial(find, "lunch"))("soup")

    assert [{"menu": "lunch", "name": "soup"}] == seen


def test_a_call_that_python_refuses_is_refused_by_python() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        traceforge.tool(find_dish)(RunContext())  # type: ignore[call-arg]


def _generate() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "function", [_generate, object(), 3, RunContext], ids=["generator", "object", "number", "class"]
)
def test_what_is_no_tool_is_refused(function: Any) -> None:
    """Where it is decorated, so that nobody believes that it is recorded."""
    with pytest.raises(TypeError):
        traceforge.tool(function)


@pytest.mark.parametrize(("name", "ignore"), [("two words", ()), ("", ("other",)), ("a/../b", ())])
def test_a_name_that_cannot_be_used_is_refused(name: str, ignore: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"cannot name a tool|other, which is not a parameter"):

        @traceforge.tool(name=name, ignore=ignore)
        def find(dish: str) -> str:
            return dish


def test_a_test_says_which_tools_run() -> None:
    """Inside of each other, they add up."""
    tool = Tool("find", find_dish, ())

    seen = [tool.runs_for_real]
    with traceforge.real_tools("other"):
        seen.append(tool.runs_for_real)
        with traceforge.real_tools("find"):
            seen.append(tool.runs_for_real)
        seen.append(tool.runs_for_real)
    with traceforge.real_tools():
        seen.append(tool.runs_for_real)

    assert [False, False, True, False, True] == seen


def test_the_import_takes_the_standard_library_alone() -> None:
    """An application imports it where it serves users."""
    program = "import sys, traceforge; traceforge.tool; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert {"msgspec", "orjson", "re2", "asyncio", "socket"}.isdisjoint(loaded)
