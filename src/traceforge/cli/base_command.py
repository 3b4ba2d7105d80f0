"""`traceforge base`: the commit that this build is compared with."""

from __future__ import annotations

import shlex

import click

from traceforge.build_environment import is_ci
from traceforge.cli.project import load_project
from traceforge.errors import BaseUnavailable
from traceforge.snapshots.tree.base_commit import find_base
from traceforge.snapshots.tree.git_commands import GitUnavailable, fetch_commits
from traceforge.terminal import one_line, print_text

FETCHES_MAX = 2  # The default branch, and then the history that leads to what it has in common with this one.

NOT_A_BUILD = (
    "compared with no other commit: CI is not set, so this is not a build; to compare with one: "
    "traceforge verify --base REF"
)


@click.command()
@click.option("--fetch", is_flag=True, help="Run the `git fetch` that is needed if the clone does not have it.")
def base(fetch: bool) -> None:
    """Print the commit that this build is compared with.

    In a build of a CI service (the variable CI is set), `traceforge verify`, `traceforge test` and the pytest plugin
    compare the snapshots with those of this commit. GitHub Actions and GitLab CI name it in their variables.

    On your machine CI is not set. Then no commit is compared, unless you name one: `traceforge verify --base REF`.

    Exit code 0: the commit is in this clone, or there is none to compare with. Exit code 3: the commit is not in this
    clone, or the file or variable that names it cannot be read.
    """
    project = load_project().project
    if not is_ci():
        print_text(NOT_A_BUILD)
        return
    for _ in range(FETCHES_MAX if fetch else 0):
        try:
            find_base(project)
        except BaseUnavailable as exc:
            if not exc.fetch:
                raise
            print_text(one_line(f"git fetch {shlex.join(exc.fetch)}"), err=True)
            try:
                fetch_commits(project, exc.fetch)
            except GitUnavailable as problem:
                raise BaseUnavailable(f"{exc.message}: {problem}", hint=exc.hint) from None
    print_text(one_line(find_base(project).line))
