"""The entry point of the command line: runs a command, and turns every error into one line and an exit code.

No traceback is printed without --debug.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import StringIO, TextIOWrapper
from itertools import takewhile

import click

from traceforge import __version__
from traceforge.cli.command_table import TOP
from traceforge.cli.lazy_group import LazyGroup
from traceforge.cli.shell_completion import register_shells
from traceforge.errors import STDOUT_HINT, CannotRead, CannotWrite, InternalError, TraceForgeError
from traceforge.findings import ExitCode
from traceforge.report.text_format import hint_line
from traceforge.terminal import one_line, print_text

INTERRUPTED = 130  # what a shell reports for Ctrl-C
BROKEN_PIPE = 141  # what a shell reports when the reader of a pipe has ended

COMPLETION_VARIABLE = "_TRACEFORGE_COMPLETE"  # set by the scripts that `traceforge completion` prints

_INTERNAL_HINT = "Run it again with `traceforge --debug` before the command, and report the output."
_STDOUT_ERRNOS = {  # of writing to a file, a device or a pipe that is open
    errno.EAGAIN,
    errno.EBADF,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EINVAL,
    errno.EIO,
    errno.ENOSPC,
}


class _HelpFormatter(click.HelpFormatter):
    """Breaks no line of help at a hyphen: a header, an option or a path must be whole to be copied."""

    _hyphen = "\N{NON-BREAKING HYPHEN}"  # while lines are wrapped

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", self._hyphen))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(term, text.replace("-", self._hyphen)) for term, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(self._hyphen, "-")


click.Context.formatter_class = _HelpFormatter  # of every command, however its context is made


class _TopGroup(LazyGroup):
    table = TOP


@click.group(cls=_TopGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="traceforge", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback when a command fails.")
def cli(debug: bool) -> None:
    """Version control for AI behaviour.

    Record the model calls of an application, approve them, and fail the build when a prompt, a model or a parameter
    changes. Tests replay the approved answers; `check-live` finds out whether the model still gives them.

    Exit codes: 0 unchanged or valid, 1 findings, 2 wrong usage, 3 something could not be checked. `run`, `record` and
    `test` pass on the exit code of COMMAND: see `traceforge help exit-codes`.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = sys.argv[1:] if args is None else args
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # Any text can be printed.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_run(arguments))


def _run(arguments: list[str]) -> int:
    """Run a command and return its exit code, also after an error."""
    debug = "--debug" in takewhile(lambda word: word.startswith("-"), arguments)  # Later ones are a command's own.
    try:
        return _invoke(arguments)
    except click.ClickException as exc:
        message = _click_message(exc)
        _print_to_stderr(lambda: print_text(message, err=True, end=""))
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        _print_to_stderr(lambda: print_text("interrupted", err=True))
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return BROKEN_PIPE
    except TraceForgeError as exc:
        return _report_error(exc, debug)
    except OSError as exc:
        if _is_of_stdout(exc):
            _discard_stdout()
        return _report_error(_explain_os_error(exc), debug)
    except Exception as exc:  # noqa: BLE001 (no traceback reaches a person who did not ask for one)
        return _report_error(InternalError(f"internal error: {type(exc).__name__}", hint=_INTERNAL_HINT), debug)


def _click_message(error: click.ClickException) -> str:
    """What click would print: the usage, and the error, which may quote the name of a file."""
    lines = StringIO()
    error.show(lines)
    return lines.getvalue()


def _is_of_stdout(error: OSError) -> bool:
    """Whether writing the output raised this. Such an error names no file; those that open a file do."""
    return error.filename is None and error.errno in _STDOUT_ERRNOS


def _explain_os_error(error: OSError) -> TraceForgeError:
    """Name what the system's error is about, as far as the error says it."""
    if _is_of_stdout(error):
        return CannotWrite("the output", error, hint=STDOUT_HINT)
    reason = (error.strerror or str(error)).lower()
    if error.filename is not None:
        return CannotRead(os.fsdecode(error.filename), reason, hint="Check the path and its permissions.")
    return InternalError(f"internal error: {type(error).__name__}: {reason}", hint=_INTERNAL_HINT)


def _invoke(arguments: list[str]) -> int:
    """As `cli.main`, except that a broken pipe is not turned into exit code 1, which means findings."""
    if COMPLETION_VARIABLE in os.environ:
        register_shells()
        with suppress(TraceForgeError):  # A missing extra leaves nothing to complete.
            cli.main(arguments, prog_name="traceforge")
        return ExitCode.OK
    try:
        with cli.make_context("traceforge", list(arguments)) as context:
            cli.invoke(context)
            _flush()
    except click.exceptions.Exit as exc:
        _flush()
        return exc.exit_code
    return ExitCode.OK


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _report_error(error: TraceForgeError, debug: bool) -> int:
    def lines() -> None:
        if debug:
            print_text("".join(traceback.format_exception(sys.exc_info()[1])), err=True, end="")
        print_text(f"error {error.code}: {one_line(str(error))}", err=True)
        if error.hint:
            print_text(hint_line(error.hint), err=True)

    _print_to_stderr(lines)
    return error.exit_code


def _print_to_stderr(print_lines: Callable[[], None]) -> None:
    """Print lines; a full or closed stderr must not change the exit code."""
    try:
        print_lines()
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _discard_stdout() -> None:
    """Redirect stdout to nowhere, so that Python does not report the broken pipe again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
