"""`traceforge record --replace-old`: a tree of an older version is recorded again, call by call."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project
from support.command import CommandResult, traceforge
from support.model_servers import ModelServer, model_server

PROGRAM = """
    import os, sys, httpx
    for question in sys.argv[1:]:
        body = {"model": "gpt-x", "messages": [{"role": "user", "content": question}], "temperature": 0, "seed": 1}
        httpx.post(os.environ["URL"] + "/v1/chat/completions", json={**body, "max_tokens": 20}).raise_for_status()
"""


def _old_record(name: str, question: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}]
    return {
        "id": name, "timestamp": "2025-06-01T08:00:00Z", "model": "gpt-x", "messages": messages, "response": "old",
    }  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One for all tests of this file."""
    with model_server() as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A document of 0.9.0 with one record, another with two, and a manifest of that version."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = Project(tmp_path / "repository")
    (repository.folder / "app.py").write_text(textwrap.dedent(PROGRAM))
    _write(repository, "openai/france.json", _old_record("france", "France?"))
    _write(repository, "openai/more.json", _old_record("italy", "Italy?"), _old_record("spain", "Spain?"))
    (repository.root / "manifest.json").write_text('{"version": "0.9.0"}')
    return repository


def _write(project: Project, file: str, *records: dict[str, Any], version: str = "0.9.0") -> None:
    path = project.root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": version, "snapshots": records}))


def _record(project: Project, server: ModelServer, *questions: str, options: tuple[str, ...] = ()) -> CommandResult:
    words = ("record", *options, "--", sys.executable, "app.py", *questions)
    return traceforge(*words, cwd=project.folder, URL=server.url)


def _approve(project: Project) -> CommandResult:
    return traceforge("approve", "--all", "--reason", "recorded again", cwd=project.folder)


def test_an_old_tree_is_replaced_call_by_call(project: Project, server: ModelServer) -> None:
    """What was not recorded stays, is listed, and is replaced by a later run; then the tree is valid."""
    served = server.served
    refused = _record(project, server, "France?")

    assert (1, served) == (refused.code, server.served)
    assert "Re-record all snapshots: traceforge record --replace-old -- COMMAND" in refused.err

    first = _record(project, server, "France?", "Italy?", options=("--replace-old",))
    approved = _approve(project)
    verified = traceforge("verify", "--json", cwd=project.folder)

    assert (0, 0) == (first.code, approved.code), first.err + approved.err + approved.out
    assert "snapshots of an older version: 2 replaced when you approve, 1 remain" in first.err
    assert "openai/more.json: spain remains" in first.err
    assert ["france.json", "italy.json", "more.json"] == sorted(os.listdir(project.root / "openai"))
    findings = json.loads(verified.out)["findings"]
    assert [("SN2", ".ai-snapshots/openai/more.json")] == [(item["rule"], item["file"]) for item in findings]

    served = server.served
    second = _record(project, server, "France?", "Italy?", "Spain?", options=("--replace-old",))
    approved = _approve(project)
    verified = traceforge("verify", cwd=project.folder)
    tested = traceforge(
        "test", "--", sys.executable, "app.py", "France?", "Italy?", "Spain?", cwd=project.folder, URL=server.url
    )

    assert (0, 0) == (second.code, approved.code), second.err + approved.err
    assert "3 model calls: 2 answered from snapshots, 1 live" in second.err
    assert served + 1 == server.served
    assert ["france.json", "italy.json", "spain.json"] == sorted(os.listdir(project.root / "openai"))
    assert (0, 0) == (verified.code, tested.code), verified.out + tested.err


def test_a_document_is_not_overwritten_before_each_of_its_calls_is_replaced(
    project: Project, server: ModelServer
) -> None:
    """The new record would have the file of an old document with two records."""
    _write(project, "openai/france.json", _old_record("france", "France?"), _old_record("rome", "Rome?"))
    before = (project.root / "openai/france.json").read_bytes()
    recorded = _record(project, server, "France?", options=("--replace-old",))
    refused = _approve(project)

    assert (0, 1) == (recorded.code, refused.code), recorded.err + refused.err
    assert "the document of an older version also has rome" in refused.out + refused.err
    assert before == (project.root / "openai/france.json").read_bytes()


def test_a_newer_version_is_not_replaced(project: Project, server: ModelServer) -> None:
    _write(project, "openai/france.json", _old_record("france", "France?"), version="2.0.0")
    refused = _record(project, server, "France?", options=("--replace-old",))

    assert 1 == refused.code
    assert "Snapshot version 2.0.0 is newer than the current version: 1.0.0" in refused.err
    assert "Upgrade TraceForge" in refused.err


MIGRATE = ("snapshot", "migrate", "--from", "0.9.0", "--to", "1.0.0")
SUPPLIED = {
    "temperature": "0", "max_tokens": "20", "file": "app.py", "line": "1", "function": "ask",
    "tokens_used": "1", "latency_ms": "1", "finish_reason": "stop",
}  # fmt: skip


@pytest.fixture
def relabelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> Project:
    """Two recorded and approved calls, whose files then say version 0.9.0 and are otherwise of today."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = Project(tmp_path / "repository")
    (repository.folder / "app.py").write_text(textwrap.dedent(PROGRAM))
    assert 0 == _record(repository, server, "France?", "Italy?").code
    assert 0 == _approve(repository).code
    for path in (repository.root / "openai").iterdir():
        path.write_text(path.read_text().replace('"version": "1.0.0"', '"version": "0.9.0"'))
    return repository


def test_files_of_the_current_shape_with_an_old_version_answer_nothing_and_are_replaced(
    relabelled: Project, server: ModelServer
) -> None:
    """Their raw responses answer nothing either, and an equal call is a pending change."""
    files = sorted(os.listdir(relabelled.root / "openai"))
    served = server.served
    command = ("test", "--", sys.executable, "app.py", "France?", "Italy?")
    red = traceforge(*command, cwd=relabelled.folder, URL=server.url)

    assert (1, served) == (red.code, server.served), red.err

    recorded = _record(relabelled, server, "France?", "Italy?", options=("--replace-old",))

    assert (0, served + 2) == (recorded.code, server.served), recorded.err
    assert "2 model calls: 0 answered from snapshots, 2 live" in recorded.err
    assert "snapshots of an older version: 2 replaced when you approve, 0 remain" in recorded.err

    approved = _approve(relabelled)
    verified = traceforge("verify", cwd=relabelled.folder)
    green = traceforge(*command, cwd=relabelled.folder, URL=server.url)

    assert (0, 0, 0) == (approved.code, verified.code, green.code), approved.err + verified.out + green.err
    assert (files, served + 2) == (sorted(os.listdir(relabelled.root / "openai")), server.served)


def test_a_document_of_the_current_shape_with_two_records_is_replaced_in_two_runs(
    relabelled: Project, server: ModelServer
) -> None:
    """The new raw response is not the one that the old record names: that is no finding of its own."""
    paths = sorted((relabelled.root / "openai").iterdir())
    records = [record for path in paths for record in json.loads(path.read_text())["snapshots"]]
    for path in paths:
        path.unlink()
    _write(relabelled, "openai/both.json", *records)
    (relabelled.root / "manifest.json").write_text('{"version": "0.9.0"}')
    first = _record(relabelled, server, "France?", options=("--replace-old",))
    approved = _approve(relabelled)
    verified = traceforge("verify", "--json", cwd=relabelled.folder)

    assert (0, 0) == (first.code, approved.code), first.err + approved.out + approved.err
    findings = json.loads(verified.out)["findings"]
    assert [("SN2", ".ai-snapshots/openai/both.json")] == [(item["rule"], item["file"]) for item in findings]

    second = _record(relabelled, server, "France?", "Italy?", options=("--replace-old",))
    approved = _approve(relabelled)
    verified = traceforge("verify", cwd=relabelled.folder)

    assert "1 replaced when you approve, 1 already recorded again, 0 remain" in second.err
    assert (0, 0) == (approved.code, verified.code), approved.out + approved.err + verified.out
    assert [path.name for path in paths] == sorted(os.listdir(relabelled.root / "openai"))


def test_the_rest_of_a_document_is_migrated(project: Project, server: ModelServer) -> None:
    """The hint names what remains; the record that was recorded again is left out, and is not asked for values."""
    more = [_old_record("italy", "Italy?"), {**_old_record("spain", "Spain?"), "seed": 1}]
    _write(project, "openai/more.json", *more)
    _record(project, server, "France?", "Italy?", options=("--replace-old",))
    assert 0 == _approve(project).code
    new_file = (project.root / "openai/italy.json").read_bytes()
    verified = traceforge("verify", cwd=project.folder)
    incomplete = traceforge(*MIGRATE, cwd=project.folder)

    assert "hint: Not recorded again: spain. Re-record all snapshots: traceforge record --replace-old" in verified.out
    assert f"or: traceforge {' '.join(MIGRATE)}" in verified.out
    assert "$.snapshots[1].temperature" in incomplete.out
    assert "$.snapshots[0]" not in incomplete.out

    sets = [word for name, value in SUPPLIED.items() for word in ("--set", f"{name}={value}")]
    migrated = traceforge(*MIGRATE, *sets, cwd=project.folder)

    assert 0 == migrated.code, migrated.out + migrated.err
    assert ["migrated: 1 record of 1 document", "left out: italy (already recorded again)"] == (
        migrated.out.splitlines()[:2]
    )
    assert ["france.json", "italy.json", "spain.json"] == sorted(os.listdir(project.root / "openai"))
    assert new_file == (project.root / "openai/italy.json").read_bytes()


def test_a_document_whose_records_are_all_recorded_again_is_never_announced_as_pending(
    project: Project, server: ModelServer
) -> None:
    """Such as one that a merge brought back: nothing is pending, and the hint says what to do."""
    questions = ("France?", "Italy?", "Spain?")
    _record(project, server, *questions, options=("--replace-old",))
    assert 0 == _approve(project).code
    _write(project, "openai/merged.json", _old_record("italy", "Italy?"))
    verified = traceforge("verify", cwd=project.folder)
    recorded = _record(project, server, *questions, options=("--replace-old",))

    assert "Each of its records is recorded again: delete the file." in verified.out
    assert "replaced when you approve" not in recorded.err
    assert "snapshots of an older version: 1 already recorded again, 0 remain" in recorded.err

    migrated = traceforge(*MIGRATE, cwd=project.folder)
    assert (0, True) == (migrated.code, "left out: italy (already recorded again)" in migrated.out), migrated.out
    assert 0 == traceforge("verify", cwd=project.folder).code
