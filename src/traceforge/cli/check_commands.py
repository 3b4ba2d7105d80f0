"""`traceforge check`: assertions about answers that may vary."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import NamedTuple, NoReturn

import click

from traceforge.canon import JSONObject
from traceforge.checks.assertions.answer import FailedCall
from traceforge.checks.assertions.judge_assertions import EvaluationTools
from traceforge.checks.formats.data_sets import CASES_MAX
from traceforge.checks.runs.check_plan import CheckPlan, make_plan
from traceforge.checks.runs.check_proposal import (
    find_proposed_run,
    make_file_name,
    propose_check_of,
    propose_data_set,
    write_proposal,
)
from traceforge.checks.runs.check_results import CheckReport
from traceforge.checks.runs.check_run import ELSEWHERE_ADVICE, replay_checks, run_checks_live
from traceforge.checks.runs.live_answers import LiveAnswers
from traceforge.checks.runs.recorded_answers import RecordedAnswers
from traceforge.checks.runs.report_comparison import compare_reports
from traceforge.checks.runs.stored_reports import REPORT_BYTES_MAX, StoredReport, read_report, store_check_report
from traceforge.cli.check_live_command import CONCURRENCY_MAX, confirm_calls
from traceforge.cli.ci_report_files import write_ci_reports
from traceforge.cli.ci_reports import is_ci_report_wanted, report_options
from traceforge.cli.file_watch import watch_files
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import json_option, print_json, print_json_list, refuse_in_ci
from traceforge.cli.progress import show_progress
from traceforge.cli.project import load_project
from traceforge.cli.shared_page import PAGE_MODE
from traceforge.cli.trace_options import open_store
from traceforge.config import CHECKS_DIR, CONFIG_FILE, SNAPSHOTS_DIR, LoadedConfig, current_folder
from traceforge.context.model_calls import ModelClients
from traceforge.errors import CannotWrite, NotFound, TraceForgeError
from traceforge.files import read_file, write_atomic
from traceforge.findings import exit_code
from traceforge.redact.redactor import Redactor
from traceforge.report.check_report import build_check_report, check_html
from traceforge.report.check_text import check_lines, drift_lines, list_lines
from traceforge.report.finding_locations import FindingLocator
from traceforge.report.text_format import count, finding_lines, hint_line
from traceforge.snapshots.tree.base_commit import check_checks_against_base
from traceforge.statistics.pass_rate import RUNS_MAX
from traceforge.statistics.rate_interval import LIMIT_ERROR
from traceforge.terminal import one_line, print_text
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore

RECORD_HINT = "Make traces first: traceforge run -- COMMAND"

_files_argument = click.argument("files", nargs=-1, metavar="[FILE...]")
_tag_option = click.option("--tag", "tags", multiple=True, help="Use only checks with this tag; repeatable.")


@click.group("check", cls=SuggestingGroup)
def check_group() -> None:
    """Run checks of answers that may vary; propose new ones."""


@check_group.command()
@_files_argument
@_tag_option
@click.option("--replay/--live", "is_replay", default=True,
              help="Use recorded answers (the default), or ask the models again.")  # fmt: skip
@click.option("--runs", type=click.IntRange(1, RUNS_MAX), default=None, metavar="N",
              help="Make at most N live runs of each check.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, CONCURRENCY_MAX), default=4, show_default=True, metavar="K",
              help="Run at most K live checks at a time.")  # fmt: skip
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), default=None, metavar="X",
              help="Start no further live run once all runs cost X, by the prices in the configuration.")  # fmt: skip
@click.option(
    "--watch", is_flag=True, help="Run again after each change of a check file, data set, trace or snapshot."
)
@click.option("--yes", is_flag=True, help="Skip the question before live runs; required without a terminal.")
@click.option("--html", metavar="FILE", default="", help="Write the report to FILE as a page.")
@click.option(
    "--base", metavar="REF", help="Require a new approval for every check that demands less than in commit REF."
)
@report_options
@json_option
def run(
    files: tuple[str, ...], tags: tuple[str, ...], is_replay: bool, runs: int | None, jobs: int,
    max_cost: float | None, watch: bool, yes: bool, html: str, base: str | None, junit: str, sarif: str,
    as_json: bool,
) -> None:  # fmt: skip
    """Run the checks in each FILE, or all of .ai-checks.

    A check says which answer it is about, and what must be true of it. With --replay, answers come from traces,
    sessions and approved snapshots, and nothing is sent. With --live, the request of each check is sent to its model:
    that costs money, so the command asks first. Each live answer is stored as a trace.

    Exit code 1: an assertion does not hold, or a check file breaks a rule. Exit code 3: something could not be
    checked: no answer was recorded, the provider failed, the runs are too few to decide a pass rate, or no check
    matches.

    With --base REF, the check files are compared with those of the commit REF: a check that was removed, or that
    demands less, needs a new approval (`traceforge approve --policy`). Where CI is set, the command does so without
    the option, with the base of the build.
    """
    if is_replay and (runs is not None or max_cost is not None):
        raise click.UsageError("--runs and --max-cost are about live runs: add --live.")
    selection = _Selection(files, tags, base)
    outputs = _Outputs(html, junit, sarif, as_json)
    if watch:
        _watch(selection, outputs, is_replay=is_replay)
    loaded = load_project()
    limits = None if is_replay else _LiveLimits(runs or 0, jobs, max_cost, yes)
    report = _run_once(loaded, selection, outputs, limits)
    raise click.exceptions.Exit(int(report.exit_code))


class _Selection(NamedTuple):
    """Which checks run, and which commit their files are compared with."""

    files: tuple[str, ...]
    tags: tuple[str, ...]
    base: str | None


class _LiveLimits(NamedTuple):
    """How often the models are asked. `runs`: 0 for what each check says."""

    runs: int
    jobs: int
    max_cost: float | None
    is_confirmed: bool


class _Outputs(NamedTuple):
    """The reports to write: names of files, "" for none."""

    html: str
    junit: str
    sarif: str
    as_json: bool


def _run_once(
    loaded: LoadedConfig, selection: _Selection, outputs: _Outputs, limits: _LiveLimits | None
) -> CheckReport:
    """Run the checks on recorded answers, or with `limits` on new ones, and report them."""
    redactor = Redactor.from_config(loaded.config)
    with open_store() as (store, _):
        recorded = RecordedAnswers(loaded, store)
        plan = _compare_plan(
            _load_plan(loaded, selection.files, selection.tags, recorded, store), loaded, selection.base
        )
        if loaded.project not in sys.path:  # for functions that checks name; last, so that it replaces no module
            sys.path.append(loaded.project)
        report = replay_checks(plan, recorded, redactor, show_progress) if limits is None else None
        requests = {} if report else {planned.id: recorded.find_request(planned.check) for planned in plan.checks}
    if report is None:
        assert limits is not None
        report = _ask_models(loaded, plan, requests, limits)
    _store_report(loaded, report, "replay" if limits is None else "live", redactor)
    _write_reports(loaded, report, outputs.html, outputs.junit, outputs.sarif)
    if outputs.as_json:
        print_json(report.to_json())
    else:
        print_text("\n".join(check_lines(report)))
    return report


def _ask_models(
    loaded: LoadedConfig, plan: CheckPlan, requests: Mapping[str, JSONObject | FailedCall], limits: _LiveLimits
) -> CheckReport:
    print_text(f"{count(len(plan.checks), 'check')} will ask their models", err=True)
    confirm_calls(limits.is_confirmed, [])
    with closing(ModelClients()) as clients:
        live = LiveAnswers(loaded, clients, requests, environ=os.environ, runs=limits.runs, max_cost=limits.max_cost)
        redactor = Redactor.from_config(loaded.config)
        show_asked = partial(show_progress, at_once=True)  # a check may take long: it has many runs
        return run_checks_live(plan, live, redactor, limits.jobs, show_asked)


def _watch(selection: _Selection, outputs: _Outputs, *, is_replay: bool) -> NoReturn:
    """Run the checks again after each change of a file that they depend on, until Ctrl-C."""
    if not is_replay or outputs.as_json:
        raise click.UsageError("--watch repeats runs on recorded answers: pass neither --live nor --json with it.")
    refuse_in_ci("check run --watch")
    loaded = load_project()
    folders = (CHECKS_DIR, SNAPSHOTS_DIR, CONFIG_FILE, loaded.config.traces_dir)
    paths = [*selection.files, *(os.path.join(loaded.project, name) for name in folders)]
    for _ in watch_files(lambda: paths):
        try:
            _run_once(load_project(), selection, outputs, None)
        except TraceForgeError as exc:
            print_text(one_line(f"{exc.code} {exc.message}"), err=True)
        print_text("waiting for a change; Ctrl-C ends", err=True)
    raise AssertionError("files are watched for ever")


@check_group.command("list")
@_files_argument
@_tag_option
@json_option
def list_checks(files: tuple[str, ...], tags: tuple[str, ...], as_json: bool) -> None:
    """List the checks in each FILE, or all of .ai-checks."""
    loaded = load_project()
    with open_store() as (store, _):
        plan = make_plan(loaded.project, files, set(tags), RecordedAnswers(loaded, store).list_cases)
        hint = "" if plan.checks or plan.total else _first_check_hint(store)
    if plan.findings:
        print_text(finding_lines(plan.findings), err=True)
    elif not plan.checks:
        print_text("no check has this tag" if plan.total else f"no checks yet\n{hint_line(hint)}", err=True)
    if as_json:
        print_json_list([check.to_json() for check in plan.checks])
    elif plan.checks:
        print_text("\n".join(list_lines(plan.checks)))
    raise click.exceptions.Exit(int(exit_code(plan.findings)))


@check_group.command()
@click.option("--from-trace", "trace", metavar="ID", default="", help="Propose a check of the answer in this trace.")
@click.option("--from-session", "session", metavar="ID", default="",
              help="Propose a check of this session: its last answer, and all of its tool calls.")  # fmt: skip
@click.option("--from-traces", "query", metavar="QUERY", default=None,
              help="Propose one check, with a data set, of the traces that match: `refund model:gpt-*`.")  # fmt: skip
@click.option("--sample", type=click.IntRange(1, CASES_MAX), default=50, show_default=True, metavar="N",
              help="Use at most N of the traces, chosen at random.")  # fmt: skip
@click.option("--name", default="", help="Set the name of the check and of its file.")
def new(trace: str, session: str, query: str | None, sample: int, name: str) -> None:
    """Propose a check file for recorded answers.

    The file is written to .ai-checks. Each proposed assertion is true of the recorded answers; you decide which of
    them matter. An existing file is not overwritten.

    If the call of the trace is approved, the check names its snapshot, which is committed, so it also runs in CI.
    Traces and sessions stay on this machine: a check of one is not checked in CI.
    """
    refuse_in_ci("check new")
    if sum((bool(trace), bool(session), query is not None)) != 1:
        message = "Name one of --from-trace, --from-session and --from-traces; to list the ids: traceforge trace list"
        raise click.UsageError(message)
    loaded = load_project()
    tools = EvaluationTools(Redactor.from_config(loaded.config))
    title = name or f"proposed {trace or session or query}"
    file = make_file_name(title)
    is_committed = False
    with open_store() as (store, _):
        recorded = RecordedAnswers(loaded, store)
        if query is not None:
            proposal = propose_data_set(title, f"{file}.jsonl", recorded.read_cases(query), sample, tools)
        else:
            proposed = find_proposed_run(recorded, trace or session, is_session=bool(session))
            proposal, is_committed = propose_check_of(title, proposed, tools), proposed.is_committed
    for path in write_proposal(loaded.project, file, proposal):
        print_text(f"written: {one_line(os.path.relpath(path))}")
    print_text("next: remove the assertions that do not matter, then traceforge check run", err=True)
    if not is_committed:
        print_text(f"in CI, this check has no answer to look at. {ELSEWHERE_ADVICE}", err=True)


@check_group.command()
@click.argument("before", metavar="BEFORE", type=click.Path(dir_okay=False))
@click.argument("after", metavar="AFTER", type=click.Path(dir_okay=False))
@click.option("--alpha", type=click.FloatRange(0.0001, 0.5), default=LIMIT_ERROR, show_default=True, metavar="SHARE",
              help="Set the chance of a false alarm: a drop is reported although nothing changed.")  # fmt: skip
@json_option
def drift(before: str, after: str, alpha: float, as_json: bool) -> None:
    """Compare two reports; fail if answers got worse, and not by chance.

    BEFORE and AFTER are reports: the output of `traceforge check run --json`, or files of .ai-tests/checks, where
    each run stores its report. Each case of a data set is compared with itself.

    Exit code 1: an assertion is true less often in AFTER, and chance does not explain it. Exit code 3: an assertion
    or a case has answers in one report only, or there are too few runs to show any drop.
    """
    report = compare_reports(_read_report(before), _read_report(after), alpha)
    if as_json:
        print_json(report.to_json())
    else:
        print_text("\n".join(drift_lines(report)))
    raise click.exceptions.Exit(int(report.exit_code))


def _load_plan(
    loaded: LoadedConfig, files: tuple[str, ...], tags: tuple[str, ...], recorded: RecordedAnswers, store: TraceStore
) -> CheckPlan:
    """The checks in these files with these tags.

    Raises:
        NotFound: there are none, so a run would check nothing.
    """
    plan = make_plan(loaded.project, files, set(tags), recorded.list_cases)
    if not plan.checks and not plan.findings:
        if plan.total:
            raise NotFound(f"no check has the tag {' or '.join(tags)}", hint="See: traceforge check list")
        where = ", ".join(files) or CHECKS_DIR
        raise NotFound(f"there is no check in {where}", hint=_first_check_hint(store))
    return plan


def _first_check_hint(store: TraceStore) -> str:
    """How to get a first check: one is proposed for a recorded answer."""
    newest = store.list_rows(TraceFilter(status="success"), limit=1)
    if not newest:
        return RECORD_HINT
    return f"Let one be proposed for a recorded answer: traceforge check new --from-trace {newest[0].summary.id[:8]}"


def _compare_plan(plan: CheckPlan, loaded: LoadedConfig, base: str | None) -> CheckPlan:
    """The plan with findings about checks that demand less than in `base`, or than in the base of the build.

    Raises:
        NotFound, BaseUnavailable: the commit is not in this clone.
    """
    compared = check_checks_against_base(loaded.project, base)
    if compared.line:
        print_text(one_line(compared.line), err=True)
    findings = compared.name_files(os.path.relpath(os.path.join(loaded.project, SNAPSHOTS_DIR)))
    return plan._replace(findings=[*plan.findings, *findings])


def _store_report(loaded: LoadedConfig, report: CheckReport, mode: str, redactor: Redactor) -> None:
    try:
        store_check_report(loaded.project, report, mode, redactor)
    except CannotWrite as exc:  # The result counts, also without its history.
        print_text(one_line(f"the report of these checks was not stored: {exc.message}"), err=True)


def _write_reports(loaded: LoadedConfig, report: CheckReport, html: str, junit: str, sarif: str) -> None:
    """Write the files that were asked for.

    Raises:
        CannotWrite: a file cannot be written.
    """
    if html:
        write_atomic(html, check_html(report).encode(), mode=PAGE_MODE)
    if is_ci_report_wanted(junit, sarif):
        locator = FindingLocator(loaded.project, current_folder())
        write_ci_reports(build_check_report(report, locator), junit, sarif)


def _read_report(path: str) -> StoredReport:
    return read_report(read_file(path, bytes_max=REPORT_BYTES_MAX), path)
