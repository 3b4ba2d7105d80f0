"""`traceforge context`: history that cannot be clobbered, input that is pinned. One module a group."""

from __future__ import annotations

from importlib import import_module

import click

_HERE = "traceforge.cli.context"
COMMANDS = {
    "alias": f"{_HERE}.alias_commands:alias",
    "api-key": f"{_HERE}.api_key_commands:api_key",
    "artifact": f"{_HERE}.artifact_commands:artifact",
    "branch": f"{_HERE}.branch_commands:branch",
    "bundle": f"{_HERE}.bundle_commands:bundle",
    "cache-key": f"{_HERE}.context_check_commands:cache_key",
    "diff": f"{_HERE}.context_diff_commands:diff",
    "event": f"{_HERE}.event_commands:event",
    "lint": f"{_HERE}.context_check_commands:lint",
    "log": f"{_HERE}.context_diff_commands:log",
    "project": f"{_HERE}.project_commands:project",
    "purge": f"{_HERE}.purge_commands:purge",
    "replay": f"{_HERE}.replay_run_commands:replay",
    "response": f"{_HERE}.response_commands:response",
    "session": f"{_HERE}.context_session_commands:session",
    "snapshot": f"{_HERE}.context_snapshot_commands:snapshot",
    "verify": f"{_HERE}.context_check_commands:verify",
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
