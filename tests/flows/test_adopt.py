"""`traceforge record --adopt`: drifted tests of imported cassettes are approved without a provider, and labelled."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cassette_projects import NAMES, install_project, move_project
from support.cassettes import KEY, interaction, write_cassette
from support.command import CommandResult, traceforge
from support.corpus import PROJECT
from support.exchanges import chat_request
from support.model_servers import ModelServer, model_server
from support.proposals import REPEATABLE

PYTEST = ("--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:traceforge")
APP = f"""
import os

import httpx


def ask(question, **more):
    body = {{**{chat_request("", **REPEATABLE)!r}, "messages": [{{"role": "user", "content": question}}], **more}}
    headers = {{"Authorization": "Bearer {KEY}"}}
    answer = httpx.post(os.environ["MODEL_URL"], json=body, headers=headers)
    return answer.json()["choices"][0]["message"]["content"]
"""
TESTS = """
from app import ask


def test_same():
    assert ask("Name a soup.") == "Leek soup."


def test_setting():
    assert ask("Name a pie.", max_tokens=99) == "Apple pie."


def test_order():
    assert ask("Now name a red fruit, please.") == "A cherry."
    assert ask("Now name a green fruit, please.") == "A lime."
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A provider."""
    with model_server() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, server: ModelServer) -> Path:
    """A project whose cassettes are imported and approved, and two of whose three tests have drifted since."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "app.py").write_text(APP)
    (tmp_path / "tests" / "test_bot.py").write_text(TESTS)
    url = model_url(server)
    write_cassette(tmp_path, "test_bot/test_same.json", interaction("Name a soup.", "Leek soup.", url=url))
    write_cassette(tmp_path, "test_bot/test_setting.json", interaction("Name a pie.", "Apple pie.", url=url))
    fruits = [("Name a red fruit.", "A cherry."), ("Name a green fruit.", "A lime.")]
    write_cassette(tmp_path, "test_bot/test_order.json", *(interaction(*fruit, url=url) for fruit in fruits))
    assert 0 == traceforge("import", "vcr", "tests/cassettes", cwd=tmp_path).code
    assert 0 == approve(tmp_path).code
    return tmp_path


def model_url(server: ModelServer) -> str:
    return f"{server.url}/v1/chat/completions"


def run(project: Path, server: ModelServer, *words: str) -> CommandResult:
    """Run a command that runs the suite."""
    return traceforge(*words, *PYTEST, "tests", cwd=project, MODEL_URL=model_url(server), PYTHONPATH="tests")


def approve(project: Path) -> CommandResult:
    return traceforge("approve", "--all", "--reason", "as the suite sends it now", cwd=project)


def read_records(project: Path) -> dict[str, dict[str, Any]]:
    """The approved records by their answer."""
    records = [json.loads(path.read_text())["snapshots"][0] for path in project.glob(".ai-snapshots/openai/*.json")]
    return {record["response"]["content"]: record for record in records}


def test_drifted_calls_are_adopted_approved_and_green(project: Path, server: ModelServer) -> None:
    """Nothing reaches the provider; every report names the answers that it never gave."""
    before = read_records(project)
    red = run(project, server, "test")

    adopted = run(project, server, "record", "--adopt")
    status = traceforge("status", cwd=project)
    shown = traceforge("diff", cwd=project)
    approved = approve(project)
    green = run(project, server, "test")
    verified = traceforge("verify", cwd=project)

    assert 1 == red.code, red
    assert 0 == adopted.code, adopted
    assert "4 model calls: 1 answered from snapshots, 3 with an adopted answer\n" in adopted.err
    assert "changed (request): 3" in adopted.err
    assert 3 == status.out.count("an adopted answer, never given to this request"), status
    assert (3, True) == (shown.out.count("the answer is adopted"), "{+Now" in shown.out), shown
    assert 3 == approved.out.count("with an adopted answer that no provider gave to this request"), approved
    assert (0, 0) == (green.code, server.served), green
    for report in (green.err, verified.out):
        assert "note: adopted answers: 3, which no provider gave to these requests" in report
    after = read_records(project)
    assert {name: record["id"] for name, record in before.items()} == {
        name: record["id"] for name, record in after.items()
    }
    assert "adopted_from" not in after["Leek soup."]["response"]
    for name in ("Apple pie.", "A cherry.", "A lime."):
        assert before[name]["hash"] == after[name]["response"]["adopted_from"]
        assert "request" == after[name]["request"]["gate"]
    assert 99 == after["Apple pie."]["request"]["max_tokens"]
    state = [
        path for name in (".ai-tests", ".ai-snapshots") for path in (project / name).rglob("*") if path.is_file()
    ]
    assert [] == [path for path in state if KEY.encode() in path.read_bytes()]


def test_a_prompt_edit_after_an_adoption_is_red_and_can_be_adopted_again(project: Path, server: ModelServer) -> None:
    """The label still names the snapshot that the answer was recorded with."""
    before = read_records(project)
    assert 0 == run(project, server, "record", "--adopt").code
    assert 0 == approve(project).code
    test_file = project / "tests" / "test_bot.py"
    test_file.write_text(test_file.read_text().replace("Name a pie.", "Name a sweet pie."))

    red = run(project, server, "test")
    adopted = run(project, server, "record", "--adopt")

    assert (1, True) == (red.code, "{+sweet" in red.err), red
    assert (0, True) == (adopted.code, "changed (request): 1" in adopted.err), adopted
    assert 0 == approve(project).code
    assert before["Apple pie."]["hash"] == read_records(project)["Apple pie."]["response"]["adopted_from"]
    assert 0 == run(project, server, "test").code


def test_a_live_answer_takes_the_place_of_an_adopted_one(project: Path, server: ModelServer) -> None:
    """After `record --fresh` no label is left, and an answer that was recorded live is not adopted."""
    assert 0 == run(project, server, "record", "--adopt").code
    assert 0 == approve(project).code
    test_file = project / "tests" / "test_bot.py"
    test_file.write_text(test_file.read_text().replace(" ==", " or"))

    live = run(project, server, "record", "--fresh")
    assert 0 == approve(project).code
    verified = traceforge("verify", cwd=project)
    test_file.write_text(test_file.read_text().replace("Name a pie.", "Name a sweet pie."))
    refused = run(project, server, "record", "--adopt")

    assert (0, 4) == (live.code, server.served), live
    assert (0, False) == (verified.code, "adopted" in verified.out), verified
    assert (3, True) == (refused.code, "no approved snapshot was imported" in refused.err), refused


def test_a_call_without_an_imported_one_like_it_is_named(project: Path, server: ModelServer) -> None:
    """The others are adopted, and the exit code is not 0."""
    test_file = project / "tests" / "test_bot.py"
    new_test = 'def test_new():\n    try:\n        ask("Name a cake.")\n    except KeyError:\n        pass\n'
    test_file.write_text(f"{test_file.read_text()}\n\n{new_test}")

    ran = run(project, server, "record", "--adopt")

    assert 3 == ran.code, ran
    assert "1 answered from snapshots, 3 with an adopted answer, 1 without an answer" in ran.err
    assert "no imported call left to adopt an answer from: 1" in ran.err
    assert "tests/test_bot.py::test_new: no recorded call matches" in ran.err
    assert "traceforge record -- COMMAND" in ran.err
    assert 0 == server.served


def test_adopting_needs_imported_snapshots_and_asks_no_provider(tmp_path: Path) -> None:
    """Each error says what to do."""
    (tmp_path / "traceforge.config.json").write_text("{}")

    ran = traceforge("record", "--adopt", "--", "true", cwd=tmp_path)
    both = traceforge("record", "--adopt", "--fresh", "--", "true", cwd=tmp_path)

    assert (3, True) == (ran.code, "traceforge import vcr DIR" in ran.err), ran
    assert (2, True) == (both.code, "--adopt asks no provider" in both.err), both


PAGE = PROJECT / "docs" / "how-to" / "import-cassettes.md"
PROMPTS = {
    "llm-anthropic": ("tests/test_anthropic.py", "Two names for a pet pelican, be brief"),
    "llm-gemini": ("tests/test_gemini.py", "Name for a pet pelican, just the name"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_real_project_leaves_vcrpy_without_a_provider(tmp_path: Path, name: str) -> None:
    """Imported, adopted and approved it is green without a network, and red after an edit of a prompt."""
    moved = move_project(install_project(name, tmp_path))
    green = moved.test()
    file, prompt = PROMPTS[name]
    suite = moved.project.folder / file
    suite.write_text(suite.read_text().replace(prompt, f"{prompt}, please"))
    red = moved.test()

    assert 0 == moved.adopted.code, moved.adopted
    assert moved.table_row in PAGE.read_text()
    assert (0, True) == (green.code, "GREEN: " in green.err), green
    assert (1, True) == (red.code, "{+, please+}" in red.err), red
