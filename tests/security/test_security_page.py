"""SECURITY.md names every command and existing tests, and what it says about quiet commands is what they do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command import COMMAND
from support.security_page import COLUMNS, PAGE, list_rows
from traceforge.cli.command_table import TOP

ROOT = Path(__file__).parents[2]
QUIET = {
    "verify": ("verify",),
    "status": ("status",),
    "trace": ("trace", "list"),
    "session": ("session", "list"),
    "snapshot": ("snapshot", "list"),
    "config": ("config", "show"),
    "hash": ("hash", "a.json"),
    "redact": ("redact", "check", "a.json"),
    "schema": ("schema", "trace"),
    "help": ("help", "run"),
    "completion": ("completion", "bash"),
}


def test_every_command_is_in_the_table() -> None:
    """With a cell for each column; a new command must say what it touches."""
    rows = list_rows()

    assert [] == [name for section in TOP.values() for name in section if name not in rows]
    assert [] == [name for name, cells in rows.items() if len(cells) != COLUMNS.count("|") - 2 or "" in cells]
    assert [] == [
        name for name in ("pytest plugin", "traceforge.capture()", "traceforge.modelio") if name not in PAGE
    ]


def test_every_named_test_exists() -> None:
    """And each file of tests of this folder is named."""
    named = set(re.findall(r"`(tests/[^`]+)`", PAGE))

    assert [] == sorted(name for name in named if not (ROOT / name).is_file())
    assert [] == sorted(
        path.name for path in Path(__file__).parent.glob("test_*.py") if f"tests/security/{path.name}" not in named
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", QUIET)
def test_a_quiet_command_opens_no_connection_and_writes_only_in_the_project(tmp_path: Path, name: str) -> None:
    """Seen by strace, below Python: no address of a network, no file elsewhere."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("strace is not on PATH: `make strace` installs it", pytrace=False)
    project, calls = tmp_path / "project", tmp_path / "calls"
    project.mkdir()
    (project / "a.json").write_text("{}")
    (project / "traceforge.config.json").write_text("{}")
    traced = "trace=connect,bind,sendto,sendmsg,openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2"

    result = subprocess.run(
        [strace, "-f", "-qq", "-y", "-s", "4096", "-e", traced, "-o", calls, COMMAND, *QUIET[name]],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
        check=False,
    )
    lines = calls.read_text(encoding="utf-8", errors="replace").splitlines()

    assert result.returncode in (0, 3), result  # 3: there is nothing to verify
    assert len([line for line in lines if "open" in line]) > 100  # strace was attached while the command ran
    assert [] == [line for line in lines if re.search(r"AF_INET6?\b", line)]
    assert [] == [line for line in lines if is_write(line) and not is_allowed(line, project)]
    assert ("nothing", "nothing") == tuple(list_rows()[name][2:4])


def is_write(line: str) -> bool:
    """Whether a call opens a file to write it, or makes or renames one, and succeeded."""
    is_change = re.search(r"O_WRONLY|O_RDWR|O_CREAT|\b(creat|mkdir(at)?|rename(at2?)?)\(", line)
    return is_change is not None and " = -1 " not in line


def is_allowed(line: str, project: Path) -> bool:
    """Whether a call is about a file in the project, a device, or the byte code that Python caches of a module."""
    return str(project) in line or '"/dev/' in line or "__pycache__" in line
