"""`traceforge modelio record`, `from-traces` and `recover`: make a recording."""

from __future__ import annotations

import click

from traceforge.capture.recorder import IdCollectingRecorder, ThreadRecorder
from traceforge.capture.run.command_runner import run_command
from traceforge.capture.trace_writer import RecorderSettings
from traceforge.cli.upstream_notes import print_upstreams
from traceforge.config import current_folder, load_config
from traceforge.errors import TraceForgeError
from traceforge.findings import ExitCode
from traceforge.modelio.recording import recover_recording as recover_session
from traceforge.modelio.recording_journal import check_path_is_free
from traceforge.modelio.traces_to_recording import RecordedTraces, record_project_traces
from traceforge.report.recording_text import recorded_lines
from traceforge.report.run_text import run_lines
from traceforge.report.text_format import count
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import one_line, print_text

USAGE = "traceforge modelio record --out FILE -- COMMAND"
_out = click.option("--out", required=True, metavar="FILE", help="Write the recording to this file.")
_force = click.option("--force", is_flag=True, help="Write also if the recording exists, and replace it.")


@click.command(context_settings={"allow_interspersed_args": False})
@_out
@_force
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def record(command: tuple[str, ...], out: str, force: bool) -> None:
    """Run COMMAND and write its model calls as a recording.

    Records as `traceforge run` does, and keeps the traces too. The exit code is that of COMMAND, or 3 if COMMAND
    succeeded and a call could not be recorded. The summary goes to stderr.
    """
    if not command:
        raise click.UsageError(f"Name the command to run: {USAGE}")
    check_path_is_free(out, overwrite=force)  # Before the command runs and costs money.
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    sink = IdCollectingRecorder(ThreadRecorder(RecorderSettings.from_project(loaded)))
    print_upstreams(loaded)
    finished_run = run_command(command, loaded, sink, with_proxy=True)
    print_text("\n".join(run_lines(finished_run, USAGE)), err=True)
    code, lost = finished_run.exit_code, finished_run.lost + finished_run.unfinished
    try:
        recorded = record_project_traces(loaded, out, ids=sink.ids, overwrite=force)
    except TraceForgeError as exc:
        print_text(f"error {exc.code}: {one_line(str(exc))}", err=True)
        raise click.exceptions.Exit(code or int(exc.exit_code)) from None
    _print_recorded(recorded)
    if lost:
        print_text(
            f"traceforge: {count(lost, 'call')} could not be recorded, so the recording is incomplete", err=True
        )
    raise click.exceptions.Exit(code or int(ExitCode.UNCHECKED if lost else ExitCode.OK))


@click.command("from-traces")
@click.option("--session", "session_id", default="", help="Use only the calls of this session.")
@_out
@_force
def from_traces(session_id: str, out: str, force: bool) -> None:
    """Make a recording of calls that were traced before.

    A recording cannot hold failed calls, embeddings and answers with several choices: they are left out and counted
    on stderr.
    """
    check_path_is_free(out, overwrite=force)
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    _print_recorded(record_project_traces(loaded, out, session_id=session_id, overwrite=force))


@click.command()
@click.argument("file", metavar="FILE")
@_force
def recover(file: str, force: bool) -> None:
    """Finish the recording of a process that was killed.

    Reads FILE.journal, which the process left behind, writes FILE and removes the journal.
    """
    written = recover_session(file, overwrite=force)
    print_text(f"{one_line(file)}: {count(written.interactions, 'interaction')}, {written.model_io_hash}")


def _print_recorded(result: RecordedTraces) -> None:
    for line in recorded_lines(result):
        print_text(f"traceforge: {line}", err=True)
