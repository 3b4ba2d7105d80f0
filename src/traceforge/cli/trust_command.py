"""`traceforge trust`: read the configuration of a project that belongs to another user."""

from __future__ import annotations

import os

import click

from traceforge.config import current_folder, find_project
from traceforge.project_trust import distrust_project, list_trusted_projects, trust_project
from traceforge.terminal import one_line, print_text


@click.command()
@click.argument("path", metavar="[PATH]", default="")
@click.option("--remove", is_flag=True, help="Do not trust the project any more.")
@click.option("--list", "lists", is_flag=True, help="List the projects that you trust.")
def trust(path: str, remove: bool, lists: bool) -> None:
    """Trust a project whose files belong to another user.

    TraceForge reads configuration and snapshots only if they belong to you or to root (error TF403). PATH is the
    folder of the project; without it, the project around the current folder is meant. The list is your own, in
    ~/.local/state/traceforge, and no project can change it.
    """
    if lists:
        if path or remove:
            raise click.UsageError("--list takes neither a path nor --remove.")
        for project in list_trusted_projects():
            print_text(one_line(project))
        return
    project = os.path.realpath(path) if path else find_project(current_folder())
    if not remove and not os.path.isdir(project):
        raise click.BadParameter("There is no such folder.", param_hint="PATH")
    changed = distrust_project(project) if remove else trust_project(project)
    state = "not trusted" if remove else "trusted"
    print_text(f"{state}{'' if changed else ' already'}: {one_line(project)}")
