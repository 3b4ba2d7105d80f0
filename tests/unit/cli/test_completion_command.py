"""`traceforge completion`: the scripts, and what a shell completes with them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge

# Fills the variables that bash sets when Tab is pressed, and prints what the script answers.
BASH = """
source "$SCRIPT"
complete -p traceforge >/dev/null || exit 9
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
_traceforge_completion traceforge
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete_in_bash(script: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What bash offers after these words, of which the last one is being typed."""
    typed = " ".join(f"'{word}'" for word in words)
    return subprocess.run(
        ["bash", "--norc", "-c", BASH.format(words=typed, count=len(words))],
        env={"PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}", "SCRIPT": str(script), **variables},
        cwd=script.parent, text=True, capture_output=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script for bash."""
    path = tmp_path / "traceforge.bash"
    path.write_text(traceforge("completion", "bash", cwd=tmp_path).out)
    return path


def test_bash_completes_a_command(script: Path) -> None:
    ran = complete_in_bash(script, "traceforge", "sn")

    assert (0, "snapshot\n", "") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.slow
def test_bash_completes_commands_of_groups_options_and_choices(script: Path) -> None:
    assert "list\n" == complete_in_bash(script, "traceforge", "snapshot", "li").stdout
    assert "--github-workflow\n" == complete_in_bash(script, "traceforge", "init", "--gith").stdout
    assert "fish\n" == complete_in_bash(script, "traceforge", "completion", "f").stdout


def test_a_missing_extra_does_not_print_into_the_line_that_is_typed(script: Path, tmp_path: Path) -> None:
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sqlalchemy.py").write_text("raise ModuleNotFoundError('no', name='sqlalchemy')\n")

    ran = complete_in_bash(script, "traceforge", "context", "session", "li", PYTHONPATH=str(tmp_path / "blocked"))

    assert ("", "") == (ran.stdout.strip(), ran.stderr)


@pytest.mark.parametrize(("shell", "words"), [("zsh", "#compdef traceforge"), ("fish", "complete --no-files")])
def test_the_scripts_of_other_shells_name_the_command(tmp_path: Path, shell: str, words: str) -> None:
    """And are valid, where that shell is there to say so."""
    ran = traceforge("completion", shell, cwd=tmp_path)

    assert (0, "") == (ran.code, ran.err)
    assert words in ran.out
    assert "_TRACEFORGE_COMPLETE" in ran.out
    if shutil.which(shell):
        (tmp_path / "script").write_text(ran.out)
        assert 0 == subprocess.run([shell, "-n", "script"], cwd=tmp_path, check=False).returncode


def test_an_unknown_shell_is_wrong_usage(tmp_path: Path) -> None:
    ran = traceforge("completion", "tcsh", cwd=tmp_path)

    assert (2, "") == (ran.code, ran.out)
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in ran.err
