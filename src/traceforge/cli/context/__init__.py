"""`traceforge context`: history that cannot be clobbered, input that is pinned. One module a group."""

from __future__ import annotations

from importlib import import_module

import click

_HERE = "traceforge.cli.context"
COMMANDS = {
    "alias": f"{_HERE}.alias:alias",
    "artifact": f"{_HERE}.artifact:artifact",
    "branch": f"{_HERE}.branch:branch",
    "bundle": f"{_HERE}.bundle:bundle",
    "diff": f"{_HERE}.compare:diff",
    "event": f"{_HERE}.event:event",
    "key": f"{_HERE}.key:key",
    "keys": f"{_HERE}.checks:keys",
    "lint": f"{_HERE}.checks:lint",
    "log": f"{_HERE}.compare:log",
    "project": f"{_HERE}.project:project",
    "purge": f"{_HERE}.purge:purge",
    "replay": f"{_HERE}.replay:replay",
    "response": f"{_HERE}.response:response",
    "session": f"{_HERE}.session:session",
    "snapshot": f"{_HERE}.snapshot:snapshot",
    "verify": f"{_HERE}.checks:verify",
}


class _LazyGroup(click.Group):
    """Imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command


@click.group(cls=_LazyGroup)
def context() -> None:
    """The context store: sessions, branches, events, and the snapshots that are compiled from them.

    A command works on a database, by default .ai-tests/context.db in the project, or on a server: name its http://…
    with --db, and the key in TRACEFORGE_CONTEXT_API_KEY.
    """
