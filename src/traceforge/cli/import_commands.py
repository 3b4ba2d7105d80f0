"""`traceforge import`: what other tools have recorded."""

from __future__ import annotations

import click

from traceforge.canon import JSON
from traceforge.cli.output import json_option, print_json, refuse_in_ci
from traceforge.cli.project import load_project
from traceforge.findings import ExitCode, exit_code
from traceforge.report.text_format import finding_lines


@click.group("import")
def import_group() -> None:
    """Bring in what other tools have recorded."""


@import_group.command()
@click.argument("folder", metavar="DIR")
@json_option
def vcr(folder: str, as_json: bool) -> None:
    """Turn cassettes of vcrpy and pytest-recording into traces and pending changes.

    Every model call in the cassettes under DIR becomes a trace, redacted as any other, and a pending change for you
    to approve. Where cassettes lie as pytest-recording puts them (cassettes/MODULE/TEST.yaml), a call belongs to its
    test. YAML needs an extra: pip install "traceforge[vcr]".

    Exit code 0: every cassette was read. 1: the snapshot tree does not verify, and nothing was done. 3: a cassette
    could not be read, or there is no model call in any; the others were imported.
    """
    from traceforge.report.gate_text import change_json
    from traceforge.report.import_text import import_lines
    from traceforge.snapshots.record.cassette_import import import_cassettes
    from traceforge.snapshots.tree.project_snapshots import open_gate

    refuse_in_ci("import vcr")
    gate = open_gate(load_project())
    if gate.findings:
        click.echo(finding_lines(list(gate.findings)), err=True)
        click.echo("the snapshot tree does not verify, so nothing was imported", err=True)
        raise click.exceptions.Exit(int(exit_code(gate.findings)))
    done = import_cassettes(gate, folder)
    code = ExitCode.UNCHECKED if done.findings or done.unread or not done.calls else ExitCode.OK
    if as_json:
        told: JSON = {
            "exit_code": int(code),
            "cassettes": done.cassettes,
            "calls": done.calls,
            "others": done.others,
            "without_test": done.without_test,
            "unread": done.unread,
            "unchanged": done.unchanged,
            "pending": [change_json(change) for change in done.changes],
            "findings": [dict(finding.to_json()) for finding in done.findings],
        }
        print_json(told)
    else:
        click.echo("\n".join(import_lines(done)))
    raise click.exceptions.Exit(int(code))
