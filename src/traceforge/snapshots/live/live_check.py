"""Run a live check, from the plan to the verdicts.

In: a plan, a journal, and a sender. Out: answers as they arrive, then a verdict for each approved call. Never: sends
more requests at a time than allowed, or waits for those in flight when the user stops the check.
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
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.live.live_address import make_key_headers
from traceforge.snapshots.live.live_answer import FailedRequest, LiveAnswer, LiveAnswerReader
from traceforge.snapshots.live.live_journal import LiveJournal
from traceforge.snapshots.live.live_plan import LiveCall, LivePlan
from traceforge.snapshots.live.live_sender import HostPacing, LiveSender
from traceforge.snapshots.live.live_verdict import CheckedCall, judge_answers
from traceforge.traces.trace_composer import TraceComposer


class LiveJob(NamedTuple):
    """One request of a live check."""

    call: LiveCall
    run: int


JobRunner = Callable[[LiveJob], LiveAnswer | FailedRequest]


class LiveCheck:
    """A live check. `run_missing` makes the calls that are missing, then `verdicts` judges all of them."""

    def __init__(self, plan: LivePlan, journal: LiveJournal, run_job: JobRunner, stop: threading.Event) -> None:
        self._plan = plan
        self._journal = journal
        self._run_job = run_job
        self._stop = stop
        self._failed: list[FailedRequest] = []

    @property
    def missing(self) -> list[LiveJob]:
        """Requests without an answer: the first run of every call, then the second."""
        answered = {(answer.call, answer.run) for answer in self._journal.answers}
        return [
            LiveJob(call, run)
            for run in range(1, self._plan.runs + 1)
            for call in self._plan.calls
            if (str(call.digest), run) not in answered
        ]

    def run_missing(self, concurrency: int) -> Iterator[LiveAnswer | FailedRequest]:
        """Make the missing calls; each answer is in the journal before its thread sends the next request."""
        for outcome in run_jobs(self.missing, self._run_and_store, concurrency, self._stop):
            if isinstance(outcome, FailedRequest):
                self._failed.append(outcome)
            yield outcome
        if not self._failed:
            self._journal.finish()

    def _run_and_store(self, job: LiveJob) -> LiveAnswer | FailedRequest:
        outcome = self._run_job(job)
        if isinstance(outcome, LiveAnswer):
            self._journal.add(outcome)
        return outcome

    def verdicts(self) -> list[CheckedCall]:
        """The outcome of each approved call, by id."""
        checked = [
            judge_answers(
                call.approved,
                self._plan.runs,
                [answer for answer in self._journal.answers if answer.call == str(call.digest)],
                [failed for failed in self._failed if failed.call == str(call.digest)],
            )
            for call in self._plan.calls
        ]
        checked += [
            CheckedCall(unsendable.approved, self._plan.runs, unsendable=unsendable.message, hint=unsendable.hint)
            for unsendable in self._plan.unsendable
        ]
        return sorted(checked, key=lambda result: result.approved.id)


def open_check(
    loaded: LoadedConfig, keys: RequestKeyer, plan: LivePlan, journal: LiveJournal, environ: Mapping[str, str]
) -> LiveCheck:
    """Prepare a plan to be run. API keys are read from `environ` when a request is sent, and stored nowhere."""
    setting = RecorderSettings.from_project(loaded)
    reader = LiveAnswerReader(TraceComposer(setting.redactor()), keys, ModelPolicy.from_config(loaded.config))
    stop = threading.Event()
    sender = LiveSender(HostPacing(stop))

    def run_job(job: LiveJob) -> LiveAnswer | FailedRequest:
        call = job.call
        return reader.read(call, job.run, sender.send(call, make_key_headers(call.key_header, call.url, environ)))

    return LiveCheck(plan, journal, run_job, stop)


def run_jobs(
    jobs: Sequence[LiveJob], run_job: JobRunner, concurrency: int, stop: threading.Event
) -> Iterator[LiveAnswer | FailedRequest]:
    """Run jobs in `concurrency` threads; yields outcomes in the order in which they arrive.

    The threads are daemons, so that stopping does not wait for a model.
    """
    pending_jobs: queue.SimpleQueue[LiveJob] = queue.SimpleQueue()
    outcomes: queue.SimpleQueue[LiveAnswer | FailedRequest | Exception] = queue.SimpleQueue()
    for job in jobs:
        pending_jobs.put(job)

    def work() -> None:
        while not stop.is_set():
            try:
                job = pending_jobs.get_nowait()
            except queue.Empty:
                return
            try:
                outcomes.put(run_job(job))
            except Exception as exc:  # noqa: BLE001 (raised in the thread that waits for it)
                outcomes.put(exc)

    for _ in range(min(concurrency, len(jobs))):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in jobs:
            outcome = outcomes.get()
            if isinstance(outcome, TraceForgeError):
                raise outcome
            if isinstance(outcome, Exception):
                raise InternalError(f"internal error: {type(outcome).__name__}") from outcome
            yield outcome
    finally:
        stop.set()
