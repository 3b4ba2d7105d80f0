"""Tools of agent frameworks, so that their calls are recorded as those of functions are.

In: a tool of LangChain, pydantic-ai or openai-agents. Out: one that does the same. Never: imports a framework, or
changes the tool that it was given.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any, NoReturn

from traceforge.tools.watched_function import Tool, find_framework_parameters, watch_function

_INJECTED = ("run_manager",)  # what LangChain adds by its name; a `RunnableConfig` it adds by its annotation
# LangChain's coroutine of a tool without one calls its function: that is one call, not two.
_running: ContextVar[Any] = ContextVar("traceforge_langchain_tool", default=None)


def wrap_framework_tool(tool: Any, name: str, ignore: Collection[str]) -> Any:
    """The same tool, recorded.

    Raises:
        TypeError: it is of no framework that is known.
    """
    if hasattr(tool, "on_invoke_tool"):
        return _wrap_openai_agents(tool, name, ignore)
    if hasattr(tool, "function_schema"):
        return _wrap_pydantic_ai(tool, name, ignore)
    if hasattr(tool, "_run") and hasattr(tool, "args_schema"):
        return _wrap_langchain(tool, name, ignore)
    raise TypeError(
        f"a {type(tool).__name__} cannot be recorded: it is neither a function nor a tool of LangChain, "
        "pydantic-ai or openai-agents"
    )


def _wrap_openai_agents(tool: Any, name: str, ignore: Collection[str]) -> Any:
    invoke = tool.on_invoke_tool

    async def invoke_recorded(context: Any, arguments: str) -> Any:
        return await invoke(context, arguments)

    watched = _ArgumentsTool(name or tool.name, invoke_recorded, ignore)
    return replace(tool, on_invoke_tool=watch_function(watched, invoke_recorded))


class _ArgumentsTool(Tool):
    """A tool that gets the arguments of the model as one text of JSON, after a context."""

    def __init__(self, name: str, function: Callable[..., Any], ignored: Collection[str]) -> None:
        super().__init__(name, function, ())
        self._left_out = frozenset(ignored)

    def find_arguments(self, args: tuple[Any, ...], kwargs: Any) -> dict[str, Any]:
        text = super().find_arguments(args, kwargs)["arguments"]
        try:
            arguments = json.loads(text, object_pairs_hook=_collect_members) if text else {}
        except (ValueError, RecursionError):
            arguments = text  # which is compared whole
        if not isinstance(arguments, dict):
            return {"arguments": arguments}
        return {name: value for name, value in arguments.items() if name not in self._left_out}

    def restore(self, fields: Any) -> NoReturn:
        raise ValueError("the tool declares no type for its results")


def _collect_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("two members of one name, of which the tool may read either")
    return members


def _wrap_pydantic_ai(tool: Any, name: str, ignore: Collection[str]) -> Any:
    schema = tool.function_schema
    function = schema.function
    context = next(iter(signature(function).parameters), "") if tool.takes_ctx else ""
    watched = Tool(name or tool.name, function, (*ignore, context) if context else ignore)
    recorded = copy.copy(tool)
    recorded.function = watch_function(watched, function)
    recorded.function_schema = replace(schema, function=recorded.function)
    return recorded


def _wrap_langchain(tool: Any, name: str, ignore: Collection[str]) -> Any:
    """An instance of a class of its own, because a tool may be an object with a method instead of a function."""
    base = type(tool)
    watched_name = name or tool.name

    function: Any = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    injected = find_framework_parameters(signature(function)) if hasattr(function, "__code__") else ()

    def watch(method: Callable[..., Any]) -> Callable[..., Any]:
        watched = _LangChainTool(watched_name, method, (*ignore, *injected))
        watched.code = getattr(function, "__code__", watched.code)
        return watch_function(watched, method)

    run, run_async = watch(base._run), watch(base._arun)

    @wraps(base._run)
    def run_once(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (base._run if _running.get() is self else run)(self, *args, **kwargs)

    @wraps(base._arun)
    async def run_once_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _running.set(self)
        try:
            return await run_async(self, *args, **kwargs)
        finally:
            _running.reset(token)

    recorded = tool.model_copy()
    recorded.__class__ = type(base.__name__, (base,), {"_run": run_once, "_arun": run_once_async})
    return recorded


class _LangChainTool(Tool):
    """A tool that gets the arguments of the model by name, and what LangChain injects beside them."""

    def __init__(self, name: str, method: Callable[..., Any], ignored: Collection[str]) -> None:
        super().__init__(name, method, ())
        self._left_out = frozenset((*_INJECTED, *ignored))

    def find_arguments(self, args: tuple[Any, ...], kwargs: Any) -> dict[str, Any]:
        arguments = super().find_arguments(args, kwargs)
        return {name: value for name, value in arguments.items() if name not in self._left_out}

    def restore(self, fields: Any) -> NoReturn:
        raise ValueError("the tool declares no type for its results")
