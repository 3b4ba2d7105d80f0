"""Audit the projects of the corpus that have cassettes, and move them from vcrpy to TraceForge.

    PYTHONPATH=tests .venv/bin/python -m support.cassette_projects

prints the numbers of docs/how-to/audit-cassettes.md and import-cassettes.md, with the versions of
`requirements/cassette-projects.txt`.

    PYTHONPATH=tests .venv/bin/python -m support.cassette_projects CHECKOUT PYTHON

prints the two rows of any checkout whose cassettes are in tests/cassettes; PYTHON has what its suite needs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from support.command import CommandResult, traceforge
from support.corpus import need_shared
from support.environments import installed_python

NAMES = ("llm-anthropic", "llm-gemini")
WITHOUT_VCRPY = ("--disable-recording",)


class AuditedProject(NamedTuple):
    """The result of an audit."""

    name: str
    code: int
    report: str  # as it is printed

    @property
    def drifted_tests(self) -> tuple[int, int]:
        """How many tests drifted, and how many have cassettes."""
        match = re.search(r"DRIFT: (?:(\d+) of )?(\d+) cassette tests", self.report)
        assert match is not None, self.report
        return int(match[1] or 0), int(match[2])

    @property
    def table_row(self) -> str:
        """The row of the project, as the page has it."""
        drifted, tests = self.drifted_tests
        calls = self.report.rpartition("(")[2].partition(" calls)")[0]
        calls = calls if drifted else f"0 of {calls}"
        causes = re.findall(r"^traceforge: (.* in \d+ tests?(?: \(.*\))?)$", self.report, re.MULTILINE)
        return f"| {self.name} | {drifted} of {tests} | {calls} | {len(causes)} |"


class CassetteProject(NamedTuple):
    """A copy of a project, installed beside its dependencies."""

    folder: Path
    packages: Path
    python: Path

    def run(self, *words: str, pytest: tuple[str, ...] = ()) -> CommandResult:
        """Run a command; with words for pytest, one that runs the cassette tests."""
        suite = ("--", str(self.python), "-m", "pytest", "-q", "-m", "vcr", "-p", "no:cacheprovider", *pytest)
        variables = {"PYTHONPATH": str(self.packages), "PYTHONDONTWRITEBYTECODE": "1"}
        return traceforge(*words, *(suite if pytest else ()), cwd=self.folder, **variables)


def install_project(name: str, folder: Path) -> CassetteProject:
    """Copy a project to a folder, and install it beside its dependencies."""
    python = installed_python("cassette-projects")
    project, source, packages = (folder / f"{name}{end}" for end in ("", "-source", "-packages"))
    for copy in (project, source):  # Building leaves files behind.
        shutil.copytree(need_shared(f"corpus/projects/{name}"), copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    install = ["-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([str(python), *install, str(packages), str(source)], capture_output=True, timeout=300, check=True)
    return CassetteProject(project, packages, python)


def copy_checkout(checkout: Path, python: Path, folder: Path) -> CassetteProject:
    """Copy a checkout to a folder; its suite runs with this Python, and imports the copy."""
    copy = folder / checkout.name
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    return CassetteProject(copy, copy, python)


def audit_project(project: CassetteProject) -> AuditedProject:
    """Audit the cassette tests of a project."""
    ran = project.run("audit", "vcr", "tests/cassettes", pytest=("--tb=short",))
    return AuditedProject(project.folder.name, ran.code, ran.err)


class MovedProject(NamedTuple):
    """A project whose cassettes are imported, and whose drifted calls have adopted answers; all approved."""

    name: str
    project: CassetteProject
    adopted: CommandResult

    def test(self) -> CommandResult:
        """Gate the suite without vcrpy."""
        return self.project.run("test", pytest=WITHOUT_VCRPY)

    @property
    def table_row(self) -> str:
        """The row of the project, as the page has it."""
        match = re.search(r"(\d+) model calls: (\d+) answered from snapshots, (\d+) with", self.adopted.err)
        assert match is not None, self.adopted
        return f"| {self.name} | {match[1]} | {match[2]} | {match[3]} |"


def move_project(project: CassetteProject) -> MovedProject:
    """Move the cassette tests of a project to TraceForge without a provider."""
    (project.folder / "traceforge.config.json").write_text('{"record_http": "all"}')
    assert 0 == project.run("import", "vcr", "tests/cassettes").code
    assert 0 == project.run("approve", "--all", "--reason", "as recorded with vcrpy").code
    adopted = project.run("record", "--adopt", pytest=WITHOUT_VCRPY)
    assert 0 == project.run("approve", "--all", "--reason", "what the suite sends now").code
    return MovedProject(project.folder.name, project, adopted)


def install_named_projects(words: list[str], folder: Path) -> list[CassetteProject]:
    """The checkout that the command line names, or those of the corpus."""
    if words:
        checkout, python = (Path(word).absolute() for word in words)
        return [copy_checkout(checkout, python, folder)]
    return [install_project(name, folder) for name in NAMES]


def main(words: list[str]) -> None:
    """Print the rows of both pages, and the report of the first audit."""
    with tempfile.TemporaryDirectory() as audits, tempfile.TemporaryDirectory() as moves:
        projects = [audit_project(project) for project in install_named_projects(words, Path(audits))]
        moved_projects = [move_project(project) for project in install_named_projects(words, Path(moves))]
    rows = "\n".join(project.table_row for project in projects)
    moved_rows = "\n".join(project.table_row for project in moved_projects)
    sys.stdout.write(f"{rows}\n\n{moved_rows}\n\n{projects[0].report}")


if __name__ == "__main__":
    main(sys.argv[1:])
