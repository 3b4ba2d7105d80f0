"""Whether a run is a build, and which one, is decided as pytest was started: nothing that runs later changes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.test_same_verdict import APP
from support.gate_project import Site
from support.model_servers import model_server

TESTS = """from app import ask


def test_it():
    ask('Name a soup.')


def test_again():
    ask('Sing a soup.')
"""
UNSET = """import os

for name in list(os.environ):
    if name.startswith(("CI", "GITHUB", "GITLAB", "TRACEFORGE")):
        del os.environ[name]
"""
DROP = "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]\n"
INDENTED = UNSET.replace("\n", "\n    ")


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A repository with two approved calls on its branch `main`."""
    folder = tmp_path_factory.mktemp("build")
    (folder / "app.py").write_text(APP)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (folder / "test_it.py").write_text(TESTS)
    with model_server() as server:
        site = Site(folder, Path(sys.executable), server, ".")
        assert 0 == (ran := site.run("record", *site.pytest("."))).code, ran
        assert 0 == (ran := site.approve()).code, ran
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "app.py", "pytest.ini", "test_it.py", ".ai-snapshots")
        git(folder, "commit", "-qm", "x")
        yield site


@pytest.fixture
def site(approved: Site, tmp_path: Path) -> Site:
    return approved.at(tmp_path / "checkout")


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def build(site: Site) -> dict[str, str]:
    """Commit a pull request and check out its merge, as GitHub does; the variables of its build."""
    git(site.folder, "add", "-A", ".")
    git(site.folder, "commit", "-qm", "y", "--allow-empty")
    merge = git(site.folder, "commit-tree", "HEAD^{tree}", "-p", "HEAD^", "-p", "HEAD", "-m", "merge")
    git(site.folder, "checkout", "-qf", "--detach", merge)
    return {
        "CI": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/1/merge", "GITHUB_SHA": merge
    }  # fmt: skip


UNSETTING = {
    "at import": f"{UNSET}\n\n{DROP}",
    "in pytest_configure": f"def pytest_configure():\n    {INDENTED}\n\n{DROP}",
    "in a hook of the collection": f"{DROP}    {INDENTED}",
    "at the end": f"{DROP}\n\ndef pytest_sessionfinish():\n    {INDENTED}",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", [name if name == "at import" else pytest.param(name, marks=pytest.mark.slow) for name in UNSETTING]
)
@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_a_conftest_that_unsets_ci_and_drops_a_test_is_red(site: Site, moment: str, workers: str) -> None:
    """The plugin has read the variables before."""
    (site.folder / "conftest.py").write_text(UNSETTING[moment])

    ran = site.plugin("-n", workers, **build(site))

    assert (1, True) == (ran.code, "unchecked: test_it.py::test_again did not run" in ran.out), ran


@pytest.mark.slow
def test_a_conftest_of_a_removed_tree_cannot_unset_the_build(site: Site) -> None:
    shutil.rmtree(site.folder / ".ai-snapshots")
    (site.folder / "conftest.py").write_text(UNSET)

    ran = site.plugin(**build(site))

    assert (4, True) == (ran.code, "the snapshots were removed" in ran.err), ran


@pytest.mark.slow
def test_a_removed_tree_is_an_error_where_the_base_is_not_in_the_clone(site: Site, tmp_path: Path) -> None:
    """As for `traceforge test`; after the fetch that the message names, both say what was removed. A checkout with no
    sign of TraceForge is one that never used it, for plain pytest.
    """
    shutil.rmtree(site.folder / ".ai-snapshots")
    (site.folder / ".gitignore").write_text(".ai-tests/\n")
    variables = build(site)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", site.folder.as_uri(), "clone")
    shallow = Site(clone, site.python, site.server, ".")

    unknown = shallow.plugin(**variables)
    tested = shallow.run("test", *site.pytest("."), **variables)
    off = shallow.plugin("--traceforge=off", **variables)
    command = unknown.err.partition("Run: git ")[2].partition("\n")[0]
    git(clone, *command.split())
    known = shallow.plugin(**variables)
    git(tmp_path, "clone", "-q", "--depth=1", site.folder.as_uri(), "strangers")
    (tmp_path / "strangers" / ".gitignore").unlink()
    stranger = Site(tmp_path / "strangers", site.python, site.server, ".")
    unused = stranger.plugin(**variables)
    refused = stranger.run("test", *site.pytest("."), **variables)

    assert (4, True) == (unknown.code, "TF209 the first parent of the merge commit" in unknown.err), unknown
    assert (3, True) == (tested.code, "TF209" in tested.err), tested
    assert 0 == off.code, off
    assert (4, True) == (known.code, "AP7" in known.err), known
    assert (False, False) == ("traceforge" in unused.out + unused.err, "TF209" in unused.err), unused
    assert (3, True) == (refused.code, "TF209" in refused.err), refused


@pytest.mark.slow
@pytest.mark.parametrize("value", ["false", "0", ""])
def test_a_value_of_ci_that_says_no_is_not_a_build(site: Site, value: str) -> None:
    """A removed tree is not looked for on a developer's machine."""
    variables = {**build(site), "GITHUB_SHA": "0" * 40, "CI": value}
    (site.folder / "conftest.py").write_text(DROP)

    ran = site.plugin(**variables)

    assert (0, False) == (ran.code, "compared with" in ran.out), ran


KEEPS_TESTS_OUT = {
    "collect_ignore": "collect_ignore = ['test_it.py']\n",
    "pytest_ignore_collect": "def pytest_ignore_collect(collection_path):\n    return True\n",
    "pytest_runtest_protocol": "def pytest_runtest_protocol(item):\n    return True\n",
    "pytest_pyfunc_call": "def pytest_pyfunc_call(pyfuncitem):\n    return True\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", KEEPS_TESTS_OUT)
def test_a_conftest_that_keeps_approved_tests_from_running_is_not_green(site: Site, way: str) -> None:
    """The command asks for all tests, in plain pytest and under `traceforge test`."""
    (site.folder / "conftest.py").write_text(KEEPS_TESTS_OUT[way])
    (site.folder / "sub").mkdir()
    (site.folder / "sub" / "test_sub.py").write_text("def test_sub():\n    pass\n")
    site.tests = "-q"
    variables = build(site)

    tested = site.run("test", *site.pytest(), **variables)
    plugged = site.plugin(**variables)

    assert (True, False) == (tested.code in (1, 3), "GREEN" in tested.err), tested
    assert 0 != plugged.code, plugged
