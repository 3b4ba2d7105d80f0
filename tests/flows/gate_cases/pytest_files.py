"""Files of a pull request that steer pytest: its settings, its cache, its root, and snapshots beside a test."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

import shutil
import sys

from flows.gate_cases.checkouts import APPROVE_ALL
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
    Replace,
    Step,
    Write,
    commit_tracked,
    green,
    not_green,
    red,
)

CHAT, CONFTEST = "chat_tests.py", "conftest.py"
CHANGED = Replace(CHAT, "Where is my parcel?", "Where is my package?")
CI = {"CI": "true"}


def _settings(addopts: str, *lines: str) -> Step:
    return Write(
        "pytest.ini", "\n".join(("[pytest]", "python_files = *_tests.py", f"addopts = {addopts}", *lines, ""))
    )


def _hidden(name: str, *steps: Step) -> Case:
    """A changed prompt in a test that a file leaves out."""
    return not_green(
        name, CHANGED, *steps, says="test_chat did not run|GT3", variables=CI, ways=(TEST, PYTEST, XDIST)
    )


LEFT_OUT = [
    _hidden("the settings of pytest run what failed last, and the cache names another test", _settings("--lf"),
            Write(".pytest_cache/v/cache/lastfailed", f'{{"{CHAT}::test_stream": true}}')),
    _hidden("the settings of pytest override the names of tests", _settings("-o python_functions=test_[!c]*")),
    _hidden("the settings of pytest deselect a test", _settings(f"--deselect {CHAT}::test_chat")),
    _hidden("the settings of pytest select by a marker", _settings("-m kept", "markers = kept"),
            Replace(CHAT, "import desk\n", "import pytest\n\nimport desk\n"),
            Replace(CHAT, "def test_stream", "@pytest.mark.kept\ndef test_stream")),
    _hidden("a test has a name in other letters, and is deselected", _settings("-k 'not test_chat'"),
            Replace(CHAT, "def test_chat", "def test_\N{FULLWIDTH LATIN SMALL LETTER C}hat")),
    not_green("a test has a name that looks the same, and its prompt changed", CHANGED,
              Replace(CHAT, "def test_chat", "def test_\N{CYRILLIC SMALL LETTER ES}hat"), says="GT[123]", variables=CI),
    _hidden("a plugin of the project drops a test", Append(CONFTEST, "\n\npytest_plugins = ['dropping']\n"),
            Write("dropping.py", "def pytest_collection_modifyitems(items):\n"
                  "    items[:] = [item for item in items if item.name != 'test_chat']\n")),
]  # fmt: skip

PROCESSES = [
    red("the settings of pytest name processes that nothing is distributed to", CHANGED, _settings("--tx popen"), ways=(PYTEST, TEST)),
    green("unchanged tests run with processes that nothing is distributed to", _settings("--tx popen"), ways=(PYTEST, TEST)),
    green("unchanged tests run with a way to distribute them and no processes", _settings("--dist loadscope"), ways=(PYTEST, TEST)),
]  # fmt: skip


PARCEL = "suite/parcel_tests.py"
RECORD_SUITE = Command(("record", "--", sys.executable, "-m", "pytest", "-q", "suite"))


def _copy_old_tree(checkout: Checkout) -> None:
    """Approve a prompt, then another one; bring back the first, and beside its test what was approved then."""
    old_tree = checkout.folder.parent / "old"
    Write(PARCEL, "import desk\n\n\ndef test_parcel():\n    assert desk.ask('Where is it?')\n")(checkout)
    RECORD_SUITE(checkout)
    APPROVE_ALL(checkout)
    shutil.copytree(checkout.folder / SNAPSHOTS, old_tree)
    Replace(PARCEL, "Where is it?", "Where is it now?")(checkout)
    RECORD_SUITE(checkout)
    APPROVE_ALL(checkout)
    Replace(PARCEL, "Where is it now?", "Where is it?")(checkout)
    old_tree.rename(checkout.folder / "suite" / SNAPSHOTS)
    shutil.copy(checkout.folder / CONFIG, checkout.folder / "suite")


def _approve_suite(checkout: Checkout) -> None:
    Write(PARCEL, "import desk\n\n\ndef test_parcel():\n    assert desk.ask('Where is it?')\n")(checkout)
    RECORD_SUITE(checkout)
    APPROVE_ALL(checkout)
    commit_tracked(checkout)


def _move_root_up(checkout: Checkout) -> None:
    (checkout.folder / "pytest.ini").rename(checkout.folder.parent / "pytest.ini")


TREES = [
    red("a copy of old snapshots beside a test takes it over", _copy_old_tree, more="suite", says="GT3", ways=(TEST, PYTEST)),
]  # fmt: skip

OTHER_ROOT = Write("settings/pytest.ini", "[pytest]\npython_files = *_tests.py\npythonpath = ..\n")

ROOTS = [
    green("the settings of pytest are in a folder beside the tests", OTHER_ROOT, more="-c settings/pytest.ini", variables=CI,
          ways=(TEST, PYTEST)),
    not_green("the settings of pytest are in a folder beside the tests, and a prompt changed", OTHER_ROOT, CHANGED, says="GT[12]",
              more="-c settings/pytest.ini", variables=CI, ways=(TEST, PYTEST)),
    not_green("the settings of pytest are in a folder beside the tests, and a test makes no call", OTHER_ROOT,
              Replace(CHAT, 'assert desk.ask("Where is my parcel?")', "assert desk"), says="test_chat did not run|GT3",
              more="-c settings/pytest.ini", variables=CI, ways=(TEST, PYTEST)),
    green("the root of pytest is a folder below now", _approve_suite, more="--rootdir=suite suite", variables=CI, ways=(PYTEST, TEST)),
    red("the root of pytest is a folder below now, and a prompt changed", _approve_suite,
        Replace(PARCEL, "Where is it?", "Where is it now?"), more="--rootdir=suite suite", variables=CI, ways=(PYTEST, TEST)),
    green("the root of pytest is the folder above now", _move_root_up, variables=CI, ways=(TEST, PYTEST)),
    not_green("the root of pytest is the folder above now, and a prompt changed", _move_root_up, CHANGED, variables=CI, says="GT[12]",
              ways=(TEST, PYTEST)),
    not_green("the root of pytest is the folder above now, and a test makes no call", _move_root_up,
              Replace(CHAT, 'assert desk.ask("Where is my parcel?")', "assert desk"), variables=CI, says="test_chat did not run|GT3",
              ways=(TEST, PYTEST)),
]  # fmt: skip

ANSWER = """

import httpx


def _answer(self, request, **options):
    message = {"role": "assistant", "content": "It is on its way."}
    return httpx.Response(200, json={"choices": [{"message": message}]}, request=request)
"""
PASS_ON = """

import httpx

_handle_request = httpx.HTTPTransport.handle_request


def _pass_on(self, request):
    return _handle_request(self, request)


httpx.HTTPTransport.handle_request = _pass_on
"""

CLIENTS = [
    *(not_green(f"a conftest.py answers in place of httpx, {name}", CHANGED, Append(CONFTEST, f"{ANSWER}\n\n{patch}\n"), variables=CI,
                says="GT", ways=(TEST, PYTEST))
      for name, patch in {"in its transport": "httpx.HTTPTransport.handle_request = _answer",
                          "in its client": "httpx.Client.send = _answer"}.items()),
    green("a conftest.py wraps the transport of httpx", Append(CONFTEST, PASS_ON), variables=CI, ways=(TEST, PYTEST)),
    red("a conftest.py wraps the transport of httpx, and a prompt changed", CHANGED, Append(CONFTEST, PASS_ON), variables=CI,
        ways=(TEST, PYTEST)),
]  # fmt: skip

CASES = {
    "a test that a file leaves out": LEFT_OUT,
    "another HTTP client by a file": CLIENTS,
    "the processes of pytest": PROCESSES,
    "snapshots beside a test": TREES,
    "another root of pytest": ROOTS,
}
