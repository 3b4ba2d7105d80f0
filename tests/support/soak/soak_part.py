"""What the parts of a soak have in common: load in threads, faults by name, and a check at the end."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from support.soak.machine_faults import FillableDisk, MovableClock
from support.soak.soak_process import SoakProcess

CONFIGURATION = '{"max_trace_retention": 0}'  # Traces are kept for ever: the clock may say anything.
LOAD_STOP_SECONDS_MAX = 240  # A request may be waiting for a database that comes back.


class SoakMachine(NamedTuple):
    """What all parts share: the seed, the disk, a folder that never is full, the clock, the provider's URL."""

    seed: int
    disk: FillableDisk
    folder: Path
    clock: MovableClock
    provider: str

    def new_project(self, name: str) -> Path:
        """A project on the disk that can be full."""
        project = self.disk.folder / name
        project.mkdir()
        (project / "traceforge.config.json").write_text(CONFIGURATION)
        return project


class SoakPart:
    """One part of the product under load. Its first fault, of any thread, is raised by `check_load`."""

    def __init__(self, name: str, machine: SoakMachine) -> None:
        self.name = name
        self.machine = machine
        self.random = random.Random(f"{machine.seed} {name}")
        self.lasting: dict[str, SoakProcess] = {}  # Processes that no fault kills: their memory is measured.
        self.operations = 0
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def faults(self) -> list[Callable[[], str]]:
        """What may be done to this part; each returns what it did."""
        return []

    def writers(self) -> list[int]:
        """The processes that write to the disk that can be full."""
        return []

    def finish(self) -> str:
        """After `stop_load`: stop every process, check that every promise was kept, and say what was done."""
        raise NotImplementedError

    def discard(self) -> None:
        """End every process, after a failure."""

    def start_load(self, operation: Callable[[str, int], None], clients: int, pause_seconds: float) -> None:
        """Let threads call `operation` with their name and growing numbers, at about this pace."""
        for client in range(clients):
            arguments = (f"{self.name}-{client}", operation, pause_seconds)
            self._threads.append(threading.Thread(target=self._work, args=arguments, daemon=True))
            self._threads[-1].start()

    def _work(self, client: str, operation: Callable[[str, int], None], pause_seconds: float) -> None:
        pauses = random.Random(f"{self.machine.seed} {client} pauses")
        number = 0
        try:
            while not self._stopping.is_set():
                number += 1
                operation(client, number)
                self.operations += 1
                self._stopping.wait(2 * pause_seconds * pauses.random())
        except BaseException as exc:  # noqa: BLE001 (raised where the soak waits)
            self._errors.append(exc)

    def check_load(self) -> None:
        """Raise what a thread has raised."""
        if self._errors:
            raise self._errors[0]

    def stop_load(self) -> None:
        """Let every thread end its operation."""
        self._stopping.set()
        until = time.monotonic() + LOAD_STOP_SECONDS_MAX
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
            assert not thread.is_alive(), f"{self.name}: an operation never ended"
        self.check_load()
