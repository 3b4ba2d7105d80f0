"""A soak: all parts under load, one fault after the other, and at the end the account of every promise."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from support.databases import empty_database, memory_folder, start_postgres
from support.soak.answering_provider import answering_provider
from support.soak.machine_faults import MovableClock, fillable_disk
from support.soak.soak_application import SoakApplication
from support.soak.soak_chat import SoakChat
from support.soak.soak_part import SoakMachine, SoakPart
from support.soak.soak_proxy import SoakProxy
from support.soak.soak_store import SoakStore

QUIET_SECONDS_MAX = 6.0  # Between two faults.
FULL_SECONDS_MAX = 4.0
# No step is longer than half a day: an idempotency key is kept for a day.
CLOCK_SHIFTS = (0, 1, -1, 90, -90, 3600, -3600, 6 * 3600, -6 * 3600)
MEMORY_SAMPLES = 36
MEMORY_GROWTH_MIB_MAX = 32  # An index of names may grow; a body of 2 KiB a call that stays would be more in an hour.


class SoakReport(NamedTuple):
    """What a soak did, for a person to read."""

    lines: list[str]
    faults: Counter[str]


def run_soak(folder: Path, seed: int, seconds: float) -> SoakReport:
    """Keep everything under load for so long while faults happen, then stop it and check every promise."""
    with _running_parts(folder, seed) as (machine, parts):
        faults = Counter[str]()
        memory: dict[str, list[int]] = {}
        source = random.Random(seed)
        end = time.monotonic() + seconds
        sample_at = time.monotonic()
        while time.monotonic() < end:
            _wait(parts, source.random() * QUIET_SECONDS_MAX)
            fault = source.choice(_list_faults(machine, parts, source))
            done = fault()
            print(f"{end - time.monotonic():.0f} s before the end: {done}")  # noqa: T201 (shown where the soak fails)
            faults[done] += 1
            if time.monotonic() >= sample_at:
                sample_at += seconds / MEMORY_SAMPLES
                _sample_memory(parts, memory)
        machine.clock.jump_to(0)
        growth = [_check_memory(name, samples) for name, samples in memory.items()]
        for part in parts:
            part.stop_load()
        lines = [part.finish() for part in parts]
    return SoakReport([*lines, *growth], faults)


@contextmanager
def _running_parts(folder: Path, seed: int) -> Iterator[tuple[SoakMachine, list[SoakPart]]]:
    with ExitStack() as stack:
        provider = stack.enter_context(answering_provider())
        disk = stack.enter_context(fillable_disk(folder / "disk"))
        machine = SoakMachine(seed, disk, folder, MovableClock(folder / "clock"), provider)
        database = start_postgres(stack.enter_context(memory_folder()))
        stack.callback(database.cleanup)
        target = stack.enter_context(empty_database("postgresql", database.get_uri(), folder))
        parts: list[SoakPart] = []
        starts: list[Callable[[], SoakPart]] = [
            lambda: SoakProxy("proxy", machine, is_killed=False),
            lambda: SoakProxy("killed-proxy", machine, is_killed=True),
            lambda: SoakApplication("application", machine, is_killed=False),
            lambda: SoakApplication("killed-application", machine, is_killed=True),
            lambda: SoakChat("chat", machine, is_killed=False),
            lambda: SoakChat("killed-chat", machine, is_killed=True),
            lambda: SoakStore("sqlite", machine, str(disk.folder / "context.db")),
            lambda: SoakStore("postgresql", machine, target, database),
        ]
        try:
            for start in starts:
                parts.append(start())
            yield machine, parts
        finally:
            for part in parts:
                part.discard()


def _list_faults(machine: SoakMachine, parts: list[SoakPart], source: random.Random) -> list[Callable[[], str]]:
    """Every kind of fault; those of the machine as often as all of a part."""

    def fill_disk() -> str:
        machine.disk.fill(pid for part in parts for pid in part.writers())
        time.sleep(source.random() * FULL_SECONDS_MAX)
        machine.disk.free()
        return "filled the disk"

    def move_clock() -> str:
        machine.clock.jump_to(source.choice(CLOCK_SHIFTS))
        return "moved the clock"

    return [fault for part in parts for fault in part.faults()] + [fill_disk, move_clock, fill_disk, move_clock]


def _wait(parts: list[SoakPart], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for part in parts:
            part.check_load()
        time.sleep(0.1)


def _sample_memory(parts: list[SoakPart], memory: dict[str, list[int]]) -> None:
    for part in parts:
        for name, process in part.lasting.items():
            memory.setdefault(name, []).append(process.memory_mib())


def _check_memory(name: str, samples: list[int]) -> str:
    """At most so much more in the last quarter than in the first half: caches fill one after the other."""
    warm = max(samples[: len(samples) // 2 + 1])
    assert max(samples[-len(samples) // 4 :]) <= warm + MEMORY_GROWTH_MIB_MAX, f"{name}: {samples}"
    return f"memory of {name}: {samples[0]} MiB at first, {warm} after half of the time, {samples[-1]} at the end"
