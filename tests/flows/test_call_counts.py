"""Each test makes the calls that it was approved with: a call more or less is red, a call that merely moved is not.

A case is an edit of a small suite, judged by `traceforge test`, by plain pytest and with two workers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import NamedTuple

import pytest

from support.command import NO_CERTIFICATES, PLAIN_PYTEST, CommandResult, traceforge
from support.environments import build_once
from support.kitchen_project import CONFIG, CONFTEST, FILES
from support.model_servers import ModelServer, model_server

TEST, PYTEST, XDIST = "test", "pytest", "xdist"
AGENT = "an agent"  # the command outside of pytest, under `traceforge test`


class Case(NamedTuple):
    """An edit of one file, and what the run then says; "" is green."""

    name: str
    file: str
    before: str
    after: str
    says: str = ""
    arguments: tuple[str, ...] = ()
    ways: tuple[str, ...] = (TEST, PYTEST, XDIST)


OFF, COMMENT = '@pytest.mark.traceforge("off")', "# def test_once():\n"
ONCE, TWICE = 'assert ask("Name a soup.")\n', 'assert ask("Name a soup.") and ask("Name a soup.")'
CASES = '["salt", "pepper"]'
HERB, SOUP = 'ask("Name a herb.", VARIED)', 'embed("soup")'
THREAD = """    import threading
    thread = threading.Thread(target=ask, args=("Name a soup.",))
    thread.start()
    thread.join()
"""
CHILD = """    import subprocess, sys
    code = "from kitchen import ask; ask('Name a soup.')"
    subprocess.run([sys.executable, "-c", code], check=True)
"""
NEW_TEST = """def test_new():
    from kitchen import ask
    assert ask("Name a soup.")


def test_salad"""
TEARDOWN = """@pytest.fixture
def after():
    yield
    ask("Name a soup.")


def test_once(after):"""
SPICES = f"""@pytest.mark.parametrize("spice", {CASES})
def test_cases(spice):
    assert ask("Name a spice.")"""
RETRIED = """    post("chat/completions", {"model": "gpt-4.1-mini", "messages": "wrong"})
    assert post("""
MENU, TABLE, CLASS = 'ask("Name the menu.")', 'ask("Lay the table.")', 'ask("Start the class.")'
WATER, KITCHEN_CALL, KNIFE = 'ask("Heat the water.")', 'ask("Open the kitchen.")', '    ask("Name a knife.")\n'
SPOON = 'ask("Take a spoon.")'
MORE, LESS = "approved with 1 call, this run made 2", "approved with 2 calls, this run made 1"
NONE, GONE, NEW = (
    "approved with 1 call, this run made none",
    "approved with 1 call in a test that is gone",
    "approved with no calls, this run made 1",
)
RED = {
    "a call more": [
        Case("in a test", "test_soups.py", ONCE, TWICE + "\n", MORE),
        Case("in a fixture of a test", "conftest.py", SPOON, f"{SPOON} and {SPOON}", MORE),
        Case("of a request without a record", "test_soups.py", SOUP, f"{SOUP} and {SOUP}", "GT2"),
        Case("of an answer that may vary", "test_soups.py", HERB, f"{HERB} and {HERB}", "GT2"),
        Case("in another test", "test_soups.py", SOUP, f'{SOUP} and ask("Name a spice.")', NEW, ways=(TEST, PYTEST)),
        Case("in a new test", "test_salads.py", "def test_salad", NEW_TEST, NEW, ways=(TEST, PYTEST)),
        Case("in a thread", "test_soups.py", ONCE, ONCE + THREAD, MORE),
        Case("in a child", "test_soups.py", ONCE, ONCE + CHILD, MORE),
        Case("without a cache", "kitchen.py", "@lru_cache\n", "", NEW, ways=(TEST, PYTEST)),
        Case("if nothing else is selected", "test_soups.py", ONCE, TWICE + "\n", MORE, ("-k", "test_once")),
        Case("in a teardown", "test_soups.py", "def test_once():", TEARDOWN, MORE),
    ],
    "a call less": [
        Case("in a test", "test_soups.py", TWICE, ONCE.strip(), LESS),
        Case("of an answer that may vary", "test_soups.py", f"{HERB} and ", "", "GT[36]"),
        Case("by a new cache", "test_soups.py", TWICE, TWICE.replace("ask", "cached"), LESS),
        Case("if nothing else is selected", "test_soups.py", TWICE, ONCE.strip(), LESS, ("-k", "test_twice")),
    ],
    "a call that a test no longer makes": [
        Case("though another does", "test_soups.py", ONCE, "pass\n", NONE),
        Case("because it is off", "test_soups.py", "def test_once", f"{OFF}\ndef test_once", NONE, ways=(PYTEST,)),
        Case("because it was removed", "test_soups.py", f"def test_once():\n    {ONCE}", "", GONE),
        Case("because it is a comment", "test_soups.py", f"def test_once():\n    {ONCE}", COMMENT, GONE),
    ],
    "a case that is gone": [
        Case("of two", "test_soups.py", CASES, '["salt"]', GONE),
        Case("with all others", "test_soups.py", SPICES, "def test_cases():\n    pass", GONE),
        Case("with all others of an empty list", "test_soups.py", CASES, "[]", GONE),
    ],
    "a scope that tests share": [
        Case("a session fixture that calls twice", "conftest.py", MENU, f"{MENU} + {MENU}", "GT6"),
        Case("a session fixture that calls less", "conftest.py", '    ask("Close the menu.")\n', "", "GT3"),
        Case("a session fixture for each test", "conftest.py", 'scope="session"', 'scope="function"', "GT6"),
        Case("a module fixture that calls twice", "conftest.py", TABLE, f"{TABLE} + {TABLE}", "GT6"),
        Case("a module fixture for each test", "conftest.py", '(scope="module")', "", "GT6", ways=(TEST, PYTEST)),
        Case("a class that calls twice", "test_soups.py", CLASS, f"{CLASS} + {CLASS}", MORE),
        Case("an import that calls twice", "test_soups.py", WATER, f"{WATER} + {WATER}", "GT6"),
        Case("a conftest that calls twice", "conftest.py", KITCHEN_CALL, f"{KITCHEN_CALL} + {KITCHEN_CALL}", "GT6"),
        Case("a conftest that calls no more", "conftest.py", KITCHEN_CALL, "", "GT3"),
    ],
    "a command outside of pytest": [
        Case("that calls more often", "kitchen.py", KNIFE, KNIFE * 2, "with 2 calls, this run made 3", ways=(AGENT,)),
        Case("that calls less often", "kitchen.py", KNIFE * 2, KNIFE, LESS, ways=(AGENT,)),
    ],
}
RERUN = (
    CONFTEST
    + '''

from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run each test twice, and report the second time, as a plugin for reruns does."""
    runtestprotocol(item, nextitem=nextitem, log=False)
    item._initrequest()
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
'''
)
REVERSED = CONFTEST + "\n\ndef pytest_collection_modifyitems(items):\n    items.reverse()\n"
GREEN = {
    "nothing": [Case("at all", "test_soups.py", "", "")],
    "a call that moved": [
        Case("by a cache and another order", "conftest.py", CONFTEST, REVERSED),
        Case("because a test was renamed", "test_soups.py", "def test_once", "def test_single"),
        Case("because a case was renamed", "test_soups.py", CASES, '["salt", "paprika"]'),
        Case("because a file was renamed", "test_salads.py", "", "", arguments=("test_soups.py",)),
        Case("to the only test that runs", "test_soups.py", "", "", arguments=("-k", "test_second_cached")),
    ],
    "a test that does not count": [
        Case("as it runs again", "conftest.py", CONFTEST, RERUN),
        Case("as it is not selected", "test_soups.py", ONCE, "pass\n", arguments=("-k", "test_twice")),
        Case("as its case is not selected", "test_soups.py", "", "", arguments=("test_soups.py::test_cases[salt]",)),
        Case("as its case is deselected", "test_soups.py", "", "", arguments=("-k", "salt")),
    ],
    "a failed call": [
        Case("that is retried", "test_soups.py", "    assert post(", RETRIED),
    ],
}


class Project:
    """A copy of the suite, and a provider that must not be called."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder = folder
        self.server = server

    def environ(self, **variables: str) -> dict[str, str]:
        return {
            "OPENAI_BASE_URL": f"{self.server.url}/v1", "OPENAI_API_KEY": "none", "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0", **variables,
        }  # fmt: skip

    def run(self, *words: str) -> CommandResult:
        return traceforge(*words, cwd=self.folder, **self.environ())

    def judge(self, way: str, *arguments: str) -> CommandResult:
        """Run the suite in one way."""
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        if way == AGENT:
            return self.run("test", "--", sys.executable, "kitchen.py")
        if way == TEST:
            return self.run("test", "--", *words)
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        ran = subprocess.run(
            [*words, "-n", "2"] if way == XDIST else words, cwd=self.folder, capture_output=True, text=True,
            env={**inherited, **PLAIN_PYTEST, **NO_CERTIFICATES, **self.environ()}, timeout=240, check=False,
        )  # fmt: skip
        return CommandResult(ran.returncode, ran.stdout, ran.stderr)

    def record(self, *words: str) -> CommandResult:
        return self.run("record", "--", sys.executable, *(words or ("-m", "pytest", "-q", "-p", "no:cacheprovider")))

    def approve(self, *words: str) -> None:
        ran = self.run("approve", *(words or ("--all",)), "--reason", "it is right")
        assert 0 == ran.code, ran

    def edit(self, file: str, before: str, after: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))

    def configure(self, settings: Mapping[str, object]) -> None:
        (self.folder / "traceforge.config.json").write_text(json.dumps({**CONFIG, **settings}))
        self.approve("--policy")


@pytest.fixture(scope="session")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite, recorded and approved: once in a run, for all its workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kitchen"
    with build_once(folder) as absent:
        if absent:
            folder.mkdir()
            for name, text in FILES.items():
                (folder / name).write_text(text)
            (folder / "traceforge.config.json").write_text(json.dumps(CONFIG))
            with model_server() as server:
                project = Project(folder, server)
                assert 0 == (ran := project.record()).code, ran
                project.approve()
                assert 0 == project.record("kitchen.py").code
                project.approve()
    return folder


@pytest.fixture
def project(approved: Path, tmp_path: Path) -> Iterator[Project]:
    """A fresh checkout."""
    folder = tmp_path / "checkout"
    copytree(approved, folder, ignore=ignore_patterns(".ai-tests", "__pycache__"))
    with model_server(salt="another") as server:
        yield Project(folder, server)


SHORT = ("a call that moved",)


def _list_params(classes: Mapping[str, list[Case]]) -> Iterator[object]:
    """Each case in the first of its ways, and in one of the others in turn. The ways left over are for `make soak`.

    All are slow but the first way of the first case of a class in SHORT. The matrix of the gate has a case of every
    class, too.
    """
    turn = count()
    for name, cases in classes.items():
        for number, case in enumerate(cases):
            first, *others = case.ways
            second = others[next(turn) % len(others)] if others else first
            for way in case.ways:
                marks = [pytest.mark.slow] if number or way != first or name not in SHORT else []
                if way not in (first, second):
                    marks = [pytest.mark.soak]
                yield pytest.param(case, way, id=f"{name}: {case.name}, {way}", marks=marks)


@pytest.mark.parametrize(("case", "way"), list(_list_params(RED)))
def test_another_number_of_calls_is_red(project: Project, case: Case, way: str) -> None:
    """With the numbers; the tests themselves pass."""
    project.edit(case.file, case.before, case.after)

    ran = project.judge(way, *case.arguments)

    text = ran.out + ran.err
    assert 1 == ran.code, text
    assert "failed" not in ran.out or "GT2" in case.says, text
    assert re.search(case.says, text), text


@pytest.mark.parametrize(("case", "way"), list(_list_params(GREEN)))
def test_the_same_calls_are_green(project: Project, case: Case, way: str) -> None:
    """Whichever test makes them."""
    project.edit(case.file, case.before, case.after)

    ran = project.judge(way, *case.arguments)

    assert (0, False) == (ran.code, "GT" in ran.out + ran.err), ran.out + ran.err


@pytest.mark.slow
def test_record_proposes_the_new_number(project: Project) -> None:
    """No call is live; the diff has both numbers; the approved number is then judged."""
    project.edit("test_soups.py", ONCE, TWICE + "\n")
    ran = project.record("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "test_once")

    diff = project.run("diff")
    project.approve()

    assert "changed (number of calls): 1" in ran.err, ran
    assert "test_soups.py::test_once: 1 call approved, 2 calls now" in diff.out, diff
    assert (0, 0) == (project.judge(TEST, "-k", "test_once").code, project.server.served)
    project.edit("test_soups.py", TWICE + "\n", ONCE)
    assert 1 == project.judge(TEST, "-k", "test_once").code


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in RED["a scope that tests share"] if case.says == "GT6"])
def test_record_ends_every_difference_in_a_shared_scope(project: Project, name: str) -> None:
    case = next(case for case in RED["a scope that tests share"] if case.name == name)
    project.edit(case.file, case.before, case.after)
    project.record()
    project.approve()

    assert [0, 0, 0] == [project.judge(way).code for way in (TEST, PYTEST, XDIST)]


VARIED = CONFIG["models"]["gpt-4.1"]
DECLARED: dict[str, tuple[Mapping[str, object], str, str, int]] = {
    "a test may repeat": ({"test": {"may_repeat": ["*::test_once"]}}, ONCE, TWICE + "\n", 0),
    "a test may repeat an answer that may vary": (
        {"test": {"may_repeat": ["test_soups.py::test_varied"]}},
        HERB,
        f"{HERB} and {HERB}",
        0,
    ),
    "a test may repeat, and calls less": ({"test": {"may_repeat": ["test_soups.py::*"]}}, TWICE, ONCE.strip(), 1),
    "another test may repeat": ({"test": {"may_repeat": ["*::test_twice"]}}, ONCE, TWICE + "\n", 1),
    "a test may vary": ({"test": {"may_vary": ["*::test_twice"]}}, TWICE, "pass", 0),
    "a model may repeat": (
        {"models": {"gpt-4.1": VARIED, "*-mini": {"calls": "may_repeat"}}},
        ONCE,
        TWICE + "\n",
        0,
    ),
    "a model may vary": ({"models": {"gpt-4.1": {**VARIED, "calls": "may_vary"}}}, f"{HERB} and {HERB}", "True", 0),
}


@pytest.mark.parametrize(
    "name", [name if name == "a test may repeat" else pytest.param(name, marks=pytest.mark.slow) for name in DECLARED]
)
@pytest.mark.slow
def test_a_declared_test_or_model_may_call_more_or_less_often(project: Project, name: str) -> None:
    settings, before, after, code = DECLARED[name]
    project.edit("test_soups.py", before, after)
    project.configure(settings)

    assert code == (ran := project.judge(PYTEST)).code, ran


@pytest.mark.slow
def test_the_calls_of_a_test_that_failed_are_not_counted(project: Project) -> None:
    """It may not have come to its other calls."""
    project.edit("test_soups.py", TWICE, "assert not ask('Name a soup.')")

    ran = project.judge(PYTEST, "-k", "test_twice")

    assert (1, False) == (ran.code, "GT6" in ran.out), ran


@pytest.mark.slow
def test_an_unknown_number_is_not_judged_until_it_is_recorded_again(project: Project, tmp_path: Path) -> None:
    """Snapshots of an older TraceForge state none."""
    with model_server() as server:
        older = Project(tmp_path / "older", server)
        copytree(project.folder, older.folder, ignore=ignore_patterns(".ai-snapshots"))
        older.record("-m", "pytest", "-q", "-k", "test_once or test_twice")
        for path in (older.folder / ".ai-tests" / "pending").glob("*.json"):
            path.write_text(re.sub(r',\s*"calls": 1|,\s*"calls": 2', "", path.read_text()))
        older.approve()
        older.edit("test_soups.py", ONCE, TWICE + "\n")

        unknown = older.judge(TEST, "-k", "test_once or test_twice")
        recorded = older.record("-m", "pytest", "-q", "-k", "test_once or test_twice")
        older.approve()
        older.edit("test_soups.py", TWICE + "\n", ONCE)
        known = older.judge(TEST, "-k", "test_once or test_twice")

    assert (0, True, 1) == (unknown.code, "changed (number of calls)" in recorded.err, known.code), unknown


@pytest.mark.slow
@pytest.mark.parametrize("is_plugin", [True, False])
def test_what_two_workers_recorded_is_green_in_one_process(project: Project, tmp_path: Path, is_plugin: bool) -> None:
    """Each worker set up the session fixture and imported the tests, and recorded the same calls.

    Which calls a cache would have saved in one process, nobody can know.
    """
    selected = ("-k", "not cached")
    with model_server() as server:
        fresh = Project(tmp_path / "fresh", server)
        copytree(project.folder, fresh.folder, ignore=ignore_patterns(".ai-snapshots"))
        if is_plugin:
            fresh.judge(XDIST, "--traceforge=record", *selected)
        else:
            fresh.record("-m", "pytest", "-q", "-n", "2", *selected)
        fresh.approve()

        runs = [fresh.judge(way, *selected) for way in (TEST, PYTEST, XDIST)]
        files = [path.read_text() for path in (fresh.folder / ".ai-snapshots" / "openai").glob("*.json")]

    assert [0, 0, 0] == [ran.code for ran in runs], runs
    sources = [json.loads(text)["snapshots"][0]["source"] for text in files]
    counts = {scope["scope"]: scope["calls"] for source in sources for scope in source["scopes"]}
    shared = ("@ session fixture menu", "@ import of test_soups.py", "@ start of pytest")
    assert [1, 1, 1] == [counts[scope] for scope in shared]
