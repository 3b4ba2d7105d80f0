"""What the plugin must notice as `traceforge test` does."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

import sys

from support.gate_case import (
    CONFIG,
    PYTEST,
    SNAPSHOTS,
    TEST,
    XDIST,
    Append,
    Case,
    Checkout,
    Command,
    Configure,
    Remove,
    Replace,
    Step,
    Write,
    green,
    not_green,
    red,
    unchecked,
)

CHAT, PLACES, CONFTEST = "chat_tests.py", "places_tests.py", "conftest.py"
ASK, DEFINITION = 'assert desk.ask("Where is my parcel?")', "def test_chat():"
IMPORT = Replace(CHAT, "import desk\n", "import pytest\n\nimport desk\n")
CHANGED = Replace(CHAT, "Where is my parcel?", "Where is my package?")
SKIPPED = r"test_chat was skipped|test_chat.*not compared"
APPROVE_POLICY = Command(("approve", "--policy", "--reason", "A decision"))


def _skipped(name: str, *steps: Step, **fields: object) -> Case:
    return unchecked(name, *steps, **{"says": SKIPPED, **fields})


def _decorated(decorator: str) -> tuple[Step, Step]:
    return IMPORT, Replace(CHAT, DEFINITION, f"{decorator}\n{DEFINITION}")


def _first(statement: str) -> tuple[Step, Step]:
    return IMPORT, Replace(CHAT, ASK, f"{statement}\n    {ASK}")


SKIPS = [
    _skipped("a test is skipped", *_decorated("@pytest.mark.skip")),
    _skipped("a test is skipped for a reason", *_decorated("@pytest.mark.skipif(True, reason='today')")),
    _skipped("a test skips itself", *_first("pytest.skip('today')")),
    _skipped("a test skips itself behind its call", IMPORT, Replace(CHAT, ASK, f"{ASK}\n    pytest.skip('today')")),
    _skipped("a test may fail and fails", *_decorated("@pytest.mark.xfail"), Replace(CHAT, ASK, "assert not desk")),
    _skipped("a test declares that it fails", *_first("pytest.xfail('today')")),
    _skipped("a test does not run but counts as xfail", *_decorated("@pytest.mark.xfail(run=False)")),
    _skipped("a test needs a package that is not there", *_first("pytest.importorskip('a_package_of_nobody')")),
    _skipped("a fixture skips the test", Append(CONFTEST, "\n\n@pytest.fixture\ndef skipping():\n    pytest.skip('today')\n"),
             Replace(CHAT, DEFINITION, "def test_chat(skipping):")),
    _skipped("a hook skips the test", Append(CONFTEST, "\n\ndef pytest_runtest_setup(item):\n"
             "    if item.name == 'test_chat':\n        pytest.skip('today')\n")),
    _skipped("a hook marks the test", Append(CONFTEST, "\n\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
             "        if item.name == 'test_chat':\n            item.add_marker(pytest.mark.skip)\n")),
    _skipped("all tests of a file are skipped", IMPORT, Append(CHAT, "\n\npytestmark = pytest.mark.skip\n")),
    _skipped("a file skips itself", Replace(CHAT, "import desk\n",
             "import pytest\n\npytest.skip('today', allow_module_level=True)\nimport desk\n"), tests=f"{CHAT} tools_tests.py"),
    _skipped("a case is skipped", Replace(PLACES, '"green", "blue"]', '"green", pytest.param("blue", marks=pytest.mark.skip)]'),
             tests=PLACES, says=r"test_cases\[blue\] was skipped"),
    _skipped("unittest skips the test", *_first("import unittest\n    raise unittest.SkipTest('today')")),
]  # fmt: skip

HIDDEN = [
    not_green("a hook removes a test of a build without saying so", Append(CONFTEST, "\n\ndef pytest_collection_modifyitems(items):\n"
              "    items[:] = [item for item in items if item.name != 'test_chat']\n"), says="test_chat",
              variables={"CI": "true"}, ways=(TEST, PYTEST)),
    not_green("a hook reports a failed test as passed", CHANGED, Append(CONFTEST,
              "\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n    outcome = yield\n"
              "    outcome.get_result().outcome = 'passed'\n"), says="GT[12]"),
    not_green("a hook runs no test", CHANGED, Append(CONFTEST, "\n\ndef pytest_runtest_protocol(item):\n"
              "    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)\n    return True\n"),
              says="no call|not compared|no model call|0 calls", ways=(TEST,)),
    not_green("a hook changes the exit code", CHANGED, Append(CONFTEST, "\n\n@pytest.hookimpl(trylast=True)\n"
              "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"), says="GT1", ways=(TEST,)),
    not_green("the test ends the process with 0", CHANGED, Replace(CHAT, "assert desk.ask(\"Where is my package?\")",
              "import os\n    try:\n        desk.ask('Where is my package?')\n    finally:\n        os._exit(0)"), says="GT1|traceforge",
              ways=(TEST,)),
    not_green("the test ends the process before its call", Replace(CHAT, ASK, "import os\n    os._exit(0)"), says="traceforge: ",
              ways=(TEST,)),
    not_green("the plugin is blocked", CHANGED, more="-p no:traceforge", says="GT1|never reported", ways=(TEST,)),
    not_green("the settings of pytest block the plugin", CHANGED, Write("pytest.ini", "[pytest]\npython_files = *_tests.py\n"
              "addopts = -p no:traceforge\n"), says="GT1|never reported", ways=(TEST,)),
    not_green("no plugin is loaded", CHANGED, variables={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, says="GT1|never reported",
              ways=(TEST,)),
    not_green("the plugin is off by an argument", CHANGED, more="--traceforge=off", says="GT1", ways=(TEST,)),
    not_green("the plugin is off in the settings of pytest", CHANGED, Write("pytest.ini",
              "[pytest]\npython_files = *_tests.py\naddopts = --traceforge=off\n"), says="GT1", ways=(TEST,)),
    red("a test is marked as off and asks something new", *_decorated("@pytest.mark.traceforge('off')"), CHANGED, ways=(TEST,)),
    not_green("a test with approved calls leaves the gate by its marker", *_decorated("@pytest.mark.traceforge('off')"), asks=True,
              says="GT3", ways=(PYTEST,)),
    *(
        red(f"the variable {name} is {value}", CHANGED, variables={name: value})
        for name, value in (("TRACEFORGE", "off"), ("TRACEFORGE_MODE", "off"), ("TRACEFORGE_DISABLE", "1"),
                            ("TRACEFORGE_PLUGIN", "0"), ("TRACEFORGE_RUN", "1"), ("TRACEFORGE_ACTIVE", "0"))
    ),
]  # fmt: skip

GONE = [
    red("the manifest is gone", Remove(f"{SNAPSHOTS}/manifest.json"), says="MF1"),
    red("one snapshot is gone", Remove(f"{SNAPSHOTS}/openai/stream-*.json"), says="MF3|AP6"),
    red("one raw response is gone", Remove(f"{SNAPSHOTS}/wire/stream-*.json"), says="SN7|AP6"),
    red("all snapshots of a provider are gone", Remove(f"{SNAPSHOTS}/openai"), says="MF3"),
    red("all raw responses are gone", Remove(f"{SNAPSHOTS}/wire"), says="SN7"),
    red("all approvals are gone", Remove(f"{SNAPSHOTS}/approvals"), says="AP3"),
    not_green("all snapshots are gone", Remove(SNAPSHOTS), says="GT2|no snapshots|nothing", ways=(TEST,)),
]  # fmt: skip


def _only_raw(checkout: Checkout) -> None:
    """A project whose only approved calls have no record."""
    Remove(SNAPSHOTS)(checkout)
    words = ("record", "--", sys.executable, "-m", "pytest", "-q", "edge_tests.py")
    Command(words)(checkout)
    Command(("approve", "--all", "--reason", "Raw responses"))(checkout)
    Replace("desk.py", '"dimensions": 8', '"dimensions": 9')(checkout)


PLACES_OF_THE_TREE = [
    red("only raw responses were approved", _only_raw, tests="edge_tests.py", ways=(TEST, PYTEST, XDIST)),
    red("tests are started from the folder above", CHANGED, above=True, ways=(PYTEST, XDIST)),
    green("unchanged tests are started from the folder above", above=True, ways=(PYTEST, XDIST)),
]

ALLOWED = [
    green("a skipped test is in the list of those that may be", *_decorated("@pytest.mark.skip"),
          Configure({"test": {"may_skip": ["chat_tests.py::test_chat"]}}), APPROVE_POLICY),
    green("a pattern lists the tests that may be skipped", *_decorated("@pytest.mark.xfail(run=False)"),
          Configure({"test": {"may_skip": ["*::test_chat"]}}), APPROVE_POLICY),
    green("a test may fail and passes", *_decorated("@pytest.mark.xfail(strict=False)")),
    green("a condition to skip is not met", *_decorated("@pytest.mark.skipif(False, reason='never')")),
    green("the manifest is built again", Remove(f"{SNAPSHOTS}/manifest.json"), Command(("snapshot", "manifest"))),
    green("a note lies beside the snapshots", Write(f"{SNAPSHOTS}/README.md", "What this is.\n")),
    green("the settings stand in pyproject.toml", Remove(CONFIG), Write("pyproject.toml",
          '[tool.traceforge.models."claude-*"]\ntemperature = 1\ngate = "request"\n\n'
          '[tool.traceforge.models."gpt-5*"]\ntemperature = 1\ngate = "request"\n')),
]  # fmt: skip

CASES = {
    "a skipped test": SKIPS,
    "a hidden test": HIDDEN,
    "a missing file": GONE,
    "the place of the tree": PLACES_OF_THE_TREE,
    "what may be skipped": ALLOWED,
}
