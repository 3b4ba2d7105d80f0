"""`traceforge test`: strict replay of a command, or a check of the tree and what is pending."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from traceforge.canon import JSON
from traceforge.cli.ci_reports import deliver, report_options
from traceforge.cli.output import progress_bar
from traceforge.cli.project import load_project, snapshots_root
from traceforge.config import LoadedConfig, current_folder
from traceforge.findings import ExitCode, exit_code
from traceforge.report.text_format import count

if TYPE_CHECKING:
    from traceforge.snapshots.gate.gate_findings import Shown


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--allow-unused", is_flag=True, help="A snapshot that no call asks for is no finding.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, on stderr where there is a COMMAND.")
@report_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def test(command: tuple[str, ...], allow_unused: bool, as_json: bool, junit: str, sarif: str) -> None:
    """Run COMMAND with every model call answered from snapshots, and find what nobody approved.

    COMMAND is kept from the network; the report says whether it was sealed, or hooks alone saw to it.

    Red (exit code 1) on a changed or new request, a connection that was refused, a snapshot that no call of a test
    that ran and passed asks for, and a file that is invalid or was tampered with. Exit code 3: something could not be
    checked, or no call was replayed at all. Otherwise the exit code is the command's.

    Without a COMMAND, check the snapshot tree and that nothing is pending.
    """
    loaded = load_project()
    if not command:
        _check_tree(loaded, as_json, junit, sarif)
    from traceforge.report.ci_report import report_of_test
    from traceforge.report.gate_text import offline_json, outcome_lines
    from traceforge.snapshots.gate.command_runs import run_test
    from traceforge.snapshots.gate.gate_findings import as_json as shown_json
    from traceforge.snapshots.gate.gate_findings import failed_scopes
    from traceforge.snapshots.record.run_scopes import narrowed

    done = run_test(loaded, command, allow_unused=allow_unused)
    code: int = exit_code([*(one.finding for one in done.shown), *done.unchecked])
    if code == ExitCode.OK and done.run is not None:
        code = done.run.exit_code
    if as_json:
        from traceforge.canon import ecmascript_bytes

        told: JSON = {
            "exit_code": int(code),
            "command_exit_code": done.run.exit_code if done.run is not None else None,
            "replayed": done.replayed,
            "request_gated": done.request_gated.total(),
            "synthesised": done.gate.player.synthesised_count,
            "volatile": dict(done.gate.player.volatile_counts),
            "uncompared": done.gate.player.uncompared_calls,
            "offline": offline_json(done.run.guarded)
            if done.run is not None and done.run.guarded is not None
            else None,
            "findings": shown_json(done.shown),
            "unchecked": [dict(finding.to_json()) for finding in done.unchecked],
        }
        click.echo(ecmascript_bytes(told), err=True)
    else:
        colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        again = narrowed(command, failed_scopes(done.shown))
        lines = [
            f"traceforge: {line}" if line[:1] != " " else line for line in outcome_lines(done, again, colour=colour)
        ]
        click.echo("\n".join(lines), err=True, color=colour)
    deliver(lambda: report_of_test(done, int(code), current_folder()), junit, sarif)
    raise click.exceptions.Exit(int(code))


def _check_tree(loaded: LoadedConfig, as_json: bool, junit: str, sarif: str) -> None:
    """What `test` can say without running anything."""
    from traceforge.audit.auditor import AuditReport, nothing_found, verify_snapshots
    from traceforge.cli.output import print_json
    from traceforge.report.ci_report import report_of_tree
    from traceforge.report.finding_locations import Places
    from traceforge.report.gate_text import shown_lines
    from traceforge.snapshots.gate.gate_findings import Shown, judge_pending
    from traceforge.snapshots.gate.gate_findings import as_json as shown_json
    from traceforge.snapshots.record.pending_changes import load_pending

    root = snapshots_root(loaded)
    audit = AuditReport()
    records, request_gated, shown = 0, 0, list[Shown]()
    if os.path.lexists(root):
        tree = verify_snapshots(root, loaded.config.models, progress_bar)
        audit.add_tree(tree, root)
        records, request_gated = tree.records, tree.request_gated
        shown += [Shown(finding, 0) for finding in tree.findings]
    shown += judge_pending(load_pending(loaded.project))
    if not shown and not records:
        shown.append(Shown(nothing_found(root), 0))
    code = exit_code([one.finding for one in shown])
    last = _last(records, request_gated, shown)
    if as_json:
        print_json({"exit_code": int(code), "snapshots": records, "findings": shown_json(shown)})
    else:
        click.echo("\n".join([*shown_lines(shown), last]))
    places = Places(loaded.project, current_folder())
    deliver(lambda: report_of_tree(audit, shown, last, int(code), places), junit, sarif)
    raise click.exceptions.Exit(int(code))


def _last(records: int, request_gated: int, shown: list[Shown]) -> str:
    gated = f", {request_gated} of them request gated" if request_gated else ""
    told = f"{count(records, 'snapshot')} checked{gated}, {count(len(shown), 'finding')}"
    return f"{'RED' if shown else 'GREEN'}: {told}"
