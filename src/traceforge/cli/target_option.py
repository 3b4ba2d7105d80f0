"""The option `--target PROVIDER=URL`: where the user wants requests of a provider to go."""

from __future__ import annotations

import click

from traceforge.addresses import upstream_problem


def read_targets(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Read PROVIDER=URL, each provider once."""
    targets: dict[str, str] = {}
    for text in values:
        name, equals, url = text.partition("=")
        problem = upstream_problem(name, url) if equals else "write PROVIDER=URL"
        if problem or name in targets:
            raise click.BadParameter(problem or f"{name} is named twice")
        targets[name] = url
    return targets


target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="PROVIDER=URL",
    callback=read_targets,
    help="Send the requests for PROVIDER to URL; repeatable.",
)
