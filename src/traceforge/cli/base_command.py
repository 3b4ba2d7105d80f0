"""`traceforge base`: the commit that this build is compared with."""

from __future__ import annotations

import shlex

import click

from traceforge.cli.project import load_project
from traceforge.errors import BaseUnavailable
from traceforge.snapshots.tree.base_commit import find_base
from traceforge.snapshots.tree.git_commands import GitUnavailable, fetch_commits
from traceforge.terminal import print_text

FETCHES_MAX = 2  # The default branch, and then the history that leads to what it has in common with this one.


@click.command()
@click.option("--fetch", is_flag=True, help="Run the `git fetch` that is needed if the clone does not have it.")
def base(fetch: bool) -> None:
    """Print the commit that this build is compared with.

    `traceforge verify`, `traceforge test` and the pytest plugin compare the snapshots with it where CI is set. GitHub
    Actions and GitLab CI say which commit it is. Exit code 3: it is known and not in this clone.
    """
    project = load_project().project
    for _ in range(FETCHES_MAX if fetch else 0):
        try:
            find_base(project)
        except BaseUnavailable as exc:
            if not exc.fetch:
                raise
            print_text(f"git fetch {shlex.join(exc.fetch)}", err=True)
            try:
                fetch_commits(project, exc.fetch)
            except GitUnavailable as problem:
                raise BaseUnavailable(f"{exc.message}: {problem}", hint=exc.hint) from None
    print_text(find_base(project).line)
