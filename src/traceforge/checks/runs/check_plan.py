"""Which checks will run: files are found and read, data sets expanded, tags selected.

In: paths and tags. Out: checks ready to run, and a finding for everything that cannot. Never: passes over a file or a
case that it cannot read, follows a link in a folder, or reads a data set outside of the project.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject
from traceforge.checks.assertions.evaluation import find_assertion_problems
from traceforge.checks.formats.assertion_types import assertion_tag
from traceforge.checks.formats.check_file import (
    FILE_BYTES_MAX,
    CheckDefinition,
    list_check_findings,
    make_check,
    read_check_file,
)
from traceforge.checks.formats.check_types import CaseFile, CaseTraces, Check
from traceforge.checks.formats.data_sets import CASES_RULE, DATA_BYTES_MAX, read_cases
from traceforge.checks.formats.variables import measure_filled
from traceforge.config import CHECKS_DIR
from traceforge.errors import CannotRead, InvalidFile
from traceforge.files import list_folder, read_file
from traceforge.findings import Finding

SUFFIXES = (".yaml", ".yml")
FILLED_CHARACTERS_MAX = 1 << 28  # Of a check with all its cases, which are in memory at once.
_SIZE_HINT = "Divide the data set, or repeat a variable less often."
_OUTSIDE_HINT = "Keep the data set in the project, beside its check file."

ListTraceCases = Callable[[CaseTraces], list[JSONObject]]


class PlannedCheck(NamedTuple):
    """One check that will run: a check of a file, or one case of it."""

    definition: CheckDefinition
    check: Check
    case: str = ""  # such as `case 3`

    @property
    def id(self) -> str:
        """The name in reports and with `--json`: `.ai-checks/refund.yaml::refund is offered[case 3]`."""
        return f"{self.definition.file}::{self.title}"

    @property
    def title(self) -> str:
        """The name without its file: `refund is offered[case 3]`."""
        return self.check.name + (f"[{self.case}]" if self.case else "")

    def to_json(self) -> JSONObject:
        """The check as `check list --json` prints it."""
        return {
            "id": self.id,
            "file": self.definition.file,
            "line": self.definition.mark.line,
            "name": self.check.name,
            "case": self.case,
            "tags": [*self.check.tags],
            "assertions": [assertion_tag(assertion) for assertion in self.check.assertions],
        }


class CheckPlan(NamedTuple):
    """The checks that will run, what is wrong with others, and how many there were before tags selected."""

    checks: Sequence[PlannedCheck]
    findings: Sequence[Finding]
    total: int


def make_plan(project: str, paths: Sequence[str], tags: Set[str], list_trace_cases: ListTraceCases) -> CheckPlan:
    """Read the checks of these files and folders; without any, those of the project.

    Raises:
        MissingExtra: a package is not installed that check files, or an assertion, need.
        CannotRead: a folder cannot be read.
    """
    checks: list[PlannedCheck] = []
    findings: list[Finding] = []
    total = 0
    for path, is_named in _find_files(paths or [os.path.relpath(os.path.join(project, CHECKS_DIR))]):
        try:
            definitions = read_definitions(path, is_named=is_named)
        except CannotRead as exc:
            findings.append(exc.finding(path))
            continue
        except InvalidFile as exc:
            findings += exc.findings
            continue
        total += len(definitions)
        for definition in definitions:
            if tags and not tags & set(definition.tags):
                continue
            try:
                checks += _expand(definition, project, list_trace_cases)
            except CannotRead as exc:
                findings.append(exc.finding(path))
            except InvalidFile as exc:
                findings += exc.findings
    return CheckPlan(checks, findings, total)


def read_definitions(path: str, *, is_named: bool) -> list[CheckDefinition]:
    """The checks of a file; only one that a person named may be a link.

    Raises:
        MissingExtra: PyYAML is not installed.
        CannotRead, InvalidFile: it cannot be read, or breaks a rule.
    """
    return read_check_file(read_file(path, follow_links=is_named, bytes_max=FILE_BYTES_MAX), path)


def has_check_files(project: str) -> bool:
    """Whether the project has a check file, valid or not."""
    folder = os.path.join(project, CHECKS_DIR)
    return os.path.isdir(folder) and any(_walk(folder))


def list_check_files(project: str) -> list[str]:
    """The check files of a project, valid or not, relative to the current folder."""
    folder = os.path.relpath(os.path.join(project, CHECKS_DIR))
    return list(_walk(folder)) if os.path.isdir(folder) else []


def plan_checks(definitions: Iterable[CheckDefinition], project: str, list_trace_cases: ListTraceCases) -> CheckPlan:
    """The plan of checks that were read already.

    Raises:
        InvalidFile, CannotRead: a case or an assertion is invalid, or a data set cannot be read.
    """
    checks = [planned for definition in definitions for planned in _expand(definition, project, list_trace_cases)]
    return CheckPlan(checks, (), len(checks))


def _find_files(paths: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Every check file, and whether a person named it."""
    for path in paths:
        if os.path.isdir(path):
            yield from ((file, False) for file in _walk(path))
        elif os.path.lexists(path) or os.path.basename(path) != CHECKS_DIR:  # Not the default, which may be missing.
            yield path, True


def _walk(folder: str) -> Iterator[str]:
    """The check files of a folder and all below it, and links to folders: reading one reports that no link is
    followed. Without recursion: a checkout chooses how deep folders lie.
    """
    pending = list_folder(folder)[::-1]
    while pending:
        entry = pending.pop()
        if entry.is_dir(follow_symlinks=False):
            pending += list_folder(entry.path)[::-1]
        elif entry.name.lower().endswith(SUFFIXES) or (entry.is_symlink() and entry.is_dir()):
            yield entry.path


def _expand(definition: CheckDefinition, project: str, list_trace_cases: ListTraceCases) -> list[PlannedCheck]:
    """The checks of a definition: one, or one for each case."""
    cases = definition.cases
    if cases is None:
        return [_plan(definition, None, "")]
    rows = _read_rows(definition, cases, project, list_trace_cases)
    size, template = 0, {name: member for name, member in definition.value.items() if name != "cases"}
    for row in rows:
        size += measure_filled(template, row)
        if size > FILLED_CHARACTERS_MAX:
            message = f"with its cases it has more than {FILLED_CHARACTERS_MAX} characters"
            raise InvalidFile((_finding(definition, message, _SIZE_HINT),))
    return [_plan(definition, row, f"case {number}") for number, row in enumerate(rows, 1)]


def _read_rows(
    definition: CheckDefinition, cases: CaseFile | CaseTraces | list[JSONObject], project: str,
    list_trace_cases: ListTraceCases,
) -> list[JSONObject]:  # fmt: skip
    if isinstance(cases, list):
        return cases
    if isinstance(cases, CaseTraces):
        rows = list_trace_cases(cases)
        if not rows:
            message = f"no trace matches {cases.traces!r}, so the check {definition.name!r} has no case"
            raise InvalidFile((_finding(definition, message, "See: traceforge trace list"),))
        return rows
    folder = os.path.dirname(definition.file)
    path = os.path.join(folder, cases.file)
    roots = [os.path.join(os.path.realpath(root), "") for root in (project, folder or ".")]
    if not os.path.realpath(path).startswith(tuple(roots)):
        raise InvalidFile(
            (_finding(definition, f"the data set of {definition.name!r} is outside of the project", _OUTSIDE_HINT),)
        )
    try:
        data = read_file(path, follow_links=False, bytes_max=DATA_BYTES_MAX)
    except CannotRead as exc:
        finding = exc.finding(definition.file)
        place = definition.cases_mark.text
        message = f"the data set {cases.file} cannot be read: {finding.message}"
        raise InvalidFile((finding._replace(path=place, message=message),)) from None
    return read_cases(data, path)


def _plan(definition: CheckDefinition, variables: Mapping[str, JSON] | None, case: str) -> PlannedCheck:
    check = make_check(definition, variables, case)
    problems = list(find_assertion_problems(check.assertions, "$.assertions"))
    if problems:
        raise InvalidFile(tuple(list_check_findings(definition, problems, case)))
    return PlannedCheck(definition, check, case)


def _finding(definition: CheckDefinition, message: str, hint: str) -> Finding:
    return Finding(definition.file, definition.cases_mark.text, CASES_RULE, message, hint)
