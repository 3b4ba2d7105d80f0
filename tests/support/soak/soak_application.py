"""Applications that record their own calls: one that lasts, and one that is killed again and again."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from support.soak.soak_part import SoakMachine, SoakPart
from support.soak.soak_process import SoakProcess
from support.soak.trace_ledger import RecordingLife, check_traces
from traceforge.traces.spool_drain import drain_spool

PAUSE_SECONDS = 0.1
TESTS = Path(__file__).parents[2]
READ_SECONDS_MAX = 60


class _ApplicationLife(RecordingLife):
    """A running program, and the calls that it says were answered."""

    def __init__(self, project: Path, machine: SoakMachine, client: str, first: int) -> None:
        super().__init__()
        self._client = client
        self.next_number = first
        self.has_ended = False
        self.recorded = 0
        words = [
            sys.executable, "-m", "support.soak.recording_application", machine.provider, str(machine.seed), client,
            str(first), str(PAUSE_SECONDS),
        ]  # fmt: skip
        variables = dict(machine.clock.variables)
        variables["PYTHONPATH"] += os.pathsep + str(TESTS)
        self.process = SoakProcess(words, project, variables)
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()

    def _read_lines(self) -> None:
        assert self.process.process.stdout is not None
        for line in self.process.process.stdout:
            if not line.endswith(b"\n"):
                return  # It was killed while it wrote.
            report = json.loads(line)
            self.has_ended = "ended" in report
            if not self.has_ended:
                self.next_number = report["answered"] + 1
                self.note_answer(self._client, report["answered"])
            self.recorded, self.not_recorded = report["recorded"], report["lost"]

    def wait_for_lines(self) -> None:
        """Read what it printed before it ended, and work out of which calls it had reported the fate."""
        self._reader.join(READ_SECONDS_MAX)
        assert not self._reader.is_alive()
        self.settled = set(self.names()[: self.recorded + self.not_recorded])  # It records in the order of the calls.


class SoakApplication(SoakPart):
    """A program that calls the provider itself, inside `traceforge.capture()`."""

    def __init__(self, name: str, machine: SoakMachine, *, is_killed: bool) -> None:
        super().__init__(name, machine)
        self._is_killed = is_killed
        self._project = machine.new_project(name)
        self._lives: list[_ApplicationLife] = []
        self._unanswered: set[str] = set()
        self._start(1)

    def _start(self, first: int) -> None:
        self._lives.append(_ApplicationLife(self._project, self.machine, self.name, first))
        if not self._is_killed:
            self.lasting = {"application": self._lives[-1].process}

    def faults(self) -> list[Callable[[], str]]:
        return [self._kill, self._restart] if self._is_killed else []

    def writers(self) -> list[int]:
        return [self._lives[-1].process.pid]

    def _kill(self) -> str:
        life = self._lives[-1]
        life.was_killed = True
        life.process.kill()
        self._go_on(life)
        return "killed the application"

    def _restart(self) -> str:
        self._stop(self._lives[-1])
        self._go_on(self._lives[-1])
        return "restarted the application"

    def _stop(self, life: _ApplicationLife) -> None:
        life.process.stop()
        life.wait_for_lines()
        assert life.has_ended
        assert len(life.names()) == life.recorded + life.not_recorded, "the counts do not add up"

    def _go_on(self, life: _ApplicationLife) -> None:
        """Start it again behind the call that was in flight, which may have a trace or not."""
        life.wait_for_lines()
        self._unanswered.add(f"{self.name}.{life.next_number}")
        self._start(life.next_number + 1)

    def check_load(self) -> None:
        super().check_load()
        process = self._lives[-1].process.process
        assert process.poll() is None, f"{self.name} ended with {process.poll()}"

    def finish(self) -> str:
        self._stop(self._lives[-1])
        drain_spool(str(self._project / ".ai-tests" / "traces"))
        totals = check_traces(self._project, self.machine.seed, list(self._lives), self._unanswered)
        self.operations = totals.answered
        if not self._is_killed:
            assert (self._lives[-1].recorded, 0) == (totals.stored, totals.in_memory), "recorded and stored differ"
            assert self.machine.disk.was_full or totals.not_recorded == 0
        return f"{self.name}: {totals}"

    def discard(self) -> None:
        for life in self._lives:
            life.process.discard()
