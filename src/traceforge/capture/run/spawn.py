"""The command as a process: it has our terminal, our files and our working directory, and gets our signals.

In: words and an environment. Out: its exit code, as a shell would report it. Never: stands between the command and
its terminal: it is in our process group, so what the terminal sends reaches it directly, and only a signal that some
process sent to us alone is passed on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from traceforge.capture.run.group_witness import GroupWitness
from traceforge.capture.run.seal import OnListener, run_sealed
from traceforge.capture.run.surviving_processes import CommandDescendants
from traceforge.errors import CannotStart

FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
    if hasattr(signal, name)
)
CAN_WAIT = hasattr(os, "posix_spawnp") and hasattr(signal, "sigtimedwait")
# Where a thread that is not ours took the signal that the command has ended, this is when it is noticed.
CHECK_S = 0.5
RESET = tuple(
    getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name)
)  # Python ignores them


Mask = set[signal.Signals] | set[int]


@contextmanager
def blocked_signals() -> Iterator[Mask]:
    """Block signals for the thread that waits for the command, and for threads that are started meanwhile. Yields the
    mask from before, which the command gets.
    """
    if not CAN_WAIT:
        yield set()
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # Changes nothing: a handler that runs here may raise.
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_process(
    words: Sequence[str],
    environ: Mapping[str, str],
    mask: Mask,
    ports: Collection[int] | None = None,
    on_listener: OnListener | None = None,
    descendants: CommandDescendants | None = None,
) -> int:
    """Run a command to its end, under `blocked_signals`; with `ports`, sealed but for these (see `run_sealed`).
    `descendants` are those of this process: it takes note of their ends.

    Raises:
        CannotStart: the command does not exist, or may not be run.
    """
    if not CAN_WAIT:
        return _run_without_sigwait(words, environ)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # Inherited: the system would keep no exit code for us.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    witness = GroupWitness(FORWARDED)
    try:
        early_signals = _take_pending()
        for number in early_signals:
            witness.take(number)
        if ports is None:
            pid = _spawn(words, environ, mask)
        else:
            pid = run_sealed(lambda: _spawn(words, environ, mask), ports, on_listener)
        for number in early_signals:
            _send(pid, number)
        return _wait(pid, witness, descendants)
    finally:
        witness.close()


def _take_pending() -> list[int]:
    """The signals that came before the command existed: even those of the terminal did not reach it."""
    pending = sorted(signal.sigpending() & set(FORWARDED))
    for number in pending:
        signal.sigtimedwait({number}, 0)
    return pending


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _spawn(words: Sequence[str], environ: Mapping[str, str], mask: Mask) -> int:
    if not words[0]:
        raise CannotStart('""', "the command is empty")
    try:
        return os.posix_spawnp(words[0], list(words), dict(environ), setsigmask=mask, setsigdef=RESET)
    except OSError as exc:
        raise make_start_error(words[0], exc) from None


def make_start_error(program: str, error: OSError) -> CannotStart:
    """Why a command could not be started. `NAME=value` in place of a program is named without its value."""
    name, is_assignment, _ = program.partition("=")
    if is_assignment and name.isidentifier():  # Its value may be a key.
        return CannotStart(f"{name}=…", f"not a command; write it as: env {name}=… COMMAND")
    if isinstance(error, FileNotFoundError) and shutil.which(program) is None:
        return CannotStart(program, "command not found")
    return CannotStart(program, (error.strerror or str(error)).lower())  # also for a script's missing interpreter


def _wait(pid: int, witness: GroupWitness, descendants: CommandDescendants | None) -> int:
    watched = {*FORWARDED, signal.SIGCHLD}
    while True:
        info = signal.sigtimedwait(watched, CHECK_S)
        if info is None or info.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if descendants is not None:
                descendants.reap_orphans(pid, witness.pid)
        # A process sent it to us; what a terminal or a process sent to the group has reached the command too.
        elif info.si_code <= 0 and not witness.take(info.si_signo):
            _send(pid, info.si_signo)


def _run_without_sigwait(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Where Python cannot wait for signals (macOS, Windows): those of the terminal reach the command anyway."""
    try:
        process = subprocess.Popen(list(words), env=dict(environ))  # noqa: S603 (it is what we are for)
    except OSError as exc:
        raise make_start_error(words[0], exc) from None
    signal.signal(
        signal.SIGINT, signal.SIG_IGN if sys.stdin is not None and sys.stdin.isatty() else _forwarder(process)
    )
    for number in FORWARDED:
        if number is not signal.SIGINT:
            signal.signal(number, _forwarder(process))
    code = process.wait()
    return code if code >= 0 else 128 - code


def _forwarder(process: subprocess.Popen[bytes]) -> Callable[[int, object], None]:
    return lambda signum, _: process.send_signal(signum)
