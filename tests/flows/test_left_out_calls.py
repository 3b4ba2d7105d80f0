"""A pull request that leaves approved calls out of a build, or hides a changed one: uncompared calls are not green.

The tests of the project are in several folders; a fixture and an import make calls, too. `traceforge test` and plain
pytest judge alike, with a known base and without one.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.test_plugin_projects import commit, git, pull_request
from flows.test_same_verdict import APP
from support.gate_project import Site
from support.model_servers import model_server
from traceforge.pytest_plugin import OPTIONS_WITHOUT_TESTS

FILES = {
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "app.py": APP,
    "tests/unit/test_soup.py": "from app import ask\n\n\ndef test_soup():\n    ask('Name a soup.')\n",
    "tests/law/test_law.py": "from app import ask\n\n\ndef test_law():\n    ask('Name a law.')\n",
    "tests/menu/conftest.py": "import pytest\nfrom app import ask\n\n\n@pytest.fixture(scope='session')\n"
    "def menu():\n    return ask('Name a dish.')\n",
    "tests/menu/test_menu.py": "def test_menu(menu):\n    pass\n",
    "tests/song/test_song.py": "from app import ask\n\nSONG = ask('Sing a song.')\n\n\ndef test_song():\n    pass\n",
}


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project with approved calls in two tests, a fixture and an import."""
    folder = tmp_path_factory.mktemp("project")
    write(folder, FILES)
    with model_server() as server:
        site = Site(folder, Path(sys.executable), server, "tests")
        assert 0 == (ran := site.run("record", *site.pytest("tests"))).code, ran
        assert 0 == (ran := site.approve()).code, ran
        shutil.rmtree(folder / ".ai-tests")
        yield site


@pytest.fixture
def site(approved: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout, and a provider with other answers that must see no request."""
    with model_server(salt="another") as other:
        yield approved.at(tmp_path / "checkout", other)
        assert 0 == other.served


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _ignore(folder: str) -> Callable[[Path], None]:
    return lambda checkout: write(checkout, {"conftest.py": f"collect_ignore = ['{folder}']\n"})


def _remove_folder(checkout: Path) -> None:
    shutil.rmtree(checkout / "tests" / "law")


def _lead_out_by_a_link(checkout: Path) -> None:
    shutil.move(checkout / "tests" / "law", checkout / "attic" / "law")
    (checkout / "tests" / "law").symlink_to("../attic/law")
    _ignore("tests/law")(checkout)


def _replace_tests_by_a_link(checkout: Path) -> None:
    (checkout / "tests").rename(checkout / "others")
    shutil.rmtree(checkout / "others" / "law")
    (checkout / "tests").symlink_to("others")


def _remove_folder_and_leave_a_copy(checkout: Path) -> None:
    shutil.copytree(checkout / "tests", checkout / "attic" / "tests")
    _remove_folder(checkout)


PASS_ANYWAY = """
import pytest
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "law" not in item.name]
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    session.exitstatus = 0
"""


def _fail_in_another_test(checkout: Path) -> None:
    write(checkout, {"conftest.py": PASS_ANYWAY, "tests/unit/test_other.py": "def test_other():\n    assert False\n"})


def _fail_in_the_test(checkout: Path) -> None:
    all_tests = PASS_ANYWAY.replace('"law" not in item.name', "True")
    write(checkout, {"conftest.py": all_tests, "tests/law/test_law.py": "def test_law():\n    assert False\n"})


MOVE_WHILE_TESTS_RUN = """import os, shutil
if not os.path.exists("attic"):
    shutil.copytree("tests", "attic/tests")
    shutil.rmtree("tests/law")
"""
SKIP = "import pytest\n\npytest.skip('not here', allow_module_level=True)\n"
EXIT = (
    "import pytest\n\ndef pytest_runtest_setup(item):\n    if 'law' in item.name:\n        pytest.exit('done', 0)\n"
)
INI = "[pytest]\npythonpath = .\n"
# Files of the project that leave a test out, each in its own way.
SELECTING_FILES: dict[str, dict[str, str]] = {
    "norecursedirs": {"pytest.ini": f"{INI}norecursedirs = law\n"},
    "python_files": {"pytest.ini": f"{INI}python_files = test_[!l]*.py\n"},
    "--ignore-glob": {"pytest.ini": f"{INI}addopts = --ignore-glob=*law*\n"},
    "--deselect": {"pytest.ini": f"{INI}addopts = --deselect=tests/law\n"},
    "-m": {"pytest.ini": f"{INI}addopts = -m 'not law'\n", "tests/law/conftest.py": "import pytest\n\n\n"
           "def pytest_itemcollected(item):\n    item.add_marker(pytest.mark.law)\n"},
    "no gate for what is left out": {"pytest.ini": f"{INI}addopts = -p no:traceforge-left-out --ignore=tests/law\n"},
    "a settings file in the tests": {"tests/pytest.ini": "[pytest]\npythonpath = ..\nnorecursedirs = law\n"},
    "a skipped folder": {"tests/law/conftest.py": SKIP},
    "an early end": {"tests/law/conftest.py": EXIT},
    "files that move": {"conftest.py": MOVE_WHILE_TESTS_RUN},
}  # fmt: skip


def _add(files: dict[str, str]) -> Callable[[Path], None]:
    return lambda checkout: write(checkout, files)


GONE = "tests/law/test_law.py is gone, and its approved calls were not compared"
NOT_RUN = "{} did not run, and its approved call was not compared"
LAW = "tests/law/test_law.py::test_law"
ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a removed folder": (_remove_folder, GONE),
    "an ignored fixture": (_ignore("tests/menu"), NOT_RUN.format("@ session fixture tests/menu::menu")),
    "an ignored import": (_ignore("tests/song"), NOT_RUN.format("@ import of tests/song/test_song.py")),
    "a link out of the tests": (_lead_out_by_a_link, NOT_RUN.format(LAW)),
    "a link for the tests": (_replace_tests_by_a_link, GONE),
    "a copy elsewhere": (_remove_folder_and_leave_a_copy, GONE),
    "a failure that does not count": (_fail_in_another_test, NOT_RUN.format(LAW)),
    "a failed test that does not count": (
        _fail_in_the_test,
        f"{LAW} failed, the run passed, and its approved call was not compared",
    ),
    **{name: (_add(files), NOT_RUN.format(LAW)) for name, files in SELECTING_FILES.items()},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_approved_calls_that_a_pull_request_leaves_out_are_not_green(site: Site, name: str) -> None:
    base = commit(site.folder)
    attack, message = ATTACKS[name]
    attack(site.folder)
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest("tests"), **variables)
    git(site.folder, "clean", "-qfd")
    git(site.folder, "checkout", "-qf", "HEAD", "--", ".")
    plugged = site.plugin(**variables)

    assert (3, True) == (tested.code, message in tested.err), tested
    assert (1, True) == (plugged.code, message in plugged.out), plugged


@pytest.mark.slow
def test_a_removed_folder_of_tests_is_not_green_without_a_base(site: Site) -> None:
    """The snapshots name the files of their tests."""
    _remove_folder(site.folder)

    tested = site.run("test", *site.pytest("tests"), CI="true")
    plugged = site.plugin(CI="true")

    assert (3, True) == (tested.code, GONE in tested.err), tested
    assert (1, True) == (plugged.code, GONE in plugged.out), plugged


@pytest.mark.slow
def test_a_moved_folder_of_tests_is_green(site: Site) -> None:
    """All its calls are made, in another file."""
    base = commit(site.folder)
    (site.folder / "tests" / "law").rename(site.folder / "tests" / "laws")
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest("tests"), **variables)
    plugged = site.plugin(**variables)

    assert (0, 0) == (tested.code, plugged.code), (tested, plugged)


@pytest.mark.slow
def test_another_root_of_pytest_is_green(site: Site) -> None:
    """The same tests have other node ids, and the report says which files are meant."""
    base = commit(site.folder)
    write(site.folder, {"tests/pytest.ini": "[pytest]\npythonpath = ..\n"})
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest("tests"), **variables)
    plugged = site.plugin(**variables)

    note = (
        "law/test_law.py: approved as tests/law/test_law.py; a pytest.ini or --rootdir names it from another folder"
    )
    assert (0, True) == (tested.code, note in tested.err), tested
    assert (0, True) == (plugged.code, note in plugged.out), plugged


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--help", "--markers", "--fixtures"])
def test_a_file_with_which_pytest_only_prints_is_not_green_in_a_build(site: Site, option: str) -> None:
    """The command line may say so, and a developer's own file."""
    write(site.folder, {"pytest.ini": f"{FILES['pytest.ini']}addopts = {option}\n"})

    here = site.plugin()
    by_file = site.plugin(CI="true")
    by_command = site.plugin(option, CI="true")

    assert (0, True) == (here.code, by_file.code != 0), by_file
    if option != "--fixtures":
        assert 0 == by_command.code, by_command


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--collect-only", "--setup-only", "--setup-plan"])
def test_a_file_with_which_no_test_runs_is_not_green_in_a_build(site: Site, option: str) -> None:
    """Although the command chooses tests itself, so that nobody can know which ones are left out."""
    write(site.folder, {"pytest.ini": f"{FILES['pytest.ini']}addopts = {option}\n"})
    some = ("-k", "soup or law", "--color=no")

    here = site.plugin(*some)
    by_file = site.plugin(*some, CI="true")
    by_command = site.plugin(option, *some, CI="true")
    tested = site.run("test", *site.pytest(*some, "tests"), CI="true")

    assert (0, 4, 0) == (here.code, by_file.code, by_command.code), (by_file, by_command)
    assert "in addopts, and no test would run: remove it." in by_file.err
    assert 0 != tested.code, tested


def test_every_spelling_of_an_option_without_tests_is_known(pytestconfig: pytest.Config) -> None:
    """One that is not would count as set by a file, though the command line has it."""
    spellings = {
        action.dest: {*action.option_strings}
        for action in pytestconfig._parser.optparser._actions
        if action.dest in OPTIONS_WITHOUT_TESTS
    }

    assert {"collectonly", "setuponly", "setupplan"} <= spellings.keys()
    assert [] == [name for name in spellings if not spellings[name] <= {*OPTIONS_WITHOUT_TESTS[name]}]


CALL_BY_HAND = """from app import ask
def pytest_cmdline_main(config):
    ask('Name a soup.')
    return 0
"""
SILENT = {
    "conftest.py": CALL_BY_HAND,
    "pytest.py": "from app import ask\nask('Name a soup.')\nprint('2 passed')\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SILENT)
def test_a_pytest_that_reports_no_test_is_not_green(site: Site, name: str) -> None:
    """Although an approved call was made, and the command chooses tests itself."""
    base = commit(site.folder)
    write(site.folder, {name: SILENT[name]})
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest("-k", "soup or law", "tests"), **variables)

    assert (3, True) == (tested.code, "pytest reported no test, and exited with 0" in tested.err), tested


SWAP = """import pytest
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
RUN_AGAIN = """from _pytest.runner import runtestprotocol
def pytest_runtest_protocol(item, nextitem):
    for _ in range(2):
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
MARKED = "import pytest\nfrom app import ask\n\n\n@pytest.mark.traceforge('off')\n"
ASK_ANEW, ASK_AS_BEFORE = "    ask('Name a crime.')\n", "    ask('Name a law.')\n"
CHANGED = f"from app import ask\n\n\ndef test_law():\n{ASK_ANEW}"
LAW_FILE, MOVED_FILE = "tests/law/test_law.py", "tests/law/test_more.py"
MOVED = f"from app import ask\n\n\ndef test_more():\n{ASK_AS_BEFORE}"
WIDE = '{"match": {"ignore_patterns": ["a [a-z]+"]}}'
HIDING_FILES: dict[str, dict[str, str]] = {
    "a marker, and the approved call elsewhere": {
        LAW_FILE: f"{MARKED}def test_law():\n{ASK_ANEW}",
        MOVED_FILE: MOVED,
    },
    "a marker on a new test": {
        LAW_FILE: CHANGED.replace("crime", "law"),
        MOVED_FILE: f"{MARKED}def test_x():\n{ASK_ANEW}",
    },
    "a blocked gate": {"pytest.ini": f"{INI}addopts = -p no:traceforge-gate-1 -p no:traceforge-gates\n"},
    "blocked scopes": {"pytest.ini": f"{INI}addopts = -p no:traceforge-scopes\n"},
    "other outcomes": {"conftest.py": "pytest_plugins = ['swap']\n", "swap.py": SWAP},
    "other outcomes by -p": {"pytest.ini": f"{INI}addopts = -p swap\n", "swap.py": SWAP},
    "another attempt": {
        "conftest.py": RUN_AGAIN,
        LAW_FILE: "from app import ask\n\ndone = []\n\n\ndef test_law():\n"
        "    if not done:\n        done.append(1)\n        ask('Name a crime.')\n    ask('Name a law.')\n",
    },
    "a caught error": {
        LAW_FILE: "from app import ask\n\n\ndef test_law():\n    try:\n        ask('Name a crime.')\n"
        "    except BaseException:\n        pass\n    ask('Name a law.')\n"
    },
    "settings of a folder": {"tests/law/traceforge.config.json": WIDE, "tests/traceforge.config.json": WIDE},
    "an empty tree of a folder": {"tests/law/.ai-snapshots/README.md": "Nothing is approved yet.\n"},
    "a file for a tree of a folder": {"tests/law/.ai-snapshots": ""},
    "attributes": {".gitattributes": "* text eol=crlf ident filter=evil export-ignore -diff -merge\n"},
    "attributes of the tree": {
        ".ai-snapshots/.gitattributes": "* ident filter=evil export-ignore linguist-generated\n"
    },
    "a file with variables": {
        ".env": "CI=\nTRACEFORGE_MODE=off\n",
        "pytest.ini": f"{INI}env =\n    CI=\nenv_files = .env\n",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HIDING_FILES)
def test_files_of_a_pull_request_do_not_hide_a_changed_prompt(site: Site, name: str) -> None:
    """Nor does a request reach the provider."""
    base = commit(site.folder)
    write(site.folder, {LAW_FILE: CHANGED, **HIDING_FILES[name]})
    variables = pull_request(site, base)

    tested = site.run("test", *site.pytest("tests"), **variables)
    plugged = site.plugin(**variables)

    assert 0 not in (tested.code, plugged.code), (tested, plugged)
    assert "Traceback" not in tested.err


@pytest.mark.slow
def test_a_folder_of_tests_that_becomes_a_submodule_is_judged_by_the_snapshots_above_it(site: Site) -> None:
    """Where the build checks submodules out, the folder is a repository of its own, with its own settings."""
    base = commit(site.folder)
    write(site.folder, {LAW_FILE: CHANGED, "tests/pytest.ini": "[pytest]\npythonpath = ..\n"})
    variables = pull_request(site, base)
    commit(site.folder / "tests")

    tested = site.run("test", *site.pytest("tests"), **variables)
    plugged = site.plugin(**variables)

    assert (True, 1) == (tested.code in (1, 3), plugged.code), (tested, plugged)
    assert "GT1" in plugged.out or "GT2" in plugged.out


@pytest.mark.slow
def test_a_marked_test_that_an_approved_setting_lists_is_off_in_a_build(site: Site) -> None:
    """It has the real keys; without the setting it has not, and nothing that it asks is sent."""
    keys = "    import os\n    assert os.environ['OPENAI_API_KEY'] == 'sk-nothing-of-value'\n"
    write(site.folder, {MOVED_FILE: f"{MARKED}def test_off():\n{keys}"})

    unlisted = site.plugin(CI="true")
    site.configure({"test": {"may_skip": ["tests/law/test_more.py::test_off"]}})
    listed = site.plugin(CI="true")

    assert (1, 0) == (unlisted.code, listed.code), (unlisted, listed)
