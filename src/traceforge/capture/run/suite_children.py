"""Children of a pytest process under plain `pytest`: they ask this process for their answers.

In: every way in which Python starts a process. Out: instrumented children; a report about those that are not.
Never: listens, or has a thread, before the first child is started; changes `os.environ`; touches the children of a
test that is marked as off.

    fork                        the child becomes a watched process as soon as it exists: `enter_fork`
    subprocess, posix_spawn     the variables are added to the environment that the child is given
    multiprocessing's spawn     and os.system: the child inherits the real environment, in which `os.putenv` sets the
                                variables; the copy in `os.environ`, which the application sees, stays as it is

A Python that has the variables says hello (`hook/bootstrap.py`); one that has not said it was not instrumented.
"""

from __future__ import annotations

import os
import secrets
from _thread import get_ident
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from traceforge.capture.engine import Engine
from traceforge.capture.hook import child_starts
from traceforge.capture.hook.bootstrap import send_hello
from traceforge.capture.hook.callsite import current_test
from traceforge.capture.hook.child_processes import looks_like_python
from traceforge.capture.hook.child_watcher import start_watching
from traceforge.capture.hook.patches import ImportHook, Patches
from traceforge.capture.hook.tripwire import install_tripwire
from traceforge.capture.hook.watcher import LOADED
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.environment import (
    RUN_VARIABLE,
    SITECUSTOMIZE_FOLDER,
    OfflineEnvironment,
    command_environment,
)
from traceforge.capture.run.pausable_listener import PausableListener
from traceforge.capture.run.process_reports import ProcessReports
from traceforge.capture.run.started_child import PathText, StartedChild
from traceforge.config import LoadedConfig

_PATH = "PYTHONPATH"


class ChildrenReport(Struct, frozen=True):
    """What is known about the children of a process when it has ended."""

    refused: Mapping[tuple[str, str], int]  # connections that children were refused, by address and reason
    unseen: Sequence[str]  # sentences about what could not be watched
    programs: Sequence[str]  # that cannot be instrumented


NO_CHILDREN = ChildrenReport({}, (), ())


class SuiteChildren:
    """The children of this process, from `start` to `stop`.

    `allowed` is what they may connect to, as `tripwire.py` reads it; "": anything. `leave` ends what watches this
    process, in a forked child.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        engine: Engine,
        replay: ReplayResponder,
        allowed: str,
        *,
        is_off: Callable[[str], bool],
        leave: Callable[[], object],
    ) -> None:
        self._loaded = loaded
        self._engine = engine
        self._replay = replay
        self._allowed = allowed
        self._is_off = is_off
        self._leave = leave
        self._import_hook = ImportHook(child_starts.make_hooks(self), Patches())
        self._pid = os.getpid()
        self._token = secrets.token_hex(16)
        self._reports: ProcessReports | None = None
        self._listener: PausableListener | None = None
        self._settings = ""  # the value of RUN_VARIABLE
        self._children: list[StartedChild] = []
        self._is_inherited = False  # whether the real environment has the variables

    def start(self) -> None:
        global _active  # noqa: PLW0603 (one for the process is the point)
        _active = self
        _register_fork_hooks()
        self._import_hook.start()

    def suspend(self) -> None:
        """Instrument no children, until `start` is called again; those that there are can ask."""
        global _active  # noqa: PLW0603
        if _active is self:
            _active = None
        self._import_hook.stop()
        self._set_inherited(False)

    def report(self) -> ChildrenReport:
        """About the children that there were so far."""
        if self._listener is None or self._reports is None or os.getpid() != self._pid:
            return NO_CHILDREN
        self._listener.drain()
        return self._report(self._reports)

    def list_survivors(self) -> list[str]:
        """The instrumented children that still run, without the helpers of `multiprocessing`."""
        pids = sorted(self._reports.processes - {self._pid}) if self._reports is not None else []
        return [words for pid in pids if (words := _find_command_line(pid)) and "multiprocessing." not in words]

    def stop(self) -> ChildrenReport:
        """Instrument no more children, and report about those that there were; a second time there are none."""
        self.suspend()
        listener, reports = self._listener, self._reports
        if listener is None or reports is None or os.getpid() != self._pid:
            return NO_CHILDREN
        self._listener = None
        listener.close()
        return self._report(reports)

    def _report(self, reports: ProcessReports) -> ChildrenReport:
        unseen = [
            f"a Python process could not be instrumented: {child.command_line}"
            for child in self._children
            if child.pid not in reports.processes and child.is_python
        ]
        unseen += [
            f"could not see into {description}" for description in reports.unseen if not description.endswith(LOADED)
        ]
        unseen += [
            f"a Python process could not be instrumented: {name}, started by another process"
            for name, is_lost in reports.started_programs
            if is_lost
        ]
        unseen += [*reports.faults]
        if reports.lost or reports.malformed:
            unseen.append("a message of a child process was lost")
        programs = {name for child in self._children if child.pid not in reports.processes for name in child.programs}
        programs |= {name for name, _ in reports.started_programs if not looks_like_python(name)}
        refused = {(key[0], key[1]): times for key, times in reports.refused_connections.items()}
        return ChildrenReport(refused, list(dict.fromkeys(unseen)), sorted(programs))

    def _listen(self) -> None:
        """Before the first child: from now on, children can ask."""
        if self._listener is not None or os.getpid() != self._pid:
            return
        self._reports = ProcessReports(self._engine, self._token, self._replay)
        self._listener = PausableListener(self._reports)
        offline = OfflineEnvironment(self._allowed, {}, "") if self._allowed else None
        environment = command_environment(
            {}, self._loaded, self._listener.address, self._token, plays=True, offline=offline
        )
        self._settings = environment[RUN_VARIABLE]

    def instrument(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of a child with our variables. An application may have bytes in it."""
        decoded = {os.fsdecode(name): os.fsdecode(value) for name, value in environ.items()}
        path = decoded.get(_PATH, "")
        if path.partition(os.pathsep)[0] != SITECUSTOMIZE_FOLDER:
            path = os.pathsep.join([SITECUSTOMIZE_FOLDER, *filter(None, [path])])
        return {**decoded, RUN_VARIABLE: self._settings, _PATH: path}

    def _set_inherited(self, is_inherited: bool) -> None:
        """Have children that inherit the real environment be instrumented, or not."""
        if not is_inherited and not self._is_inherited:
            return
        self._is_inherited = is_inherited
        instrumented = self.instrument(os.environ)
        for name in (RUN_VARIABLE, _PATH):
            value = instrumented[name] if is_inherited else os.environ.get(name)
            if value is None:
                os.unsetenv(name)
            else:
                os.putenv(name, value)

    def prepare(self) -> bool:
        """A child is about to be started. False: leave it alone."""
        if self._is_off(current_test()):
            self._set_inherited(False)
            return False
        self._listen()
        self._set_inherited(True)
        return True

    def note(self, pid: int, words: Sequence[PathText], program: PathText | None) -> None:
        """A child was started; `program` is what it runs, where that is not the first word."""
        self._children.append(StartedChild.from_words(pid, words, program))

    def before_fork(self) -> PausableListener | None:
        """The listener, if it was paused."""
        self.prepare()
        listener = self._listener
        return listener if listener is not None and listener.pause() else None

    def enter_fork(self, listener: PausableListener | None) -> None:
        """This process is a fork: what it asks and does is the business of its parent, whose `listener` is paused."""
        global _active  # noqa: PLW0603
        _active = self._listener = None
        self._import_hook.stop()
        if listener is None:
            return
        listener.forget()
        if self._is_off(current_test()):
            return
        self._leave()
        os.environ.update({name: self.instrument(os.environ)[name] for name in (RUN_VARIABLE, _PATH)})
        if self._allowed:
            install_tripwire(self._allowed, listener.address, self._token)
        send_hello(listener.address, self._token)
        start_watching(listener.address, self._token, {}, self._settings.split("\n", 4)[4])


def _find_command_line(pid: int) -> str:
    """The words of a process; "" where it has ended, or where the system does not tell."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


_active: SuiteChildren | None = None
# By thread: who prepared its fork, and the listener that is paused until it has forked. The run may end meanwhile.
_forking: dict[int, tuple[SuiteChildren, PausableListener | None]] = {}
_has_fork_hooks = False


def _register_fork_hooks() -> None:
    """Once: Python cannot remove them, so they stay and do nothing."""
    global _has_fork_hooks  # noqa: PLW0603
    if not _has_fork_hooks and hasattr(os, "register_at_fork"):
        _has_fork_hooks = True
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_enter_fork)


def _before_fork() -> None:
    if (children := _active) is not None:
        _forking[get_ident()] = children, children.before_fork()


def _after_fork() -> None:
    _, listener = _forking.pop(get_ident(), (None, None))
    if listener is not None:
        listener.resume()


def _enter_fork() -> None:
    children, listener = _forking.pop(get_ident(), (None, None))
    _forking.clear()  # Other threads are not in this process.
    if children is not None:
        children.enter_fork(listener)
