"""`traceforge modelio`: recordings for deterministic replay."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.cli.output import json_option, print_json, write_stdout
from traceforge.errors import CannotRead, NotFound, NotJSON
from traceforge.files import read_file
from traceforge.findings import ExitCode, Finding, exit_code
from traceforge.modelio.recording_verifier import (
    InvalidRecording,
    VerifyOptions,
    VerifyResult,
    result_line,
    verify_session,
    verify_session_file,
)
from traceforge.report.text_format import count, finding_lines, one_line

if TYPE_CHECKING:
    from traceforge.config import LoadedConfig
    from traceforge.modelio.traces_to_recording import RecordedTraces
    from traceforge.traces.index import Row
    from traceforge.traces.store import TraceStore

_out = click.option("--out", required=True, metavar="FILE", help="Where the recording is written.")


@click.group()
def modelio() -> None:
    """Model IO recordings: make, verify, name and compare them."""


@modelio.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--no-response-hashes", is_flag=True, help="Leave out MI7: do not check responses against their hashes."
)
@click.option("--no-size-limits", is_flag=True, help="Leave out MI11 and the count of MI4.")
@click.option("--json", "as_json", is_flag=True, help="Print one canonical JSON line a file on stdout.")
def verify(files: tuple[str, ...], no_response_hashes: bool, no_size_limits: bool, as_json: bool) -> None:
    """Check recordings against the rules MI1 to MI12."""
    options = VerifyOptions(response_hashes=not no_response_hashes, size_limits=not no_size_limits)
    findings: list[Finding] = []
    for file in files:
        result = verify_session_file(file, options)
        findings += (file_findings := _violation_findings(file, result))
        if as_json:
            write_stdout(result_line(result))
        elif isinstance(result, InvalidRecording):
            click.echo(finding_lines(file_findings))
        else:
            click.echo(
                f"{one_line(file)}: valid, {count(result.interactions_count, 'interaction')}, {result.model_io_hash}"
            )
    raise click.exceptions.Exit(int(exit_code(findings)))


@modelio.command("hash")
@click.argument("file", metavar="FILE")
def hash_session(file: str) -> None:
    """Print the ModelIOHash of a valid recording."""
    print_session_hash(file)


def print_session_hash(file: str) -> None:
    """Print the ModelIOHash, or what is wrong with the recording on stderr."""
    result = verify_session_file(file)
    if isinstance(result, InvalidRecording):
        findings = _violation_findings(file, result)
        click.echo(finding_lines(findings), err=True)
        raise click.exceptions.Exit(int(exit_code(findings)))
    click.echo(result.model_io_hash)


@modelio.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_out
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def record(command: tuple[str, ...], out: str) -> None:
    """Run COMMAND, and make a recording of the model calls it makes.

    Its calls are seen as `traceforge run` sees them, and are kept as traces, too. The command's exit code is ours;
    where it succeeded and nothing could be recorded, ours is 3. What is said about the recording goes to stderr.
    """
    from traceforge.capture.recorder import IdCollectingRecorder, ThreadRecorder
    from traceforge.capture.run.command_runner import run_command
    from traceforge.capture.trace_writer import RecorderSettings
    from traceforge.config import current_folder, load_config
    from traceforge.errors import TraceForgeError
    from traceforge.modelio.recording_journal import check_path_is_free
    from traceforge.report.run_text import run_lines

    check_path_is_free(out)  # Before the command runs, and costs something.
    loaded = load_config(current_folder())
    sink = IdCollectingRecorder(ThreadRecorder(RecorderSettings.from_project(loaded)))
    finished_run = run_command(command, loaded, sink, with_proxy=True)
    click.echo("\n".join(run_lines(finished_run)), err=True)
    code, lost = finished_run.exit_code, finished_run.lost + finished_run.unfinished
    try:
        recorded = _record_traces(loaded, out, ids=sink.ids)
    except TraceForgeError as exc:
        click.echo(f"error {exc.code}: {one_line(str(exc))}", err=True)
        raise click.exceptions.Exit(code or int(exc.exit_code)) from None
    _print_recorded(recorded)
    if lost:
        click.echo(f"traceforge: {count(lost, 'call')} could not be kept, so the recording is not whole", err=True)
    raise click.exceptions.Exit(code or int(ExitCode.UNCHECKED if lost else ExitCode.OK))


@modelio.command("from-traces")
@click.option("--session", "session_id", default="", help="Only the calls of this session.")
@_out
def from_traces(session_id: str, out: str) -> None:
    """Make a recording of calls that were traced before.

    Calls that failed, embeddings, and answers of several choices cannot stand in a recording: they are counted on
    stderr.
    """
    from traceforge.config import current_folder, load_config

    _print_recorded(_record_traces(load_config(current_folder()), out, session_id=session_id))


@modelio.command()
@click.argument("file", metavar="FILE")
def recover(file: str) -> None:
    """Make the recording FILE of what a process had recorded that was killed.

    It had left FILE.journal behind, which is removed then.
    """
    from traceforge.modelio.recording import recover_recording as recover_session

    written = recover_session(file)
    click.echo(f"{one_line(file)}: {count(written.interactions, 'interaction')}, {written.model_io_hash}")


@modelio.command()
@click.argument("file", metavar="FILE")
@json_option
def show(file: str, as_json: bool) -> None:
    """Show a valid recording: what it is of, and how each answer begins."""
    from traceforge.report.recording_text import session_lines

    session, name = _load_recording(file)
    if as_json:
        print_json({"model_io_hash": name, "session": session})
    else:
        click.echo("\n".join(session_lines(session, name)))


@modelio.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@json_option
def diff(before: str, after: str, as_json: bool) -> None:
    """Show what differs between two valid recordings, prompt by prompt.

    Times, tokens and other ephemeral fields are no difference. Exit code 1: they differ.
    """
    from traceforge.modelio.recording_diff import compare_sessions
    from traceforge.report.recording_text import difference_lines, difference_summary

    (old, old_name), (new, new_name) = _load_recording(before), _load_recording(after)
    differences = list(compare_sessions(old, new))
    if as_json:
        listed: list[JSON] = [difference.to_json() for difference in differences]
        print_json({"same": not differences, "before": old_name, "after": new_name, "differences": listed})
    else:
        click.echo("\n".join([*difference_lines(differences), difference_summary(differences)]))
    raise click.exceptions.Exit(int(ExitCode.FINDINGS if differences else ExitCode.OK))


@modelio.command()
@click.argument("file", metavar="FILE")
@json_option
def stats(file: str, as_json: bool) -> None:
    """Show how much a valid recording holds, and what its calls cost."""
    from traceforge.modelio.recording_diff import session_statistics
    from traceforge.report.recording_text import statistics_lines

    numbers = session_statistics(_load_recording(file)[0])
    if as_json:
        print_json(numbers)
    else:
        click.echo("\n".join(statistics_lines(numbers)))


def _load_recording(file: str) -> tuple[JSONObject, str]:
    """A valid recording and its hash; what is wrong with any other goes to stderr."""
    try:
        session = parse_json(read_file(file))
        result = verify_session(session)
    except (NotJSON, CannotRead) as exc:
        findings = [exc.finding(file)]
    else:
        if not isinstance(result, InvalidRecording):
            assert isinstance(session, dict)
            return session, result.model_io_hash
        findings = _violation_findings(file, result)
    click.echo(finding_lines(findings), err=True)
    raise click.exceptions.Exit(int(exit_code(findings)))


def _record_traces(
    loaded: LoadedConfig, out: str, *, session_id: str = "", ids: Iterable[str] | None = None
) -> RecordedTraces:
    from traceforge.modelio.traces_to_recording import record_traces
    from traceforge.redact import Redactor
    from traceforge.traces.store import TraceStore

    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    try:
        store.bring_up_to_date()
        return record_traces(store, _rows(store, session_id, ids), out, Redactor.from_config(loaded.config))
    finally:
        store.close()


def _rows(store: TraceStore, session_id: str, ids: Iterable[str] | None) -> list[Row]:
    from traceforge.traces.index import Filter

    if ids is not None:
        return [row for trace_id in ids for row in _find_rows(store, trace_id)]
    if not os.path.isdir(store.folder):
        return []
    return store.rows(Filter(session_id=session_id), oldest_first=True)


def _find_rows(store: TraceStore, trace_id: str) -> list[Row]:
    """The trace of a call; none where it could not be kept, which is counted as lost."""
    try:
        return [store.find(trace_id)]
    except NotFound:
        return []


def _print_recorded(result: RecordedTraces) -> None:
    from traceforge.report.recording_text import recorded_lines

    for line in recorded_lines(result):
        click.echo(f"traceforge: {line}", err=True)


def _violation_findings(file: str, result: VerifyResult) -> list[Finding]:
    return [Finding(file, "" if v.path == file else v.path, v.rule_id, v.message) for v in result.violations]
