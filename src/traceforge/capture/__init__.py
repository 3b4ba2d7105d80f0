"""Capture: every call an application makes is seen, and the application notices nothing.

The package can be called: `traceforge.capture()` is `traceforge.capture.inprocess.capture()`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, cast

from traceforge.capture import subinterpreter

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from traceforge.capture.inprocess import Capture
    from traceforge.capture.recorder import Recorder


class _Callable(ModuleType):
    """A module that is also the function people know it by."""

    def __call__(self, *, session: str = "", sink: Recorder | None = None) -> AbstractContextManager[Capture]:
        """Record the calls of this context until it ends."""
        if subinterpreter.is_subinterpreter():
            return cast("AbstractContextManager[Capture]", subinterpreter.capture(session=session, sink=sink))
        from traceforge.capture.inprocess import capture

        return capture(session=session, sink=sink)


sys.modules[__name__].__class__ = _Callable
