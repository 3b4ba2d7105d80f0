"""`spawn.py`: the command gets our signals, and its exit code is ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from traceforge.capture.run.spawn import CAN_WAIT, blocked_signals, run_process

pytestmark = pytest.mark.skipif(not CAN_WAIT, reason="this system cannot wait for signals")


@pytest.fixture
def ignored_children() -> Iterator[None]:
    """SIGCHLD as some supervisors leave it to their children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("ignored_children")
def test_the_exit_code_is_known_where_sigchld_is_ignored() -> None:
    with blocked_signals() as mask:
        assert 7 == run_process(["sh", "-c", "exit 7"], os.environ, mask)


EARLY_SIGNAL = """
import os, signal, sys, time
from traceforge.capture.run.spawn import blocked_signals, run_process

with blocked_signals() as mask:
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while signal.SIGALRM not in signal.sigpending():
        time.sleep(0.001)
    sys.exit(run_process(["sleep", "60"], os.environ, mask))
"""


def test_a_signal_that_came_before_the_command_existed_reaches_it() -> None:
    """As Ctrl-C does that is pressed at once. A timer stands for the terminal: no process sends either."""
    ran = subprocess.run([sys.executable, "-c", EARLY_SIGNAL], check=False)

    assert 128 + signal.SIGALRM == ran.returncode
