"""A command that is forked behaves as one that is started, as `make test-all` does the first time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support import command
from support.command import CommandResult, traceforge
from support.example_counts import RunLength


def run_both_ways(
    monkeypatch: pytest.MonkeyPatch, *words: str, cwd: Path | None = None, **variables: str
) -> tuple[CommandResult, CommandResult]:
    """The results of the started and of the forked command."""
    results = []
    monkeypatch.setattr(command, "_STARTED", set())
    for is_short in (False, True):
        monkeypatch.setattr(RunLength, "is_short", is_short)
        results.append(traceforge(*words, cwd=cwd, **variables))
    return results[0], results[1]


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--version"], 0), (["verify", "nothing.json"], 3), (["nonsense"], 2), (["help", "SN3"], 0), (["status"], 0)],
)
def test_exit_code_and_output_are_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], code: int
) -> None:
    started, forked = run_both_ways(monkeypatch, *words, cwd=tmp_path)

    assert (code, started) == (forked.code, forked)


def test_the_folder_the_environment_and_the_umask_are_those_of_the_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command server has others: it was started by an earlier test."""
    monkeypatch.setenv("SECRET_OF_THE_TESTS", "1")
    script = "import os; print(os.getcwd(), sorted(os.environ), oct(os.umask(0)))"
    before = os.umask(0o027)
    try:
        started, forked = run_both_ways(
            monkeypatch, "run", "--", "python3", "-c", script, cwd=tmp_path, PLANET="Mars"
        )
    finally:
        os.umask(before)

    assert started.out == forked.out
    assert str(tmp_path) in forked.out
    assert "'PLANET'" in forked.out
    assert "SECRET_OF_THE_TESTS" not in forked.out
    assert "0o27" in forked.out


def test_a_command_is_started_once_for_its_words_and_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In `make test-all`; what an option is given, and the program behind `--`, make no other command."""
    started: list[list[str]] = []
    run = command.subprocess.run

    def start(words: list[str], **fields: Any) -> Any:
        started.append(words[1:])
        return run(words, **fields)

    monkeypatch.setattr(command, "_STARTED", set())
    monkeypatch.setattr(RunLength, "is_short", False)
    monkeypatch.setattr(command.subprocess, "run", start)

    for words in (["verify", "a.json"], ["verify", "b.json"], ["verify", "--json", "a.json"]):
        traceforge(*words, cwd=tmp_path)

    assert [["verify", "a.json"], ["verify", "--json", "a.json"]] == started
