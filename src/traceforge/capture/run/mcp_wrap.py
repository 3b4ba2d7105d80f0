"""`traceforge mcp wrap`: a server of an MCP client over stdio, watched by the TraceForge command around the client.

In: the command of the server. Out: this process becomes the server, and another one relays its messages; in a test,
this process answers in place of the server. Never: starts the server in a test, or gives it another environment than
its client did; stands between the server and the signals that are meant for it.

This process becomes the server, so its exit code, its signals and its parent are what they would be without us. The
relay is a grandchild, so that the server has no child that it did not start.

Clients start their servers with few of their own variables. So the run is also looked for in the variables of the
parent processes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NoReturn

from traceforge.capture.hook.callsite import CURRENT_TEST_VARIABLE
from traceforge.capture.hook.mcp_messages import WATCHED_VARIABLE, clean_name, name_server, server_address
from traceforge.capture.hook.server_environment import clean_environment
from traceforge.capture.run.environment import RUN_VARIABLE
from traceforge.capture.run.process_files import is_own_process, list_ancestors, read_environment
from traceforge.capture.run.spawn import RESET, make_start_error
from traceforge.errors import CannotStart
from traceforge.terminal import print_text

UNWATCHED_NOTE = (
    "traceforge mcp wrap: nothing is recorded; start the client of this server with `traceforge run -- CLIENT`"
)
_CHILD_HOOK = "_traceforge_hook"  # what `enter/sitecustomize.py` calls the hook
_OWN_HOOK = "traceforge.capture.hook"
_WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
_SERVER_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)


def wrap_server(words: Sequence[str], name: str = "") -> bool:
    """Start a server and relay its messages, or answer in its place. Returns in the process that has relayed them:
    whether its client has ended the session.

    Raises:
        CannotStart: the server does not exist, or may not be run.
    """
    if not hasattr(os, "fork"):
        raise CannotStart(words[0], "`traceforge mcp wrap` does not run on Windows")
    environ = dict(os.environ)
    if environ.pop(WATCHED_VARIABLE, ""):
        _become(words, environ)
    run = find_run(environ)
    if not run:
        print_text(UNWATCHED_NOTE, err=True)
        _become(words, environ)
    environ = clean_environment(environ, run[RUN_VARIABLE])
    hook = _load_hook(run)
    dispatch, relay = (import_module(f"{hook}.{module}") for module in ("dispatch", "mcp_relay"))
    dispatch.hide_call_sites()
    mode = dispatch.find_tool_mode()
    if mode is dispatch.ConnectionMode.UNWATCHED:
        _become(words, environ)
    address = server_address(clean_name(name) if name else name_server(words[0], words[1:]))
    client = relay.Ends(0, 1)
    server = None
    if mode is dispatch.ConnectionMode.LIVE:
        server = relay.Ends(*_start_server(words, environ))
        for number in _SERVER_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as most servers end
    is_ended_by_client: bool = relay.Relay(address, client, server).run()
    return is_ended_by_client


def find_run(environ: Mapping[str, str], parent: int | None = None) -> Mapping[str, str]:
    """The variables of the TraceForge command around this process, from the nearest process of this user that has
    them: root could read those of others, who would then hear and answer what this process relays.
    """
    if environ.get(RUN_VARIABLE):
        return environ
    names = (RUN_VARIABLE, CURRENT_TEST_VARIABLE, _WORKER_VARIABLE)
    for pid in list_ancestors(os.getppid() if parent is None else parent):
        variables = read_environment(pid, names) if is_own_process(pid) else {}
        if variables.get(RUN_VARIABLE):
            return variables
    return {}


def _load_hook(run: Mapping[str, str]) -> str:
    """Have this process watched, as each Python of the run is; returns the package of the hook."""
    name = _CHILD_HOOK if f"{_CHILD_HOOK}.bootstrap" in sys.modules else _OWN_HOOK
    bootstrap: Any = import_module(f"{name}.bootstrap")
    if name == _OWN_HOOK:
        os.environ.update({variable: run[variable] for variable in run if variable != RUN_VARIABLE})
        bootstrap.bootstrap(run[RUN_VARIABLE])
    bootstrap.load_hook_now()
    return name


def _start_server(words: Sequence[str], environ: Mapping[str, str]) -> tuple[int, int]:
    """Make this process the server, and return in another one: where to read its output, and to write its input."""
    server_input, to_server = os.pipe()
    from_server, server_output = os.pipe()
    if not _fork_grandchild():
        os.dup2(server_input, 0)
        os.dup2(server_output, 1)
        _become(words, environ)
    os.close(server_input)
    os.close(server_output)
    if not os.isatty(0):  # There, only the group in the foreground may read.
        os.setpgid(0, 0)  # Clients kill the group of a server, and its last messages are to be recorded.
    return from_server, to_server


def _fork_grandchild() -> bool:
    """Whether this is the grandchild. It has no parent that waits for it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return False
    if os.fork():
        os._exit(0)
    return True


def _become(words: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Run the server in place of this process.

    Raises:
        CannotStart: it does not exist, or may not be run.
    """
    for number in RESET:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(words[0], list(words), dict(environ))  # noqa: S606 (it is what we are for)
    except OSError as exc:
        raise make_start_error(words[0], exc) from None
