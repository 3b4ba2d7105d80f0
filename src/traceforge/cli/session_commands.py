"""`traceforge session`: the steps of an agent, in order."""

from __future__ import annotations

import click

from traceforge.canon import json_bytes
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import json_option, print_json, write_stdout
from traceforge.cli.trace_options import PAGE, open_store
from traceforge.errors import NotFound
from traceforge.report.trace_text import session_list_text, session_tree_text, state_note
from traceforge.traces.trace_index import TraceRow
from traceforge.traces.trace_store import ID_PREFIX_LENGTH_MIN, TraceStore


@click.group(cls=SuggestingGroup)
def session() -> None:
    """List and show sessions: the steps of an agent."""


@session.command("list")
@click.option(
    "--limit", type=click.IntRange(1), default=PAGE, metavar="N", help=f"List at most N sessions.  [default: {PAGE}]"
)
@json_option
def list_sessions(limit: int, as_json: bool) -> None:
    """List sessions, newest call first.

    Times are in UTC.
    """
    with open_store() as (store, _):
        sessions = store.list_sessions(limit + 1)
    if as_json:
        print_json([{**session._asdict(), "models": list(session.models)} for session in sessions[:limit]])
    elif sessions:
        click.echo(session_list_text(sessions[:limit]))
        if len(sessions) > limit:
            click.echo(f"showing the newest {limit}; for more: --limit {limit * 2}", err=True)
    else:
        click.echo("no sessions yet: a call belongs to a session if it sends a session id", err=True)


@session.command()
@click.argument("session_id", metavar="ID")
@click.option("--state", is_flag=True, help="Show the state at each step.")
@json_option
def show(session_id: str, state: bool, as_json: bool) -> None:
    """Show a session as a tree of its calls.

    A call that names a parent stands below it. ID is the id of a session, or at least its first four characters.
    """
    with open_store() as (store, _):
        name, rows = _find_session(store, session_id)
        if as_json:
            traces = [store.load_trace(row).body for row in rows]
            write_stdout(json_bytes({"session_id": name, "traces": list(traces)}, indent=True) + b"\n")
            return
        notes = {}
        for row in rows if state else ():
            body = store.load_trace(row).body
            if "state_snapshot" in body:
                notes[row.summary.id] = state_note(body["state_snapshot"])
        click.echo(session_tree_text(name, [row.summary for row in rows], notes))


def _find_session(store: TraceStore, wanted: str) -> tuple[str, list[TraceRow]]:
    """The session of this id, or the only one that begins with it, and its traces."""
    rows = store.session_rows(wanted) if wanted else []  # Calls without a session are not a session.
    if rows:
        return wanted, rows
    names = [session.session_id for session in store.list_sessions() if session.session_id.startswith(wanted)]
    if len(wanted) < ID_PREFIX_LENGTH_MIN or not names:
        raise NotFound(f"there is no session {wanted}", hint="See: traceforge session list")
    if len(names) > 1:
        candidates = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        raise NotFound(f"several sessions begin with {wanted}: {candidates}", hint="Give more characters of its id.")
    return names[0], store.session_rows(names[0])
