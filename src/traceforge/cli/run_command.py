"""`traceforge run`: run a command and record its model calls."""

from __future__ import annotations

import click

from traceforge.canon import ecmascript_bytes
from traceforge.capture.recorder import ThreadRecorder
from traceforge.capture.run.command_runner import run_command
from traceforge.capture.trace_writer import RecorderSettings
from traceforge.cli.upstream_notes import print_upstreams
from traceforge.config import current_folder, load_config
from traceforge.report.run_text import run_json, run_lines
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import print_json_bytes, print_text

USAGE = "traceforge run -- COMMAND"


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one line of JSON on stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def run(command: tuple[str, ...], as_json: bool) -> None:
    """Run COMMAND and record its model calls as traces to look at.

    Records the calls of every Python and Node.js process that COMMAND starts, and of other programs that read a
    base-URL variable. COMMAND keeps its terminal, signals and environment, and its exit code is the exit code. The
    summary goes to stderr.
    """
    if not command:
        raise click.UsageError(f"Name the command to run: {USAGE}")
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    recorder = ThreadRecorder(RecorderSettings.from_project(loaded))
    if not as_json:
        print_upstreams(loaded)
    finished_run = run_command(command, loaded, recorder, with_proxy=True)
    if as_json:
        print_json_bytes(ecmascript_bytes(run_json(finished_run)), err=True)
    else:
        print_text("\n".join(run_lines(finished_run, USAGE)), err=True)
    raise click.exceptions.Exit(finished_run.exit_code)
