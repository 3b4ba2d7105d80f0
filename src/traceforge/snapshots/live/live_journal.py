"""The journal of a live check: its answers so far, so that stopping loses nothing.

`.ai-tests/check-live/<digest of the plan>.jsonl`, never committed, one answer a line (`live_answer.LiveAnswer`), each
on the disk before its thread sends the next request. A finished check becomes `finished.jsonl`, and the next
starts empty.

In: redacted answers. Out: the same. Never: has two writers, or returns an answer to another request, or one older
than a day: models change. A last line that a crash cut short is dropped; any other broken line is an error.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

import msgspec

from traceforge.canon import digest_fields, json_bytes, parse_json
from traceforge.clock import now, timestamp_text
from traceforge.conversion import convert
from traceforge.errors import CannotRead, CannotWrite, NotJSON, PathInUse
from traceforge.files import STATE_DIR, make_private_folder, read_file
from traceforge.snapshots.live.live_answer import LiveAnswer
from traceforge.snapshots.live.live_plan import LivePlan
from traceforge.traces.file_lock import lock_file

FOLDER = f"{STATE_DIR}/check-live"
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
FINISHED = "finished.jsonl"
KEPT_HOURS = 24
PLAN_TAG = "traceforge.live-plan/1"


class LiveJournal:
    """The answers to one plan. Inside of `with`, its file exists, and a lock on it admits one process at a time."""

    def __init__(self, project: str, plan: LivePlan, *, fresh: bool = False) -> None:
        """Read the answers of an earlier, stopped check, without those that `fresh` is about to drop. Writes nothing.

        Raises:
            CannotRead: the journal cannot be read.
        """
        self._lock = threading.Lock()
        self._is_closed = False
        self._plan = plan
        self._is_fresh = fresh
        self._path = os.path.join(project, FOLDER, f"{_file_name(plan)}.jsonl")
        is_continued = not fresh and os.path.lexists(self._path)
        self.answers = self._read_answers(self._read_lines()) if is_continued else []

    def __enter__(self) -> Self:
        """Open the file for writing.

        Raises:
            PathInUse: another process runs the same check.
            CannotRead: the journal cannot be read.
            CannotWrite: the journal cannot be written.
        """
        make_private_folder(os.path.dirname(self._path))
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NOFOLLOW, 0o600)
        except OSError as exc:
            raise _unwritable(self._path, exc) from None
        try:
            if not lock_file(self._descriptor):
                raise PathInUse("the same live check is running already", hint="Wait until it is done.")
            complete = b"" if self._is_fresh else self._read_lines()
            os.ftruncate(self._descriptor, len(complete))
            self.answers = self._read_answers(complete)
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def _read_lines(self) -> bytes:
        """The complete lines of the file."""
        data = read_file(self._path, follow_links=False)
        return data[: data.rfind(b"\n") + 1]

    def _read_answers(self, complete: bytes) -> list[LiveAnswer]:
        plan = self._plan
        wanted = {(str(call.digest), run) for call in plan.calls for run in range(1, plan.runs + 1)}
        oldest = timestamp_text(now() - timedelta(hours=KEPT_HOURS))
        answers = [_read_line(self._path, line, number) for number, line in enumerate(complete.splitlines(), 1)]
        return [answer for answer in answers if (answer.call, answer.run) in wanted and answer.at >= oldest]

    def add(self, answer: LiveAnswer) -> None:
        """Store an answer; from any thread. Does nothing once the journal is closed.

        Raises:
            CannotWrite: the disk is full.
        """
        line = json_bytes(msgspec.to_builtins(answer)) + b"\n"
        with self._lock:
            if self._is_closed:
                return
            try:
                if os.write(self._descriptor, line) != len(line):  # The next check drops the partial line.
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(self._descriptor)
            except OSError as exc:
                raise _unwritable(self._path, exc) from None
            self.answers.append(answer)

    def finish(self) -> None:
        """Close the journal of a complete check, so that the next check starts empty."""
        with suppress(FileNotFoundError):
            os.replace(self._path, os.path.join(os.path.dirname(self._path), FINISHED))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_closed = True
            with suppress(OSError):
                if not os.fstat(self._descriptor).st_size:
                    os.unlink(self._path)  # Nothing was answered: there is nothing to continue from.
            os.close(self._descriptor)


def _file_name(plan: LivePlan) -> str:
    """The same name for the same calls, for any number of runs: a check with more runs continues one with fewer."""
    fields: Iterable[tuple[str, str]] = [("call", call.digest) for call in plan.calls]
    return digest_fields(PLAN_TAG, fields).removeprefix("sha256:")[:16]


def _read_line(path: str, line: bytes, number: int) -> LiveAnswer:
    try:
        return convert(parse_json(line), LiveAnswer)
    except (NotJSON, msgspec.ValidationError) as exc:
        hint = "Start anew: traceforge check-live --fresh."
        raise CannotRead(path, f"line {number} is not an answer of a live check: {exc}", hint=hint) from None


def _unwritable(path: str, exc: OSError) -> CannotWrite:
    return CannotWrite(path, exc)
