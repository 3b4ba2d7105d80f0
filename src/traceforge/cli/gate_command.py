"""`traceforge test`: replay a command offline, or check the snapshot tree and pending changes."""

from __future__ import annotations

import click

from traceforge.cli.ci_reports import report_options
from traceforge.cli.project import load_project


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--base", metavar="REF", help="Require a new approval for every snapshot that differs from commit REF.")
@click.option("--allow-unused", is_flag=True, help="Ignore snapshots that no call used.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON; with a COMMAND, on stderr.")
@report_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def test(
    command: tuple[str, ...], base: str | None, allow_unused: bool, as_json: bool, junit: str, sarif: str
) -> None:
    """Run COMMAND offline with approved answers; fail on a change.

    Every model call of COMMAND is answered from its snapshot, the approved request and answer in Git, and COMMAND
    cannot reach other machines. The report says how the network was closed. `sealed`: by the kernel, for every
    program; with `refusals not named`, it is not known which program tried to connect. `hooks only`: in process,
    for Python and Node.js; other programs are not held back.

    Exit code 1: a request is new or changed, COMMAND tried to open a connection, a snapshot was not used by the test
    it belongs to, or a file of the snapshot tree is invalid. Exit code 3: something could not be checked, or COMMAND
    made no model call. Otherwise the exit code is that of COMMAND, and the last line says which of them it was.

    Where CI is set, every snapshot that differs from the base of the build, which `traceforge base` prints, needs a
    new approval; --base names another commit.

    Without a COMMAND, nothing is run: check the snapshot tree and that no change is pending.
    """
    loaded = load_project()
    if command:  # Each of the two would be a third of the other's imports.
        from traceforge.cli.suite_gate import run_suite_and_exit

        run_suite_and_exit(
            loaded, command, base, allow_unused=allow_unused, as_json=as_json, junit=junit, sarif=sarif
        )
    from traceforge.cli.tree_gate_check import check_tree_and_exit

    check_tree_and_exit(loaded, base, as_json=as_json, junit=junit, sarif=sarif)
