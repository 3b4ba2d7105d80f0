"""`traceforge session`: the steps of an agent, in order."""

from __future__ import annotations

import click

from traceforge.canon import json_bytes
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import json_option, print_json_line, print_json_list
from traceforge.cli.shared_page import html_option, write_shared_page
from traceforge.cli.trace_options import PAGE, open_store
from traceforge.report.trace_text import session_list_text, session_tree_text, state_note
from traceforge.terminal import print_text


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
        items = [{**session._asdict(), "models": list(session.models)} for session in sessions[:limit]]
        print_json_list(items, has_more=len(sessions) > limit)
    elif sessions:
        print_text(session_list_text(sessions[:limit]))
        if len(sessions) > limit:
            print_text(f"showing the newest {limit}; for more: --limit {limit * 2}", err=True)
    else:
        print_text("no sessions yet: each run and each test is one; next: traceforge run -- COMMAND", err=True)


@session.command()
@click.argument("session_id", metavar="ID")
@click.option("--state", is_flag=True, help="Show the state at each step.")
@html_option
@json_option
def show(session_id: str, state: bool, html: str, as_json: bool) -> None:
    """Show a session as a tree of its calls.

    A call that names a parent stands below it. ID is the id of a session, or at least its first four characters.
    """
    if html:
        write_shared_page(html, "sessions", session_id)
        return
    with open_store() as (store, _):
        name, rows = store.load_session(session_id)
        if as_json:
            traces = [store.load_trace(row).body for row in rows]
            print_json_line(json_bytes({"session_id": name, "traces": list(traces)}, indent=True))
            return
        notes = {}
        for row in rows if state else ():
            body = store.load_trace(row).body
            if "state_snapshot" in body:
                notes[row.summary.id] = state_note(body["state_snapshot"])
        print_text(session_tree_text(name, [row.summary for row in rows], notes))
