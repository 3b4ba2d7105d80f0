"""What `test` and `verify` found, for programs: one report, which several writers turn into a format.

In: the outcome of a command. Out: findings with their places and what a person needs to judge them, the tests or
snapshots that were looked at, and counts. Never: decides anything; the exit code is the command's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from traceforge.audit.auditor import AuditReport
from traceforge.config import SNAPSHOTS_DIR
from traceforge.findings import Finding
from traceforge.report.finding_locations import Place, Places
from traceforge.report.gate_text import outcome_lines, shown_lines
from traceforge.report.text_format import audit_summary, one_line
from traceforge.snapshots.formats.tree_layout import WIRE
from traceforge.snapshots.gate.command_runs import TestRun
from traceforge.snapshots.gate.gate_findings import UNUSED_RULE, Shown


class Outcome(StrEnum):
    """How a test or a snapshot came out."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Item(NamedTuple):
    """One finding."""

    finding: Finding
    place: Place
    details: str = ""  # lines below the message: the tests, the diff, the hint
    scopes: tuple[str, ...] = ()
    about: str = ""  # the snapshot it is about: the message names how many more there are, and so is not stable

    @property
    def message(self) -> str:
        """The message, on one line."""
        return one_line(self.finding.message)

    @property
    def text(self) -> str:
        """The message, and what stands below it."""
        return f"{self.message}\n{self.details}".rstrip()


class Case(NamedTuple):
    """One test that ran, or one snapshot that was checked."""

    group: str
    name: str
    outcome: Outcome
    why: str = ""


class Report(NamedTuple):
    """Everything a writer needs."""

    command: str
    items: tuple[Item, ...]
    cases: tuple[Case, ...]
    counts: Mapping[str, int]
    summary: str
    exit_code: int


def report_of_test(done: TestRun, code: int, folder: str) -> Report:
    """The report of `traceforge test -- COMMAND`."""
    project = done.gate.loaded.project
    places = Places(project, folder)
    tree = os.path.join(project, SNAPSHOTS_DIR)
    items = [
        _item(one, places, tree if done.run is None or one.finding.rule == UNUSED_RULE else "") for one in done.shown
    ]
    items += [_plain(finding, places) for finding in done.unchecked]
    player = done.gate.player
    counts = {
        "replayed": done.replayed,
        "request_gated": done.request_gated.total(),
        "synthesised": player.synthesised_count,
        "uncompared": player.uncompared_calls,
    }
    *_, summary = outcome_lines(done, ())
    tests = done.run.tests if done.run is not None else {}
    return _report("test", items, _test_cases(tests, items), counts, summary, code)


def report_of_tree(audit: AuditReport, shown: Sequence[Shown], summary: str, code: int, places: Places) -> Report:
    """The report of `traceforge test` without a command: a tree, and what is pending."""
    items = [_item(one, places) for one in shown]
    counts = {"snapshots": audit.checked.total(), "request_gated": audit.request_gated}
    return _report("test", items, _snapshot_cases(audit), counts, summary, code)


def report_of_audit(audit: AuditReport, places: Places, command: str = "verify") -> Report:
    """The report of `traceforge verify`."""
    items = [_plain(finding, places) for finding in audit.findings]
    counts = {**dict(sorted(audit.checked.items())), "request_gated": audit.request_gated}
    summary = audit_summary(audit.checked, audit.findings, audit.request_gated)
    return _report(command, items, _snapshot_cases(audit), counts, summary, int(audit.exit_code))


def _report(
    command: str, items: Sequence[Item], cases: Iterable[Case], counts: Mapping[str, int], summary: str, code: int
) -> Report:
    unchecked = sum(item.finding.is_unchecked for item in items)
    told = {**counts, "findings": len(items) - unchecked, "unchecked": unchecked, "exit_code": code}
    return Report(command, tuple(items), tuple(cases), told, summary, code)


def _item(shown: Shown, places: Places, base: str = "") -> Item:
    _, *details = shown_lines([shown])
    scopes = tuple(filter(None, shown.scopes)) if shown.calls else ()
    place = places.find(shown.finding, base)
    if not place.file and scopes:
        place = places.find(shown.finding._replace(file=scopes[0]))
    return Item(shown.finding, place, "\n".join(details), scopes, shown.nearest)


def _plain(finding: Finding, places: Places) -> Item:
    return Item(finding, places.find(finding), f"    → {one_line(finding.hint)}" if finding.hint else "")


def _test_cases(tests: Mapping[str, str], items: Iterable[Item]) -> Iterable[Case]:
    """Every test that ran; one in which something was found has failed, however it ended itself."""
    found: dict[str, list[str]] = {}
    for item in items:
        for scope in item.scopes:
            found.setdefault(scope, []).append(f"{item.finding.rule} {item.message}")
    for name in {**tests, **found}:
        group, _, test = name.rpartition("::")
        if name in found:
            yield Case(group, test, Outcome.FAILED, "\n".join(found[name]))
        else:
            why = "the test failed, and not for a finding" if tests[name] == Outcome.FAILED else ""
            yield Case(group, test, Outcome(tests[name]), why)


def _snapshot_cases(audit: AuditReport) -> Iterable[Case]:
    """Every snapshot that was checked; one has failed if something is wrong with its document or its wire answer."""
    found: dict[str, list[str]] = {}
    for finding in audit.findings:
        found.setdefault(os.path.normpath(finding.file), []).append(f"{finding.rule} {one_line(finding.message)}")
    for file in sorted(map(os.path.normpath, audit.snapshots)):
        folder, name = os.path.split(file)
        wire = os.path.join(os.path.dirname(folder), WIRE, name)
        why = "\n".join(told for place in dict.fromkeys((file, wire)) for told in found.get(place, ()))
        yield Case(folder, name.removesuffix(".json"), Outcome.FAILED if why else Outcome.PASSED, why)
