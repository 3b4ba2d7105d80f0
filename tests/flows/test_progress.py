"""Progress is on a terminal alone, on stderr alone, and gone when there is something to read."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from support.command import traceforge
from support.loopback_models import model_server
from support.pseudo_terminal import TerminalResult, run_on_terminal
from support.sample_files import write_tree
from support.stored_traces import call, store_calls, time_ago

CLEAR = "\r\x1b[K"
CASSETTE = {
    "version": 1,
    "interactions": [
        {
            "request": {
                "method": "POST", "uri": "https://api.openai.com/v1/chat/completions", "headers": {},
                "body": json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}),
            },
            "response": {
                "status": {"code": 200, "message": "OK"}, "headers": {"content-type": ["application/json"]},
                "body": {"string": json.dumps({"model": "gpt-5", "choices": []})},
            },
        }
    ],
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with five snapshots."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "traceforge.config.json").write_text("{}")
    write_tree(tmp_path / ".ai-snapshots", 5)
    return tmp_path


def list_painted(printed: TerminalResult) -> list[str]:
    """What the last line of the terminal showed, in order; "" where it was erased."""
    return re.findall(r"\r\x1b\[K([^\r\n]*)", printed.terminal)


def read_screen(printed: TerminalResult) -> str:
    """What is left on the screen."""
    return re.sub(r"[^\r\n]*\r\x1b\[K", "", printed.terminal)


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (("verify",), "checking"),
        (("snapshot", "verify"), "checking"),
        (("test",), "checking"),
        (("test", "--", "true"), "reading snapshots"),
        (("record", "--", "true"), "reading snapshots"),
    ],
)
def test_a_person_sees_how_many_snapshots_are_read(project: Path, words: tuple[str, ...], label: str) -> None:
    printed = run_on_terminal(*words, cwd=project)
    painted = list_painted(printed)

    assert [f"{label}: {number} of 5 …" for number in range(6)] == painted[:6]
    assert f"5 of 5 …{CLEAR}" in printed.terminal
    assert label not in read_screen(printed)
    assert label not in printed.out


def test_json_is_not_mixed_with_progress(project: Path) -> None:
    printed = run_on_terminal("verify", "--json", cwd=project)

    assert json.loads(traceforge("verify", "--json", cwd=project).out) == json.loads(printed.out)
    assert "checking: 5 of 5 …" in list_painted(printed)


@pytest.mark.parametrize("environ", [{"CI": "true"}, {"TERM": "dumb"}])
def test_a_build_and_a_terminal_that_cannot_erase_see_none(project: Path, environ: dict[str, str]) -> None:
    assert "" == run_on_terminal("snapshot", "verify", cwd=project, environ=environ).terminal


def test_nobody_sees_progress_before_a_second(project: Path) -> None:
    assert "" == run_on_terminal("snapshot", "verify", cwd=project, is_patient=True).terminal


def test_without_a_terminal_there_is_none(project: Path) -> None:
    ran = traceforge("snapshot", "verify", cwd=project)

    assert (0, "") == (ran.code, ran.err)


def test_prune_counts_the_traces_that_it_removes(project: Path) -> None:
    store_calls(project, *(call(number, at=time_ago(days=100)) for number in range(3)))
    assert 3 == len(json.loads(traceforge("trace", "list", "--json", cwd=project).out)["data"])

    printed = run_on_terminal("trace", "prune", "--older-than", "9", cwd=project)

    assert (0, "removed 3 traces older than 9 days\n") == (printed.code, printed.out)
    assert {f"removing: {number} of 3 …" for number in range(4)} <= set(list_painted(printed))
    assert "removing" not in read_screen(printed)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "label"), [("compress", "compressing"), ("migrate", "migrating")])
def test_work_on_many_traces_is_counted(project: Path, command: str, label: str) -> None:
    store_calls(project, *(call(number, at=time_ago(days=100)) for number in range(3)))
    assert 3 == len(json.loads(traceforge("trace", "list", "--json", cwd=project).out)["data"])

    printed = run_on_terminal("trace", command, cwd=project)

    assert f"{label}: 3 of 3 …" in list_painted(printed)


def test_import_counts_the_cassettes(project: Path) -> None:
    (project / "cassettes").mkdir()
    for name in ("a", "b"):
        (project / "cassettes" / f"{name}.json").write_text(json.dumps(CASSETTE))

    printed = run_on_terminal("import", "vcr", "cassettes", cwd=project)

    assert {"reading cassettes: 2 of 2 …", "writing traces: 2 of 2 …"} <= set(list_painted(printed))
    assert "reading" not in read_screen(printed)


def test_a_replay_run_counts_its_items(project: Path) -> None:
    """From the start: a model may take long for the first."""
    with model_server() as model:
        upstream = ("--upstream", f"openai={model.url}")
        words = ("response", "create", "--model", "openai/old", "--input", "Hello?", *upstream, "--json")
        session = json.loads(traceforge("context", "session", "create", "--json", cwd=project).out)["id"]
        created = traceforge("context", *words, "--session", session, cwd=project)
        snapshot = json.loads(created.out)["snapshot_id"]

        printed = run_on_terminal(
            "context", "replay", "run", "--baseline", "openai/old", "--candidate", "openai/new",
            "--snapshot", snapshot, *upstream, "--json", cwd=project, is_patient=True,
        )  # fmt: skip

    assert (0, "completed") == (printed.code, json.loads(printed.out)["status"])
    assert "comparing: 0 of 1 …" == list_painted(printed)[0]
    assert "" == read_screen(printed)


def test_a_command_has_the_terminal_for_itself(project: Path) -> None:
    """While COMMAND runs nothing is painted: the line is erased before it starts."""
    says = "import sys; print('from the command', file=sys.stderr)"
    printed = run_on_terminal("record", "--", sys.executable, "-c", says, cwd=project)

    before, _, after = printed.terminal.partition("from the command\n")

    assert before.endswith(CLEAR)
    assert CLEAR not in after
