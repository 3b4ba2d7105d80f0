"""What `capture`, `install` and `session` are in a subinterpreter: they record nothing, and say so.

In: nothing. Out: a capture that has seen nothing. Never: imports an extension. In a subinterpreter, google-re2 waits
for ever (Python 3.11), orjson loses the names of Python's own exceptions, and most others refuse to load
(docs/decisions/0012). An application must not pay for that because it is recorded: mod_wsgi, for example, runs every
application in a subinterpreter. `traceforge run` records there, since its hook is plain Python.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn

MESSAGE = "TraceForge records nothing in a subinterpreter. Use `traceforge run`, which does."


def is_subinterpreter() -> bool:
    """Whether this is another interpreter than the first one of the process."""
    try:
        interpreters = import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    except ImportError:  # A Python without subinterpreters.
        return False
    return bool(interpreters.get_current() != interpreters.get_main())


class IdleCapture:
    """Has the fields of a `Capture`, and sees no call; `not_seen` counts the interpreter."""

    def __init__(self) -> None:
        self.exchanges = self.open = self.unknown = self.lost = 0
        self.ids: deque[str] = deque()
        self.not_seen: Counter[str] = Counter({"a subinterpreter": 1})


@contextmanager
def capture(*, session: str = "", sink: object = None) -> Iterator[IdleCapture]:
    """Warn that a subinterpreter records nothing, and return a capture without calls."""
    warnings.warn(MESSAGE, RuntimeWarning, stacklevel=3)
    yield IdleCapture()


def install(*, session: str = "", sink: object = None) -> IdleCapture:
    """Warn that a subinterpreter records nothing, and return a capture without calls."""
    warnings.warn(MESSAGE, RuntimeWarning, stacklevel=2)
    return IdleCapture()


def uninstall() -> None:
    """Do nothing: nothing was installed."""


@contextmanager
def session(session_id: str, *, state: Mapping[str, object] | None = None, parent: str = "") -> Iterator[None]:
    """Do nothing: a subinterpreter records no calls that could belong to a session."""
    yield


def replay(**options: object) -> NoReturn:
    """Refuse: calls cannot be answered from a recording here, and would reach the network.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("traceforge.replay() does not work in a subinterpreter. Call it in the main interpreter.")
