"""`traceforge mcp`: tool servers whose messages are recorded and replayed."""

from __future__ import annotations

import click

from traceforge.capture.run.mcp_wrap import wrap_server
from traceforge.cli.lazy_group import SuggestingGroup

USAGE = "traceforge mcp wrap -- SERVER"


@click.group("mcp", cls=SuggestingGroup)
def mcp_group() -> None:
    """Run the tool servers (MCP) of any client, watched."""


@mcp_group.command(context_settings={"allow_interspersed_args": False})
@click.option("--name", metavar="NAME", default="", help="Call the server NAME in traces; else as its program.")
@click.argument("server", nargs=-1, type=click.UNPROCESSED, metavar="-- SERVER...")
def wrap(server: tuple[str, ...], name: str) -> None:
    """Run SERVER, a tool server over stdio, and relay its messages.

    SERVER is recorded and replayed if its client runs under a traceforge command. Put this command in front of the
    server in the configuration of your client. Under `traceforge run` and `traceforge record`, the messages of the
    session become traces; under `traceforge test`, SERVER is not started, and approved results replay. Without such a
    command around the client, SERVER runs alone, and nothing is recorded.

    SERVER keeps its environment, its standard error and its signals, and its exit code is the exit code. In a test it
    is 0, or 1 where the recorded session was ended by its server.
    """
    if not server or not server[0]:
        raise click.UsageError(f"Name the server to run: {USAGE}")
    if not wrap_server(server, name):
        raise click.exceptions.Exit(1)
