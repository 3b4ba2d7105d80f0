"""What `/proc` tells about a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from traceforge.capture.run import process_files
from traceforge.capture.run.process_files import find_process, list_ancestors, read_program, read_test
from traceforge.capture.run.python_files import is_python_file

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has these files")


def test_a_program_is_described_without_its_arguments(tmp_path: Path) -> None:
    """They could be secrets; the script of an interpreter is not."""
    script = tmp_path / "run.sh"
    script.write_text("read line\n")
    words = [["sleep", "20"], ["sh", str(script), "sk-secret"], [sys.executable, "-Sc", "input()", "sk-secret"]]

    described = []
    for command in words:
        with subprocess.Popen(command, stdin=subprocess.PIPE, env={"PYTEST_CURRENT_TEST": "a.py::b (call)"}) as child:
            while read_program(child.pid).words[-1:] != (command[-1],):  # until it has started its program
                pass
            described.append(read_program(child.pid).command_line)
            facts = read_program(child.pid).is_python, read_test(child.pid), os.getpid() in list_ancestors(child.pid)
            child.kill()

    assert ["sleep", f"{Path(shutil.which('sh') or '').resolve().name} {script}"] == described[:2]
    assert described[2].endswith(" -Sc …")
    assert (True, "a.py::b", True) == facts


def test_a_python_is_recognised_by_its_file(tmp_path: Path) -> None:
    """Also one without symbols that is linked statically; a program that only mentions Python is none."""
    copy = shutil.copy(os.path.realpath(sys.executable), tmp_path / "anything")
    static, other = tmp_path / "static", tmp_path / "other"
    static.write_bytes(b"\x7fELF" + bytes(100) + b"PYTHONHASHSEED\0PYTHONDONTWRITEBYTECODE\0")
    other.write_bytes(b"\x7fELF" + bytes(100) + b"PYTHONPATH\0")

    assert [True, True, False, False, False] == [
        is_python_file(str(path)) for path in (copy, static, other, shutil.which("sh"), tmp_path / "none")
    ]


def test_where_memory_is_hidden_the_reason_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for root, and not for the usual settings."""
    scope = tmp_path / "ptrace_scope"
    monkeypatch.setattr(process_files, "YAMA_FILE", str(scope))
    reasons = []
    for text, user in (("2\n", 1000), ("1\n", 1000), ("3\n", 0)):
        scope.write_text(text)
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        reasons.append(bool(process_files.reason_memory_is_hidden()))

    assert ([True, False, False], os.getpid()) == (reasons, find_process(os.getpid()))
