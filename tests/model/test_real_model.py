"""A real model: recorded, approved, tested without it, and checked live with the same and with other arithmetic.

The tests do not know what the model answers. They send the same requests without TraceForge, and compare every
verdict with those answers.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.command import COMMAND, CommandResult
from support.corpus import PROJECT
from support.environments import linked_python
from support.local_model import LocalServer, Messages, find_weights, local_server

APP = PROJECT / "tests" / "apps" / "local_model.py"
CONFIG = {"models": {"smollm2-*": {"usage_in_answers": "absent"}}}  # Streams of this server have no usage.
RUNS = 10
COMMAND_S = 1800

# Every request in an empty context, its prompt evaluated in one batch: as recorded.
FRESH = ("fresh",)
# The prompt token by token. Batches of 8, 16 and 32 were tried with these weights: they give the answers of 512.
BATCH = ("fresh", "n_batch=1", "n_ubatch=1")

# conversation that is the answer of the first, which was evaluated token by token when it was generated.
REUSED = ()

pytestmark = pytest.mark.model


class Snapshot(NamedTuple):
    """The approved answer of a request."""

    id: str
    text: str


class Project(NamedTuple):
    """An application with approved answers."""

    folder: Path
    python: Path
    settings: dict[str, Any]
    approved: dict[Messages, Snapshot]

    def conversations(self) -> list[list[Messages]]:
        """The requests of each conversation, the longer first."""
        longest_first = sorted(self.approved, key=len, reverse=True)
        return [
            [request for request in longest_first if request[:2] == opening]
            for opening in self.approved
            if len(opening) == 2
        ]

    def run(self, url: str, *words: str) -> CommandResult:
        """Run a traceforge command."""
        return run(self.folder, url, *words)

    def check(self, server: LocalServer, *words: str) -> tuple[int, dict[Messages, dict[str, Any]]]:
        """`check-live`: its exit code, and its report by request."""
        ran = self.run(server.url, "check-live", "--yes", "--runs", str(RUNS), "--json", *words)
        assert ran.code in (0, 1), ran
        reports = {report["id"]: report for report in json.loads(ran.out)["snapshots"]}
        return ran.code, {
            request: reports[snapshot.id] for request, snapshot in self.approved.items() if snapshot.id in reports
        }

    def answer(self, server: LocalServer, request: Messages) -> str:
        """The model's answer, without TraceForge."""
        return server.complete(request, self.settings)


def run(folder: Path, url: str, *words: str) -> CommandResult:
    """Run a traceforge command, which may take as long as a model."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environ = {
        **inherited,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "nothing",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    completed = subprocess.run(
        [str(COMMAND), *words], cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=COMMAND_S, check=False,
    )  # fmt: skip
    return CommandResult(completed.returncode, completed.stdout, completed.stderr)


def pytest_command(python: Path) -> list[str]:
    """Run the application's own tests."""
    return ["--", str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", APP.name]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Recorded from a server with an empty context for every request, and approved; the server is stopped."""
    find_weights()
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(APP, folder)
    (folder / "traceforge.config.json").write_text(json.dumps(CONFIG))
    python = linked_python(tmp_path_factory.mktemp("python"))
    with local_server(folder.parent / "recorded.log", *FRESH) as server:
        recorded = run(folder, server.url, "record", *pytest_command(python))
        accepted = run(folder, server.url, "approve", "--all", "--reason", "it is right")
        requests = server.read_requests()
    assert (0, 0) == (recorded.code, accepted.code), (recorded, accepted)
    approved = load_approved(folder)
    assert sorted(requests) == sorted(approved)
    return Project(folder, python, runpy.run_path(str(APP))["SETTINGS"], approved)


def load_approved(folder: Path) -> dict[Messages, Snapshot]:
    """The committed snapshots by request."""
    snapshots = {}
    for file in sorted(folder.glob(".ai-snapshots/openai/*.json")):
        (record,) = json.loads(file.read_text())["snapshots"]
        request = tuple((message["role"], message["content"]) for message in record["request"]["messages"])
        snapshots[request] = Snapshot(record["id"], record["response"]["content"])
    return snapshots


def first_difference(before: str, after: str) -> tuple[int, int]:
    """The number of the first word that differs, from 1, and the first character."""
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    at = begin = sum(1 for _ in same)
    if re.match(r"[\w'’]", before[at:]) or re.match(r"[\w'’]", after[at:]):  # in a word, and not after one
        begin -= len(re.findall(r"[\w'’]*$", before[:at])[0])
    return len(re.findall(r"\w+(?:['’]\w+)*", before[:begin])) + 1, at


def is_word_at(word: str, text: str, at: int) -> bool:
    """Whether `word` is a piece of `text` that spans the character at `at`, or ends next to it."""
    return any(text.startswith(word, begin) for begin in range(max(0, at - len(word) - 1), at + 1))


def expected_verdict(approved: str, answers: Sequence[str]) -> tuple[str, int]:
    """The verdict on these answers, one a run, and the number of runs with another answer."""
    if len(set(answers)) > 1:
        usual = approved if approved in answers else max(answers, key=answers.count)
        return "varies", sum(answer != usual for answer in answers)
    return ("same", 0) if approved in answers else ("changed", len(answers))


def assert_verdict(report: dict[str, Any], approved: str, answers: Sequence[str]) -> None:
    """The report about a request matches its answers: verdict, clusters, the first word that differs."""
    assert expected_verdict(approved, answers) == (report["verdict"], report["different"])
    assert (report["verdict"] != "same") == report["fails"]
    groups = [[run for run, text in enumerate(answers, 1) if text == answer] for answer in set(answers)]
    assert sorted(groups) == sorted(cluster["runs"] for cluster in report["clusters"])
    for cluster in report["clusters"]:
        text = answers[cluster["runs"][0] - 1]
        assert (text == approved) == cluster["approved"]
        if text != approved:
            word, at = first_difference(approved, text)
            first = cluster["first_difference"]
            assert word == first["word"]
            assert first["before"] != first["after"]
            assert is_word_at(first["before"], approved, at)
            assert is_word_at(first["after"], text, at)
    assert {"smollm2-135m"} == {answer["model"] for answer in report["answers"]}


def test_recorded_calls_are_replayed_without_the_server(project: Project) -> None:
    """The application's tests are green without a model, with streams."""
    ran = project.run("http://127.0.0.1:9", "test", *pytest_command(project.python))

    assert 0 == ran.code, ran
    assert f"GREEN: {len(project.approved)} calls replayed" in ran.err


def test_a_fresh_server_repeats_the_approved_answers(project: Project, tmp_path: Path) -> None:
    """Ten times, after a restart, with an empty context for every request."""
    with local_server(tmp_path / "log", *FRESH) as server:
        answers = {request: project.answer(server, request) for request in project.approved}
        code, reports = project.check(server)

    assert {request: snapshot.text for request, snapshot in project.approved.items()} == answers
    assert (0, {"same"}) == (code, {report["verdict"] for report in reports.values()})
    for request, report in reports.items():
        assert_verdict(report, project.approved[request].text, [answers[request]] * RUNS)


def test_another_batch_size_is_caught(
    project: Project, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """It sums in another order: exactly the calls whose answers differ have the verdict "changed"."""
    with local_server(tmp_path / "log", *BATCH) as server:
        answers = {request: project.answer(server, request) for request in project.approved}
        code, reports = project.check(server)

    differ = [request for request, snapshot in project.approved.items() if answers[request] != snapshot.text]
    record_property("summary", f"model: another batch size: {len(differ)} of {len(answers)} answers differ")
    assert differ, "no answer depends on the batch size here: let the application ask more"
    assert 1 == code
    for request, report in reports.items():
        assert_verdict(report, project.approved[request].text, [answers[request]] * RUNS)


def test_a_reused_cache_is_caught(
    project: Project, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Both turns of a conversation are sent to a server that reuses its cache; each verdict matches the answers.

    The same requests are then sent in the same order, without TraceForge, to a server that was just started.
    """
    order = ("--concurrency", "1")
    codes: list[int] = []
    reports: dict[Messages, dict[str, Any]] = {}
    with local_server(tmp_path / "log", *REUSED) as server:
        for turns in project.conversations():
            code, checked = project.check(server, *order, *(project.approved[request].id for request in turns))
            codes.append(code)
            reports.update(checked)
        varied = [request for request, report in reports.items() if report["verdict"] == "varies"]
        json_requests = server.read_requests()
        assert varied, "no answer depends on what is evaluated again here: let the application ask more"
        turns = next(turns for turns in project.conversations() if varied[0] in turns)
        project.answer(server, next(request for request in project.approved if request not in turns))
        names = [project.approved[request].id for request in turns]
        printed = project.run(server.url, "check-live", "--yes", "--runs", str(RUNS), *order, *names)
        all_requests = server.read_requests()
    with local_server(tmp_path / "log", *REUSED) as server:
        replies = [(request, project.answer(server, request)) for request in all_requests]

    record_property("summary", f"model: a reused KV cache: {len(varied)} of {len(reports)} answers vary")
    assert len(project.approved) * RUNS == len(json_requests)
    for request, report in reports.items():
        answers = [text for sent, text in replies[: len(json_requests)] if sent == request]
        assert_verdict(report, project.approved[request].text, answers)
    verdicts = [{reports[request]["verdict"] for request in turns} for turns in project.conversations()]
    assert [int(kinds != {"same"}) for kinds in verdicts] == codes
    last = [text for sent, text in replies[len(json_requests) + 1 :] if sent == varied[0]]
    assert_printed(printed, project.approved[varied[0]], last)
    (tmp_path / "verdict.txt").write_text(printed.out)  # what the page about local models shows


def assert_printed(ran: CommandResult, approved: Snapshot, answers: Sequence[str]) -> None:
    """The output has the number of runs that differ, the answers, and the first word that differs."""
    verdict, different = expected_verdict(approved.text, answers)
    assert ("varies", 1) == (verdict, ran.code)
    head = "❌ Non-deterministic behavior detected\n"
    counted = f"   {different}/{RUNS} runs produced different outputs\n   → CI fails\n"
    assert f"{head}{counted}   {approved.id}, {APP.name}:" in ran.out
    for text in set(answers):
        runs = f"{answers.count(text)} run{'s' if answers.count(text) > 1 else ''}"
        differs = f"differs from word {first_difference(approved.text, text)[0]} on: "
        label = "the approved answer" if text == approved.text else differs
        assert re.search(rf"^   [A-Z]: {runs}, {label}", ran.out, re.MULTILINE)
    assert RUNS <= len(re.findall(r"^   \d+ +[A-Z] +smollm2-135m ", ran.out, re.MULTILINE))
