"""The plugin finds the snapshots of each file that it runs, and no option of pytest hides a finding."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.test_same_verdict import APP
from support.command import PLAIN_PYTEST
from support.gate_project import Site
from support.model_servers import model_server

TESTS = (
    "from app import ask\n\n\ndef test_it():\n    ask('Name a {}.')\n\n\ndef test_again():\n    ask('Sing a {}.')\n"
)
PACKAGES = {"a": "soup", "b": "law"}


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A monorepo: two packages, each recorded and approved in its own folder, and one without snapshots."""
    folder = tmp_path_factory.mktemp("monorepo")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n")
    (folder / "app.py").write_text(APP)
    with model_server() as server:
        for name, word in PACKAGES.items():
            package = folder / "packages" / name
            package.mkdir(parents=True)
            (package / "pytest.ini").write_text("[pytest]\npythonpath = ../..\n")
            (package / "test_it.py").write_text(TESTS.format(word, word))
            site = Site(package, Path(sys.executable), server, ".")
            assert 0 == (ran := site.run("record", *site.pytest("."))).code, ran
            assert 0 == (ran := site.approve()).code, ran
            shutil.rmtree(package / ".ai-tests")
        (folder / "packages" / "c").mkdir()
        (folder / "packages" / "c" / "test_c.py").write_text("def test_c():\n    pass\n")
        yield Site(folder, Path(sys.executable), server, ".")


@pytest.fixture
def site(approved: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout, and a provider with other answers that must see no request."""
    with model_server(salt="another") as other:
        yield approved.at(tmp_path / "checkout", other)
        assert 0 == other.served


WAYS = {
    "the root": [],
    "workers": ["-n", "2"],
    "paths": ["packages/b", "packages/a"],
    "a root elsewhere": ["--rootdir", "packages/c", "packages"],
}


def test_a_call_that_another_package_has_approved_is_red(site: Site) -> None:
    """In plain pytest and in the command: each test is judged by its nearest tree."""
    site.edit("Name a law.", "Name a soup.", "packages/b/test_it.py")

    plugged = site.plugin()
    tested = site.run("test", *site.pytest("."))

    assert (1, True) == (plugged.code, "GT1 the request of" in plugged.out), plugged
    assert (1, True) == (tested.code, "GT1 the request of" in tested.err), tested


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_each_package_is_judged_by_its_own_snapshots(site: Site, way: str) -> None:
    """Found upwards from each file; a call that was approved in one package is not approved in another."""
    site.tests = "--traceforge=test" if "packages" in str(WAYS[way]) else "."

    green = site.plugin(*WAYS[way])
    site.edit("Name a law.", "Name a soup.", "packages/b/test_it.py")
    red = site.plugin(*WAYS[way])

    assert (0, 2) == (green.code, green.out.count("2 calls replayed")), green
    assert (1, True) == (red.code, "1 failed" in red.out), red
    assert ("GT2 " if way == "a root elsewhere" else "GT1 the request of") in red.out  # Node ids begin at the root.


@pytest.mark.slow
@pytest.mark.parametrize("path", ["packages/a", "packages/a/test_it.py::test_it"])
def test_a_damaged_tree_of_a_package_that_is_not_collected_is_not_judged(site: Site, path: str) -> None:
    """Whichever folder pytest looks at on its way; collected, it stops the run."""
    (site.folder / "packages" / "b" / ".ai-snapshots" / "manifest.json").write_text("{}")
    site.tests = path

    beside = site.plugin()
    site.tests = "packages"
    collected = site.plugin()

    assert 0 == beside.code, beside
    assert 4 == collected.code, collected
    assert "the snapshots do not verify, in packages/b/.ai-snapshots:\n" in collected.err + collected.out


COMMAND_WAYS = {"the root": ["."], "paths": ["packages/b", "packages/a"], "one package": ["packages/b"]}


@pytest.mark.slow
@pytest.mark.parametrize("way", COMMAND_WAYS)
def test_the_command_judges_each_package_by_its_own_snapshots_too(site: Site, way: str) -> None:
    """From the top, as plain pytest does: green, red for a change, and red for a call that is gone."""
    words = site.pytest(*COMMAND_WAYS[way])

    green = site.run("test", *words)
    site.edit("Name a law.", "Name a soup.", "packages/b/test_it.py")
    changed = site.run("test", *words)
    site.edit("ask('Name a soup.')", "pass", "packages/b/test_it.py")
    gone = site.run("test", *words)

    calls = 2 if way == "one package" else 4
    assert (0, True) == (green.code, f"{calls} calls replayed" in green.err), green
    assert (1, True) == (changed.code, "GT1 the request of" in changed.err), changed
    assert (1, 1, True) == (gone.code, gone.err.count("GT3 "), "packages/b/" in gone.err), gone


@pytest.mark.slow
def test_the_command_does_not_judge_a_damaged_tree_of_which_no_test_runs(site: Site) -> None:
    (site.folder / "packages" / "b" / ".ai-snapshots" / "manifest.json").write_text("{}")

    beside = site.run("test", *site.pytest("packages/a"))
    collected = site.run("test", *site.pytest("packages"))

    assert 0 == beside.code, beside
    assert (1, True) == (collected.code, "packages/b/.ai-snapshots/manifest.json" in collected.err), collected


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    ran = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def commit(folder: Path) -> str:
    """Commit everything, in a new repository if there is none; the id of the commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "x", "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


def pull_request(site: Site, base: str) -> dict[str, str]:
    """Commit the checkout as the merge of a pull request onto a base; the variables of its build."""
    commit(site.folder)
    merge = git(site.folder, "commit-tree", "HEAD^{tree}", "-p", base, "-p", "HEAD", "-m", "merge")
    git(site.folder, "checkout", "-qf", "--detach", merge)
    return {
        "CI": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/1/merge", "GITHUB_SHA": merge
    }  # fmt: skip


@pytest.mark.slow
def test_a_new_tree_below_a_project_that_requires_signatures_is_red_without_one(site: Site) -> None:
    """Otherwise a pull request could approve the tests of the project above in a tree of its own."""
    commit(site.folder)
    site.tests = "packages/a"
    free = [site.run("test", "--base", "HEAD", *site.pytest("packages/a")), site.plugin()]
    (site.folder / "traceforge.config.json").write_text('{"approvals": {"require_signed": true}}')

    required = site.run("test", "--base", "HEAD", *site.pytest("packages/a"))
    plugged = site.plugin()
    inside = Site(site.folder / "packages" / "a", site.python, site.server, ".")
    within = inside.run("test", *site.pytest("."))

    assert [0, 0] == [ran.code for ran in free], free
    assert (1, True) == (required.code, "sign" in required.err), required
    assert (4, True) == (plugged.code, "the project above requires signed approvals" in plugged.err), plugged
    assert (1, True) == (within.code, "the project above requires signed approvals" in within.err), within


@pytest.mark.slow
def test_a_tree_that_is_gone_is_reported_where_its_tests_were_asked_for(site: Site) -> None:
    """Not in a build of another package."""
    base = commit(site.folder)
    shutil.rmtree(site.folder / "packages" / "b" / ".ai-snapshots")
    variables = pull_request(site, base)
    tested = {path: site.run("test", *site.pytest(path), **variables) for path in ("packages/a", "packages")}
    plugged = {}
    for path in tested:
        site.tests = path
        plugged[path] = site.plugin(**variables)

    assert [0, 1] == [ran.code for ran in tested.values()], tested
    assert [0, 4] == [ran.code for ran in plugged.values()], plugged
    assert "packages/b/.ai-snapshots was removed since" in plugged["packages"].err


LEFT_OUT = {
    "norecursedirs": "norecursedirs = b\n",
    "testpaths": "testpaths = packages/a\n",
    "--ignore": "addopts = --import-mode=importlib --ignore=packages/b\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", LEFT_OUT)
def test_a_file_that_leaves_a_package_out_is_not_green_in_a_build(site: Site, way: str) -> None:
    """The command asks for all tests."""
    lines = LEFT_OUT[way] if "addopts" in LEFT_OUT[way] else f"addopts = --import-mode=importlib\n{LEFT_OUT[way]}"
    (site.folder / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{lines}")
    site.tests = "-q"

    tested = site.run("test", *site.pytest(), CI="true")
    plugged = site.plugin(CI="true")

    assert 3 == tested.code, tested
    assert "test_it.py::test_it did not run, and its approved call was not compared" in tested.err
    assert (1, True) == (plugged.code, "test_it.py::test_it did not run" in plugged.out), plugged


@pytest.mark.slow
@pytest.mark.parametrize("way", LEFT_OUT)
def test_a_damaged_tree_of_a_package_that_a_file_leaves_out_is_not_green_in_a_build(site: Site, way: str) -> None:
    """What it approved is not known any more; on a developer's machine nothing is left out unseen."""
    base = commit(site.folder)
    lines = LEFT_OUT[way] if "addopts" in LEFT_OUT[way] else f"addopts = --import-mode=importlib\n{LEFT_OUT[way]}"
    (site.folder / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{lines}")
    (site.folder / "packages" / "b" / ".ai-snapshots" / "manifest.json").write_text("{}")
    site.tests = "-q"
    here = site.plugin()
    variables = pull_request(site, base)

    runs = [site.run("test", *site.pytest(), **environ) for environ in (variables, {"CI": "true"})]
    plugged = site.plugin(**variables)

    message = "packages/b/.ai-snapshots cannot be used, and none of its tests ran: "
    assert [(3, True)] * 2 == [(ran.code, message in ran.err) for ran in runs], runs
    assert (1, True) == (plugged.code, message in plugged.out), plugged
    assert 0 == here.code, here


@pytest.mark.slow
@pytest.mark.parametrize("renamed", [False, True])
def test_a_package_whose_tests_are_gone_is_not_green_in_a_build(site: Site, renamed: bool) -> None:
    """Nothing of it is collected, so nobody would say that its snapshots are unused."""
    base = commit(site.folder)
    file = site.folder / "packages" / "b" / "test_it.py"
    file.rename(file.with_name("check_it.py")) if renamed else file.unlink()
    site.tests = "-q"
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest(), **variables)
    plugged = site.plugin(**variables)

    message = "packages/b/test_it.py is gone, and its approved calls were not compared"
    assert (3, True) == (tested.code, message in tested.err), tested
    assert (1, True) == (plugged.code, message in plugged.out), plugged


def _move(folder: str) -> Callable[[Path], None]:
    def attack(checkout: Path) -> None:
        (checkout / folder).parent.mkdir(parents=True, exist_ok=True)
        (checkout / "packages" / "group" / "b").rename(checkout / folder)

    return attack


def _replace_by_a_link(checkout: Path) -> None:
    _move(".store/b")(checkout)
    (checkout / "packages" / "group" / "b").symlink_to("../../.store/b")
    with (checkout / "pytest.ini").open("a") as file:
        file.write("norecursedirs = b\n")


def _bring_environment(checkout: Path) -> None:
    (checkout / "packages" / "group" / "pyvenv.cfg").write_text("home = /usr/bin\n")


REMOVED = "packages/group/b/.ai-snapshots was removed since"
# Where neither pytest nor a search for trees of snapshots would look, or the command does not ask.
HIDING_PLACES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a virtual environment": (_bring_environment, "test_it.py::test_it did not run"),
    "a hidden folder": (_move("packages/.b"), REMOVED),
    "a folder of an installer": (_move("packages/node_modules/b"), REMOVED),
    "a folder beside": (_move("attic/b"), REMOVED),
    "a link": (_replace_by_a_link, REMOVED),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", HIDING_PLACES)
def test_a_package_that_a_pull_request_hides_is_not_green_in_a_build(site: Site, place: str) -> None:
    """With its tree of snapshots and all approvals: its tests do not run, whatever they ask by now."""
    _move_package(site)
    base = commit(site.folder)
    site.edit("Name a law.", "Name a crime.", "packages/group/b/test_it.py")
    attack, message = HIDING_PLACES[place]
    attack(site.folder)
    site.tests = "packages"
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest("packages"), **variables)
    plugged = site.plugin(**variables)

    assert (True, True) == (tested.code in (1, 3), message in tested.err), tested
    assert (True, True) == (plugged.code != 0, message in plugged.out + plugged.err), plugged


@pytest.mark.slow
def test_a_package_that_moves_among_those_that_the_command_asks_for_is_green(site: Site) -> None:
    base = commit(site.folder)
    _move_package(site)
    site.tests = "packages"
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest("packages"), **variables)
    plugged = site.plugin(**variables)

    assert (0, 0) == (tested.code, plugged.code), (tested, plugged)


def _move_package(site: Site) -> None:
    (site.folder / "packages" / "group").mkdir()
    (site.folder / "packages" / "b").rename(site.folder / "packages" / "group" / "b")


@pytest.mark.slow
def test_damaged_sample_data_is_not_judged_where_the_base_has_the_same(site: Site) -> None:
    """Byte for byte: what `.gitattributes` of a pull request makes of it is another tree."""
    sample = site.folder / "docs" / "sample" / ".ai-snapshots"
    sample.mkdir(parents=True)
    (sample / "manifest.json").write_text("{\n}\n")
    base = commit(site.folder)
    site.tests = "-q"
    variables = pull_request(site, base)

    same = [site.run("test", *site.pytest(), **variables), site.plugin(**variables)]
    (sample / "manifest.json").write_bytes(b"{\r\n}\r\n")
    other = [site.run("test", *site.pytest(), **variables), site.plugin(**variables)]

    assert [0, 0] == [ran.code for ran in same], same
    assert [3, 1] == [ran.code for ran in other], other


@pytest.mark.slow
def test_a_snapshot_of_a_package_that_is_not_used_is_found_from_above(site: Site) -> None:
    """Tests have other node ids there."""
    site.edit("ask('Sing a law.')", "pass", "packages/b/test_it.py")

    ran = site.plugin()

    assert (1, 1) == (ran.code, ran.out.count("GT3 ")), ran
    assert "traceforge packages/b" in ran.out


OPTIONS = {
    "first failure": ["-x"],
    "quiet": ["-qq", "--no-header", "--no-summary"],
    "no reports": ["--tb=no", "-rN"],
}


SKIPS = ("def test_it", "import pytest\n\n\n@pytest.mark.skip\ndef test_it", "packages/a/test_it.py")


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_no_option_of_pytest_makes_an_unchecked_run_green(site: Site, option: str) -> None:
    site.tests = "packages/a"
    site.edit(*SKIPS)

    assert 1 == (ran := site.plugin(*OPTIONS[option])).code, ran


@pytest.mark.slow
def test_a_run_without_a_terminal_is_judged(site: Site) -> None:
    """The lines of the summary go to stderr."""
    site.edit(*SKIPS)
    words = [sys.executable, "-m", "pytest", "-p", "no:terminal", "packages/a"]
    environ = {**os.environ, **PLAIN_PYTEST, **site.environ()}

    ran = subprocess.run(words, cwd=site.folder, env=environ, capture_output=True, text=True, check=False)

    assert (1, True) == (ran.returncode, "unchecked: " in ran.stderr), ran


@pytest.mark.slow
def test_a_suite_that_is_only_collected_is_not_judged(site: Site) -> None:
    site.edit("ask('Sing a law.')", "pass", "packages/b/test_it.py")
    (site.folder / "packages" / "a" / "test_it.py").unlink()

    assert 0 == (ran := site.plugin("--collect-only")).code, ran


HIDES = """import pytest


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    outcome = yield
    outcome.get_result().outcome = "passed"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    session.exitstatus = 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_plugin_that_changes_reports_hides_no_finding(site: Site, workers: str) -> None:
    """Such as one that runs tests again, or expects them to fail; the run is red all the same."""
    site.tests = "packages/a"
    (site.folder / "packages" / "a" / "conftest.py").write_text(HIDES)
    site.edit("Name a ", "Name the ", "packages/a/test_it.py")

    ran = site.plugin("-n", workers)

    assert (1, True) == (ran.code, "GT2 " in ran.out), ran


@pytest.mark.slow
def test_an_unapproved_call_of_a_test_that_is_expected_to_fail_is_red(site: Site) -> None:
    """Also where the test has no approved calls, so that its being skipped says nothing."""
    site.tests = "packages/a"
    site.edit(
        "def test_it",
        "import pytest\n\n\n@pytest.mark.xfail\ndef test_new():\n    ask('Name a new soup.')\n    assert False\n\n\n"
        "def test_it",
        "packages/a/test_it.py",
    )

    assert (1, True) == ((ran := site.plugin()).code, "GT2 " in ran.out), ran


STARTS = {
    "a call after the tests": "ask('Name a late soup.')",
    "nothing yet": "time.sleep(20)",
}


@pytest.mark.slow
@pytest.mark.parametrize("does", STARTS)
def test_a_process_that_outlives_the_tests_is_not_green(site: Site, does: str) -> None:
    """What it asks after the tests is judged at the end of pytest; what it asks later, nobody knows."""
    site.tests = "packages/a"
    wait = "os.waitpid(child, 0)" if does == "a call after the tests" else "pass"
    (site.folder / "packages" / "a" / "conftest.py").write_text(
        "import atexit\nimport os\nimport time\n\nimport pytest\n\nfrom app import ask\n\n\n"
        "@pytest.fixture(scope='session', autouse=True)\ndef child():\n    child = os.fork()\n    if not child:\n"
        f"        time.sleep(0.5)\n        {STARTS[does]}\n        os._exit(0)\n"
        f"    atexit.register(lambda: {wait if wait != 'pass' else None})\n"
    )

    ran = site.plugin()

    assert 1 == ran.code, ran
    assert ("GT2 " if wait != "pass" else "outlived them") in ran.out + ran.err


BLIND = {
    "no plugin": (["-m", "pytest", "-p", "no:traceforge", "test_it.py"], 1),
    "isolated": (["-I", "-m", "pytest", "test_it.py"], 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", [*BLIND, "no plugins"])
def test_the_command_needs_no_plugin_in_pytest(site: Site, way: str) -> None:
    """Its own hook reports; a pytest that it cannot see into is unchecked."""
    package = Site(site.folder / "packages" / "a", Path(sys.executable), site.server, ".")
    package.edit("Name a ", "Name the ", "test_it.py")
    words, code = BLIND.get(way, (["-m", "pytest", "test_it.py"], 1))
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""} if way == "no plugins" else {}

    ran = package.run("test", "--", sys.executable, *words, **variables)

    assert code == ran.code, ran
