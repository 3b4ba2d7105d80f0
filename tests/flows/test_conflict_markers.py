"""Files with the conflict markers of a Git merge: the message says so, where they begin, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.approval_project import Project, record_change
from support.command import traceforge

PLACE = "conflict markers of a Git merge at line "
KEEP = "Keep one side: git checkout --ours FILE, or --theirs, or edit the file; then run: traceforge verify"
FILES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a snapshot": (lambda folder: next((folder / ".ai-snapshots/openai").iterdir()), KEEP),
    "a raw response": (lambda folder: next((folder / ".ai-snapshots/wire").iterdir()), KEEP),
    "an approval": (lambda folder: next((folder / ".ai-snapshots/approvals").iterdir()), KEEP),
    "the manifest": (lambda folder: folder / ".ai-snapshots/manifest.json", "traceforge snapshot manifest"),
    "the match key": (lambda folder: folder / ".ai-snapshots/match-key.json", "Keep one id"),
    "the configuration": (lambda folder: folder / "traceforge.config.json", KEEP),
    "pyproject.toml": (lambda folder: folder / "pyproject.toml", KEEP),
}


@pytest.mark.parametrize(
    "name", [name if name == "a snapshot" else pytest.param(name, marks=pytest.mark.slow) for name in FILES]
)
def test_conflict_markers_are_named_with_their_line(tmp_path: Path, name: str) -> None:
    """The second line of the file; it is not called a file that is not JSON."""
    project = Project(tmp_path / "project")
    project.approve(record_change("one"))
    (project.root / "match-key.json").write_text('{"version": "1.0.0",\n "id": "0979d666c3bff471cad9b452271e1aea"}\n')
    if name == "pyproject.toml":
        (project.folder / name).write_text("[tool.traceforge]\n[tool.other]\n")
    if name == "the configuration":
        (project.folder / "traceforge.config.json").write_text("{\n}\n")
    file, hint = FILES[name][0](project.folder), FILES[name][1]
    first, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([first, "<<<<<<< HEAD\n", *rest, "=======\n", *rest, ">>>>>>> other\n"]))

    ran = traceforge("verify", cwd=project.folder)

    text = ran.out + ran.err
    assert ran.code in (1, 3), ran  # 1 where other findings follow from it, such as a missing approval
    assert f"{PLACE}2" in text, ran
    assert hint in text, ran
    assert "not JSON" not in text
    assert "not TOML" not in text
