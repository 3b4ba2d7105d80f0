"""The gate with the oldest pytest that it supports: `traceforge test` and the plugin, green and red."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.test_same_verdict import APP
from support.command import CommandResult
from support.corpus import PROJECT
from support.environments import SITE_PACKAGES, installed_python
from support.gate_project import Site
from support.model_servers import model_server

TESTS = """import pytest
from app import ask


@pytest.fixture(scope="module")
def menu():
    return ask("Name a dish.")


@pytest.mark.parametrize("word", ["soup", "law"])
def test_it(word, menu):
    ask(f"Name a {word}.")
"""
OWN_PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "xdist", "httpx", "anyio")  # those of the environment


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A project that is recorded and approved with pytest 7."""
    folder = tmp_path / "project"
    (folder / "tests").mkdir(parents=True)
    (folder / "app.py").write_text(APP)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (folder / "tests" / "test_it.py").write_text(TESTS)
    with model_server() as server:
        site = Site(folder, installed_python("pytest7"), server)
        assert 0 == (ran := site.run("record", *site.pytest("tests"))).code, ran
        assert 0 == (ran := site.approve()).code, ran
        served = server.served
        yield site
        assert served == server.served


def run_plugin(site: Site, packages: Path) -> CommandResult:
    """Plain pytest 7 with the plugin, and `packages` for what TraceForge itself imports."""
    packages.mkdir()
    for package in SITE_PACKAGES.iterdir():
        if not package.name.startswith(OWN_PACKAGES) and package.suffix not in (".pth", ".dist-info"):
            (packages / package.name).symlink_to(package)
    environ = {
        "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": f"{PROJECT / 'src'}:{packages}", **site.environ(),
    }  # fmt: skip
    words = [str(site.python), "-m", "pytest", "-p", "traceforge.pytest_plugin", "-p", "no:cacheprovider", "tests"]
    ran = subprocess.run(
        words, cwd=site.folder, env=environ, capture_output=True, text=True, timeout=240, check=False
    )
    shutil.rmtree(packages)
    return CommandResult(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.slow
def test_the_oldest_pytest_gets_the_same_verdicts(site: Site, tmp_path: Path) -> None:
    """Unchanged code is green, a changed prompt is red, and so is a call less."""
    green = [site.run("test", *site.pytest("tests")), run_plugin(site, tmp_path / "packages")]
    site.edit("Name a {word}.", "Praise a {word}.", "tests/test_it.py")
    changed = [site.run("test", *site.pytest("tests")), run_plugin(site, tmp_path / "packages")]
    site.edit('ask(f"Praise a {word}.")', "pass", "tests/test_it.py")
    fewer = [site.run("test", *site.pytest("tests")), run_plugin(site, tmp_path / "packages")]

    assert "pytest-7." in green[1].out
    assert [0, 0] == [ran.code for ran in green], green
    assert ([1, 1], True) == ([ran.code for ran in changed], "GT1" in changed[0].err), changed
    assert ([1, 1], True) == ([ran.code for ran in fewer], "GT3" in fewer[1].out), fewer
