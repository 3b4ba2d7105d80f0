"""The name under which TraceForge is installed, and what happens where another project has its import name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import traceforge
import traceforge_gate
from support.command import PLAIN_PYTEST
from support.corpus import PROJECT
from traceforge import __version__
from traceforge.distribution import DISTRIBUTION, install_command
from traceforge.errors import ForeignPackage

METADATA = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
TEXTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "action.yml",
    "Makefile",
    ".pre-commit-hooks.yaml",
)
FOLDERS = ("changelog.d", "docs", "examples", "src", "tools", "tests/apps", "tests/docs")
SUFFIXES = {".cfg", ".html", ".ini", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}
INSTALLER = (
    r"(?:pip3? install|pipx (?:install|run|inject)|uv (?:add|pip install|tool install|tool run)|uvx|poetry add)"
)
# The other project: `traceforge` with or without an extra or a version, as a word of an installer's command.
FOREIGN_INSTALL = re.compile(rf"{INSTALLER} [^\n`|;&]*?(?<![\w./-])traceforge(?![\w/.-])")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages in which TraceForge is."""
    folder = tmp_path / "site"
    folder.mkdir()
    shutil.copy(traceforge_gate.__file__, folder)
    (folder / "traceforge").symlink_to(Path(traceforge.__file__).parent)
    (folder / "traceforge_gate-0.1.0.dist-info").mkdir()
    return folder


def run_command(*path: Path, module: str = "traceforge_gate") -> subprocess.CompletedProcess[str]:
    """What the installed script does, where these folders are searched first."""
    return subprocess.run(
        [sys.executable, "-c", f"from {module} import main; main()", "--version"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        cwd=path[0], text=True, capture_output=True, check=False,
    )  # fmt: skip


def test_the_name_stands_in_one_place() -> None:
    """In the code; the metadata repeats it for its extras, and says the same."""
    extras = METADATA["optional-dependencies"].values()
    own = [needed for extra in extras for needed in extra if needed.startswith("traceforge")]
    spelled = [path.name for path in (PROJECT / "src").rglob("*.py") if DISTRIBUTION in path.read_text("utf-8")]

    assert DISTRIBUTION == METADATA["name"]
    assert [f"{DISTRIBUTION}[checks]", *[f"{DISTRIBUTION}[context]"] * 2] == own
    assert {"traceforge", DISTRIBUTION} == METADATA["scripts"].keys()
    assert traceforge_gate.__name__ == DISTRIBUTION.replace("-", "_")
    assert ["distribution.py"] == spelled


def test_nothing_says_to_install_the_other_project() -> None:
    """No page, template, example or message."""
    paths = [PROJECT / name for name in TEXTS]
    paths += [path for folder in FOLDERS for path in (PROJECT / folder).rglob("*") if path.suffix in SUFFIXES]
    wrong = [
        (str(path.relative_to(PROJECT)), line)
        for path in paths
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if FOREIGN_INSTALL.search(line)
    ]

    assert len(paths) > 500
    assert [] == wrong


@pytest.mark.parametrize(
    ("line", "is_foreign"),
    [
        ("pip install traceforge", True),
        ('pip install "traceforge[vcr]"', True),
        ("python -m pip install -q 'traceforge>=1' pytest", True),
        ("uvx traceforge verify", True),
        (install_command("context"), False),
        (f"{install_command()} && traceforge verify", False),
        ("pip install -r requirements.txt; traceforge test", False),
        ("pip install dist/traceforge_gate-*.whl", False),
        ("uvx --from traceforge-gate traceforge-gate verify", False),
    ],
)
def test_an_install_of_the_other_project_is_recognised(line: str, is_foreign: bool) -> None:
    assert is_foreign == bool(FOREIGN_INSTALL.search(line))


def test_alone_in_its_environment_the_command_runs(site: Path) -> None:
    ran = run_command(site)

    assert (0, f"traceforge {__version__}\n", "") == (ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.parametrize("module", ["traceforge_gate", "traceforge.cli"])
@pytest.mark.parametrize("metadata", ["traceforge-1.4.0.dist-info", "TraceForge-0.9.egg-info"])
def test_the_other_project_in_the_same_place_is_named(site: Path, metadata: str, module: str) -> None:
    """Each of the two has overwritten files of the other: nothing is run, and the hint separates them.

    The command may be that of the other project, which calls `main` of its `traceforge.cli`, and gets ours.
    """
    (site / metadata).mkdir()

    ran = run_command(site, module=module)

    assert (3, "") == (ran.returncode, ran.stdout)
    assert f"error {ForeignPackage.code}: another project called traceforge" in ran.stderr
    assert metadata in ran.stderr
    assert f"install --force-reinstall --no-deps {DISTRIBUTION}\n" in ran.stderr


@pytest.mark.parametrize("file", ["traceforge/__init__.py", "traceforge.py"])
def test_another_package_that_is_found_first_is_named(site: Path, tmp_path: Path, file: str) -> None:
    """Its code does not run."""
    other = tmp_path / "other" / file
    other.parent.mkdir(parents=True)
    other.write_text("raise SystemExit('the code of the other project')\n")

    ran = run_command(tmp_path / "other", site)

    assert (3, "") == (ran.returncode, ran.stdout)
    assert f"error {ForeignPackage.code}: `import traceforge` gives another project" in ran.stderr
    assert str(other) in ran.stderr
    assert "hint: Rename or remove it" in ran.stderr


def test_the_pytest_plugin_names_the_other_project(site: Path, tmp_path: Path) -> None:
    """A suite with approved calls does not run with a mixture of two projects."""
    (site / "traceforge-1.4.0.dist-info").mkdir()
    shutil.copytree(PROJECT / "tests/docs/samples/docs/how-to/verify-in-ci", tmp_path / "project")
    (tmp_path / "project" / "test_it.py").write_text("def test_it() -> None:\n    pass\n")

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path / "project",
        env={**os.environ, **PLAIN_PYTEST, "PYTHONPATH": str(site)}, text=True, capture_output=True, check=False,
    )  # fmt: skip

    assert (pytest.ExitCode.USAGE_ERROR, "") == (ran.returncode, ran.stdout.strip())
    assert f"{ForeignPackage.code} another project called traceforge" in ran.stderr


def test_the_code_of_the_entry_point_is_that_of_the_error() -> None:
    assert ForeignPackage.code == traceforge_gate.FOREIGN_CODE
