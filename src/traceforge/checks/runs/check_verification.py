"""Whether the check files of a project are valid, without running them.

In: a project. Out: how many check files it has, and every broken rule. Never: looks at an answer, or at the traces
that a data set queries: they are on one machine only, so `traceforge check run` says whether there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from traceforge.canon import JSONObject
from traceforge.checks.formats.check_types import CaseTraces
from traceforge.checks.runs.check_plan import list_check_files, plan_checks, read_definitions
from traceforge.errors import CannotRead, InvalidFile
from traceforge.findings import Finding


class CheckFilesReport(NamedTuple):
    """How many check files there are, and what is wrong with them."""

    files: int
    findings: Sequence[Finding]


def verify_check_files(project: str) -> CheckFilesReport:
    """Check every check file of a project, with the data sets beside it.

    Raises:
        MissingExtra: a package is not installed that check files, or an assertion, need.
    """
    files, findings = list_check_files(project), list[Finding]()
    for path in files:
        try:
            definitions = read_definitions(path, is_named=False)
            plan_checks(
                [each for each in definitions if not isinstance(each.cases, CaseTraces)], project, _list_no_cases
            )
        except CannotRead as exc:
            findings.append(exc.finding(path))
        except InvalidFile as exc:
            findings += exc.findings
    return CheckFilesReport(len(files), findings)


def _list_no_cases(_cases: CaseTraces) -> list[JSONObject]:
    return []
