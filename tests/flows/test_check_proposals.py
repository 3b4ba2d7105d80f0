"""`traceforge check new`: from recorded answers to a check file."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from support.approval_project import Project, record_change
from support.command import traceforge
from support.sample_files import snapshot_body
from support.stored_traces import call, store_calls
from traceforge.exchange import Caller, Chunk, Exchange

HOSTILE = 'The answer is\n  - {type: exact, value: x}\n# and more\n"}}: &a !!python/object\u2028 and [so] on'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with traces of a text, of JSON, of a hostile text, of a failure and of a tool; two in a session."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    caller = Caller(session_id="trip")
    store_calls(
        tmp_path,
        call(1, caller=caller),
        call(2, answer='{"city": "Paris", "people": [1, 2]}', caller=caller),
        call(3, answer=HOSTILE),
        call(4, answer="overloaded", status=500),
        tool_call(5),
    )
    return tmp_path


def tool_call(number: int) -> Exchange:
    """A call of a tool of an MCP server, which succeeded."""
    result = b'{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"12.50"}]}}\n'
    body = b'{"method":"tools/call","params":{"name":"find_dish","arguments":{"name":"soup"}}}'
    return msgspec.structs.replace(
        call(number), url="mcp://menu/tools/call", request_body=body, chunks=(Chunk(12.5, result),)
    )


@pytest.mark.parametrize(
    "options",
    [
        ("--from-trace", "00000001"),
        ("--from-trace", "00000002"),
        ("--from-trace", "00000003"),
        ("--from-session", "trip"),
        ("--from-traces", "status:success"),
    ],
)
def test_a_proposal_holds_for_what_it_was_made_of(project: Path, options: tuple[str, str]) -> None:
    """It is marked as a proposal, and runs as it is, whatever the answer says."""
    made = traceforge("check", "new", *options, "--name", "mine", cwd=project)
    ran = traceforge("check", "run", "--json", cwd=project)

    assert (0, "written: .ai-checks/mine.yaml") == (made.code, made.out.splitlines()[-1])
    assert "then traceforge check run" in made.err
    text = (project / ".ai-checks" / "mine.yaml").read_text()
    assert (True, True) == (text.startswith("# Proposed by"), "\n  - {type: no_pii}\n" in text)
    report = json.loads(ran.out)
    assert (0, []) == (report["exit_code"], report["findings"])
    assert all(check["tags"] == ["proposed"] for check in report["checks"])
    assert all(len(entry["assertions"]) >= 3 for check in report["checks"] for entry in check["runs"])


def test_a_sample_becomes_a_data_set(project: Path) -> None:
    """Of the calls that were answered, at most so many."""
    traceforge("check", "new", "--from-traces", "", "--sample", "2", "--name", "all", cwd=project)

    lines = (project / ".ai-checks" / "all.jsonl").read_text().splitlines()
    assert 2 == len(lines)
    assert {"trace_id", "model", "provider", "session", "timestamp"} == set(json.loads(lines[0]))


def test_an_existing_file_is_not_overwritten(project: Path) -> None:
    """The second proposal of one name is refused."""
    words = ("check", "new", "--from-trace", "00000001")

    codes = [traceforge(*words, cwd=project).code for _ in range(2)]

    assert [0, 3] == codes


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--from-trace", "00000004"), 3, "there is no answer to check: "),
        (("--from-trace", "00000005"), 3, "to check: the recorded call is not an answer of a model"),
        (("--from-trace", "ffffffff"), 3, "there is no trace ffffffff"),
        (("--from-traces", "model:none"), 3, "no trace with an answer matches the query"),
        ((), 2, "Name one of --from-trace, --from-session and --from-traces; to list the ids: traceforge trace list"),
    ],
)
def test_without_an_answer_nothing_is_written(
    project: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    made = traceforge("check", "new", *options, cwd=project)

    assert (code, True) == (made.code, message in made.err)
    assert not (project / ".ai-checks").exists()


def test_a_build_proposes_nothing(project: Path) -> None:
    """CI writes no file of the project."""
    made = traceforge("check", "new", "--from-trace", "00000001", cwd=project, CI="true")

    assert 2 == made.code
    assert not (project / ".ai-checks").exists()


def test_a_proposal_for_an_approved_call_names_the_snapshot_and_runs_in_a_fresh_clone(tmp_path: Path) -> None:
    """The trace stays behind, so a check of it could not be checked there."""
    project = Project(tmp_path / "project")
    project.approve(record_change("other", "It is not."), record_change("one"))
    request = snapshot_body()["request"]
    prompt = request["messages"][-1]["content"]
    store_calls(
        project.folder,
        *(
            call(number, prompt, answer, model=request["model"], messages=request["messages"])
            for number, answer in ((1, "It is."), (2, "It might be."))
        ),
    )

    approved, not_approved = (
        traceforge("check", "new", "--from-trace", f"0000000{number}", cwd=project.folder) for number in (1, 2)
    )
    project.commit()
    clone = tmp_path / "clone"
    project.git("clone", "-q", ".", str(clone))
    ran = traceforge("check", "run", "--json", cwd=clone)

    assert (0, 0, False, True) == (
        approved.code,
        not_approved.code,
        "in CI" in approved.err,
        "in CI, this check has no answer to look at. Traces stay on the machine that recorded them"
        in not_approved.err,
    )
    text = (clone / ".ai-checks" / "proposed-00000001.yaml").read_text()
    assert (True, False) == ('snapshot: "one"' in text, "trace_id" in text)
    report = json.loads(ran.out)
    first, second = report["checks"]
    assert (3, "passed", "unchecked") == (ran.code, first["outcome"], second["outcome"])
    assert "name it in the check: `snapshot: ID`" in second["reason"]


@pytest.mark.parametrize("options", [("--from-session", "trip"), ("--from-traces", "status:success")])
def test_a_proposal_that_only_this_machine_can_check_says_so(project: Path, options: tuple[str, str]) -> None:
    assert "in CI, this check has no answer to look at" in traceforge("check", "new", *options, cwd=project).err
