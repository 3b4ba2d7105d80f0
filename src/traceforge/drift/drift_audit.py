"""Run a suite with its own recorder, and compare what it sends with what its cassettes hold.

In: a command. Out: a `DriftReport`. Never: imports, approves or writes anything, changes what the suite does, or
calls a test that was not compared unchanged.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from traceforge.capture.hook.cassette_events import (
    BLANK_BODY,
    IGNORED,
    LIVE,
    NEVER_PLAYED,
    NOT_HTTP,
    REFUSED,
    UNREADABLE,
    digest_file,
)
from traceforge.capture.hook.model_call_rules import WatchedHosts, is_model_call
from traceforge.capture.null_recorder import NullRecorder
from traceforge.capture.run.cassette_observer import PlayedInteraction, UnansweredCall
from traceforge.capture.run.command_runner import CommandRun, run_command
from traceforge.capture.watched_hosts import list_watched_hosts
from traceforge.config import LoadedConfig, current_folder
from traceforge.drift.request_changes import (
    INVENTED_IDS,
    RequestChange,
    is_blank_model_call,
    list_request_changes,
)
from traceforge.drift.unopened_cassettes import UnopenedCassette, read_unopened
from traceforge.findings import IO, ExitCode, Finding
from traceforge.redact.redactor import Redactor
from traceforge.replay.request_key import RequestKeyer, make_request_keyer
from traceforge.snapshots.record.cassette_import import list_cassette_files

DRIFT_RULE = "DR1"
COMMAND = "(the command)"
OUTSIDE = "(outside of tests)"
TESTS_FAILED = 1  # pytest's exit code where all tests ran, and some failed

OUTCOMES = {
    REFUSED: "no recorded interaction matches, so the recorder refused it",
    LIVE: "no recorded interaction matches, so it went live",
    NOT_HTTP: "the audit compares HTTP alone",
    IGNORED: "the recorder of the suite is set to ignore it",
    NEVER_PLAYED: "the record mode of its cassette never plays what was recorded",
    BLANK_BODY: "its body was not, because a filter of the suite takes it out of both requests",
    UNREADABLE: "its body has a type that the audit does not know",
}


@dataclass(frozen=True)
class RecordedInteraction:
    """An interaction of a cassette: its place and, without secrets, its method and URL."""

    cassette: str
    index: int  # from 0
    method: str
    url: str


@dataclass(frozen=True)
class PartlyPlayedCassette:
    """A cassette that several tests load, and of which one plays less than all of them do together. Whether that
    test once made the other calls, too, is in no cassette.
    """

    test: str
    cassette: str
    played: int  # interactions that the test plays
    played_by_all: int  # interactions that its tests play together


@dataclass(frozen=True)
class DriftedCall:
    """A call that differs from the interaction that answered it."""

    test: str
    interaction: RecordedInteraction
    changes: tuple[RequestChange, ...]


@dataclass(frozen=True)
class DriftCause:
    """One difference, and the tests that have it."""

    change: RequestChange
    tests: tuple[str, ...]
    calls: int

    @property
    def note(self) -> str:
        """What a reader should know about it; "" where there is nothing."""
        return "a snapshot does not compare them" if self.change.summary == INVENTED_IDS else ""


@dataclass
class DriftReport:
    """The result of an audit."""

    command_exit_code: int
    tests: Mapping[str, str]  # by node id: passed, failed or skipped
    compared: Mapping[str, int]  # by test: calls that were compared
    drifted: Sequence[DriftedCall]
    unanswered: Sequence[UnansweredCall]  # without secrets
    unplayed: Sequence[RecordedInteraction]  # of cassettes that a test loaded
    cassettes: int  # that were loaded and are not empty
    unopened: Sequence[UnopenedCassette] = ()  # of the folder that was named
    not_run: Sequence[str] = ()  # tests that were collected and selected
    partly_played: Sequence[PartlyPlayedCassette] = ()  # by tests that passed
    ignored: Sequence[UnansweredCall] = ()  # by a filter of the suite, and no model calls; without secrets
    unchecked: list[Finding] = field(default_factory=list)

    @property
    def drifted_tests(self) -> list[str]:
        return [*dict.fromkeys(call.test for call in self.drifted)]

    @property
    def failed_tests(self) -> list[str]:
        return sorted(test for test, outcome in self.tests.items() if outcome == "failed")

    @property
    def causes(self) -> list[DriftCause]:
        """The differences, those of most tests first."""
        calls: dict[RequestChange, list[str]] = {}
        for call in self.drifted:
            for change in call.changes:
                calls.setdefault(change, []).append(call.test)
        causes = [DriftCause(change, tuple(sorted({*tests})), len(tests)) for change, tests in calls.items()]
        return sorted(causes, key=lambda cause: (-len(cause.tests), cause.change.text))

    @property
    def exit_code(self) -> ExitCode:
        if self.drifted:
            return ExitCode.FINDINGS
        return ExitCode.UNCHECKED if self.unchecked else ExitCode.OK


def audit_cassettes(loaded: LoadedConfig, command: Sequence[str], folder: str | None = None) -> DriftReport:
    """Run the command and compare its calls with the cassettes that its recorder plays.

    `folder` is also searched for cassettes that no test loaded.

    Raises:
        CannotStart: the command does not exist, or may not be run.
        CannotRead: the folder does not exist.
    """
    redactor = Redactor.from_config(loaded.config)
    observer = _DriftObserver(make_request_keyer(loaded), redactor, WatchedHosts(list_watched_hosts(loaded.config)))
    paths = [*list_cassette_files(folder)] if folder is not None else []
    run = run_command(command, loaded, NullRecorder(), cassettes=observer)
    unopened = read_unopened(path for path in paths if os.path.realpath(path) not in observer.opened)
    report = DriftReport(
        run.exit_code,
        run.suite.rename_scopes(redactor.redact_label).tests,
        observer.compared,
        observer.drifted,
        observer.unanswered,
        [*observer.list_unplayed()],
        sum(bool(interactions) for interactions in observer.loaded.values()),
        [*unopened],
        [*map(redactor.redact_label, run.suite.list_not_run())],
        ignored=observer.ignored,
    )
    report.partly_played = [*observer.list_partly_played(report.tests)]
    report.unchecked = [*_find_unchecked(report, run, observer)]
    return report


class _DriftObserver:
    """Compares interactions as they are played, so that no body is held longer. Implements `CassetteObserver`."""

    def __init__(self, keyer: RequestKeyer, redactor: Redactor, hosts: WatchedHosts) -> None:
        self._keyer = keyer
        self._redactor = redactor
        self._hosts = hosts  # all of whose calls are model calls
        self._digests: dict[str, set[str]] = {}  # of each cassette, whenever it was loaded
        self._played: set[tuple[str, int]] = set()
        self._played_by: dict[str, dict[str, set[int]]] = {}  # by cassette and test
        self.loaded: dict[str, list[RecordedInteraction]] = {}
        self.opened: set[str] = set()  # real paths
        self.loading_tests: dict[str, set[str]] = {}  # by cassette that is not empty, as it is reported
        self.compared: Counter[str] = Counter()
        self.drifted: list[DriftedCall] = []
        self.unanswered: list[UnansweredCall] = []
        self.ignored: list[UnansweredCall] = []

    def add_loaded(self, scope: str, cassette: str, recorded: Sequence[tuple[str, str]], digest: str) -> None:
        self._digests.setdefault(cassette, set()).add(digest)
        self.opened.add(os.path.realpath(cassette))
        if recorded:
            self.loading_tests.setdefault(self._name_cassette(cassette), set()).add(self._name_test(scope))
        if len(recorded) >= len(self.loaded.get(cassette, ())):
            self.loaded[cassette] = [
                self._describe(cassette, index, method, url) for index, (method, url) in enumerate(recorded)
            ]

    def add_played(self, interaction: PlayedInteraction) -> None:
        scope, cassette, index, recorded, sent = interaction
        test = self._name_test(scope)
        self._played.add((cassette, index))
        self._played_by.setdefault(cassette, {}).setdefault(test, set()).add(index)
        self.compared[test] += 1
        changes = list_request_changes(self._keyer, recorded, sent)
        if changes:
            played = self._describe(cassette, index, recorded.method, recorded.url)
            self.drifted.append(DriftedCall(test, played, changes))
        elif is_blank_model_call(self._keyer, sent):
            self.add_unanswered(UnansweredCall(scope, cassette, sent.method, sent.url, BLANK_BODY))

    def add_unanswered(self, call: UnansweredCall) -> None:
        safe = self._describe(call.cassette, 0, call.method, call.url)
        is_model = is_model_call(call.method or "POST", call.url, self._hosts)
        calls = self.ignored if call.outcome == IGNORED and not is_model else self.unanswered
        calls.append(
            call._replace(scope=self._name_test(call.scope), cassette=safe.cassette, method=safe.method, url=safe.url)
        )

    def list_changed(self) -> list[str]:
        """The cassettes that are not what they were when they were loaded."""
        changed = (path for path, digests in self._digests.items() if digests != {digest_file(path)})
        return sorted(map(self._name_cassette, changed))

    def list_unplayed(self) -> Iterator[RecordedInteraction]:
        for cassette, interactions in sorted(self.loaded.items()):
            for interaction in interactions:
                if (cassette, interaction.index) not in self._played:
                    yield interaction

    def list_partly_played(self, outcomes: Mapping[str, str]) -> Iterator[PartlyPlayedCassette]:
        """Of cassettes that several tests load, the tests that passed and did not play all that others did."""
        for cassette, by_test in sorted(self._played_by.items()):
            name = self._name_cassette(cassette)
            loaders = sorted(self.loading_tests.get(name, set()) & outcomes.keys())
            played = set[int]().union(*by_test.values())
            for test in loaders if len(loaders) > 1 else ():
                own = by_test.get(test, set())
                if outcomes[test] == "passed" and own < played:
                    yield PartlyPlayedCassette(test, name, len(own), len(played))

    def _describe(self, cassette: str, index: int, method: str, url: str) -> RecordedInteraction:
        label, safe_url = self._redactor.redact_label, self._redactor.redact_url(url).value
        return RecordedInteraction(self._name_cassette(cassette), index, label(method), safe_url)

    def _name_cassette(self, cassette: str) -> str:
        return self._redactor.redact_label(_relative(cassette))

    def _name_test(self, scope: str) -> str:
        return self._redactor.redact_label(scope) if scope else OUTSIDE


def _relative(path: str) -> str:
    relative = os.path.relpath(path, current_folder())
    return (path if relative.startswith(os.pardir) else relative).replace(os.sep, "/")


def _find_unchecked(report: DriftReport, run: CommandRun, observer: _DriftObserver) -> Iterator[Finding]:
    """Everything that keeps the audit from being complete."""
    for call in dict.fromkeys(report.unanswered):
        request = f"{call.method} {call.url}".strip() or "a call"
        outcome = OUTCOMES.get(call.outcome, call.outcome)
        if call.outcome == BLANK_BODY:
            yield Finding(call.scope, "", IO, f"{request} was compared, but {outcome}")
            continue
        yield Finding(call.scope, "", IO, f"{request} was not compared: {outcome}")
    yield from _find_unreached(report, observer.loading_tests)
    for name in observer.list_changed():
        yield Finding(
            name, "", IO, "the suite changed this cassette during the run, and nothing compares what it wrote"
        )
    for cassette in report.unopened:
        if cassette.problem is not None:
            yield cassette.problem
    yield from _find_unseen(run)
    if report.not_run:
        tests = f"{len(report.not_run)} of the collected tests did not run"
        yield Finding(COMMAND, "", IO, f"{tests}, so their calls were not compared", _NOT_RUN_HINT)
    if run.exit_code not in (0, TESTS_FAILED) or (run.exit_code and not report.tests):
        yield Finding(COMMAND, "", IO, f"the command ended with exit code {run.exit_code}, so tests may be missing")
    if not report.compared:
        yield Finding(COMMAND, "", IO, "no recorded interaction was played, so nothing was compared", _NOTHING_HINT)


def _find_unreached(report: DriftReport, loading_tests: Mapping[str, set[str]]) -> Iterator[Finding]:
    """Tests that did not get to the end of a cassette, and interactions that no test asked for."""
    ended_early = {test: _ENDED_EARLY[outcome] for test, outcome in report.tests.items() if outcome in _ENDED_EARLY}
    for test in sorted(ended_early.keys() & {test for tests in loading_tests.values() for test in tests}):
        yield Finding(test, "", IO, f"{ended_early[test]}, so calls that it has not reached were not compared")
    never_played = {call.cassette for call in report.unanswered if call.outcome == NEVER_PLAYED}
    for interaction in report.unplayed:
        loaders = loading_tests[interaction.cassette]
        if interaction.cassette not in never_played and not loaders <= ended_early.keys():
            request = f"interaction {interaction.index}: {interaction.method} {interaction.url}"
            yield Finding(interaction.cassette, "", IO, f"{request}: {_UNPLAYED}", _UNPLAYED_HINT)


_ENDED_EARLY = {
    "failed": "the test failed",
    "skipped": "the test was skipped, or failed as expected, after it loaded a cassette",
}
_UNPLAYED = "no test played it any more: the call was removed, or the test did not reach it"
_UNPLAYED_HINT = "Run all tests that use the cassette; if the call was removed on purpose, record the cassette again."
_NOT_RUN_HINT = "Run without -x and --maxfail, or deselect the tests that shall not run: -k, -m, --deselect."
_NOTHING_HINT = (
    "The audit observes vcrpy, pytest-recording and cassetter. Run the tests that use them, with recording enabled, "
    "in a Python that reads PYTHONPATH."
)


def _find_unseen(run: CommandRun) -> Iterator[Finding]:
    for description, number in run.not_seen.items():
        yield Finding(COMMAND, "", IO, f"{description} could not be observed ({number})")
    for problem, number in run.problems.items():
        yield Finding(COMMAND, "", IO, f"the recorder could not be observed ({number}): {problem}", _VERSION_HINT)
    if run.lost:
        yield Finding(COMMAND, "", IO, f"{run.lost} reports of the suite were lost")
    if run.open_suites > 0:
        yield Finding(COMMAND, "", IO, "a run of pytest did not end")


_VERSION_HINT = "Use another version of the recorder, or report this version."
