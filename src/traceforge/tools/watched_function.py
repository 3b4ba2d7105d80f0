"""Functions whose calls are recorded and replayed.

In: functions. Out: functions that do the same, whose calls the hook takes while something watches: it
replaces `call_tool` and `call_tool_async`. Never: changes what a function gets, returns or raises where nothing
watches; imports anything but the standard library, because applications import it where they serve users.

    with traceforge.real_tools("book_table"): ...     in this test, the function itself runs
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, Signature, iscoroutinefunction, signature, unwrap
from typing import Any, NoReturn, get_type_hints

from traceforge.tools.result_types import make_result

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # as providers allow it, and longer
_RECEIVERS = ("self", "cls")
# What an agent framework hands to a tool of its own accord: no argument of the model. By the name of the annotation.
_FRAMEWORK_TYPES = frozenset(
    {
        "AsyncCallbackManagerForToolRun", "CallbackManagerForToolRun", "RunContext", "RunContextWrapper",
        "RunnableConfig", "ToolContext", "ToolRuntime",
    }
)  # fmt: skip
_MARKED_TEXT = re.compile(r"(?:\w+\.)*Annotated\[.*\bInjected\w+")  # LangChain's: `Annotated[dict, InjectedState]`
_REAL_ALL = frozenset({"*"})

_real: ContextVar[frozenset[str]] = ContextVar("traceforge_real_tools", default=frozenset())


class Tool:
    """What the hook knows about a function: its name, its arguments, and how a recorded result is made again."""

    def __init__(self, name: str, function: Callable[..., Any], ignored: Collection[str]) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name a tool: use 1 to 128 letters, digits, '_', '.' and '-'")
        self.name = name
        self._function = function
        self.code = getattr(unwrap(function), "__code__", None)  # where the function is written
        self._signature = signature(function)  # which a decorator takes over from what it wraps
        self._own_signature = signature(function, follow_wrapped=False)
        unknown = sorted(set(ignored).difference(self._signature.parameters))
        if unknown and not _takes_any_name(self._signature):
            raise ValueError(f"`ignore` names {unknown[0]}, which is not a parameter of {name}")
        self._ignored = {*ignored, *find_framework_parameters(self._signature)}

    @property
    def runs_for_real(self) -> bool:
        """Whether the running test wants the function itself."""
        return not {self.name, "*"}.isdisjoint(_real.get())

    def find_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, with defaults.

        Raises:
            TypeError: the function cannot be called with them.
        """
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # A decorator may add arguments of its own, or take some away.
            bound = self._own_signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments: dict[str, Any] = {}
        extra: Mapping[str, Any] = {}  # Those of `**kwargs`.
        for name, value in bound.arguments.items():
            if bound.signature.parameters[name].kind is Parameter.VAR_KEYWORD:
                extra = value
            else:
                arguments[name] = value
        if not extra.keys().isdisjoint(arguments):  # `def find(name, /, **more)` may get another `name`.
            arguments = {f"{name}/": value for name, value in arguments.items()}
        return {name: value for name, value in (arguments | {**extra}).items() if self._is_compared(name)}

    def _is_compared(self, argument: str) -> bool:
        return argument.removesuffix("/") not in self._ignored

    def restore(self, fields: Any) -> Any:
        """A recorded result, made from its JSON with the type that the function is annotated with."""
        return make_result(get_type_hints(self._function).get("return"), fields)

    def refuse(self, message: str) -> NoReturn:
        """Tell the application that its call was not replayed."""
        from traceforge.errors import CallNotRecorded  # Takes 20 ms, which an application pays only here.

        raise CallNotRecorded((message,))


def _takes_any_name(of: Signature) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in of.parameters.values())


def find_framework_parameters(of: Signature) -> list[str]:
    """The parameters that the model does not fill: receivers, and what a framework hands over."""
    names = list(of.parameters)
    receivers = [name for name in names[:1] if name in _RECEIVERS]
    return receivers + [parameter.name for parameter in of.parameters.values() if _is_injected(parameter.annotation)]


def _is_injected(annotation: Any) -> bool:
    if isinstance(annotation, str):
        name, is_marked = annotation, _MARKED_TEXT.match(annotation) is not None
    else:
        name = getattr(annotation, "__name__", str(annotation))
        marks = getattr(annotation, "__metadata__", ())
        classes = [mark if isinstance(mark, type) else type(mark) for mark in marks]
        is_marked = any(mark.__name__.startswith("Injected") for mark in classes)
    return is_marked or re.split(r"[\[|]", name)[0].strip().rpartition(".")[2] in _FRAMEWORK_TYPES


def watch_function(watched: Tool, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does the same, and lets the hook take its calls."""
    if iscoroutinefunction(function):

        @wraps(function)
        async def recorded_async(*args: Any, **kwargs: Any) -> Any:
            return await call_tool_async(watched, function, args, kwargs)

        return recorded_async

    @wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        return call_tool(watched, function, args, kwargs)

    return recorded


def call_tool(_: Tool, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a tool. The hook replaces this function while something watches."""
    return function(*args, **kwargs)


async def call_tool_async(
    _: Tool, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """The same for a coroutine function."""
    return await function(*args, **kwargs)


@contextmanager
def real_tools(*names: str) -> Iterator[None]:
    """In this block, these tools run in tests, too; without names, all. Arguments and results are still compared."""
    token = _real.set(_real.get() | (frozenset(names) or _REAL_ALL))
    try:
        yield
    finally:
        _real.reset(token)
