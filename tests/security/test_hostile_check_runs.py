"""Runs of checks from a hostile checkout: code that ends the process, cases without end, folders without end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from support.stored_traces import call, store_calls

FOLDERS = 1_500  # More than Python's limit on recursion.
CHECK = "name: x\ntrace_id: '00000001'\nassertions:\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one trace, and a folder for checks."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / ".ai-checks").mkdir()
    store_calls(tmp_path, call(1))
    return tmp_path


def run_check(project: Path, text: str) -> CommandResult:
    """Write a check and run it."""
    (project / ".ai-checks" / "a.yaml").write_text(text)
    return traceforge("check", "run", cwd=project)


ENDINGS = {
    "while it is imported": "import sys\nsys.exit(0)\n",
    "when it is called": "import sys\ndef holds(answer):\n    sys.exit(0)\n",
    "with a success": "def holds(answer):\n    raise SystemExit\n",
    "as a generator": "def holds(answer):\n    raise GeneratorExit\n",
    "as a skipped test": "import pytest\ndef holds(answer):\n    pytest.skip('not today')\n",
    "as an error of its own": "class Mine(BaseException): ...\ndef holds(answer):\n    raise Mine\n",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_code_of_a_check_that_ends_the_process_ends_no_run(project: Path, ending: str) -> None:
    """`sys.exit(0)` at the end of a script, as people write it, made a run green that had checked nothing."""
    (project / "own_check.py").write_text(ENDINGS[ending])
    (project / ".ai-checks" / "b.yaml").write_text(CHECK + "  - {type: contains, value: Paris}\n")

    ran = run_check(project, CHECK + "  - {type: python, function: 'own_check:holds'}\n")

    assert (3, True) == (ran.code, "1 passed" in ran.out), ran.out + ran.err
    assert "1 could not be checked, 1 passed" in ran.out


def test_a_variable_that_is_repeated_fills_no_memory(project: Path) -> None:
    """A value of 300 KB, 60,000 times: 18 GB, of a file of 700 KB."""
    value = "A" * 300_000
    text = f'{CHECK}  - {{type: contains, value: "{"{{a}}" * 60_000}"}}\ncases: [{{a: "{value}"}}]\n'

    ran = run_check(project, text)

    assert "more than 268435456 characters" in ran.out + ran.err
    assert (1, False) == (ran.code, "TF999" in ran.err)


def test_a_large_check_with_many_cases_fills_no_memory(project: Path) -> None:
    """100,000 short cases of a check with 20,000 texts."""
    (project / ".ai-checks" / "c.csv").write_text("a\n" + "x\n" * 100_000)
    texts = ", ".join(["b"] * 20_000)

    ran = run_check(project, f"{CHECK}  - {{type: contains, value: [{texts}]}}\ncases: {{file: c.csv}}\n")

    assert "more than 268435456 characters" in ran.out + ran.err
    assert (1, False) == (ran.code, "TF999" in ran.err)


@pytest.mark.parametrize("words", [("check", "run"), ("check", "list")])
def test_deep_folders_of_checks_end_no_command_with_an_internal_error(project: Path, words: tuple[str, ...]) -> None:
    """Git stores them; the file at their end is found, or what hides it is said."""
    before = Path.cwd()
    os.chdir(project / ".ai-checks")
    for _ in range(FOLDERS):
        os.mkdir("d")
        os.chdir("d")
    Path("a.yaml").write_text("name: [")
    os.chdir(before)

    ran = traceforge(*words, cwd=project)
    subprocess.run(["rm", "-rf", str(project / ".ai-checks")], check=True)  # `rmtree` recurses, too.

    assert "TF999" not in ran.out + ran.err
    assert ran.code != 0
