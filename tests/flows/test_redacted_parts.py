"""Redacted parts of requests are compared, or the run is not green; and one project has one match key."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.environments import linked_python
from support.gate_project import Site
from support.model_servers import model_server

APPLICATION = """
import os
import httpx

NAMES = os.environ.get("NAMES", "ann.lee bob.roy").split()
VERB = os.environ.get("VERB", "Write")


def ask(name):
    body = {"model": "gpt-4.1-mini", "temperature": 0, "seed": 7, "max_tokens": 60,
            "user": os.environ.get("ME", "me"),
            "messages": [{"role": "user", "content": f"{VERB} to {name}@corp-example.org."}]}
    answer = httpx.post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body, timeout=60)
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


def test_letters():
    answers = [ask(name) for name in NAMES]
    assert len(answers) == len({*answers})


def test_a_letter():
    assert ask(NAMES[0])
"""
KEY_FILE, ID_FILE = ".ai-tests/match.key", ".ai-snapshots/match-key.json"
MISSING = "redacted parts of 3 calls could not be compared: the match key is missing"


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project with approved calls of which two differ in a redacted part alone, recorded without `init`."""
    folder, python = tmp_path_factory.mktemp("letters"), linked_python(tmp_path_factory.mktemp("python"))
    (folder / "test_letters.py").write_text(APPLICATION)
    (folder / "traceforge.config.json").write_text("{}")
    with model_server() as server:
        site = Site(folder, python, server, "test_letters.py")
        ran = site.run("record", *site.pytest("test_letters.py"))
        assert (0, True) == (ran.code, "new: 2" in ran.err), ran
        assert f"wrote {KEY_FILE}, a secret" in ran.err
        assert 0 == site.approve().code
        yield site


@pytest.fixture
def site(letters: Site, tmp_path: Path) -> Iterator[Site]:
    """A fresh checkout without the key, and a provider with other answers."""
    with model_server(salt="another") as other:
        yield letters.at(tmp_path / "checkout", other)


def key_of(letters: Site) -> str:
    """The match key of the project."""
    return (letters.folder / KEY_FILE).read_text().strip()


def run_tests(site: Site, **variables: str) -> tuple[int, int, str]:
    """The exit codes of `traceforge test` and of plain pytest, and what both printed."""
    tested = site.run("test", *site.pytest("test_letters.py"), **variables)
    plugged = site.plugin(**variables)
    return tested.code, plugged.code, tested.err + plugged.out + plugged.err


def configure(site: Site, **match: object) -> None:
    """Set the `match` settings of a project, and approve them."""
    (site.folder / "traceforge.config.json").write_text(json.dumps({"match": match}))
    assert 0 == site.run("approve", "--policy", "--reason", "as agreed").code


def test_prompts_that_differ_in_a_redacted_part_are_two_calls(site: Site, letters: Site) -> None:
    """Approved and replayed apart, with different answers; a field that is never compared is counted."""
    wires = [json.loads(file.read_text()) for file in (site.folder / ".ai-snapshots/wire").iterdir()]
    assert 2 == len(wires)
    assert 1 == len({json.dumps(wire["request"]["body"]) for wire in wires})

    code, plugged, text = run_tests(site, TRACEFORGE_MATCH_KEY=key_of(letters), ME="somebody else")

    assert (0, 0) == (code, plugged), text
    assert 2 == text.count("not compared: $.user (3 times)")


@pytest.mark.slow
def test_another_redacted_part_is_red(site: Site, letters: Site) -> None:
    """A name that was never approved. The report does not show it."""
    ran = site.plugin(TRACEFORGE_MATCH_KEY=key_of(letters), NAMES="ann.lee eve.fox")

    assert 1 == ran.code, ran
    assert "a redacted part differs at $.messages[0].content" in ran.out
    assert "eve.fox" not in ran.out.partition("= traceforge =")[2]


@pytest.mark.slow
def test_without_the_key_the_run_is_not_green(site: Site) -> None:
    """Whatever the addresses are: nobody can know."""
    code, plugged, text = run_tests(site, NAMES="eve.fox tom.ray")

    assert (3, 1) == (code, plugged), text
    assert 2 == text.count(MISSING)


def _write_event(folder: Path, head: object) -> str:
    event = {"pull_request": {"head": {"repo": head}, "base": {"repo": {"full_name": "we/app"}}}}
    path = folder / "event.json"
    path.write_text(json.dumps(event))
    return str(path)


@pytest.mark.slow
def test_a_pull_request_from_a_fork_may_go_without_the_key(site: Site, tmp_path: Path) -> None:
    """Where the project says so; the push that follows may not."""
    event = {"GITHUB_EVENT_PATH": _write_event(tmp_path, {"full_name": "they/app"})}
    fork = {**event, "GITHUB_EVENT_NAME": "pull_request"}
    configure(site, redacted="forks")

    forked, pushed = site.plugin(**fork), site.plugin(**event, GITHUB_EVENT_NAME="push")

    assert 0 == forked.code, forked
    assert "3 calls compared without 3 redacted values" in forked.out
    assert (1, True) == (pushed.code, MISSING in pushed.out), pushed


@pytest.mark.slow
def test_counting_is_a_setting(site: Site) -> None:
    configure(site, redacted="count")

    assert (0, 0) == run_tests(site)[:2]


@pytest.mark.slow
def test_another_key_is_the_wrong_key(site: Site, letters: Site) -> None:
    """In every command that compares: exit code 3, whatever is configured. The message holds no key."""
    configure(site, redacted="count")

    code, plugged, text = run_tests(site, TRACEFORGE_MATCH_KEY="another")  # Neither runs a test.
    recorded = site.run("record", *site.pytest("test_letters.py"), TRACEFORGE_MATCH_KEY="another")
    proxied = site.run("proxy", "--mode", "replay", "--from", "snapshots", TRACEFORGE_MATCH_KEY="another")

    assert (3, 4, 3, 3) == (code, plugged, recorded.code, proxied.code), text
    committed = json.loads((site.folder / ID_FILE).read_text())["id"]
    assert 2 == text.count("TF210"), text
    assert committed in text
    assert "another" not in text
    assert "Traceback" not in text
    assert key_of(letters) not in text + recorded.err


@pytest.mark.slow
def test_a_clone_gets_no_second_key(site: Site) -> None:
    """`init` changes no file and makes no key; `record` refuses what nobody could compare."""
    _commit(site)
    before = _files(site)
    first = site.run("init")
    assert (0, before) == (first.code, _files(site) - {".gitignore", ".gitattributes"})
    _commit(site)

    second = site.run("init")
    recorded = site.run("record", *site.pytest("test_letters.py"), NAMES="eve.fox tom.ray")
    changed = site.run("record", *site.pytest("test_letters.py::test_a_letter"), VERB="Speak")

    assert f"missing   {KEY_FILE}: the project's match key has the id " in second.out
    assert "" == _git(site, "status", "--porcelain")
    assert not (site.folder / KEY_FILE).exists()
    assert (3, True) == (recorded.code, "3 calls compared without 3 redacted values" in recorded.err), recorded
    assert (0, True, True) == (changed.code, "refused: 1" in changed.err, "the match key is missing" in changed.err)


@pytest.mark.slow
@pytest.mark.parametrize("here", ["no key", "another key"])
def test_the_commands_of_the_message_replace_a_lost_key(site: Site, here: str) -> None:
    """The calls with redacted parts are recorded with a new key, and are green with it."""
    if here == "another key":
        (site.folder / ".ai-tests").mkdir()
        (site.folder / KEY_FILE).write_text("another\n")
    lost = site.run("test", *site.pytest("test_letters.py"))
    commands = lost.err.partition("If nobody has it any more: ")[2].partition(", unset ")[0]
    assert (3, f"rm -f {ID_FILE} {KEY_FILE}") == (lost.code, commands), lost
    assert 'then traceforge record -- COMMAND, and traceforge approve --all --reason "…"' in lost.err

    subprocess.run(commands.split(), cwd=site.folder, check=True)
    recorded = site.run("record", *site.pytest("test_letters.py"))
    approved = site.run("approve", "--all", "--reason", "new match key")

    assert (0, 0) == (recorded.code, approved.code), (recorded, approved)
    assert (0, 0) == (ran := run_tests(site))[:2], ran
    assert 0 == site.run("verify").code


def _git(site: Site, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    return subprocess.run(
        ["git", *identity, *words], cwd=site.folder, check=True, capture_output=True, text=True
    ).stdout


def _commit(site: Site) -> None:
    if not (site.folder / ".git").exists():
        _git(site, "init", "-q", "-b", "main")
    _git(site, "add", "-A")
    _git(site, "commit", "-qm", "x")


def _files(site: Site) -> set[str]:
    files = (file for file in site.folder.rglob("*") if file.is_file() and ".git/" not in str(file))
    return {str(file.relative_to(site.folder)) for file in files}


@pytest.mark.slow
def test_a_conflict_of_two_keys_is_named(site: Site, letters: Site) -> None:
    """Two branches that each made a key."""
    file = site.folder / ID_FILE
    text = file.read_text()
    file.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> other\n")

    ran = site.run("verify")

    assert (3, True) == (ran.code, "match-key.json: PARSE conflict markers of a Git merge" in ran.out), ran
    file.write_text(text.replace('"id"', '"key"'))
    assert "match-key.json: $.id: MK1" in site.run("verify").out
