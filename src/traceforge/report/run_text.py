"""The summary of `traceforge run`, as lines or as JSON.

In: a finished run. Out: lines of text, or one JSON object. Never: a value of a call; only hosts and counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from traceforge.canon import JSON
from traceforge.capture.hook.watcher import LOADED
from traceforge.report.text_format import count, hint_line
from traceforge.terminal import one_line

if TYPE_CHECKING:
    from traceforge.capture.run.command_runner import CommandRun


def run_lines(run: CommandRun, usage: str) -> list[str]:
    """The calls and traces, and what could not be recorded; if nothing was called, `usage` says how to try again."""
    host_counts = f" ({_counts(run.hosts)})" if run.hosts else ""
    trace_counts = [f"{count(run.recorded, 'trace')} recorded"]
    trace_counts += [f"{run.lost} lost"] if run.lost else []
    trace_counts += [f"{run.unfinished} unfinished"] if run.unfinished else []
    lines = [f"{count(run.calls, 'model call')} seen{host_counts}, {', '.join(trace_counts)}"]
    if not run.processes and not run.calls:
        lines.append(
            "no Python process was instrumented: only Node.js and programs that read a base-URL variable are recorded"
        )
    lines += unseen_lines(run, with_loaded=True)
    lines += survivor_lines(run)
    lines += [f"problem: {one_line(name)}{_times(number)}" for name, number in run.problems.items()]
    if not (run.calls or run.not_seen or run.problems):
        lines.append(hint_line(f"Name a command that calls a model: {usage}"))
    return [f"traceforge: {line}" for line in lines]


_SINGLE = ("a call ", "a message ", "a WebSocket ")


def unseen_lines(run: CommandRun, *, with_loaded: bool) -> list[str]:
    """What could not be recorded; `with_loaded`: also clients that were loaded, and may not have been used."""
    return [
        f"could not record {'' if name.startswith(_SINGLE) else 'the calls of '}{one_line(name)}{_times(number)}"
        for name, number in run.not_seen.items()
        if with_loaded or not name.endswith(LOADED)
    ]


def survivor_lines(run: CommandRun) -> list[str]:
    """The processes that outlived the command, which may depend on what ended with it."""
    if not run.survivors:
        return []
    names = ", ".join(map(one_line, run.survivors))
    return [f"still running: {names}; their calls are no longer recorded, and the proxy of this run has ended"]


def run_json(run: CommandRun) -> JSON:
    """The counts of `run_lines` as JSON."""
    return {
        "exit_code": run.exit_code,
        "session_id": run.session_id,
        "processes": run.processes,
        "calls": dict(run.hosts),
        "recorded": run.recorded,
        "lost": run.lost,
        "unfinished": run.unfinished,
        "not_seen": dict(run.not_seen),
        "problems": dict(run.problems),
        "still_running": list(run.survivors),
    }


def _counts(hosts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {one_line(host)}" for host, number in hosts.items())


def _times(number: int) -> str:
    return f" ({number} times)" if number > 1 else ""
