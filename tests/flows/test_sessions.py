"""`traceforge session`: the list of sessions, and the steps of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.stored_traces import TRACES, call, store_calls, trace_id
from traceforge.exchange import Caller


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an agent's session, a shorter one, and a call without a session."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    store_calls(
        tmp_path,
        call(1, caller=step(0, state={"todo": ["plan"]})),
        call(2, caller=step(1, 1, {"found": 3})),
        call(3, "x", "Too many requests", status=429, caller=step(2, 2)),
        call(4, caller=step(3, 1, {"text": "\x1b[2J" * 40}), model="claude-haiku-4-5", provider="anthropic"),
        call(5, caller=step(4)),
        call(6, caller=Caller(session_id="night", step_index=0)),
        call(7),
    )
    return tmp_path


def step(index: int, parent: int = 0, state: dict[str, object] | None = None, session: str = "agent-1") -> Caller:
    """A step of a session; `parent` is the number of another call."""
    return Caller("", "", session, index, trace_id(parent) if parent else "", state)


def run(project: Path, *words: str, code: int = 0) -> CommandResult:
    """Run a command of `traceforge session` and expect its exit code."""
    ran = traceforge("session", *words, cwd=project)
    assert code == ran.code, ran
    return ran


def test_sessions_are_listed_with_the_newest_call_first(project: Path) -> None:
    """Steps, errors, tokens and models, in columns; a call without a session is in none."""
    assert (
        "LAST CALL (UTC)      SESSION  STEPS  ERRORS  TOKENS  MODELS\n"
        "2025-03-02 09:06:00  night        1       -      21  gpt-4.1-mini\n"
        "2025-03-02 09:05:00  agent-1      5       1      84  claude-haiku-4-5, gpt-4.1-mini\n",
        "",
    ) == run(project, "list")[1:]
    assert "showing the newest 1; for more: --limit 2\n" == run(project, "list", "--limit", "1").err


def test_sessions_are_listed_as_json(project: Path) -> None:
    """With the columns of the table and the time of the first call."""
    assert {
        "session_id": "agent-1", "steps": 5, "first": "2025-03-02T09:01:00.000Z", "last": "2025-03-02T09:05:00.000Z",
        "errors": 1, "tokens": 84, "models": ["claude-haiku-4-5", "gpt-4.1-mini"],
    } == json.loads(run(project, "list", "--json").out)["data"][1]  # fmt: skip


def test_a_project_without_sessions_has_an_empty_list(tmp_path: Path) -> None:
    """With a note on stderr."""
    assert ("", "no sessions yet: each run and each test is one; next: traceforge run -- COMMAND\n") == run(
        tmp_path, "list"
    )[1:]
    assert {"object": "list", "data": [], "has_more": False} == json.loads(run(tmp_path, "list", "--json").out)


def test_a_session_is_shown_as_a_tree_of_its_steps(project: Path) -> None:
    """A call is below its parent, in the order of the steps."""
    assert (
        """\
session agent-1: 5 steps
├─ #0 00000001 gpt-4.1-mini, 101 ms, 21 tokens
│  ├─ #1 00000002 gpt-4.1-mini, 102 ms, 21 tokens
│  │  └─ #2 00000003 gpt-4.1-mini, 103 ms, error
│  └─ #3 00000004 claude-haiku-4-5, 104 ms, 21 tokens
└─ #4 00000005 gpt-4.1-mini, 105 ms, 21 tokens
"""
        == run(project, "show", "agent-1").out
    )


def test_the_state_at_a_step_is_shown_below_it(project: Path) -> None:
    """On one line, truncated, with control characters escaped."""
    lines = run(project, "show", "agent-1", "--state").out.splitlines()

    assert '│  │  state {"todo":["plan"]}' == lines[2]
    assert '│  │  │  state {"found":3}' == lines[4]
    assert lines[7].startswith('│        state {"text":"\\u001b[2J\\u001b[2J')
    assert lines[7].endswith("…")
    assert all(line.isprintable() for line in lines)


def test_a_parent_of_another_session_is_named(project: Path) -> None:
    """The step is at the root, with a note that its parent is missing."""
    store_calls(project, call(16, caller=step(5, 7)), call(17, caller=step(6, 0xFFFFFFFF)))

    lines = run(project, "show", "agent-1").out.splitlines()

    assert lines[-2].endswith("  (its parent 00000007… is not in this session)")
    assert lines[-1].startswith("└─ #6 00000011 ")
    assert lines[-1].endswith("  (its parent ffffffff… is not in this session)")


def test_a_circle_of_parents_is_cut_at_its_first_step(project: Path) -> None:
    """Every step is shown exactly once, also one that is its own parent."""
    store_calls(
        project,
        call(32, caller=step(0, 34, session="circle")),
        call(33, caller=step(1, 32, session="circle")),
        call(34, caller=step(2, 33, session="circle")),
        call(35, caller=step(3, 35, session="circle")),
        call(36, caller=step(4, 33, session="circle")),
    )

    assert (
        """\
session circle: 5 steps
├─ #0 00000020 gpt-4.1-mini, 132 ms, 21 tokens  (its parents go round in a circle)
│  └─ #1 00000021 gpt-4.1-mini, 133 ms, 21 tokens
│     ├─ #2 00000022 gpt-4.1-mini, 134 ms, 21 tokens
│     └─ #4 00000024 gpt-4.1-mini, 136 ms, 21 tokens
└─ #3 00000023 gpt-4.1-mini, 135 ms, 21 tokens  (its parents go round in a circle)
"""
        == run(project, "show", "circle").out
    )


def test_a_session_in_json_is_its_traces_in_order(project: Path) -> None:
    """Complete, as in their files."""
    document = json.loads(run(project, "show", "agent-1", "--json").out)

    assert "agent-1" == document["session_id"]
    assert [trace_id(number) for number in range(1, 6)] == [trace["id"] for trace in document["traces"]]
    file = next((project / TRACES).glob(f"*_{trace_id(4)}.json"))
    assert json.loads(file.read_text()) == document["traces"][3]


def test_a_session_is_found_by_the_beginning_of_its_id(project: Path) -> None:
    """If it is unique; a complete id always matches, also where another id begins with it."""
    store_calls(
        project, call(48, caller=Caller(session_id="agent-1b")), call(49, caller=Caller(session_id="agent-12"))
    )

    assert "session night: 1 step\n" == run(project, "show", "nigh").out.splitlines(True)[0]
    assert "session agent-1: 5 steps\n" == run(project, "show", "agent-1").out.splitlines(True)[0]
    several = run(project, "show", "agent", code=3)
    assert "error TF203: several sessions begin with agent: agent-12, agent-1b, agent-1\n" in several.err
    assert "hint: Give more characters of its id." in several.err
    for unknown in ("nope", "nig", ""):
        ran = run(project, "show", unknown, code=3)
        assert ("", f"error TF203: there is no session {unknown}\n    hint: See: traceforge session list\n") == ran[
            1:
        ]
