"""`traceforge import`: recordings of other tools."""

from __future__ import annotations

import click

from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import json_option, print_json, refuse_in_ci
from traceforge.cli.progress import show_progress
from traceforge.cli.project import load_project
from traceforge.findings import ExitCode, exit_code
from traceforge.report.import_text import import_json, import_lines
from traceforge.report.text_format import finding_lines
from traceforge.snapshots.record.cassette_import import import_cassettes, read_cassettes
from traceforge.snapshots.record.cassette_layout import DEFAULT_PATTERN, CassetteLayout
from traceforge.snapshots.tree.project_snapshots import open_snapshots
from traceforge.terminal import print_text


@click.group("import", cls=SuggestingGroup)
def import_group() -> None:
    """Import what other tools have recorded."""


@import_group.command()
@click.argument("folder", metavar="DIR")
@click.option(
    "--layout",
    "pattern",
    metavar="PATTERN",
    default=DEFAULT_PATTERN,
    show_default=True,
    help="Find the test of a cassette by its path below DIR: {module}, {class}, {test}, and * for anything else.",
)
@json_option
def vcr(folder: str, pattern: str, as_json: bool) -> None:
    """Import cassettes of vcrpy and pytest-recording.

    Every model call in the cassettes under DIR becomes a redacted trace and a pending change for you to approve. In
    the layout of pytest-recording (cassettes/MODULE/TEST.yaml), a call belongs to its test; --layout names another
    one. Cassettes in YAML need the extra `vcr` of the package, which pip installs.

    Exit code 1: the snapshot tree is invalid, and nothing was imported. Exit code 3: a cassette could not be read, or
    no cassette holds a model call; the others were imported.
    """
    refuse_in_ci("import vcr")
    loaded = load_project()
    try:
        layout = CassetteLayout(loaded.project, pattern)
    except ValueError as exc:
        raise click.BadParameter(str(exc), param_hint="--layout") from None
    cassettes = read_cassettes(loaded, folder, layout, show_progress)
    # Only what is imported needs the match key, which is made here.
    snapshots = open_snapshots(loaded, is_recording=bool(cassettes.exchanges), progress=show_progress)
    if findings := snapshots.tree_report.findings:
        print_text(finding_lines(findings), err=True)
        print_text("the snapshot tree is invalid, so nothing was imported", err=True)
        raise click.exceptions.Exit(int(exit_code(findings)))
    imported = import_cassettes(snapshots, cassettes, show_progress)
    code = ExitCode.UNCHECKED if imported.findings or imported.unread or not imported.calls else ExitCode.OK
    if as_json:
        print_json(import_json(imported, int(code)))
    else:
        print_text("\n".join(import_lines(imported)))
    raise click.exceptions.Exit(int(code))
