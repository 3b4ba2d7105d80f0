"""A pull request written by an attacker: nothing but an approved change turns a build green.

Each attack hides a changed prompt, or the loss of what was approved. What an attacker cannot be kept from is in
SECURITY.md: to write tests that do not call the model, and, in plain pytest, to end the process that judges.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.gate_project import CHAT, CONFIG, Site
from support.model_servers import model_server
from traceforge.canon import digest_bytes
from traceforge.snapshots.formats.snapshot_format import read_document, write_document
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest

Attack = Callable[[Site], object]


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Iterator[Site]:
    """A project with approved calls on its branch `main`; the pull request is on another branch."""
    with model_server(salt="another") as other:
        site = recorded.at(tmp_path / "checkout", other)
        _git(site, "init", "-q", "-b", "main")
        _git(site, "add", "-A", "-f")
        _git(site, "commit", "-qm", "x")
        _git(site, "checkout", "-qb", "pull-request")
        yield site


def _git(site: Site, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    ran = subprocess.run(["git", *identity, *words], cwd=site.folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def _build(site: Site) -> dict[str, str]:
    """Commit the pull request, check out its merge as GitHub does, and give the variables of the build."""
    _git(site, "add", "-A", "-f")
    _git(site, "commit", "-qm", "an attack", "--allow-empty")
    merge = _git(site, "commit-tree", "HEAD^{tree}", "-p", "main", "-p", "HEAD", "-m", "merge")
    for entry in site.folder.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    _git(site, "checkout", "-qf", "--detach", merge)
    return {
        "CI": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/1/merge", "GITHUB_SHA": merge
    }  # fmt: skip


def _tree(site: Site) -> Path:
    return site.folder / ".ai-snapshots"


def _remove_tree(site: Site) -> None:
    shutil.rmtree(_tree(site))


def _remove_tree_and_configuration(site: Site) -> None:
    _remove_tree(site)
    (site.folder / "traceforge.config.json").unlink()


def _replace_tree_by_a_file(site: Site) -> None:
    _remove_tree(site)
    _tree(site).write_text("")


def _replace_tree_by_a_link(site: Site) -> None:
    _tree(site).rename(site.folder / "elsewhere")
    _tree(site).symlink_to("elsewhere")


def _replace_tree_by_an_empty_one(site: Site) -> None:
    _remove_tree(site)
    _tree(site).mkdir()
    (_tree(site) / "README.md").write_text("Nothing is approved yet.\n")


def _edit_answer(site: Site) -> None:
    """Another answer in the record and in the raw response, and every digest computed again."""
    for path in sorted(_tree(site).glob("openai/*.json")):
        (record,) = read_document(path.read_bytes())
        body = json.loads(json.dumps(record.body))
        raw = _tree(site) / "wire" / path.name
        text, answer = raw.read_text(), body["response"]["content"]
        if not answer or text.count(answer) != 1:
            continue
        raw.write_text(text.replace(answer, "Forged."))
        body["response"]["content"] = "Forged."
        body["response"]["wire"]["sha256"] = digest_bytes(raw.read_bytes())
        path.write_bytes(write_document([body]))
        break
    else:
        raise AssertionError("no answer could be edited")
    rebuild_manifest(str(_tree(site)))


def _take_for_hand_written(site: Site) -> None:
    """A record without a raw response and without approvals counts as written by hand, which needs no approval."""
    for path in _tree(site).glob("*/*.json"):
        if path.parent.name in ("wire", "approvals"):
            continue
        (record,) = read_document(path.read_bytes())
        body = json.loads(json.dumps(record.body))
        body["response"].pop("wire", None)
        path.write_bytes(write_document([body]))
    shutil.rmtree(_tree(site) / "wire")
    shutil.rmtree(_tree(site) / "approvals")
    rebuild_manifest(str(_tree(site)))


def _remove_manifest(site: Site) -> None:
    (_tree(site) / "manifest.json").unlink()


def _write_attributes(*lines: str) -> Attack:
    def attack(site: Site) -> None:
        (site.folder / ".gitattributes").write_text("".join(f"{line}\n" for line in lines))

    return attack


def _widen_configuration(site: Site) -> None:
    """A declaration that hides a changed prompt."""
    site.edit("You are brief.", "You are evil.")
    config = {**CONFIG, "match": {"ignore_patterns": ["are [a-z]+"]}}
    (site.folder / "traceforge.config.json").write_text(json.dumps(config))


TREE_ATTACKS: dict[str, Attack] = {
    "a wider configuration": _widen_configuration,
    "no tree": _remove_tree,
    "no tree and no configuration": _remove_tree_and_configuration,
    "a file for a tree": _replace_tree_by_a_file,
    "a link for a tree": _replace_tree_by_a_link,
    "an empty tree": _replace_tree_by_an_empty_one,
    "an edited answer": _edit_answer,
    "hand-written records": _take_for_hand_written,
    "no manifest": _remove_manifest,
    "line ends": _write_attributes(".ai-snapshots/** text eol=crlf"),
    "another encoding": _write_attributes(".ai-snapshots/** text working-tree-encoding=UTF-16"),
}
SHORT = {"no tree", "an edited answer", "a wider configuration"}


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in TREE_ATTACKS]
)
def test_an_attack_on_the_snapshots_is_red(site: Site, name: str) -> None:
    """In every command that judges, although no call changed."""
    TREE_ATTACKS[name](site)
    variables = _build(site)

    codes = [
        site.run("verify", **variables).code,
        site.run("test", **variables).code,
        site.test("-k", CHAT, **variables).code,
        site.plugin("-k", CHAT, **variables).code,
    ]

    assert 0 not in codes, codes


def _write(name: str, text: str) -> Attack:
    def attack(site: Site) -> None:
        (site.folder / name).write_text(text)

    return attack


PATCH = """
import sys
for name, module in list(sys.modules.items()):
    if name.startswith("traceforge.snapshots.gate") or name.startswith("_traceforge_hook"):
        for attribute in list(vars(module)):
            if attribute.startswith(("judge", "find_", "check")):
                setattr(module, attribute, lambda *args, **options: [])
"""
UNREGISTER = """
def pytest_configure(config):
    for name in ("traceforge", "traceforge-gate"):
        plugin = config.pluginmanager.get_plugin(name)
        if plugin is not None:
            config.pluginmanager.unregister(plugin)
"""
LEAVE_EARLY = """
import os
def pytest_runtest_logfinish(nodeid):
    os._exit(0)
"""
LEAVE_LATE = """
import os, pytest
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    os._exit(0)
"""
VARIABLES = """
import os
for name in list(os.environ):
    if name.startswith(("TRACEFORGE", "GITHUB", "CI")):
        del os.environ[name]
os.environ["TRACEFORGE_MODE"] = "off"
"""
FORGE = """
import json, os, socket
def pytest_sessionfinish(session):
    address, token = os.environ.get("TRACEFORGE_RUN", "\\n").split("\\n")[:2]
    if address.startswith("unix:"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address[5:])
            for head in (
                {"kind": "hello", "pid": os.getpid(), "token": token},
                {"kind": "bye", "lost": -9, "faults": -9, "fault": "x"},
                *({"kind": "test", "scope": item.nodeid, "what": what} for item in session.items
                  for what in ("began", "passed")),
            ):
                text = json.dumps(head).encode()
                connection.sendall((len(text) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text)
    session.exitstatus = 0
"""
EXPECT_FAILURES = """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.xfail)
"""
PROCESS_ATTACKS: dict[str, Attack] = {
    "expected failures": _write("conftest.py", EXPECT_FAILURES),
    "off in pytest.ini": _write("pytest.ini", "[pytest]\naddopts = --traceforge=off\n"),
    "no plugin in pytest.ini": _write("pytest.ini", "[pytest]\naddopts = -p no:traceforge\n"),
    "a patched judge": _write("conftest.py", PATCH),
    "no plugin in conftest.py": _write("conftest.py", UNREGISTER),
    "ends early": _write("conftest.py", LEAVE_EARLY),
    "ends late": _write("conftest.py", LEAVE_LATE),
    "other variables": _write("conftest.py", VARIABLES),
    "forged reports": _write("conftest.py", FORGE),
}
# In plain pytest, what the pull request brings runs in the process that judges.
IN_PLAIN_PYTEST = {"expected failures", "off in pytest.ini", "other variables"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name if name == "forged reports" else pytest.param(name, marks=pytest.mark.slow) for name in PROCESS_ATTACKS],
)
def test_an_attack_on_the_process_does_not_hide_a_changed_prompt(site: Site, name: str) -> None:
    """`traceforge test` judges outside of the process in which the tests run."""
    site.edit("You are brief.", "You are evil.")
    PROCESS_ATTACKS[name](site)
    variables = _build(site)

    tested = site.test("-k", CHAT, **variables)

    assert (True, False) == (tested.code in (1, 3), "GREEN" in tested.err), tested
    if name in IN_PLAIN_PYTEST:
        assert 1 == site.plugin("-k", CHAT, **variables).code


@pytest.mark.slow
def test_a_pytest_that_ends_in_the_middle_is_unchecked(site: Site) -> None:
    """Although every call until then was as approved, and its exit code is 0."""
    _write("conftest.py", LEAVE_EARLY)(site)

    tested = site.test("-k", CHAT, **_build(site))

    assert (3, True) == (tested.code, "pytest ended in the middle of its run" in tested.err), tested


SELECTIONS: dict[str, Attack] = {
    "-k": _write("pytest.ini", "[pytest]\naddopts = -k test_chat_async\n"),
    "names": _write("pytest.ini", "[pytest]\npython_functions = test_chat_async\n"),
    "conftest.py": _write(
        "conftest.py",
        "def pytest_collection_modifyitems(items):\n    items[:] = [x for x in items if 'async' in x.name]\n",
    ),
}


@pytest.mark.parametrize(
    "name", [name if name == "-k" else pytest.param(name, marks=pytest.mark.slow) for name in SELECTIONS]
)
@pytest.mark.slow
def test_a_file_that_leaves_tests_out_does_not_hide_their_calls(site: Site, name: str) -> None:
    """In CI, a command that asks for all tests must get them; one that names a subset itself is not judged."""
    SELECTIONS[name](site)
    variables = _build(site)

    tested = site.test(**variables)
    plugged = site.plugin(**variables)
    narrowed = site.test("-k", "test_chat_async", **variables)

    message = "unchecked: four_providers.py::test_chat_again did not run, and its approved call was not compared"
    assert (3, True) == (tested.code, message in tested.err), tested
    assert (1, True) == (plugged.code, message in plugged.out), plugged
    assert 0 == narrowed.code, narrowed


@pytest.mark.slow
def test_a_file_that_only_lists_the_tests_is_not_green(site: Site) -> None:
    """With `--collect-only` in a file, pytest exits with 0 and runs nothing."""
    _write("pytest.ini", "[pytest]\naddopts = --collect-only\n")(site)
    variables = _build(site)

    assert [3, 4] == [site.test(**variables).code, site.plugin(**variables).code]


@pytest.mark.slow
def test_a_file_does_not_allow_unused_snapshots_in_a_build(site: Site) -> None:
    """The command line may, and a developer's own file."""
    site.edit('assert len(embed("soup")) > 3', "pass")
    _write("pytest.ini", "[pytest]\naddopts = --traceforge-allow-unused\n")(site)
    some = ("-k", "chat_async or embedding")
    here = site.plugin(*some)
    variables = _build(site)

    by_file = site.plugin(*some, **variables)
    by_option = site.plugin("--traceforge-allow-unused", *some, **variables)

    assert (0, 1, 0) == (here.code, by_file.code, by_option.code), by_file
    assert "GT3" in by_file.out


@pytest.mark.slow
def test_a_renamed_test_does_not_hide_a_changed_prompt(site: Site) -> None:
    site.edit("def test_chat_again", "def test_chat_anew")
    site.edit("You are brief.", "You are evil.")

    assert 1 == site.test("-k", CHAT, **_build(site)).code


@pytest.mark.slow
def test_an_approved_change_is_green_in_the_build(site: Site) -> None:
    """The rest of the table would be red for any pull request otherwise; `.gitattributes` may fold the diff."""
    site.edit("You are brief.", "You are kind.")
    assert 0 == site.record("-k", CHAT).code
    assert 0 == site.approve().code
    _write_attributes(".ai-snapshots/** -text -diff linguist-generated export-ignore")(site)
    shutil.rmtree(site.folder / ".ai-tests")
    variables = _build(site)

    ran = [site.run("verify", **variables), site.test("-k", CHAT, **variables), site.plugin("-k", CHAT, **variables)]

    assert [0, 0, 0] == [result.code for result in ran], ran


WRITING_COMMANDS = (
    ("init",),
    ("init", "--github-workflow"),
    ("record", "--", "true"),
    ("approve", "--all", "--reason", "x"),
    ("reject", "x"),
    ("review",),
    ("import", "vcr", "x.yaml"),
    ("snapshot", "rm", "x", "--reason", "x"),
    ("snapshot", "manifest"),
    ("snapshot", "migrate", "--from", "0.9.0", "--to", "1.0.0"),
    ("trace", "migrate"),
    ("proxy", "--mode", "auto"),
)


def test_no_command_writes_what_is_approved_in_ci(site: Site) -> None:
    """Nor pending changes, nor the configuration: each is refused before it reads anything."""
    (site.folder / "x.yaml").write_text("interactions: []\n")
    before = {str(path): path.read_bytes() for path in site.folder.rglob("*") if path.is_file()}

    refused = {words: site.run(*words, CI="true") for words in WRITING_COMMANDS}

    assert dict.fromkeys(WRITING_COMMANDS, 2) == {words: ran.code for words, ran in refused.items()}
    assert [] == [words for words, ran in refused.items() if "and CI is set" not in ran.err]
    assert before == {str(path): path.read_bytes() for path in site.folder.rglob("*") if path.is_file()}
