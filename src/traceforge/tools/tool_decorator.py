"""`traceforge.tool`: a function that a model calls, or a tool of an agent framework, whose calls are recorded.

In: functions and tools. Out: the same, recorded. Never: runs one, or changes what it was given.

    @traceforge.tool
    def book_table(guests: int) -> str: ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any, TypeVar, overload

from traceforge.tools.framework_tools import wrap_framework_tool
from traceforge.tools.watched_function import Tool, watch_function

_T = TypeVar("_T")


@overload
def tool(function: _T, /) -> _T: ...


@overload
def tool(*, name: str = "", ignore: Collection[str] = ()) -> Callable[[_T], _T]: ...


def tool(function: Any = None, /, *, name: str = "", ignore: Collection[str] = ()) -> Any:
    """Record the calls of a function that a model calls, and answer them in tests without running it.

    `function` may also be a tool of LangChain, pydantic-ai or openai-agents; use the tool that is returned.
    `name` is by default that of the function. `ignore` names parameters that are not compared, such as a database.

    In a `functools.partial`, the function is recorded, so that the arguments that it binds are compared, too.

    Raises:
        TypeError: it is a generator, a class, or nothing that can be called.
        ValueError: it has no such parameter, or the name cannot be used.
    """
    if function is None:
        return partial(_wrap, name=name, ignore=ignore)
    return _wrap(function, name=name, ignore=ignore)


def _wrap(function: Any, *, name: str, ignore: Collection[str]) -> Any:
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(_wrap(function.__func__, name=name, ignore=ignore))
    if isinstance(function, type):
        raise TypeError(f"{function.__name__} is a class: decorate a function that makes its objects")
    if isinstance(function, partial):
        return partial(_wrap(function.func, name=name, ignore=ignore), *function.args, **function.keywords)
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise TypeError(f"{function.__name__} is a generator: its results cannot be recorded")
    if not hasattr(function, "__name__"):
        return wrap_framework_tool(function, name, ignore)
    return watch_function(Tool(name or function.__name__, function, ignore), function)
