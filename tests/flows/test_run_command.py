"""`traceforge run`: exit code, signals, terminal and output are those of the command."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge


@pytest.mark.parametrize("code", [0, 1, 2, 3, 42, 255])
def test_the_exit_code_is_that_of_the_command(tmp_path: Path, code: int) -> None:
    assert code == traceforge("run", "--", "sh", "-c", f"exit {code}", cwd=tmp_path).code


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGQUIT"])
def test_a_signal_to_traceforge_reaches_the_command_once(tmp_path: Path, name: str) -> None:
    """Its exit code is then ours."""
    number = int(getattr(signal, name))
    script = f"""
import signal, sys, time
count = []
signal.signal({number}, lambda *_: count.append(1))
print("ready", flush=True)
while not count: time.sleep(0.01)
time.sleep(0.2)
sys.exit(40 + len(count))
"""
    process = _start(tmp_path, sys.executable, "-c", script)
    os.kill(process.pid, number)

    assert 41 == process.wait(20)


@pytest.mark.parametrize("name", ["SIGINT", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_signals_to_the_process_group_reach_the_command_once_each(tmp_path: Path, name: str) -> None:
    """As `timeout` and the runners of CI services send them: we do not pass on what the command got itself. One that
    is sent to us alone in between is passed on.
    """
    number = int(getattr(signal, name))
    script = f"""
import signal, sys, time
count = []
signal.signal({number}, lambda *_: (count.append(1), print(len(count), flush=True)))
print("ready", flush=True)
while len(count) < 3: time.sleep(0.01)
time.sleep(0.3)
sys.exit(40 + len(count))
"""
    process = subprocess.Popen(
        [str(COMMAND), "run", "--", sys.executable, "-c", script],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    for send in (os.killpg, os.kill, os.killpg):
        send(process.pid, number)
        lines.append(process.stdout.readline())
        while _has_pending(process.pid, number):  # Two that are pending at the same time are one.
            time.sleep(0.01)
    process.stdout.close()

    assert [b"ready\n", b"1\n", b"2\n", b"3\n"] == lines
    assert 43 == process.wait(20)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGINT"])
def test_a_command_that_a_signal_ends_is_reported_as_a_shell_would(tmp_path: Path, name: str) -> None:
    """128 and the number of the signal."""
    number = int(getattr(signal, name))

    assert 128 + number == traceforge("run", "--", "sh", "-c", f"kill -{number} $$", cwd=tmp_path).code


def _has_pending(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("ShdPnd:")[2].split()[0], 16) >> (number - 1) & 1)


def _start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [str(COMMAND), "run", "--", *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert b"ready\n" == process.stdout.readline()
    process.stdout.close()
    return process


def test_input_and_output_are_those_of_the_command(tmp_path: Path) -> None:
    """Byte for byte; the summary is on stderr alone."""
    data = bytes(range(256)) * 1000
    ran = subprocess.run(
        [str(COMMAND), "run", "--", "cat"], input=data, cwd=tmp_path, capture_output=True, timeout=60, check=False
    )

    assert (0, data) == (ran.returncode, ran.stdout)
    assert ran.stderr.startswith(b"traceforge: 0 model calls seen, 0 traces recorded\n")
    assert b"    hint: Name a command that calls a model: traceforge run -- COMMAND\n" in ran.stderr


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (("run",), "traceforge run -- COMMAND"),
        (("record",), "traceforge record -- COMMAND"),
        (("modelio", "record", "--out", "r.json"), "traceforge modelio record --out FILE -- COMMAND"),
        (("audit", "vcr"), "traceforge audit vcr -- pytest"),
    ],
)
def test_a_missing_command_is_answered_with_the_whole_line(
    words: tuple[str, ...], usage: str, tmp_path: Path
) -> None:
    """Somebody who forgot the command does not know the two hyphens either."""
    refused = traceforge(*words, cwd=tmp_path)

    assert 2 == refused.code
    assert refused.err.endswith(f"{usage}\n")


def test_a_terminal_is_the_commands_and_interrupts_reach_it_once(tmp_path: Path) -> None:
    """In a pseudo-terminal; Ctrl-C is one interrupt."""
    script = """
import os, signal, sys, time
count = []
signal.signal(signal.SIGINT, lambda *_: count.append(1))
print("ready", os.isatty(0), os.isatty(1), os.tcgetpgrp(0) == os.getpgrp(), flush=True)
while not count: time.sleep(0.01)
time.sleep(0.2)
sys.exit(40 + len(count))
"""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(COMMAND, [str(COMMAND), "run", "--", sys.executable, "-c", script])
    output = b""
    while b"\n" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)

    assert b"ready True True True" in output
    assert 41 == os.waitstatus_to_exitcode(status)


@pytest.mark.slow
def test_stop_and_continue_work_as_in_a_shell(tmp_path: Path) -> None:
    """Ctrl-Z stops the whole process group, and it continues together."""
    script = "import time\nprint('ready', flush=True)\ntime.sleep(0.3)\nprint('done', flush=True)"
    process = subprocess.Popen(
        [str(COMMAND), "run", "--", sys.executable, "-c", script],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert b"ready\n" == process.stdout.readline()
    os.killpg(process.pid, signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGCONT)

    assert os.WIFSTOPPED(status)
    assert b"done\n" == process.stdout.readline()
    process.stdout.close()
    assert 0 == process.wait(20)


def test_a_missing_command_is_an_error(tmp_path: Path) -> None:
    """With a code and what to do."""
    ran = traceforge("run", "--", "no-such-command-here", cwd=tmp_path)

    assert (3, "") == (ran.code, ran.out)
    assert ran.err.startswith("error TF502: no-such-command-here: command not found\n")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("", 'TF502: "": the command is empty'),
        ("A_KEY=sk-secret", "TF502: A_KEY=…: not a command; write it as: env A_KEY=… COMMAND"),
    ],
)
def test_a_word_that_is_no_command_is_named_without_its_value(tmp_path: Path, word: str, message: str) -> None:
    """Nor does a `--debug` of the command show a traceback of ours."""
    ran = traceforge("run", "--", word, "--debug", cwd=tmp_path)

    assert (3, f"error {message}\n", "") == (ran.code, ran.err.splitlines(keepends=True)[0], ran.out)
    assert ("secret" in ran.err, "Traceback" in ran.err) == (False, False)


def test_options_of_the_command_are_its_own(tmp_path: Path) -> None:
    """Also without `--`, everything after the command belongs to it."""
    ran = traceforge("run", "echo", "--json", "--help", "-x", cwd=tmp_path)

    assert (0, "--json --help -x\n") == (ran.code, ran.out)
