"""Run the real `traceforge` command in a process of its own.

One process imports all commands and forks for each one: a command spends a tenth of a second and more on imports, the
tests run thousands of commands, and that was a third of the CPU time of `make test`. A fork does not show that a
command imports what it needs: `make test-all` starts each command anew when it first meets its words and options.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support.example_counts import RunLength

COMMAND = Path(sys.executable).parent / "traceforge"
SERVER = Path(__file__).with_name("command_server.py")
SECONDS_MAX = 120

# Plugins that load themselves into every pytest here, for two seconds each time, and that no application of the tests
# uses.
PLAIN_PYTEST = {"PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:schemathesis -p no:anyio"}

# No call of a test is encrypted for a client of an application, and HTTPX reads 150 certificates for each client.
NO_CERTIFICATES = {"SSL_CERT_DIR": os.devnull}

# The words of a command line that say what it does: commands and options, without what they are given.
COMMAND_WORD = re.compile(r"--?[a-z][a-z-]*|[a-z][a-z-]*")

# What an interpreter reads when it starts, so that a fork would come too late; and what only its children need.
READ_AT_START = ("PYTHON", "LANG", "LC_", "TZ")
READ_BY_CHILDREN = frozenset({"PYTHONDONTWRITEBYTECODE"})


class CommandResult(NamedTuple):
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str


def traceforge(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> CommandResult:
    """Run the command in a clean environment; `variables` are added to it."""
    words = [str(COMMAND), *map(str, arguments)]
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "XDG_STATE_HOME") if name in os.environ}
    environ = {**PLAIN_PYTEST, **NO_CERTIFICATES, **inherited, **variables}
    started_alike = not any(name.startswith(READ_AT_START) for name in variables.keys() - READ_BY_CHILDREN)
    if started_alike and (RunLength.is_short or _was_started(words[1:])):
        return _fork_command(words, cwd, environ)
    result = subprocess.run(
        words,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return CommandResult(result.returncode, result.stdout.decode(), result.stderr.decode())


def _was_started(arguments: list[str]) -> bool:
    """Whether a command with these words and options was started here before; from now on it was."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    words = frozenset(word for word in own if COMMAND_WORD.fullmatch(word))
    was_started = words in _STARTED
    _STARTED.add(words)
    return was_started


_STARTED: set[frozenset[str]] = set()


@cache
def _start_server() -> socket.socket:
    """The socket of a command server, which ends with this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen([sys.executable, str(SERVER), str(theirs.fileno())], pass_fds=[theirs.fileno()])

    def stop_server() -> None:
        ours.close()
        server.wait()

    atexit.register(stop_server)
    return ours


def _fork_command(words: list[str], cwd: Path | None, environ: dict[str, str]) -> CommandResult:
    umask = os.umask(0o077)
    os.umask(umask)
    request = os.memfd_create("request")
    folder = str(cwd or Path.cwd())
    os.write(request, json.dumps({"arguments": words, "folder": folder, "environ": environ, "umask": umask}).encode())
    os.lseek(request, 0, os.SEEK_SET)
    stdin = os.open(os.devnull, os.O_RDONLY)
    (out, stdout), (err, stderr), (status, status_pipe) = os.pipe(), os.pipe(), os.pipe()
    theirs = [request, stdin, stdout, stderr, status_pipe]
    socket.send_fds(_start_server(), [b"1"], theirs)
    for file in theirs:
        os.close(file)
    printed = _read_all([out, err, status])
    if not printed[status]:
        raise ChildProcessError(f"the command server ended while it ran {words}")
    return CommandResult(int(printed[status]), printed[out].decode(), printed[err].decode())


def _read_all(files: list[int]) -> dict[int, bytes]:
    """Read each of them to its end, side by side."""
    printed = dict.fromkeys(files, b"")
    deadline = time.monotonic() + SECONDS_MAX
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready:
                raise TimeoutError(f"a command took longer than {SECONDS_MAX} seconds: {printed}")
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                printed[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return printed
