"""Writes exchanges to the disk as traces.

In: exchanges, one after another. Out: traces in the spool, and files once there is time for it. Never: raises: what
cannot be written is counted, with the reason, and the next exchange is taken.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from types import ModuleType

from msgspec import Struct

from traceforge.capture.recording_counts import RecordingCounts
from traceforge.config import LoadedConfig
from traceforge.errors import TraceForgeError
from traceforge.exchange import Exchange
from traceforge.match_key import find_match_key
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.spool_drain import DrainedSegment, DrainResult, drain_spool
from traceforge.traces.trace_composer import TraceComposer

INDEX_BUSY_MS = 200  # How long to wait for a command that writes the index: calls wait in memory meanwhile.
SEGMENT_SECONDS_MAX = 2.0  # The age at which a segment is turned into files.
CONFIRM_SECONDS_MIN = 1.0  # Time that is left at the end, for the folder to be listed: 400,000 files take this long.
TIME_IS_UP = "there was no time to make files; the next command does"


class RecorderSettings(Struct, frozen=True):
    """The project's configuration of a recorder; it can cross a process border."""

    traces_dir: str
    redact_fields: tuple[str, ...] = ()
    redact_patterns: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    match_key: bytes | None = None
    durable: bool = False
    retention_days: int = 0

    @classmethod
    def from_project(cls, loaded: LoadedConfig) -> RecorderSettings:
        config = loaded.config
        return cls(
            os.path.join(loaded.project, config.traces_dir),
            tuple(config.redact_fields),
            tuple(config.redact_patterns),
            tuple(config.allow),
            find_match_key(loaded.project),
            config.durability == "sync",
            int(config.max_trace_retention),
        )

    def redactor(self) -> Redactor:
        """The redactor with these settings.

        Raises:
            InvalidConfig: a pattern is not a google-re2 expression.
        """
        return Redactor(self.redact_fields, self.redact_patterns, self.allow)


class TraceWriter:
    """Redacts exchanges and appends them to the spool. Used by one thread.

    With `keeps_index`, traces that become files are added to the index at once, so that the first command afterwards
    need not read them.
    """

    def __init__(self, settings: RecorderSettings, *, keeps_index: bool = False) -> None:
        self._settings = settings
        self._keeps_index = keeps_index
        self._composer = TraceComposer(settings.redactor(), settings.match_key)
        self._writer = SpoolWriter(settings.traces_dir, durable=settings.durable)
        self._failed: Counter[str] = Counter()
        self._troubles: Counter[str] = Counter()
        self._segment_started = 0.0  # when the open segment got its first trace; 0 where it is empty
        self.written = 0

    @property
    def counts(self) -> RecordingCounts:
        return RecordingCounts(
            recorded=self.written,
            failed=dict(self._failed),
            troubles=dict(self._troubles),
            segments=self._writer.list_segments(),
        )

    def write(self, exchange: Exchange | bytes) -> None:
        """Write one call, which may come as the bytes in which it crossed a process border."""
        try:
            if isinstance(exchange, bytes):
                exchange = Exchange.from_bytes(exchange)
            self._writer.append(self._composer.compose(exchange))
        except TraceForgeError as exc:
            self._failed[f"{exc.code} {exc.message}"] += 1
        except Exception as exc:  # noqa: BLE001 (a bug of TraceForge must not stop the recording of other calls)
            self._failed[f"internal error: {type(exc).__name__}"] += 1
        else:
            self.written += 1
            self._segment_started = self._segment_started or time.monotonic()

    def has_due_segment(self) -> bool:
        """Whether the open segment is old enough to become files."""
        return bool(self._segment_started) and time.monotonic() - self._segment_started >= SEGMENT_SECONDS_MAX

    def sync(self) -> None:
        """Wait until the disk has everything."""
        self._try_on_disk(self._writer.sync)

    def seal(self) -> None:
        """Finish the open segment, so that another process can turn it into files."""
        self._segment_started = 0.0
        self._try_on_disk(self._writer.seal)

    def write_files(self, seconds: float = float("inf")) -> None:
        """Turn the spool into files, as far as time allows."""
        self.seal()
        until = time.monotonic() + seconds
        if self.drain_spool(seconds).remaining and time.monotonic() >= until:
            self._troubles[TIME_IS_UP] += 1

    def drain_spool(self, seconds: float) -> DrainResult:
        """Turn finished segments, and those of dead processes, into files."""
        drained: list[DrainResult] = []
        self._try_on_disk(
            lambda: drained.append(
                drain_spool(self._settings.traces_dir, seconds=seconds, on_drained=self._index_segment)
            )
        )
        return drained[0] if drained else DrainResult()

    def _index_segment(self, segment: DrainedSegment) -> None:
        """Where the index cannot be written, or not soon, the next command reads the files."""
        if not self._keeps_index:
            return
        # The index is opened each time: a connection must not cross a fork.
        _import_index_modules()[0].try_index_segment(self._settings.traces_dir, segment, INDEX_BUSY_MS)

    def confirm_index(self, seconds: float) -> None:
        """At the end, if there is time: compare the index with the folder, so that the first command need not."""
        if not self._keeps_index or seconds < CONFIRM_SECONDS_MIN or not os.path.isdir(self._settings.traces_dir):
            return
        _import_index_modules()[0].try_confirm_files(self._settings.traces_dir, INDEX_BUSY_MS)

    def prune(self) -> None:
        """Remove what is too old, at most once a day."""
        _, retention = _import_index_modules()
        self._try_on_disk(
            lambda: retention.prune_traces_when_due(self._settings.traces_dir, self._settings.retention_days)
        )

    def _try_on_disk(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (TraceForgeError, OSError) as exc:
            self._troubles[f"{getattr(exc, 'code', 'OSError')} {exc}"] += 1


def _import_index_modules() -> tuple[ModuleType, ModuleType]:
    """Deferred: 25 ms, for SQLite, which a recorder without an index does not need."""
    from traceforge.traces import index_update, retention

    return index_update, retention
