"""TraceForge: version control for AI behaviour.

`capture`, `install`, `uninstall` and `session` record the calls of this process; they are imported when they are
first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceforge.capture.inprocess import capture, install, session, uninstall

__version__ = "0.1.0"

__all__ = ["__version__", "capture", "install", "session", "uninstall"]


def __getattr__(name: str) -> object:
    if name == "capture":
        return import_module("traceforge.capture")
    if name in __all__:
        return getattr(import_module("traceforge.capture.inprocess"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
