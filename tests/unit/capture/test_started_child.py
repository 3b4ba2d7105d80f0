"""The programs in the words of a child."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from traceforge.capture.run.local_programs import list_unknown_programs
from traceforge.capture.run.started_child import UNREADABLE, StartedChild


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (["git", "status"], []),
        (["/usr/bin/node", "app.js"], ["node"]),
        ([sys.executable, "-m", "app"], []),
        (["sh", "-c", "node app.js"], ["node"]),
        (["sh", "-c", "cd x && FOO=1 node app.js | grep 'a; curl b' > out.txt"], ["node"]),
        (["bash", "-lc", "if true; then exec ruby x.rb; fi"], ["ruby"]),
        (["sh", "-c", "for x in curl wget; do echo $x; done"], []),
        (["sh", "-c", 'echo "node; curl"\nls'], []),
        (["sh", "-c", "$TOOL x"], [UNREADABLE]),
        (["sh", "-c", "echo 'x"], [UNREADABLE]),
        (["env", "A=1", "sh", "-c", "curl x"], ["curl"]),
        (["make", "test"], []),
        ([], [""]),
    ],
)
def test_programs_that_are_unknown(words: list[str], unknown: list[str]) -> None:
    """As far as the words tell: those of a shell and of a launcher are read, too."""
    assert unknown == list_unknown_programs(StartedChild.from_words(1, words).programs, [])


@pytest.mark.parametrize(
    ("first_line", "is_python", "programs"),
    [
        ("#!/usr/bin/env python3", True, []),
        ("#!/opt/venv/bin/python -u", True, []),
        ("#!/bin/sh", False, ["sh"]),
        ("#!/usr/bin/env node", False, ["node"]),
        ("", False, ["tool"]),
    ],
)
def test_a_script_is_what_runs_it(tmp_path: Path, first_line: str, is_python: bool, programs: list[str]) -> None:
    script = tmp_path / "tool"
    script.write_text(f"{first_line}\n")
    child = StartedChild.from_words(1, [str(script), "x"])

    assert (is_python, programs) == (child.is_python, child.programs)


def test_a_python_that_only_shows_its_version_runs_nothing() -> None:
    assert not StartedChild.from_words(1, [sys.executable, "-V"]).is_python
    assert StartedChild.from_words(1, ["x", "app.py"], b"/usr/bin/python3").is_python
