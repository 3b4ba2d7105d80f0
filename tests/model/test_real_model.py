"""A real model: recorded, approved, tested without it, and checked live where its arithmetic is the same and is not.

Nothing here knows what the model says. What it answers under a setting is asked beside TraceForge, with plain
requests, and every verdict is held against that.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.command import COMMAND, CommandResult
from support.corpus import PROJECT
from support.environments import linked_python
from support.local_model import LocalServer, Messages, find_weights, local_server

APP = PROJECT / "tests" / "apps" / "local_model.py"
CONFIG = {
    "models": {"smollm2-*": {"usage_in_answers": "absent"}}
}  # Streams of this server do not say how long they are.
RUNS = 10
COMMAND_S = 1800

# Every request in an empty context, its prompt evaluated at once: as recorded.
FRESH = ("fresh",)
# The prompt token by token. Batches of 8, 16 and 32 were tried with these weights: they give the answers of 512.
BATCH = ("fresh", "n_batch=1", "n_ubatch=1")
# The server as it is: what a prompt and the context begin with is not evaluated again. In the second turn of a
# conversation that is the answer of the first, which was evaluated token by token when it was generated.
REUSED = ()

pytestmark = pytest.mark.model


class Snapshot(NamedTuple):
    """What was approved for a request."""

    id: str
    text: str


class Project(NamedTuple):
    """An application whose answers were approved."""

    folder: Path
    python: Path
    settings: dict[str, Any]
    approved: dict[Messages, Snapshot]

    def conversations(self) -> list[list[Messages]]:
        """Requests that begin alike, the longer one first."""
        longest_first = sorted(self.approved, key=len, reverse=True)
        return [[one for one in longest_first if one[:2] == asked] for asked in self.approved if len(asked) == 2]

    def run(self, url: str, *words: str) -> CommandResult:
        """One command of ours."""
        return run(self.folder, url, *words)

    def check(self, server: LocalServer, *words: str) -> tuple[int, dict[Messages, dict[str, Any]]]:
        """`check-live`: its exit code, and what it reports by request."""
        ran = self.run(server.url, "check-live", "--yes", "--runs", str(RUNS), "--json", *words)
        assert ran.code in (0, 1), ran
        told = {one["id"]: one for one in json.loads(ran.out)["snapshots"]}
        return ran.code, {asked: told[one.id] for asked, one in self.approved.items() if one.id in told}

    def say(self, server: LocalServer, asked: Messages) -> str:
        """What the model says, without us."""
        return server.complete(asked, self.settings)


def run(folder: Path, url: str, *words: str) -> CommandResult:
    """One command of ours, which may take as long as a model does."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environ = {**kept, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "nothing", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [str(COMMAND), *words], cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=COMMAND_S, check=False,
    )  # fmt: skip
    return CommandResult(done.returncode, done.stdout, done.stderr)


def pytest_of(python: Path) -> list[str]:
    """The application's own tests."""
    return ["--", str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", APP.name]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Recorded from a server that begins every request anew, and approved; the server is gone."""
    find_weights()
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(APP, folder)
    (folder / "traceforge.config.json").write_text(json.dumps(CONFIG))
    python = linked_python(tmp_path_factory.mktemp("python"))
    with local_server(folder.parent / "recorded.log", *FRESH) as server:
        recorded = run(folder, server.url, "record", *pytest_of(python))
        accepted = run(folder, server.url, "approve", "--all", "--reason", "it is right")
        asked = server.read_requests()
    assert (0, 0) == (recorded.code, accepted.code), (recorded, accepted)
    approved = approved_in(folder)
    assert sorted(asked) == sorted(approved)
    return Project(folder, python, runpy.run_path(str(APP))["SETTINGS"], approved)


def approved_in(folder: Path) -> dict[Messages, Snapshot]:
    """What is committed, by request."""
    found = {}
    for file in sorted(folder.glob(".ai-snapshots/openai/*.json")):
        (one,) = json.loads(file.read_text())["snapshots"]
        asked = tuple((message["role"], message["content"]) for message in one["request"]["messages"])
        found[asked] = Snapshot(one["id"], one["response"]["content"])
    return found


def first_difference(before: str, after: str) -> tuple[int, int]:
    """The number of the first word that is not the same, from 1, and the first character."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    at = begin = sum(1 for _ in same)
    if re.match(r"[\w'’]", before[at:]) or re.match(r"[\w'’]", after[at:]):  # in a word, and not behind one
        begin -= len(re.findall(r"[\w'’]*$", before[:at])[0])
    return len(re.findall(r"\w+(?:['’]\w+)*", before[:begin])) + 1, at


def stands_at(word: str, text: str, at: int) -> bool:
    """Is this a piece of the text that goes over the character at `at`, or ends beside it?"""
    return any(text.startswith(word, begin) for begin in range(max(0, at - len(word) - 1), at + 1))


def expected_verdict(approved: str, said: Sequence[str]) -> tuple[str, int]:
    """What these answers, one a run, come to: the verdict, and how many runs gave another answer."""
    if len(set(said)) > 1:
        usual = approved if approved in said else max(said, key=said.count)
        return "varies", sum(one != usual for one in said)
    return ("same", 0) if approved in said else ("changed", len(said))


def assert_verdict(told: dict[str, Any], approved: str, said: Sequence[str]) -> None:
    """What was reported about a request is what it was answered: verdict, clusters, the first word that differs."""
    assert expected_verdict(approved, said) == (told["verdict"], told["different"])
    assert (told["verdict"] != "same") == told["fails"]
    groups = [[run for run, text in enumerate(said, 1) if text == one] for one in set(said)]
    assert sorted(groups) == sorted(one["runs"] for one in told["clusters"])
    for cluster in told["clusters"]:
        text = said[cluster["runs"][0] - 1]
        assert (text == approved) == cluster["approved"]
        if text != approved:
            word, at = first_difference(approved, text)
            first = cluster["first_difference"]
            assert word == first["word"]
            assert first["before"] != first["after"]
            assert stands_at(first["before"], approved, at)
            assert stands_at(first["after"], text, at)
    assert {"smollm2-135m"} == {one["model"] for one in told["answers"]}


def test_what_was_recorded_is_replayed_when_the_server_is_gone(project: Project) -> None:
    """The application's tests are green without a model, streams included."""
    ran = project.run("http://127.0.0.1:9", "test", *pytest_of(project.python))

    assert 0 == ran.code, ran
    assert f"GREEN: {len(project.approved)} calls replayed" in ran.err


def test_fresh_runs_agree(project: Project, tmp_path: Path) -> None:
    """Started again and with a context that is new for every request, it says ten times what was approved."""
    with local_server(tmp_path / "log", *FRESH) as server:
        said = {asked: project.say(server, asked) for asked in project.approved}
        code, told = project.check(server)

    assert {asked: one.text for asked, one in project.approved.items()} == said
    assert (0, {"same"}) == (code, {one["verdict"] for one in told.values()})
    for asked, one in told.items():
        assert_verdict(one, project.approved[asked].text, [said[asked]] * RUNS)


def test_another_batch_size_is_caught(
    project: Project, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    """Sums in another order: where the model says something else, that is the verdict, and nowhere else."""
    with local_server(tmp_path / "log", *BATCH) as server:
        said = {asked: project.say(server, asked) for asked in project.approved}
        code, told = project.check(server)

    differ = [asked for asked, one in project.approved.items() if said[asked] != one.text]
    record_property("summary", f"model: another batch size: {len(differ)} of {len(said)} answers differ")
    assert differ, "no answer depends on the batch size here: let the application ask more"
    assert 1 == code
    for asked, one in told.items():
        assert_verdict(one, project.approved[asked].text, [said[asked]] * RUNS)


def test_a_reused_cache_is_caught(project: Project, tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    """A server that remembers is asked both turns of a conversation in turn: each verdict is what it said, each time.

    The same requests are then sent in the same order, beside TraceForge, to a server that was just started.
    """
    order = ("--concurrency", "1")
    codes: list[int] = []
    told: dict[Messages, dict[str, Any]] = {}
    with local_server(tmp_path / "log", *REUSED) as server:
        for turns in project.conversations():
            code, found = project.check(server, *order, *(project.approved[asked].id for asked in turns))
            codes.append(code)
            told.update(found)
        varied = [asked for asked, one in told.items() if one["verdict"] == "varies"]
        asked_for_json = server.read_requests()
        assert varied, "no answer depends on what is evaluated again here: let the application ask more"
        turns = next(turns for turns in project.conversations() if varied[0] in turns)
        project.say(server, next(asked for asked in project.approved if asked not in turns))
        names = [project.approved[asked].id for asked in turns]
        shown = project.run(server.url, "check-live", "--yes", "--runs", str(RUNS), *order, *names)
        order_of_all = server.read_requests()
    with local_server(tmp_path / "log", *REUSED) as server:
        said = [(asked, project.say(server, asked)) for asked in order_of_all]

    record_property("summary", f"model: a reused KV cache: {len(varied)} of {len(told)} answers vary")
    assert len(project.approved) * RUNS == len(asked_for_json)
    for asked, one in told.items():
        answers = [text for which, text in said[: len(asked_for_json)] if which == asked]
        assert_verdict(one, project.approved[asked].text, answers)
    verdicts = [{told[asked]["verdict"] for asked in turns} for turns in project.conversations()]
    assert [int(found != {"same"}) for found in verdicts] == codes
    last = [text for which, text in said[len(asked_for_json) + 1 :] if which == varied[0]]
    assert_shown(shown, project.approved[varied[0]], last)
    (tmp_path / "verdict.txt").write_text(shown.out)  # what the page about local models shows


def assert_shown(ran: CommandResult, approved: Snapshot, said: Sequence[str]) -> None:
    """A person reads how many runs differ, which answers there are, and from which word on."""
    verdict, different = expected_verdict(approved.text, said)
    assert ("varies", 1) == (verdict, ran.code)
    head = "❌ Non-deterministic behavior detected\n"
    counted = f"   {different}/{RUNS} runs produced different outputs\n   → CI fails\n"
    assert f"{head}{counted}   {approved.id}, {APP.name}:" in ran.out
    for text in set(said):
        runs = f"{said.count(text)} run{'s' if said.count(text) > 1 else ''}"
        differs = f"differs from word {first_difference(approved.text, text)[0]} on: "
        told = "the approved answer" if text == approved.text else differs
        assert re.search(rf"^   [A-Z]: {runs}, {told}", ran.out, re.MULTILINE)
    assert RUNS <= len(re.findall(r"^   \d+ +[A-Z] +smollm2-135m ", ran.out, re.MULTILINE))
