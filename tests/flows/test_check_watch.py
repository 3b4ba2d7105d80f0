"""`traceforge check run --watch`, and `run_check` in a test written in Python."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command import traceforge
from support.stored_traces import call, store_calls
from traceforge import run_check
from traceforge.errors import InvalidFile

CHECK = "name: a\ntrace_id: '00000001'\nassertions: [{type: contains, value: %s}]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one trace and one check; the current folder."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / ".ai-checks").mkdir()
    (tmp_path / ".ai-checks" / "a.yaml").write_text(CHECK % "Paris")
    store_calls(tmp_path, call(1))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_watch_runs_the_checks_again_after_a_change(project: Path) -> None:
    """Also after a file that cannot be read; Ctrl-C ends it."""
    command = [sys.executable, "-u", "-m", "traceforge", "check", "run", "--watch"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watch:
        assert watch.stdout is not None
        seen = []
        for text in ("London", "[", "France"):
            seen += _read_run(watch)
            (project / ".ai-checks" / "a.yaml").write_text(CHECK % text)
        seen += _read_run(watch)
        watch.send_signal(signal.SIGINT)
        watch.communicate()

    results = [line for line in seen if line.startswith(("1 check: ", "0 checks: "))]
    assert ["1 check: 1 passed", "1 check: 1 failed", "0 checks: 1 finding in files", "1 check: 1 passed"] == results


def _read_run(watch: subprocess.Popen[str]) -> list[str]:
    assert watch.stdout is not None
    lines = []
    for line in watch.stdout:
        if line.startswith("waiting for a change"):
            return lines
        lines.append(line.rstrip("\n"))
    raise AssertionError(f"it ended: {lines}")


@pytest.mark.parametrize("options", [("--live",), ("--json",)])
def test_watch_is_for_recorded_answers_and_a_person(project: Path, options: tuple[str, ...]) -> None:
    """It never spends money by itself, and prints no JSON that a program would wait for."""
    assert 2 == traceforge("check", "run", "--watch", *options, cwd=project).code


def test_run_check_holds_or_raises(project: Path) -> None:
    """With what a check file says: expected, got, where it looked."""
    run_check(name="capital", trace_id="00000001", assertions=[{"type": "contains", "value": "Paris"}])
    with pytest.raises(AssertionError, match='capital: contains: expected a text with "London"; got "The capital'):
        run_check(name="capital", trace_id="00000001", assertions=[{"type": "contains", "value": "London"}])


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trace_id": "ffffffff"}, "there is no trace ffffffff"),
        ({"trace_id": "00000001", "pass_rate": 0.9}, "undecided after 1 runs"),
    ],
)
def test_run_check_never_passes_what_it_could_not_check(fields: dict[str, Any], message: str) -> None:
    """No answer, or too few of them."""
    with pytest.raises(AssertionError, match=message):
        run_check(name="a", assertions=[{"type": "no_refusal"}], **fields)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("fields", [{}, {"trace_id": "1", "asertions": []}, {"trace_id": "1", "cases": []}])
def test_run_check_refuses_what_a_file_could_not_say(fields: dict[str, Any]) -> None:
    """A misspelt field checks nothing."""
    with pytest.raises(InvalidFile):
        run_check(name="a", assertions=[{"type": "no_refusal"}], **fields)


def test_run_check_fills_the_cases_of_a_data_set(project: Path) -> None:
    """Which is beside the check files."""
    (project / ".ai-checks" / "cases.jsonl").write_text('{"word": "Paris"}\n{"word": "Rome"}\n')

    with pytest.raises(AssertionError, match=r"\[case 2\]: contains: expected a text with .Rome"):
        run_check(
            name="a",
            trace_id="00000001",
            cases={"file": "cases.jsonl"},
            assertions=[{"type": "contains", "value": "{{word}}"}],
        )
