"""`traceforge check-live`: send approved requests again and compare the answers."""

from __future__ import annotations

import os
import sys

import click

from traceforge.canon import JSON
from traceforge.capture.proxy.effective_upstreams import (
    EffectiveUpstreams,
    describe_key_destination,
    find_run_upstreams,
)
from traceforge.cli.output import confirm_or_exit, has_stderr_terminal, json_option, print_json
from traceforge.cli.progress import show_progress
from traceforge.cli.project import load_project
from traceforge.cli.target_option import target_option
from traceforge.config import LoadedConfig
from traceforge.errors import CannotWrite
from traceforge.findings import exit_code
from traceforge.report.check_live_text import plan_lines, verdict_lines
from traceforge.report.text_format import finding_lines
from traceforge.snapshots.live.live_address import ProviderAddresses
from traceforge.snapshots.live.live_check import open_check
from traceforge.snapshots.live.live_history import store_report
from traceforge.snapshots.live.live_journal import LiveJournal
from traceforge.snapshots.live.live_plan import (
    LiveCall,
    LivePlan,
    estimate_cost,
    find_unused_targets,
    list_key_destinations,
    make_plan,
    select_calls,
)
from traceforge.snapshots.live.live_verdict import CheckedCall, check_exit_code, checked_json
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots, open_snapshots
from traceforge.terminal import one_line, print_text

RUNS_MAX = 1000
CONCURRENCY_MAX = 64


@click.command("check-live")
@click.argument("names", nargs=-1, metavar="[ID...]")
@click.option("--runs", type=click.IntRange(1, RUNS_MAX), default=1, show_default=True, metavar="N",
              help="Send each request N times and compare the answers with each other.")  # fmt: skip
@click.option(
    "--model", default="", metavar="NAME", help="Send the requests to this model instead of the recorded one."
)
@target_option
@click.option("--concurrency", type=click.IntRange(1, CONCURRENCY_MAX), default=4, show_default=True, metavar="K",
              help="Make at most K calls at a time.")  # fmt: skip
@click.option(
    "--strict", is_flag=True, help='Fail on a difference also where only the prompt is checked (gate: "request").'
)
@click.option("--fresh", is_flag=True, help="Forget the answers of a check that was interrupted.")
@click.option(
    "--yes",
    is_flag=True,
    help="Skip the question before calls are made; required without a terminal. Does not send a key to an address"
    " that only a file of the project names.",
)
@json_option
def check_live(
    names: tuple[str, ...],
    runs: int,
    model: str,
    targets: dict[str, str],
    concurrency: int,
    strict: bool,
    fresh: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Send approved requests again and compare the answers.

    Checks the snapshots named by ID, which may be shortened to its first characters, or all of them. Calls cost
    money: the command prints an estimate and asks first. API keys come from the variables that SDKs read, such as
    OPENAI_API_KEY. After an interruption, the same command continues where it stopped.

    Exit code 1: an answer differs from the approved one, or several runs do not agree. Exit code 3: something could
    not be checked, such as a request from which redaction removed a value. Where only the prompt is checked
    (gate: "request"), a different answer is reported and is not a failure unless --strict is given.
    """
    loaded = load_project()
    snapshots = open_snapshots(loaded)
    upstreams = find_command_upstreams(loaded, targets)
    plan = _make_plan(snapshots, upstreams, names, targets, runs, model)
    journal = LiveJournal(loaded.project, plan, fresh=fresh)
    check = open_check(loaded, snapshots.keys, plan, journal, os.environ)
    missing_calls = [job.call for job in check.missing]
    _print_plan(loaded, plan, missing_calls)
    if missing_calls:
        confirm_calls(yes, describe_declared_keys(missing_calls, upstreams))
    with journal:
        try:
            for _ in show_progress(check.run_missing(concurrency), len(check.missing), "asking", at_once=True):
                pass
        except KeyboardInterrupt:
            answered = plan.request_count - len(check.missing)
            message = f"{answered} of {plan.request_count} answers are saved; run the same command to continue"
            print_text(f"\n{message}", err=True)
            raise
        _report_and_exit(loaded, check.verdicts(), strict=strict, as_json=as_json)


def find_command_upstreams(loaded: LoadedConfig, targets: dict[str, str]) -> EffectiveUpstreams:
    """The upstreams of the configuration, the environment and the option `--target`."""
    return find_run_upstreams(loaded, os.environ, targets)


def _make_plan(
    snapshots: ProjectSnapshots,
    upstreams: EffectiveUpstreams,
    names: tuple[str, ...],
    targets: dict[str, str],
    runs: int,
    model: str,
) -> LivePlan:
    if snapshots.findings:
        print_text(finding_lines(list(snapshots.findings)), err=True)
        print_text("the snapshot tree is invalid, so nothing was sent", err=True)
        raise click.exceptions.Exit(int(exit_code(snapshots.findings)))
    calls = select_calls(snapshots.loaded.project, snapshots.approved_calls, names)
    if unused := find_unused_targets(calls, targets):
        providers = ", ".join(sorted({call.provider for call in calls}))
        raise click.UsageError(f"No snapshot uses {', '.join(unused)}; providers are {providers}.")
    print_text("\n".join(map(one_line, upstreams.lines)), err=True)
    return make_plan(calls, ProviderAddresses(upstreams.urls), os.environ, runs=runs, model=model)


def _print_plan(loaded: LoadedConfig, plan: LivePlan, missing: list[LiveCall]) -> None:
    cost = estimate_cost(missing, loaded.config.models)
    print_text("\n".join(plan_lines(plan, missing, cost)), err=True)


def describe_declared_keys(calls: list[LiveCall], upstreams: EffectiveUpstreams) -> list[str]:
    """A sentence for each API key that would go where only a file of the project sends it."""
    return [
        one_line(describe_key_destination(provider, variable, origin))
        for provider, variable, origin in list_key_destinations(calls, os.environ)
        if provider in upstreams.declared
    ]


def confirm_calls(yes: bool, declared_keys: list[str]) -> None:
    """Ask, unless --yes was given; a key does not go where only a file sends it without the question."""
    if yes and declared_keys:
        raise click.UsageError("\n".join((*declared_keys, "--yes does not confirm this; without it, you are asked.")))
    if yes:
        return
    for line in declared_keys:
        print_text(f"    {line}", err=True)
    if not (sys.stdin is not None and sys.stdin.isatty() and has_stderr_terminal()):
        raise click.UsageError("These calls may cost money, and there is no terminal to confirm them: pass --yes.")
    confirm_or_exit("Make these calls?", "nothing was sent")


def _report_and_exit(loaded: LoadedConfig, results: list[CheckedCall], *, strict: bool, as_json: bool) -> None:
    code = check_exit_code(results, strict=strict)
    report: dict[str, JSON] = {
        "exit_code": int(code),
        "snapshots": [checked_json(result, strict=strict) for result in results],
    }
    try:
        store_report(loaded.project, report)
    except CannotWrite as exc:  # The result counts, also without its history.
        print_text(one_line(f"the report of this check was not stored: {exc.message}"), err=True)
    if as_json:
        print_json(report)
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print_text("\n".join(verdict_lines(results, strict=strict, colour=colour)), colour=colour)
    raise click.exceptions.Exit(int(code))
