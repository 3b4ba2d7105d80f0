"""`traceforge snapshot migrate`: all of an old tree is migrated, or nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project, record_change
from support.command import CommandResult, traceforge

SETS = ["--set", "temperature=0", "--set", "max_tokens=20", "--set", "file=app.py", "--set", "finish_reason=stop"]


def old_record(name: str, **changes: Any) -> dict[str, Any]:
    """A record of 0.9.0 without four fields."""
    return {
        "id": name, "timestamp": "2025-06-01T08:00:00Z", "line": 1, "function": "", "model": "gpt-4-turbo",
        "prompt": "Hi", "seed": 1, "response": "Hello", "tokens_used": 2, "latency_ms": 5, **changes,
    }  # fmt: skip


def write(project: Project, file: str, *records: dict[str, Any]) -> None:
    """Write a document of 0.9.0."""
    path = project.root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": "0.9.0", "snapshots": records}))


def migrate(project: Project, *options: str, **variables: str) -> CommandResult:
    return traceforge(
        "snapshot", "migrate", "--from", "0.9.0", "--to", "1.0.0", *options, cwd=project.folder, **variables
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One record of 1.0.0 that was approved, and three of 0.9.0 in two documents."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = Project(tmp_path / "repository")
    repository.approve(record_change("new"))
    write(repository, "openai/one.json", old_record("one"))
    write(repository, "openai/all.json", old_record("two"), old_record("three", temperature=0.0))
    return repository


def tree(project: Project) -> dict[str, bytes]:
    """Every file of the tree."""
    return {str(path.relative_to(project.root)): path.read_bytes() for path in project.root.rglob("*.json")}


def test_a_whole_tree_is_migrated_and_approved(project: Project) -> None:
    """Each record gets its own file; valid documents are unchanged."""
    before = tree(project)
    result = migrate(project, *SETS, "--tag", "v1")

    assert (0, "migrated: 3 records of 2 documents") == (result.code, result.out.splitlines()[0])
    after = tree(project)
    assert {"openai/new.json", "openai/one.json", "openai/two.json", "openai/three.json"} == {
        file for file in after if file.startswith("openai/")
    }
    assert before["openai/new.json"] == after["openai/new.json"]
    verified = traceforge("verify", cwd=project.folder)
    assert (0, "checked 2 approvals, 4 snapshots (2 prompt and answer, 2 prompt only): all valid\n") == (
        verified.code,
        verified.out,
    )
    record = json.loads(traceforge("snapshot", "show", "three", "--json", cwd=project.folder).out)
    assert ["source.file", "max_tokens", "response.finish_reason"] == record["record"]["request"]["declared"]
    assert ("migrated from 0.9.0 to 1.0.0", "v1") == (record["approvals"][0]["reason"], record["approvals"][0]["tag"])


def test_missing_fields_of_every_record_are_named_and_nothing_is_written(project: Project) -> None:
    """File, field and fix; exit 1."""
    before = tree(project)
    result = migrate(project, *SETS[:6])

    assert 1 == result.code
    assert 3 == result.out.count("requires response.finish_reason")
    assert 2 == result.out.count("--set finish_reason=VALUE")  # Once for the two records of one file.
    assert ".ai-snapshots/openai/all.json: $.snapshots[1].finish_reason: SN1" in result.out
    assert before == tree(project)


@pytest.mark.parametrize(
    ("file", "records", "rule"),
    [
        ("openai/more.json", [old_record("four", seed=...)], "SN8"),
        ("openai/more.json", [old_record("one")], "SN1"),
    ],
    ids=["no seed", "twice"],
)
def test_a_migration_that_verify_would_refuse_is_not_written(
    project: Project, file: str, records: list[dict[str, Any]], rule: str
) -> None:
    """The policy of a strict project holds, and ids are unique."""
    (project.folder / "traceforge.config.json").write_text('{"determinism": "strict"}')
    cleaned = [{name: value for name, value in fields.items() if value is not ...} for fields in records]
    write(project, file, *cleaned)
    before = tree(project)
    result = migrate(project, *SETS)

    assert (1, True, before) == (result.code, rule in result.out, tree(project))


def test_wrong_usage_is_exit_code_2(project: Project) -> None:
    """Another version, an unknown name, CI."""
    before = tree(project)
    other = traceforge("snapshot", "migrate", "--from", "0.8.0", "--to", "1.0.0", cwd=project.folder)

    assert (2, True) == (other.code, "--from 0.9.0 --to 1.0.0" in other.err)
    assert 2 == migrate(project, "--set", "seed=1").code
    assert 2 == migrate(project, "--set", "temperature").code
    assert 2 == migrate(project, *SETS, CI="true").code
    assert (1, True) == (
        (result := migrate(project, *SETS, "--set", "temperature=hot")).code,
        "must be number" in result.out,
    )
    assert before == tree(project)


def test_a_tree_without_old_documents_has_nothing_to_migrate(project: Project) -> None:
    """Exit 3."""
    assert 0 == migrate(project, *SETS).code
    assert 3 == migrate(project, *SETS).code


def test_every_other_command_refuses_an_old_tree(project: Project) -> None:
    """With the message of the specification."""
    for command in (["verify"], ["snapshot", "verify"], ["snapshot", "manifest"]):
        result = traceforge(*command, cwd=project.folder)
        assert 1 == result.code
        assert "Snapshot version 0.9.0 is no longer supported. Current version: 1.0.0" in result.out
        assert "Re-record all snapshots: traceforge record --replace-old" in result.out
    result = traceforge("snapshot", "rm", "new", "--reason", "x", cwd=project.folder)
    assert (1, True) == (result.code, "0.9.0 is no longer supported" in result.out)
