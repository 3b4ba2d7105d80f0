"""Faults of the machine on which the soak runs: a disk that is full for a while, and a clock that jumps."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CLOCK_FOLDER = Path(__file__).with_name("movable_clock")
DISK_BYTES_MAX = 8 << 30  # Of a disk in memory, which takes what is written and no more.
FILE_BYTES_WHEN_FULL = 16 << 10  # Where no disk can be mounted: how long a file may be while the disk is "full".


class MovableClock:
    """The clock of the processes of a soak, which read its shift from a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.shift_seconds = 0
        self.jump_to(0)

    def jump_to(self, seconds: int) -> None:
        """Set every process's clock to so many seconds after the real time."""
        with open(os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600), "wb", buffering=0) as file:
            file.write(struct.pack("<q", seconds))  # Eight bytes at once: no reader sees half of them.
        self.shift_seconds = seconds

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to have this clock."""
        return {"SOAK_CLOCK": str(self._file), "PYTHONPATH": str(CLOCK_FOLDER)}


class FillableDisk:
    """A folder whose disk can be full: one of its own where root can mount it, else files may not grow."""

    def __init__(self, folder: Path, *, is_mounted: bool) -> None:
        self.folder = folder
        self.was_full = 0  # how often
        self._is_mounted = is_mounted
        self._limited: list[int] = []

    def fill(self, pids: Iterable[int]) -> None:
        """From now on writes fail; `pids` are the processes that write there."""
        self.was_full += 1
        if not self._is_mounted:
            self._limited = list(pids)
            self._limit_files(FILE_BYTES_WHEN_FULL)
            return
        for _ in range(100):  # Somebody may write between the question and the resize, which is then refused.
            usage = os.statvfs(self.folder)
            if self._resize((usage.f_blocks - usage.f_bfree) * usage.f_frsize):
                return
        raise AssertionError("the disk could not be filled")

    def free(self) -> None:
        """Writes succeed again."""
        if self._is_mounted:
            assert self._resize(DISK_BYTES_MAX)
        else:
            self._limit_files(resource.RLIM_INFINITY)

    def _resize(self, size: int) -> bool:
        """False: more than that is in it."""
        words = ["mount", "-o", f"remount,size={max(size, 4096)}", str(self.folder)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def _limit_files(self, size: int) -> None:
        for pid in self._limited:
            with suppress(ProcessLookupError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


@contextmanager
def fillable_disk(folder: Path) -> Iterator[FillableDisk]:
    """A disk for the duration of a test."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES_MAX},nr_inodes=0", "none", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield FillableDisk(folder, is_mounted=is_mounted)
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
