"""The seal of a thread, and of what it starts."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from traceforge.capture.run import seal
from traceforge.capture.run.spawn import blocked_signals, run_process
from traceforge.capture.run.syscall_filter import ARCHITECTURES, make_program

needs_seal = pytest.mark.skipif(bool(seal.reason_not_sealable()), reason=seal.reason_not_sealable())


@needs_seal
def test_a_sealed_child_reaches_the_open_ports_and_no_other() -> None:
    """Whatever its environment; the thread that started it is sealed, this one is not."""
    with socket.create_server(("127.0.0.1", 0)) as shut, socket.create_server(("127.0.0.1", 0)) as free:
        ports = [listener.getsockname()[1] for listener in (shut, free)]
        ask = f"import socket; print([socket.socket().connect_ex(('127.0.0.1', port)) for port in {ports}])"

        output = seal.run_sealed(
            lambda: subprocess.run([sys.executable, "-I", "-c", ask], env={}, capture_output=True, check=True).stdout,
            {ports[1]},
        )

        assert b"[13, 0]\n" == output
        socket.create_connection(("127.0.0.1", ports[0])).close()


@needs_seal
@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -TERM $$", 128 + 15)])
def test_a_sealed_command_ends_as_it_would_unsealed(script: str, code: int) -> None:
    with blocked_signals() as mask:
        assert code == run_process(["sh", "-c", script], os.environ, mask, ports=())


@needs_seal
def test_errors_of_the_sealed_thread_are_raised_in_the_caller() -> None:
    """With their own type."""
    with pytest.raises(FileNotFoundError):
        seal.run_sealed(lambda: os.stat("/no/such/file"), ())


def test_where_sealing_is_impossible_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another system has no Landlock."""
    monkeypatch.setattr(sys, "platform", "darwin")

    assert "Landlock exists on Linux only" == seal.reason_not_sealable()
    assert ("sealed", "hooks only") == (seal.SealStatus(True).word, seal.SealStatus(False, "x").word)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_a_filter_is_whole_instructions_and_ends_with_a_verdict(machine: str) -> None:
    """No jump leaves it."""
    program = make_program(ARCHITECTURES[machine])

    lines = [program[place : place + 8] for place in range(0, len(program), 8)]
    assert 0 == len(program) % 8
    assert all(place + 1 + max(line[2], line[3]) < len(lines) for place, line in enumerate(lines) if line[0] & 7 == 5)
    assert 0x06 == lines[-1][0]
