"""A process that has imported every command, and forks for each one it is asked to run.

Started by `support.command`, which says why. Its only argument is a socket; each message on it brings five files:
the request, the command's stdin, stdout and stderr, and a pipe for its exit status. A process in between waits for
the command, so that several commands can run at the same time.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import pkgutil
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import traceforge.cli
from traceforge.cli.main import main

FILES = 5


def serve(control: socket.socket) -> None:
    """Fork for each message; returns in the process of a command, and ends when the tests have ended."""
    while True:
        _, files, _, _ = socket.recv_fds(control, 1, FILES)
        if not files:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            request, stdin, stdout, stderr, status_pipe = files
            command = os.fork()
            if command == 0:
                os.close(status_pipe)
                become_command(request, (stdin, stdout, stderr))
                return
            for file in (request, stdin, stdout, stderr):
                os.close(file)
            _, status = os.waitpid(command, 0)
            os.write(status_pipe, str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        for file in files:
            os.close(file)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def become_command(request: int, streams: tuple[int, int, int]) -> None:
    """Take over the arguments, the folder, the environment and the streams of the request."""
    with open(request, encoding="utf-8") as file:
        wanted = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    os.environ.clear()
    os.environ.update(wanted["environ"])
    os.chdir(wanted["folder"])
    os.umask(wanted["umask"])
    sys.argv = wanted["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])


def run_command() -> int:
    """The exit code of the command."""
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)


def end_process(code: int) -> NoReturn:
    """End as an interpreter does, except that it takes no module apart: that would write to every shared page."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    for module in pkgutil.walk_packages(traceforge.cli.__path__, "traceforge.cli."):
        import_module(module.name)
    gc.collect()
    gc.freeze()  # A collection in a child would write to every page that it shares.
    serve(socket.socket(fileno=int(sys.argv[1])))
    end_process(run_command())
