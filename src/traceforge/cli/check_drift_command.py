"""`traceforge check drift`: compare two reports of checks."""

from __future__ import annotations

import click

from traceforge.checks.runs.drift_report import REPORT_BYTES_MAX, StoredReport, compare_reports, read_report
from traceforge.cli.output import json_option, print_json
from traceforge.files import read_file
from traceforge.report.check_drift_text import drift_lines
from traceforge.statistics.rate_interval import LIMIT_ERROR
from traceforge.terminal import print_text


@click.command()
@click.argument("before", metavar="BEFORE", type=click.Path(dir_okay=False))
@click.argument("after", metavar="AFTER", type=click.Path(dir_okay=False))
@click.option("--alpha", type=click.FloatRange(0.0001, 0.5), default=LIMIT_ERROR, show_default=True, metavar="SHARE",
              help="Accept this chance to report any drop where there is none.")  # fmt: skip
@json_option
def drift(before: str, after: str, alpha: float, as_json: bool) -> None:
    """Compare two reports, and fail on a real drop.

    BEFORE and AFTER are files with what `check run --json` printed, or from .ai-tests/checks, where each run of the
    checks leaves its report. Cases of a data set are compared each with itself, and chance is ruled out for all
    assertions together.

    Exit code 1: an assertion holds less often in AFTER. Exit code 3: an assertion is in one report only, or the runs
    are too few to show any drop.
    """
    report = compare_reports(_read_report(before), _read_report(after), alpha)
    if as_json:
        print_json(report.to_json())
    else:
        print_text("\n".join(drift_lines(report)))
    raise click.exceptions.Exit(int(report.exit_code))


def _read_report(path: str) -> StoredReport:
    return read_report(read_file(path, bytes_max=REPORT_BYTES_MAX), path)
