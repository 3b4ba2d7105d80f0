"""`traceforge record`: run a command and save its new or changed model calls."""

from __future__ import annotations

import os

import click

from traceforge.canon import exact_ecmascript_bytes
from traceforge.cli.output import refuse_in_ci
from traceforge.cli.progress import show_progress
from traceforge.cli.upstream_notes import print_upstreams
from traceforge.config import current_folder, load_config
from traceforge.findings import ExitCode, exit_code
from traceforge.match_key import requires_comparison
from traceforge.report.record_text import record_json, record_lines
from traceforge.report.text_format import finding_lines
from traceforge.snapshots.record.record_run import RecordRun, adopt_answers, run_record
from traceforge.terminal import one_line, print_json_bytes, print_text

RUNS_MAX = 1000


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--fresh", is_flag=True, help="Send every call to its provider; answer none from snapshots.")
@click.option(
    "--replace-old", is_flag=True, help="Record the calls of snapshots of an older version again, to replace them."
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Run without a network, and give changed requests the recorded answers of imported calls.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, RUNS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Run COMMAND N times and compare the answers of its live calls with each other.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one line of JSON on stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def record(command: tuple[str, ...], fresh: bool, replace_old: bool, adopt: bool, runs: int, as_json: bool) -> None:
    """Run COMMAND and save new or changed model calls for review.

    Approved calls are answered from snapshots; only new or changed requests go to their provider. The exit code is
    that of COMMAND, or 3 if COMMAND succeeded and made no model call, a call was lost, or redacted parts could not be
    compared. Then list the pending changes with `traceforge status`, read them with `traceforge diff` and approve
    them with `traceforge approve`.

    A call with temperature 0 and a seed is checked on prompt and answer, any other call on its prompt; its answer is
    replayed. A call is refused if it cannot be approved as it is, for example because its answer was cut off;
    `traceforge status` says why.

    With --runs, COMMAND is run N times. The calls of the first run are saved, and the answers of the others are
    compared with theirs. An answer that is checked and varies is refused, with exit code 1; where only the prompt is
    checked, its variance is reported. Add --fresh to measure approved calls too.

    With --replace-old, snapshots of an older version of the format answer nothing: their calls are recorded again
    under their ids. `traceforge approve` removes an old file when each of its calls is replaced. What COMMAND did not
    ask for stays as it is, and is listed.

    With --adopt, nothing goes to a provider. A request that no snapshot answers gets the recorded answer of an
    imported call of the same test: the one with the nearest prompt, or the next one of the cassette. It is saved for
    review with the request as it was sent, and its answer is labelled as adopted: no provider gave it to this
    request. Exit code 3: some request has no such call. To replace adopted answers by live ones, use --fresh.
    """
    refuse_in_ci("record")
    loaded = load_config(current_folder())
    if not command:
        raise click.UsageError("Name the command to run: traceforge record -- COMMAND")
    if adopt and (fresh or replace_old or runs > 1):
        raise click.UsageError("--adopt asks no provider: it does not go with --fresh, --replace-old or --runs.")
    if not as_json and not adopt:
        print_upstreams(loaded)
    if adopt:
        record_run = adopt_answers(loaded, command, progress=show_progress)
    else:
        record_run = run_record(
            loaded,
            command,
            fresh=fresh,
            replace_old=replace_old,
            runs=runs,
            notify=_print_note,
            progress=show_progress,
        )
    if record_run.run is None:
        findings = record_run.snapshots.tree_report.findings
        print_text(finding_lines(findings), err=True)
        print_text("the snapshot tree is invalid, so nothing was run", err=True)
        raise click.exceptions.Exit(int(exit_code(findings)))
    if as_json:
        print_json_bytes(exact_ecmascript_bytes(record_json(record_run)), err=True)
    else:
        print_text("\n".join(f"traceforge: {line}" for line in record_lines(record_run)), err=True)
    raise click.exceptions.Exit(_exit_code(record_run, record_run.run.exit_code, loaded.config.match.redacted))


def _exit_code(record_run: RecordRun, command_exit_code: int, redacted_setting: str) -> int:
    if command_exit_code:
        return command_exit_code
    if any(variance.is_failure for variance in record_run.variances):
        return int(ExitCode.FINDINGS)
    incomplete = record_run.unread or record_run.lost or record_run.failed_repeats or record_run.unmatched
    incomplete = incomplete or record_run.deviations
    uncompared = record_run.snapshots.player.uncompared_call_count and requires_comparison(
        redacted_setting, os.environ
    )
    return int(ExitCode.UNCHECKED if record_run.has_no_call or incomplete or uncompared else ExitCode.OK)


def _print_note(text: str) -> None:
    print_text(f"traceforge: {one_line(text)}", err=True)
