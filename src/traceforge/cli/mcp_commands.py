"""`traceforge mcp`: record and replay tool servers that speak MCP, the Model Context Protocol."""

from __future__ import annotations

import click

from traceforge.capture.run.mcp_wrap import wrap_server
from traceforge.cli.lazy_group import SuggestingGroup

USAGE = "traceforge mcp wrap -- SERVER"


@click.group("mcp", cls=SuggestingGroup)
def mcp_group() -> None:
    """Run tool servers (MCP) so that their calls are recorded."""


@mcp_group.command(context_settings={"allow_interspersed_args": False})
@click.option("--name", metavar="NAME", default="", help="Call the server NAME in traces, instead of by its program.")
@click.argument("server", nargs=-1, type=click.UNPROCESSED, metavar="-- SERVER...")
def wrap(server: tuple[str, ...], name: str) -> None:
    """Run SERVER, a tool server over stdio; record or replay its messages.

    SERVER is the command that starts a tool server, as your MCP client has it in its configuration. Put `traceforge
    mcp wrap --` in front of it there. Then start the client with one of these commands:

    \b
    traceforge run -- CLIENT      record: the messages become traces
    traceforge record -- CLIENT   save new and changed calls for review
    traceforge test -- CLIENT     replay approved calls; SERVER is not started

    If the client is started in any other way, SERVER runs as it would alone, and nothing is recorded.

    SERVER gets its environment, its standard error and its signals from the client, as without this command. The exit
    code is that of SERVER. In a test it is 0, or 1 if the server ended the recorded session.
    """
    if not server or not server[0]:
        raise click.UsageError(f"Name the server to run: {USAGE}")
    if not wrap_server(server, name):
        raise click.exceptions.Exit(1)
