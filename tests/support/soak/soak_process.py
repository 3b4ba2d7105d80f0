"""The processes of a soak: `traceforge` commands and programs that print one line of JSON when they are ready."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

READY_SECONDS_MAX = 120
STOP_SECONDS_MAX = 120
# What no process may print, whatever happens to the machine.
CRASH_MARKS = ("Traceback (most recent call last)", "TF999", "Fatal Python error", "core dumped")


class SoakProcess:
    """A process whose log goes to a file, because a pipe would fill up."""

    def __init__(self, words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        environ = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.name = " ".join(Path(words[0]).name if at == 0 else word for at, word in enumerate(words[:3]))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `_read_log`)
        self.process = subprocess.Popen(
            words, cwd=folder, env={**environ, "HOME": str(folder), **variables},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        is_ready, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS_MAX)
        line = self.process.stdout.readline() if is_ready else b""
        if not line:
            self.process.kill()
            raise AssertionError(f"{self.name} did not start: {self._read_log()}")
        self.ready: dict[str, Any] = json.loads(line)

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> list[int]:
        """The processes that it has started."""
        files = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [int(pid) for file in files for pid in file.read_text().split()]

    def memory_mib(self) -> int:
        """The memory of the process now, without that of its children."""
        return int(Path(f"/proc/{self.pid}/status").read_text().partition("VmRSS:")[2].split()[0]) // 1024

    def kill(self) -> str:
        """Kill it as the kernel does; its log."""
        return self._end(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> str:
        """Stop it as a user does; its log. It must end with 0."""
        return self._end(signal.SIGTERM, 0)

    def _end(self, number: int, expected: int) -> str:
        assert self.process.poll() is None, (
            f"{self.name} ended by itself, with {self.process.poll()}: {self._read_log()}"
        )
        self.process.send_signal(number)
        self.process.wait(STOP_SECONDS_MAX)
        log = self._read_log()
        assert expected == self.process.returncode, log
        assert [] == [mark for mark in CRASH_MARKS if mark in log], log
        assert self.process.stdout is not None
        self.process.stdout.close()
        return log

    def _read_log(self) -> str:
        with self._log:
            self._log.seek(0)
            return self._log.read().decode(errors="replace")

    def discard(self) -> None:
        """End it without a check, when the soak has already failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
