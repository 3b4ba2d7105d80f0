"""A project with six traces, and the commands of `traceforge trace` in it."""

from __future__ import annotations

import json
from pathlib import Path

from support.command import CommandResult, traceforge
from support.stored_traces import TRACES, call, store_calls, trace_id
from traceforge.exchange import Caller


def make_trace_project(folder: Path) -> Path:
    """A project with six calls: an error, a stream, another provider, and a session of two steps."""
    (folder / "traceforge.config.json").write_text("{}")
    store_calls(
        folder,
        call(1),
        call(2, "Write to ann@example.org.", "Sent to ann@example.org."),
        call(3, "Tell me a story.", ["Once ", "upon ", "a time."], temperature=0),
        call(4, "Bonjour", "Salut", model="claude-haiku-4-5", provider="anthropic"),
        call(5, "Hello", "The engine is overloaded", status=503, caller=Caller(session_id="quiz-7", step_index=0)),
        call(
            6, "Hello again", "Hello!", caller=Caller("app/quiz.py:12:ask", "", "quiz-7", 1, trace_id(5), {"open": 2})
        ),
    )
    return folder


def run(project: Path, *words: str, code: int = 0, **variables: str) -> CommandResult:
    """Run a command of `traceforge trace` and expect its exit code."""
    ran = traceforge("trace", *words, cwd=project, **variables)
    assert code == ran.code, ran
    return ran


def listed_numbers(project: Path, *words: str, **variables: str) -> list[int]:
    """The numbers of the listed traces, in order."""
    return [
        int(row["id"][:8], 16) for row in json.loads(run(project, "list", "--json", *words, **variables).out)["data"]
    ]


def file_of(project: Path, number: int) -> Path:
    """The file of a trace."""
    return next((project / TRACES).glob(f"*_{trace_id(number)}.json"))
