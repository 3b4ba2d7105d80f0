"""`traceforge init`: prepare a project."""

from __future__ import annotations

import os

import click

from traceforge.cli.output import refuse_in_ci
from traceforge.config import SNAPSHOTS_DIR, current_folder, find_project
from traceforge.project_setup import prepare, prepare_workflow
from traceforge.snapshots.tree.git_diff_driver import install_diff_driver
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import one_line, print_text


@click.command()
@click.option(
    "--git-diff", is_flag=True, help="Set up `git diff` to show snapshots as readable lines, in this clone."
)
@click.option("--github-workflow", is_flag=True, help="Write .github/workflows/traceforge.yml if it does not exist.")
def init(git_diff: bool, github_workflow: bool) -> None:
    """Prepare a project: configuration, Git settings, match key.

    Writes a commented configuration, .gitignore and .gitattributes entries, and a match key, with which redacted
    values of two requests can be compared. Existing files are kept and reported. Inside a project or a Git
    repository, its root is prepared.
    """
    refuse_in_ci("init")
    refuse_tracked_state(find_project(current_folder()))
    for step in prepare(current_folder()):
        print_text(one_line(step))
    if git_diff:
        for step in install_diff_driver(current_folder()):
            print_text(one_line(step))
    if github_workflow:
        print_text(one_line(prepare_workflow(current_folder())))
    has_snapshots = os.path.isdir(os.path.join(find_project(current_folder()), SNAPSHOTS_DIR))
    print_text(f"next: traceforge {'test' if has_snapshots else 'record'} -- COMMAND, such as pytest", err=True)
