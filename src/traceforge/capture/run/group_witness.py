"""Whether a signal was sent to this process alone, or to its process group, of which the command is a member too.

A signal says who sent it, and not to whom. So a process that does nothing is a member of the group: it blocks the
signals, and one that is pending there was sent to all of them. `kill -INT -GROUP`, `timeout` and other runners send
such signals; those of a terminal can be told apart without a witness.

In: the signals to look for. Out: whether one of them was sent to the group. Never: outlives this process, or keeps a
command from running: without `/proc` or `cat`, every signal counts as sent to us alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import suppress

_PROGRAM = "cat"  # It ends when we do: then nobody has the other end of its pipe.


class GroupWitness:
    """The process that does nothing."""

    def __init__(self, signals: Collection[int]) -> None:
        self._signals = {*signals}
        self.pid = 0  # where there is none
        self._pipe = -1
        self._start()

    def take(self, number: int) -> bool:
        """Whether a signal was sent to the group since the last call."""
        was_sent = bool(self._read_pending() >> (number - 1) & 1)
        if was_sent:
            self.close()
            self._start()  # A signal that is pending already could not be told from the next one.
        return was_sent

    def close(self) -> None:
        """End the process that receives the signals of the group."""
        if self.pid:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            os.close(self._pipe)
            self.pid = 0

    def _start(self) -> None:
        read_end, self._pipe = os.pipe()
        null = os.open(os.devnull, os.O_RDWR)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, read_end, 0)]
            actions += [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (1, 2)]
            self.pid = os.posix_spawnp(
                _PROGRAM, [_PROGRAM], {"PATH": os.defpath}, file_actions=actions, setsigmask=self._signals
            )
        except OSError:
            os.close(self._pipe)
        finally:
            os.close(read_end)
            os.close(null)

    def _read_pending(self) -> int:
        """The signals that are pending for the process, as bits."""
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{self.pid}/status", "rb") as file:
            pending = [line for line in file if line.startswith(b"ShdPnd:")]
            return int(pending[0].split()[1], 16)
        return 0
