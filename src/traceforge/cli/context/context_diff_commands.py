"""`traceforge context log` and `diff`: draw branches, compare snapshots."""

from __future__ import annotations

import sys

import click
import msgspec

from traceforge.canon import JSON
from traceforge.cli.context.context_options import with_client
from traceforge.cli.output import print_json
from traceforge.context.api.client_blocks import open_blocks
from traceforge.context.api.client_events import list_own_events
from traceforge.context.api.store_client import Client
from traceforge.context.compiler.block_diff import BlockChangeKind, diff_blocks
from traceforge.findings import ExitCode
from traceforge.report.context_text import block_change_lines, branch_graph_lines
from traceforge.terminal import print_text


@click.command()
@click.argument("session_id", metavar="SESSION")
@with_client
def log(client: Client, session_id: str, as_json: bool) -> None:
    """Draw the branches of a session and their events.

    Oldest first; a fork stands below the event where it began. An event that came by a merge or a rebase names its
    origin. Colours are used on a terminal only.
    """
    branches = list(client.iterate_branches(session_id))
    events = list_own_events(client, session_id, branches)
    if as_json:
        drawn: list[JSON] = [
            {**msgspec.to_builtins(branch), "events": [msgspec.to_builtins(event) for event in events[branch.id]]}
            for branch in branches
        ]
        print_json({"session_id": session_id, "branches": drawn})
        return
    colours = sys.stdout is not None and sys.stdout.isatty()
    print_text("\n".join(branch_graph_lines(branches, events, colours=colours)), colour=colours)


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@with_client
def diff(client: Client, before: str, after: str, as_json: bool) -> None:
    """Compare two snapshots block by block.

    Blocks are the same if their role, kind and content are; their ids may differ. Exit code 1: they differ.
    """
    changes = diff_blocks(open_blocks(client, before), open_blocks(client, after))
    changed = [change for change in changes if change.kind is not BlockChangeKind.SAME]
    if as_json:
        listed: list[JSON] = [change.to_json() for change in changes]
        print_json({"same": not changed, "before": before, "after": after, "blocks": listed})
    else:
        print_text("\n".join(block_change_lines(changes)))
    raise click.exceptions.Exit(int(ExitCode.FINDINGS if changed else ExitCode.OK))
