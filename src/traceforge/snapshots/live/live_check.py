"""A live check from the plan to the verdicts.

In: a plan, a journal, and how to send. Out: answers as they come, then what each approved call came to. Never: more
requests at a time than asked for, or a wait for those in flight when the person stops.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from traceforge.capture.trace_writer import RecorderSettings
from traceforge.config import LoadedConfig
from traceforge.errors import InternalError, TraceForgeError
from traceforge.replay.request_key import RequestKeyer
from traceforge.snapshots.live.live_address import headers_for, secret_for
from traceforge.snapshots.live.live_answer import Answered, Failed, Reader
from traceforge.snapshots.live.live_journal import Journal
from traceforge.snapshots.live.live_plan import LiveCall, Plan
from traceforge.snapshots.live.live_sender import Pace, Sender
from traceforge.snapshots.live.live_verdict import Checked, judge
from traceforge.traces.compose import Composer
from traceforge.wire.endpoints import split_url


class Job(NamedTuple):
    """One request of many."""

    call: LiveCall
    run: int


Ask = Callable[[Job], Answered | Failed]


class LiveCheck:
    """One check. `rest` makes the calls that are missing, `verdicts` says what came of all."""

    def __init__(self, plan: Plan, journal: Journal, ask: Ask, stop: threading.Event) -> None:
        self._plan = plan
        self._journal = journal
        self._ask = ask
        self._stop = stop
        self._failed: list[Failed] = []

    @property
    def missing(self) -> list[Job]:
        """What was not answered yet: the first run of everything, then the second."""
        there = {(one.call, one.run) for one in self._journal.answers}
        return [
            Job(call, run)
            for run in range(1, self._plan.runs + 1)
            for call in self._plan.calls
            if (str(call.digest), run) not in there
        ]

    def rest(self, concurrency: int) -> Iterator[Answered | Failed]:
        """Make the calls that are missing; each answer is kept before its thread asks for the next."""
        for one in ask_all(self.missing, self._ask_and_keep, concurrency, self._stop):
            if isinstance(one, Failed):
                self._failed.append(one)
            yield one
        if not self._failed:
            self._journal.finish()

    def _ask_and_keep(self, job: Job) -> Answered | Failed:
        one = self._ask(job)
        if isinstance(one, Answered):
            self._journal.add(one)
        return one

    def verdicts(self) -> list[Checked]:
        """What each approved call came to, by id."""
        found = [
            judge(
                call.approved,
                self._plan.runs,
                [one for one in self._journal.answers if one.call == str(call.digest)],
                [one for one in self._failed if one.call == str(call.digest)],
            )
            for call in self._plan.calls
        ]
        found += [
            Checked(one.approved, self._plan.runs, unsendable=one.message, hint=one.hint)
            for one in self._plan.unsendable
        ]
        return sorted(found, key=lambda one: one.approved.id)


def open_check(
    loaded: LoadedConfig, keys: RequestKeyer, plan: Plan, journal: Journal, environ: Mapping[str, str]
) -> LiveCheck:
    """Make a plan ready to run. Keys are taken from `environ` when a request is sent, and kept nowhere."""
    setting = RecorderSettings.from_project(loaded)
    reader = Reader(Composer(setting.redactor()), keys, loaded.config.models)
    stop = threading.Event()
    sender = Sender(Pace(stop))

    def ask(job: Job) -> Answered | Failed:
        call = job.call
        secret = secret_for(call.approved.provider, call.endpoint, split_url(call.url)[0])
        return reader.read(call, job.run, sender.send(call, headers_for(secret, call.url, environ)))

    return LiveCheck(plan, journal, ask, stop)


def ask_all(jobs: Sequence[Job], ask: Ask, concurrency: int, stop: threading.Event) -> Iterator[Answered | Failed]:
    """Ask with so many threads at once; answers come in the order in which they arrive.

    The threads are daemons: whoever stops does not wait for a model.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    arrived: queue.SimpleQueue[Answered | Failed | Exception] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)

    def work() -> None:
        while not stop.is_set():
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                arrived.put(ask(job))
            except Exception as exc:  # noqa: BLE001 (told to the thread that waits for it)
                arrived.put(exc)

    for _ in range(min(concurrency, len(jobs))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in jobs:
            one = arrived.get()
            if isinstance(one, TraceForgeError):
                raise one
            if isinstance(one, Exception):
                raise InternalError(f"internal error: {type(one).__name__}") from one
            yield one
    finally:
        stop.set()
