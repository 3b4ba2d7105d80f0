"""`traceforge modelio verify`, `hash`, `show`, `diff` and `stats`: read recordings."""

from __future__ import annotations

import click

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.cli.output import json_option, print_json, print_json_line
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import read_file
from traceforge.findings import ExitCode, Finding, exit_code
from traceforge.modelio.recording_diff import compare_sessions, session_statistics
from traceforge.modelio.recording_verifier import (
    InvalidRecording,
    VerifyOptions,
    VerifyResult,
    result_line,
    verify_session,
    verify_session_file,
)
from traceforge.report.recording_text import (
    difference_lines,
    difference_summary,
    session_lines,
    statistics_lines,
)
from traceforge.report.text_format import count, finding_lines
from traceforge.terminal import one_line, print_text


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--no-response-hashes", is_flag=True, help="Skip MI7: do not check responses against their hashes.")
@click.option("--no-size-limits", is_flag=True, help="Skip MI11 and the count of MI4.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of canonical JSON for each file on stdout.")
def verify(files: tuple[str, ...], no_response_hashes: bool, no_size_limits: bool, as_json: bool) -> None:
    """Check recordings against the rules MI1 to MI12."""
    options = VerifyOptions(response_hashes=not no_response_hashes, size_limits=not no_size_limits)
    findings: list[Finding] = []
    for file in files:
        result = verify_session_file(file, options)
        findings += (file_findings := _violation_findings(file, result))
        if as_json:
            print_json_line(result_line(result))
        elif isinstance(result, InvalidRecording):
            print_text(finding_lines(file_findings))
        else:
            print_text(
                f"{one_line(file)}: valid, {count(result.interactions_count, 'interaction')}, {result.model_io_hash}"
            )
    raise click.exceptions.Exit(int(exit_code(findings)))


@click.command("hash")
@click.argument("file", metavar="FILE")
def hash_recording(file: str) -> None:
    """Print the ModelIOHash of a valid recording."""
    print_session_hash(file)


def print_session_hash(file: str) -> None:
    """Print the ModelIOHash; for an invalid recording, print its findings on stderr and exit."""
    result = verify_session_file(file)
    if isinstance(result, InvalidRecording):
        findings = _violation_findings(file, result)
        print_text(finding_lines(findings), err=True)
        raise click.exceptions.Exit(int(exit_code(findings)))
    print_text(result.model_io_hash)


@click.command()
@click.argument("file", metavar="FILE")
@json_option
def show(file: str, as_json: bool) -> None:
    """Show a recording and how each of its answers begins."""
    session, name = _load_recording(file)
    if as_json:
        print_json({"model_io_hash": name, "session": session})
    else:
        print_text("\n".join(session_lines(session, name)))


@click.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@json_option
def diff(before: str, after: str, as_json: bool) -> None:
    """Compare two recordings prompt by prompt.

    Times, tokens and other ephemeral fields are not compared. Exit code 1: the recordings differ.
    """
    (old, old_name), (new, new_name) = _load_recording(before), _load_recording(after)
    differences = list(compare_sessions(old, new))
    if as_json:
        listed: list[JSON] = [difference.to_json() for difference in differences]
        print_json({"same": not differences, "before": old_name, "after": new_name, "differences": listed})
    else:
        print_text("\n".join([*difference_lines(differences), difference_summary(differences)]))
    raise click.exceptions.Exit(int(ExitCode.FINDINGS if differences else ExitCode.OK))


@click.command()
@click.argument("file", metavar="FILE")
@json_option
def stats(file: str, as_json: bool) -> None:
    """Print how much a recording holds and what its calls cost."""
    numbers = session_statistics(_load_recording(file)[0])
    if as_json:
        print_json(numbers)
    else:
        print_text("\n".join(statistics_lines(numbers)))


def _load_recording(file: str) -> tuple[JSONObject, str]:
    """A valid recording and its hash; for an invalid one, print its findings on stderr and exit."""
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
    print_text(finding_lines(findings), err=True)
    raise click.exceptions.Exit(int(exit_code(findings)))


def _violation_findings(file: str, result: VerifyResult) -> list[Finding]:
    if not isinstance(result, InvalidRecording):
        return []
    findings = []
    for violation in result.violations:
        place = "" if violation.path == file else violation.path
        findings.append(Finding(file, place, violation.rule_id, violation.message, result.hint))
    return findings
