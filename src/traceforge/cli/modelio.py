"""`traceforge modelio`: recordings for deterministic replay."""

from __future__ import annotations

import click

from traceforge.cli.output import write
from traceforge.findings import Finding, exit_code
from traceforge.modelio.verify import Invalid, Options, Result, result_line, verify_file
from traceforge.report.text import count, finding_lines, one_line


@click.group()
def modelio() -> None:
    """Model IO recordings: verify and name them."""


@modelio.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--no-response-hashes", is_flag=True, help="Leave out MI7: do not check responses against their hashes."
)
@click.option("--no-size-limits", is_flag=True, help="Leave out MI11 and the count of MI4.")
@click.option("--json", "as_json", is_flag=True, help="Print one canonical JSON line a file on stdout.")
def verify(files: tuple[str, ...], no_response_hashes: bool, no_size_limits: bool, as_json: bool) -> None:
    """Check recordings against the rules MI1 to MI12."""
    options = Options(response_hashes=not no_response_hashes, size_limits=not no_size_limits)
    findings: list[Finding] = []
    for file in files:
        result = verify_file(file, options)
        findings += (found := _findings(file, result))
        if as_json:
            write(result_line(result))
        elif isinstance(result, Invalid):
            click.echo(finding_lines(found))
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
    result = verify_file(file)
    if isinstance(result, Invalid):
        findings = _findings(file, result)
        click.echo(finding_lines(findings), err=True)
        raise click.exceptions.Exit(int(exit_code(findings)))
    click.echo(result.model_io_hash)


def _findings(file: str, result: Result) -> list[Finding]:
    return [Finding(file, "" if v.path == file else v.path, v.rule_id, v.message) for v in result.violations]
