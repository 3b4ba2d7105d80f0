"""`traceforge completion`: the scripts, and what a shell completes with them."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from support.command import COMMAND, traceforge

SECONDS_MAX = 60  # A busy machine takes long to start a shell; beyond this, it waits for something else.
INTERACTIVE = {"bash": ("bash", "--norc", "-i"), "zsh": ("zsh", "-f", "-i")}
# What is typed before Tab, and what the line is then.
LINES = {
    "a command": ("traceforge sn", "traceforge snapshot"),
    "an option": ("traceforge init --gith", "traceforge init --github-workflow"),
    "a file": ("traceforge verify lett", "traceforge verify letter.json"),
    "a file of a command": ("traceforge test -- lett", "traceforge test -- letter.json"),
}

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


def shell_environment(folder: Path) -> dict[str, str]:
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder), "TERM": "xterm", "LC_ALL": "C.UTF-8"}


class ShellOnTerminal:
    """An interactive shell, at which keys are typed."""

    def __init__(self, shell: str, folder: Path) -> None:
        self._leader, follower = pty.openpty()
        self._process = subprocess.Popen(
            INTERACTIVE[shell], stdin=follower, stdout=follower, stderr=follower, cwd=folder,
            env=shell_environment(folder), start_new_session=True,
        )  # fmt: skip
        os.close(follower)

    def type(self, keys: str, expected: str) -> str:
        """Type keys; what is printed until `expected` is in it, or until nothing more can be expected."""
        os.write(self._leader, keys.encode())
        printed, deadline = "", time.monotonic() + SECONDS_MAX
        while expected not in printed and time.monotonic() < deadline:
            if select.select([self._leader], [], [], 1)[0]:
                printed += os.read(self._leader, 1 << 16).decode(errors="replace")
                printed = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed)
        return printed

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._leader)


@pytest.mark.slow
@pytest.mark.parametrize("what", list(LINES))
@pytest.mark.parametrize("shell", list(INTERACTIVE))
def test_tab_completes(shell: str, what: str, tmp_path: Path) -> None:
    """In a shell without any configuration."""
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    (tmp_path / "letter.json").touch()
    typed, completed = LINES[what]
    terminal = ShellOnTerminal(shell, tmp_path)

    loaded = terminal.type(f"eval \"$(traceforge completion {shell})\" && echo loa''ded\n", "loaded\r")
    line = terminal.type(f"{typed}\t", completed)
    terminal.close()

    assert "loaded" in loaded
    assert completed in line


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish here")
def test_fish_completes(tmp_path: Path) -> None:
    """With the whole line of help, which may have commas."""
    (tmp_path / "letter.json").touch()
    asked = "; ".join(f'complete -C "{typed}"' for typed, _ in LINES.values())

    ran = subprocess.run(
        ["fish", "--no-config", "-c", f"traceforge completion fish | source; {asked}"],
        env=shell_environment(tmp_path), cwd=tmp_path, text=True, capture_output=True, check=False, timeout=120,
    )  # fmt: skip

    assert "" == ran.stderr
    assert [
        "snapshot\tList, show, verify and migrate approved snapshots.",
        "--github-workflow\tWrite .github/workflows/traceforge.yml if it does not exist.",
        "letter.json",
        "letter.json",
    ] == ran.stdout.splitlines()


def test_an_unknown_shell_is_wrong_usage(tmp_path: Path) -> None:
    ran = traceforge("completion", "tcsh", cwd=tmp_path)

    assert (2, "") == (ran.code, ran.out)
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in ran.err
