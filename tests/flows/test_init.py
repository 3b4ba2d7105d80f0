"""`traceforge init`: prepares a project without changing existing files."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from support.command import CommandResult, traceforge
from traceforge.config import Config, load_config
from traceforge.match_key import find_match_key
from traceforge.project_setup import CONFIG

KEY = ".ai-tests/match.key"
KEY_LINE = f"wrote     {KEY} (a secret: never commit it; CI takes it from TRACEFORGE_MATCH_KEY)"


def init(folder: Path, code: int = 0, **variables: str) -> CommandResult:
    """Run `traceforge init` and expect its exit code."""
    ran = traceforge("init", cwd=folder, **variables)
    assert code == ran.code, ran
    return ran


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_empty_folder_gets_a_configuration_an_ignore_file_and_a_key(tmp_path: Path) -> None:
    """Each step is a line on stdout."""
    ran = init(tmp_path)

    assert [
        "wrote     traceforge.config.json",
        "wrote     .gitignore: .ai-tests/",
        "wrote     .gitattributes: .ai-snapshots/** -text, .ai-snapshots/wire/** linguist-generated",
        KEY_LINE,
    ] == ran.out.splitlines()
    assert "next: traceforge record -- COMMAND, such as pytest\n" == ran.err
    assert {"traceforge.config.json", ".gitignore", ".gitattributes", KEY, ".ai-tests/.gitignore"} == contents(
        tmp_path
    ).keys()
    assert b".ai-tests/\n" == (tmp_path / ".gitignore").read_bytes()


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    """And prints that everything was kept."""
    init(tmp_path)
    before = contents(tmp_path)

    second = init(tmp_path)

    names = ("traceforge.config.json", ".gitignore", ".gitattributes", KEY)
    assert [f"kept      {name}" for name in names] == second.out.splitlines()
    assert before == contents(tmp_path)


def test_the_written_configuration_is_valid_and_names_every_setting(tmp_path: Path) -> None:
    """Each with its default and a comment, so that any line can be edited alone."""
    init(tmp_path)

    assert "valid: traceforge.config.json\n" == traceforge("config", "check", cwd=tmp_path).out
    loaded = load_config(str(tmp_path))
    assert Config() == loaded.config
    assert {"traceforge.config.json"} == set(loaded.origins.values())
    settings = re.findall(r'^  // .*\n  "(\w+)": ', CONFIG, re.MULTILINE)
    assert list(Config.__struct_fields__) == settings


def test_the_key_is_private_and_different_each_time(tmp_path: Path) -> None:
    """Mode 0600 in a folder of mode 0700; 64 hex digits that no output shows."""
    keys = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ran = init(tmp_path / name)
        file = tmp_path / name / KEY
        keys.append(file.read_text())
        assert (0o600, 0o700) == (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode))
        assert keys[-1].strip() not in ran.out + ran.err
        assert keys[-1].strip().encode() == find_match_key(str(tmp_path / name), {})

    assert all(re.fullmatch(r"[0-9a-f]{64}\n", key) for key in keys)
    assert 2 == len(set(keys))


def test_an_existing_configuration_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "traceforge.config.json").write_text('{ // mine\n  "max_trace_retention": 7 }')

    assert init(tmp_path).out.startswith("kept      traceforge.config.json\n")
    assert '{ // mine\n  "max_trace_retention": 7 }' == (tmp_path / "traceforge.config.json").read_text()


@pytest.mark.parametrize("table", ["[tool.traceforge]\nmax_trace_retention = 7\n", "[tool.traceforge]\n"])
def test_a_project_that_pyproject_configures_gets_no_second_file(tmp_path: Path, table: str) -> None:
    """Two configurations are an error; an empty table counts as one."""
    (tmp_path / "pyproject.toml").write_text(table)

    ran = init(tmp_path)

    assert ran.out.startswith("kept      pyproject.toml [tool.traceforge]\n")
    assert "valid: pyproject.toml [tool.traceforge]\n" == traceforge("config", "check", cwd=tmp_path).out


def test_a_broken_configuration_stops_before_anything_is_written(tmp_path: Path) -> None:
    """TF401, exit 3, and no file."""
    (tmp_path / "traceforge.config.json").write_text('{"trace_dir": "x"}')

    assert "error TF401: traceforge.config.json: unknown key trace_dir" in init(tmp_path, code=3).err
    assert ["traceforge.config.json"] == os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b".ai-tests/\n"),
        (b"*.pyc\n", b"*.pyc\n.ai-tests/\n"),
        (b"*.pyc", b"*.pyc\n.ai-tests/\n"),
        (b"*.pyc\r\nbuild/\r\n", b"*.pyc\r\nbuild/\r\n.ai-tests/\r\n"),
        (b"*.pyc\r\nbuild/", b"*.pyc\r\nbuild/\r\n.ai-tests/\r\n"),
        (b"caf\xe9/\n", b"caf\xe9/\n.ai-tests/\n"),
        (b"# .ai-tests/\n", b"# .ai-tests/\n.ai-tests/\n"),
        (b".ai-tests-old/\n", b".ai-tests-old/\n.ai-tests/\n"),
        (b"sub/.ai-tests/\n", b"sub/.ai-tests/\n.ai-tests/\n"),
        (b".ai-tests/\n!.ai-tests/\n", b".ai-tests/\n!.ai-tests/\n.ai-tests/\n"),
    ],
)
def test_the_ignore_line_is_appended(tmp_path: Path, before: bytes, after: bytes) -> None:
    """No existing byte changes, and the line end is the file's."""
    (tmp_path / ".gitignore").write_bytes(before)

    assert "added to  .gitignore: .ai-tests/\n" in init(tmp_path).out
    assert after == (tmp_path / ".gitignore").read_bytes()


@pytest.mark.parametrize(
    "written",
    [
        ".ai-tests", "*.pyc\n.ai-tests/\n", "*.pyc\r\n/.ai-tests\r\n", "/.ai-tests/", "**/.ai-tests/\n*.pyc\n",
        ".ai-tests/*\n", "\ufeff.ai-tests/**  \n",
    ],
)  # fmt: skip
def test_a_folder_already_ignored_in_another_spelling_gets_no_line(tmp_path: Path, written: str) -> None:
    """With any line ends and after a byte order mark."""
    (tmp_path / ".gitignore").write_text(written, encoding="utf-8", newline="")

    assert "kept      .gitignore\n" in init(tmp_path).out
    assert written.encode() == (tmp_path / ".gitignore").read_bytes()


def test_git_ignores_traces_and_the_key(tmp_path: Path) -> None:
    """And not the configuration."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "traceforge.config.json").write_text('{"traces_dir": "var/my traces [1]"}')
    (tmp_path / ".gitignore").write_bytes(b"*.pyc\r\n")
    assert "added to  .gitignore: .ai-tests/, /var/my\\ traces\\ \\[1]/\n" in init(tmp_path).out
    paths = [KEY, "var/my traces [1]/x.json", "traceforge.config.json", "sub/var/my traces [1]/x.json"]

    completed = subprocess.run(
        ["git", "check-ignore", *paths], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert paths[:2] == completed.stdout.splitlines()
    assert "kept      .gitignore\n" in init(tmp_path).out


def test_the_mode_of_an_ignore_file_stays(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("x\n")
    (tmp_path / ".gitignore").chmod(0o600)

    init(tmp_path)

    assert 0o600 == stat.S_IMODE((tmp_path / ".gitignore").stat().st_mode)


def test_the_root_of_the_project_is_prepared_from_anywhere_in_it(tmp_path: Path) -> None:
    """File names are printed relative to the current folder."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "src" / "app").mkdir(parents=True)

    ran = init(tmp_path / "src" / "app")

    assert ran.out.startswith("wrote     ../../traceforge.config.json\nwrote     ../../.gitignore: .ai-tests/\n")
    assert [] == os.listdir(tmp_path / "src" / "app")
    assert (tmp_path / KEY).exists()


def test_init_is_refused_in_ci(tmp_path: Path) -> None:
    """Exit 2, and nothing is written."""
    assert "`traceforge init` writes files, and CI is set" in init(tmp_path, code=2, CI="true").err
    assert [] == os.listdir(tmp_path)


def test_a_key_that_cannot_be_read_is_not_replaced(tmp_path: Path) -> None:
    """It may be the only key to existing recordings; an empty file is not a key."""
    (tmp_path / KEY).mkdir(parents=True)
    assert "error TF201" in init(tmp_path, code=3).err
    assert (tmp_path / KEY).is_dir()

    (tmp_path / KEY).rmdir()
    (tmp_path / KEY).write_text(" \n")
    assert KEY_LINE in init(tmp_path).out
    assert 65 == len((tmp_path / KEY).read_text())


def test_existing_attributes_stay(tmp_path: Path) -> None:
    """In the file's line ends; an equal line with other spaces is not added again."""
    (tmp_path / ".gitattributes").write_bytes(b"*.png binary\r\n.ai-snapshots/**    -text")

    assert "added to  .gitattributes: .ai-snapshots/wire/** linguist-generated\n" in init(tmp_path).out
    expected = b"*.png binary\r\n.ai-snapshots/**    -text\r\n.ai-snapshots/wire/** linguist-generated\r\n"
    assert expected == (tmp_path / ".gitattributes").read_bytes()
