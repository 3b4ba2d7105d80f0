"""The error that all others derive from, and the one for a mistake of our own."""

from __future__ import annotations

from typing import ClassVar, Self

from traceforge.findings import ExitCode
from traceforge.terminal import escape_text


class TraceForgeError(Exception):
    """Base of every error that TraceForge raises on purpose."""

    __module__ = "traceforge.errors"
    code: ClassVar[str] = "TF000"
    exit_code: ClassVar[ExitCode] = ExitCode.UNCHECKED

    def __init_subclass__(cls) -> None:
        """A traceback names the module from which an error is imported, not the one that defines it."""
        if cls.__module__.startswith("traceforge.errors."):
            cls.__module__ = "traceforge.errors"

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = escape_text(message)  # It may be printed by the application that we run in.
        self.hint = escape_text(hint)
        super().__init__(self.message)

    def in_file(self, file: str) -> Self:
        """Name the file first in the message; returns the error itself."""
        self.message = escape_text(f"{file}: {self.message}")
        self.args = (self.message,)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))


def _rebuild(cls: type[TraceForgeError], state: dict[str, object]) -> TraceForgeError:
    """Unpickle an error without calling its constructor, whose parameters differ from class to class."""
    error = cls.__new__(cls, state["message"])
    error.__dict__.update(state)
    return error


class InternalError(TraceForgeError):
    """A mistake in TraceForge itself; --debug shows where."""

    code = "TF999"
