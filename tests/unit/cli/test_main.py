"""Errors of the system that no command expected, each one line that names what it is about; and mistyped options."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from traceforge.cli import main as command_line


def _run_and_raise(error: OSError, monkeypatch: pytest.MonkeyPatch) -> int:
    def fail(_: list[str]) -> NoReturn:
        raise error

    monkeypatch.setattr(command_line, "_invoke", fail)
    monkeypatch.setattr(command_line, "_discard_stdout", lambda: None)
    return command_line._run([])


def _system_error(number: int, file: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), file)


@pytest.mark.parametrize(
    ("error", "first_line"),
    [
        (_system_error(errno.ENOSPC), "error TF202: the output cannot be written: no space left on device"),
        (_system_error(errno.EACCES, "/x/.ai-tests"), "error TF201: /x/.ai-tests: permission denied"),
        (
            _system_error(errno.ECONNRESET),
            "error TF999: internal error: ConnectionResetError: connection reset by peer",
        ),
    ],
)
def test_a_system_error_names_the_output_or_the_file(
    error: OSError, first_line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only an error of writing, without a file, is one of the output."""
    assert 3 == _run_and_raise(error, monkeypatch)

    lines = capsys.readouterr().err.splitlines()
    assert first_line == lines[0]
    assert lines[1].startswith("    hint: ")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("record --frsh -- true", "--fresh"),
        ("record --josn true", "--json"),
        ("run --josn -- true", "--json"),
        ("test --jsn -- true", "--json"),
        ("test --alow-unused", "--allow-unused"),
        ("modelio record --outt x.json -- true", "--out"),
    ],
)
def test_a_mistyped_option_before_the_command_is_wrong_usage(
    words: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not taken for the command; the nearest option is suggested."""
    assert 2 == command_line._run(words.split())

    assert option in capsys.readouterr().err.rpartition("Did you mean")[2]


@pytest.mark.parametrize("words", ["run --", "record --", "test --", "modelio record --out x.json --"])
def test_a_command_after_two_hyphens_may_begin_with_a_hyphen(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))  # `test` refuses imports until its process ends.

    assert 3 == command_line._run([*words.split(), "--fresh", "--json"])

    assert capsys.readouterr().err.startswith("error TF502: --fresh: command not found\n")
