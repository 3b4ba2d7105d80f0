"""`traceforge session`: the steps of an agent, in order."""

from __future__ import annotations

import click
import msgspec

from traceforge.canon import json_bytes
from traceforge.cli.output import json_option, print_json, write
from traceforge.cli.store import PAGE, open_store
from traceforge.errors import NotFound


@click.group()
def session() -> None:
    """Sessions: calls that belong together, with their steps, parents and state."""


@session.command("list")
@click.option("--limit", type=click.IntRange(1), default=PAGE, help=f"How many; {PAGE} if not given.")
@json_option
def list_sessions(limit: int, as_json: bool) -> None:
    """List sessions, the one with the newest call first."""
    from traceforge.report.traces import sessions_text

    with open_store() as (store, _):
        sessions = store.sessions(limit)
    if as_json:
        print_json([msgspec.to_builtins(one._asdict()) for one in sessions])
    elif sessions:
        click.echo(sessions_text(sessions))
    else:
        click.echo("no sessions: a call belongs to one if it names it", err=True)


@session.command()
@click.argument("session_id", metavar="ID")
@click.option("--state", is_flag=True, help="Show the state at each step.")
@json_option
def show(session_id: str, state: bool, as_json: bool) -> None:
    """Show a session as a tree: a call that names a parent stands below it."""
    from traceforge.report.traces import session_tree, state_note

    with open_store() as (store, _):
        rows = store.session(session_id)
        if not rows:
            raise NotFound(f"there is no session {session_id}", hint="See: traceforge session list")
        if as_json:
            traces = [store.load(row).body for row in rows]
            write(json_bytes({"session_id": session_id, "traces": list(traces)}, indent=True) + b"\n")
            return
        notes = {}
        for row in rows if state else ():
            body = store.load(row).body
            if "state_snapshot" in body:
                notes[row.summary.id] = state_note(body["state_snapshot"])
        click.echo(session_tree(session_id, [row.summary for row in rows], notes))
