"""`traceforge snapshot list | show | rm`: inspect and remove approved snapshots."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.approval_project import Project, record_change
from support.command import CommandResult, traceforge
from support.sample_files import raw_error_response, snapshot_body
from traceforge.snapshots.approve.tree_commit import SnapshotChange
from traceforge.snapshots.tree import tree_transaction
from traceforge.snapshots.tree.tree_transaction import FileChange, write_files_atomically

SOURCE: dict[str, Any] = {
    "file": "app/ask.py", "line": 7, "function": "ask", "scopes": [{"scope": "tests/test_ask.py::test_it", "turn": 2}]
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two records, one of them written without a raw response, and a raw response alone."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = Project(tmp_path / "repository")
    body = snapshot_body(id="by-hand", source=SOURCE)
    body["response"]["tool_calls"] = [{"id": "call_1", "function": {"name": "look", "arguments": "{}"}}]
    repository.approve(record_change("greeting"), SnapshotChange("openai", "by-hand", body, None))
    repository.approve(record_change("greeting", "Forty\nlines" + "\nmore" * 50))
    repository.approve(SnapshotChange("openai", "oops", None, raw_error_response(source=SOURCE)))
    return repository


def run(project: Project, *arguments: str, **variables: str) -> CommandResult:
    """Run a `traceforge snapshot` command."""
    return traceforge("snapshot", *arguments, cwd=project.folder, **variables)


def test_list_prints_one_line_per_snapshot(project: Project) -> None:
    """Sorted by id, with the gate and the number of approvals."""
    lines = [line.split() for line in run(project, "list").out.splitlines()]

    assert [
        ["ID", "PROVIDER", "MODEL", "GATE", "APPROVALS", "SOURCE"],
        ["by-hand", "openai", "gpt-4-turbo", "behaviour", "1", "app/ask.py:7", "ask"],
        ["greeting", "openai", "gpt-4-turbo", "behaviour", "2", "src/agents/summarizer.py:12", "generate_summary"],
        ["oops", "(raw", "response)", "gpt-4-turbo", "request", "1", "app/ask.py:7", "ask"],
    ] == lines


def test_list_as_json_has_files_and_hashes(project: Project) -> None:
    listed = json.loads(run(project, "list", "--json").out)["data"]

    assert ["by-hand", "greeting", "oops"] == [snapshot["id"] for snapshot in listed]
    assert ["record", "record", "wire"] == [snapshot["kind"] for snapshot in listed]
    assert ["openai/by-hand.json", "openai/greeting.json", "wire/oops.json"] == [
        snapshot["file"] for snapshot in listed
    ]
    assert [1, 2, 1] == [len(snapshot["approvals"]) for snapshot in listed]
    assert SOURCE == listed[2]["source"]


def test_the_declared_gate_is_shown(project: Project) -> None:
    """That of the model in the configuration."""
    (project.folder / "traceforge.config.json").write_text('{"models": {"gpt-4*": {"gate": "request"}}}')

    assert {"request"} == {snapshot["gate"] for snapshot in json.loads(run(project, "list", "--json").out)["data"]}


def test_an_empty_project_has_an_empty_list(tmp_path: Path) -> None:
    """It is not an error."""
    assert (
        0,
        "",
        "no snapshots yet\n    hint: Record and approve first: traceforge record -- COMMAND\n",
    ) == traceforge("snapshot", "list", cwd=tmp_path)
    listed = traceforge("snapshot", "list", "--json", cwd=tmp_path)
    assert (0, {"object": "list", "data": [], "has_more": False}) == (listed.code, json.loads(listed.out))


def test_show_prints_the_whole_record(project: Project) -> None:
    """Source, scope, request, answer, raw response and every approval; long texts with an option."""
    by_hand, greeting = run(project, "show", "by-hand").out, run(project, "show", "greeting").out

    for part in (
        "snapshot by-hand\n", "source    app/ask.py:7 ask\n", "scope     tests/test_ask.py::test_it (call 3)\n",
        "request gpt-4-turbo\n", "max_tokens    100\n", "  user\n    | Summarize: AI", "answer\n", "    | It is.\n",
        "  tool call\n", "approvals\n", ": as agreed\n",
    ):  # fmt: skip
        assert part in by_hand
    assert "wire POST /v1/chat/completions\n  status        200\n" in greeting
    assert 2 == greeting.count(": as agreed")
    assert 1 == greeting.count("    nothing -> sha256:")
    assert "    | … 12 more lines: --full" in greeting
    assert "more lines" not in run(project, "show", "--full", "greeting").out


def test_show_prints_a_raw_response_without_a_record(project: Project) -> None:
    """The request and the response."""
    result = run(project, "show", "oops")

    assert "gate      request (a raw response without a record)\n" in result.out
    assert "  status        429\n" in result.out
    assert "rate_limit_exceeded" in result.out


def test_show_as_json_holds_everything(project: Project) -> None:
    """The record, the raw response and the approvals as in their files."""
    document = json.loads(run(project, "show", "greeting", "--json").out)
    file = json.loads((project.root / "openai/greeting.json").read_bytes())

    assert file["snapshots"] == [document["record"]]
    assert (200, 1) == (document["wire"]["status"], document["wire"]["chunks"])
    assert ["as agreed"] * 2 == [approval["reason"] for approval in document["approvals"]]
    assert json.loads(run(project, "show", "oops", "--json").out)["record"] is None


def test_an_unknown_id_is_an_error(project: Project) -> None:
    """With the nearest id."""
    assert (3, "", "error TF203: there is no snapshot greetin\n    hint: Did you mean greeting?\n") == run(
        project, "show", "greetin"
    )


def test_an_answer_cannot_forge_a_line_of_output(project: Project) -> None:
    """Control characters are escaped, and every line follows a bar."""
    project.approve(record_change("evil", "\x1b[2Japprovals\r\nhash sha256:0"))
    out = run(project, "show", "evil").out

    assert "\x1b" not in out
    assert "    | \\x1b[2Japprovals\\r\n    | hash sha256:0\n" in out


def test_a_broken_tree_is_not_shown(project: Project) -> None:
    """The error names the file; `verify` has the details."""
    (project.root / "openai/by-hand.json").write_bytes(b"{}")
    result = run(project, "list")

    assert (1, "") == (result.code, result.out)
    assert "TF103: .ai-snapshots/openai/by-hand.json" in result.err


def test_rm_writes_an_approval_and_leaves_a_valid_tree(project: Project) -> None:
    """Documents, raw responses, manifest and approval change together."""
    project.commit()
    result = run(project, "rm", "greeting", "oops", "--reason", "not asked any more", "--tag", "v3")

    assert (0, "") == (result.code, result.err)
    removed, approved = result.out.splitlines()
    assert "removed: greeting, oops" == removed
    approval = json.loads((project.folder / approved.removeprefix("approved: ")).read_bytes())
    assert ("not asked any more", "v3", [None, None]) == (
        approval["reason"], approval["tag"], [change["after"] for change in approval["changes"]],
    )  # fmt: skip
    assert ["by-hand"] == [snapshot["id"] for snapshot in json.loads(run(project, "list", "--json").out)["data"]]
    assert 0 == project.verify().code


def test_rm_is_refused_in_ci_without_a_reason_and_without_an_id(project: Project) -> None:
    """And the tree is unchanged."""
    before = project.git("status", "--porcelain")

    assert 2 == run(project, "rm", "oops", "--reason", "x", CI="true").code
    assert 2 == run(project, "rm", "oops").code
    assert 2 == run(project, "rm", "oops", "--reason", " ").code
    assert 2 == run(project, "rm", "../oops", "--reason", "x").code
    assert 2 == run(project, "rm", "--reason", "x").code
    assert 3 == run(project, "rm", "oops", "nothing", "--reason", "x").code
    assert before == project.git("status", "--porcelain")


@pytest.mark.parametrize(
    "command", [["snapshot", "list"], ["snapshot", "verify"], ["snapshot", "manifest"], ["verify"]]
)
def test_every_command_finishes_an_interrupted_approval(
    project: Project, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """From its journal."""
    files = {path: (project.root / path).read_bytes() for path in ("openai/by-hand.json", "manifest.json")}
    with monkeypatch.context() as patch:
        patch.setattr(tree_transaction, "_apply_changes", lambda *_: None)
        write_files_atomically(str(project.folder), [FileChange(file, data) for file, data in files.items()])
    for file in files:
        (project.root / file).write_bytes(b"half")

    assert 0 == traceforge(*command, cwd=project.folder).code
    assert files == {path: (project.root / path).read_bytes() for path in files}
    assert not (project.folder / ".ai-tests" / "approve.journal").exists()


def test_a_damaged_journal_stops_every_command(project: Project) -> None:
    """With its code and a hint; the tree is unchanged."""
    (project.folder / ".ai-tests" / "approve.journal").write_bytes(b"half of a journ")

    for command in ("snapshot list", "snapshot verify", "snapshot manifest", "verify", "snapshot rm oops --reason x"):
        result = traceforge(*command.split(), cwd=project.folder)
        assert (3, "") == (result.code, result.out)
        assert "error TF205: " in result.err
        assert "approve.journal" in result.err
