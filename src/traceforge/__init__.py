"""TraceForge: version control for AI behaviour.

`capture`, `install`, `uninstall` and `session` record the calls of this process, and `replay` answers them from what
was recorded; `tool` and `real_tools` are for functions that a model calls. `expect` says what must hold for a
response, and `run_check` runs a check on recorded answers. They are imported when they are first used, so that
importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceforge.capture.inprocess import capture, install, session, uninstall
    from traceforge.checks.assertions.expectation import expect
    from traceforge.checks.runs.python_check import run_check
    from traceforge.snapshots.tree.replay_context import replay
    from traceforge.tools.tool_decorator import tool
    from traceforge.tools.watched_function import real_tools

__version__ = "0.1.0"

__all__ = [
    "__version__", "capture", "expect", "install", "real_tools", "replay", "run_check", "session", "tool",
    "uninstall",
]  # fmt: skip

_PLACES = {
    "expect": "traceforge.checks.assertions.expectation",
    "real_tools": "traceforge.tools.watched_function",
    "run_check": "traceforge.checks.runs.python_check",
    "tool": "traceforge.tools.tool_decorator",
}


def __getattr__(name: str) -> object:
    if name in __all__:
        from traceforge.capture import subinterpreter

        if subinterpreter.is_subinterpreter() and hasattr(subinterpreter, name):
            return getattr(subinterpreter, name)
    if name in ("capture", "replay"):
        return import_module(f"traceforge.{name}")
    if name in __all__:
        return getattr(import_module(_PLACES.get(name, "traceforge.capture.inprocess")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
