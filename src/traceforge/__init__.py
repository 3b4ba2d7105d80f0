"""TraceForge: version control for AI behaviour.

`capture`, `install`, `uninstall` and `session` record the calls of this process, and `replay` answers them from what
was recorded. `expect` says what must hold for a response, and `run_check` runs a check on recorded answers. They are
imported when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceforge.capture.inprocess import capture, install, session, uninstall
    from traceforge.checks.assertions.expectation import expect
    from traceforge.checks.runs.python_check import run_check
    from traceforge.snapshots.tree.replay_context import replay

__version__ = "0.1.0"

__all__ = ["__version__", "capture", "expect", "install", "replay", "run_check", "session", "uninstall"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from traceforge.capture import subinterpreter

        if subinterpreter.is_subinterpreter() and hasattr(subinterpreter, name):
            return getattr(subinterpreter, name)
    if name == "expect":
        return import_module("traceforge.checks.assertions.expectation").expect
    if name == "run_check":
        return import_module("traceforge.checks.runs.python_check").run_check
    if name in ("capture", "replay"):
        return import_module(f"traceforge.{name}")
    if name in __all__:
        return getattr(import_module("traceforge.capture.inprocess"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
