"""`traceforge check`: assertions about recorded answers, from the file to the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command import CommandResult, traceforge
from support.stored_traces import call, store_calls, trace_id
from traceforge.exchange import Caller

CHECK = "name: {name}\n{source}\nassertions:\n  - {{type: contains, value: Paris}}\n"


def write_check(project: Path, source: str, name: str = "a", extra: str = "") -> None:
    folder = project / ".ai-checks"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(CHECK.format(name=name, source=source) + extra)


def run(project: Path, *options: str) -> CommandResult:
    return traceforge("check", "run", *options, cwd=project)


def read_json(result: CommandResult) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.out)
    assert result.code == document["exit_code"]
    return document


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with three traces: an answer, a refusal, and a failure of the provider."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    store_calls(
        tmp_path,
        call(1),
        call(2, "Say it.", "I'm sorry, but I can't help with that."),
        call(3, answer="overloaded", status=500),
    )
    return tmp_path


def test_a_check_that_holds_is_green(project: Path) -> None:
    """Its answer is the recorded one."""
    write_check(project, "trace_id: '00000001'")

    ran = run(project)

    assert (0, "") == (ran.code, ran.err)
    assert ".ai-checks/a.yaml::a" in ran.out
    assert ran.out.endswith("1 check: 1 passed\n")


def test_a_failure_says_what_was_expected_what_there_is_and_where(project: Path) -> None:
    """With the line of the assertion."""
    write_check(project, "trace_id: '00000002'")

    ran = run(project)

    assert 1 == ran.code
    assert f"    .ai-checks/a.yaml:4: contains, in {trace_id(2)}\n" in ran.out
    assert '        expected: a text with "Paris"\n' in ran.out
    assert "        got:      \"I'm sorry, but I can't help with that.\"\n" in ran.out


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("trace_id: '00000003'", "overloaded"),
        ("trace_id: 'ffffffff'", "there is no trace ffffffff"),
        ("session: unknown", "there is no session unknown"),
        ("snapshot: unknown", "there is no snapshot unknown"),
        ("request: {model: m, prompt: x}", "no recorded answer"),
    ],
)
def test_without_an_answer_nothing_is_green_and_nothing_failed(project: Path, source: str, reason: str) -> None:
    """A provider's error is not a failed assertion: exit code 3."""
    write_check(project, source)

    report = read_json(run(project, "--json"))

    assert (3, "unchecked") == (report["exit_code"], report["checks"][0]["outcome"])
    assert reason in report["checks"][0]["reason"]


def test_a_request_is_checked_on_each_of_its_recorded_answers(project: Path) -> None:
    """One recorded answer is one run; fields that the check does not name may differ."""
    other = call(5, answer="It is Rome.", temperature=1)
    store_calls(project, call(4, answer="Paris!"), other, call(6, "Other?"))
    request = "{model: gpt-4.1-mini, messages: [{role: user, content: What is the capital of France?}]%s}"
    write_check(project, f"request: {request % ''}")
    write_check(project, f"request: {request % ', temperature: 1'}", "b")

    write_check(project, f"request: {request % ', max_tokens: 64'}\nruns: 2", "c")

    report = read_json(run(project, "--json"))

    verdicts = [[(entry["reference"], entry["verdict"]) for entry in check["runs"]] for check in report["checks"]]
    assert [
        [(trace_id(5), "failed"), (trace_id(4), "passed"), (trace_id(3), "unchecked"), (trace_id(1), "passed")],
        [(trace_id(5), "failed")],
        [(trace_id(5), "failed"), (trace_id(4), "passed")],
    ] == verdicts


def test_a_recorded_call_that_failed_at_the_provider_is_no_run(project: Path) -> None:
    """Clients try again by themselves; the report has the failed call all the same."""
    request = "request: {model: gpt-4.1-mini, messages: [{role: user, content: What is the capital of France?}]}"
    write_check(project, f"{request}\nruns: 1")

    report = read_json(run(project, "--json"))

    (check,) = report["checks"]
    assert "passed" == check["outcome"]
    assert [(trace_id(3), "unchecked"), (trace_id(1), "passed")] == [
        (entry["reference"], entry["verdict"]) for entry in check["runs"]
    ]


def test_a_session_is_checked_as_one_answer(project: Path) -> None:
    """Its last text; a failed call that was repeated does not count."""
    caller = Caller(session_id="trip")
    store_calls(
        project,
        call(4, answer="One moment.", caller=caller),
        call(5, answer="overloaded", status=500, caller=caller),
        call(6, answer="Paris.", caller=caller),
    )
    write_check(
        project, "session: trip", extra="  - {type: latency, max_ms: 210}\n  - {type: latency, max_ms: 209}\n"
    )

    report = read_json(run(project, "--json"))

    (entry,) = report["checks"][0]["runs"]
    assert ["passed", "passed", "failed"] == [assertion["verdict"] for assertion in entry["assertions"]]


def test_a_malformed_file_never_passes_silently(project: Path) -> None:
    """The other checks run, and the exit code is not 0."""
    write_check(project, "trace_id: '00000001'")
    write_check(project, "trace_id: '00000001'", "b", "  - {type: contians, value: x}\n")

    ran = run(project)

    assert 1 == ran.code
    assert ".ai-checks/b.yaml: line 5 column 6: CK1 assertions[1].type must be" in ran.out
    assert "hint: Did you mean contains?" in ran.out
    assert ran.out.endswith("1 check: 1 passed, 1 finding in files\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "there is no check in .ai-checks"),
        (("--tag", "y"), "no check has the tag y"),
    ],
)
def test_a_run_that_matched_no_check_is_not_green(project: Path, options: tuple[str, ...], message: str) -> None:
    """An empty check is not a pass."""
    if options:
        write_check(project, "trace_id: '00000001'", extra="tags: [x]\n")

    ran = run(project, *options)

    assert (3, "") == (ran.code, ran.out)
    assert message in ran.err


def test_without_a_check_the_next_command_proposes_one(project: Path) -> None:
    """Of a recorded answer; where nothing is recorded, it records."""
    ran, listed = run(project), traceforge("check", "list", cwd=project)

    hint = "hint: Let one be proposed for a recorded answer: traceforge check new --from-trace 0"
    assert [True, True] == [hint in printed.err for printed in (ran, listed)]
    assert (0, "") == (listed.code, listed.out)
    empty = project / "empty"
    empty.mkdir()
    (empty / "traceforge.config.json").write_text("{}")
    assert "hint: Make traces first: traceforge run -- COMMAND" in run(empty).err


def test_a_named_file_that_is_missing_is_not_passed_over(project: Path) -> None:
    write_check(project, "trace_id: '00000001'")

    ran = run(project, ".ai-checks/a.yaml", "missing.yaml")

    assert (3, True) == (ran.code, "missing.yaml: IO no such file or folder" in ran.out)


def test_cases_of_traces_check_recorded_calls(project: Path) -> None:
    """A query chooses them; each is a check of its own."""
    write_check(project, "cases: {traces: 'status:success'}")

    report = read_json(run(project, "--json"))

    assert [("case 1", "failed"), ("case 2", "passed")] == [
        (check["case"], check["outcome"]) for check in report["checks"]
    ]


def test_the_list_names_every_check_with_its_tags(project: Path) -> None:
    """As a table, and as JSON."""
    write_check(project, "trace_id: '00000001'", extra="tags: [x, y]\n")

    listed = traceforge("check", "list", cwd=project)
    as_json = json.loads(traceforge("check", "list", "--json", cwd=project).out)

    assert [".ai-checks/a.yaml:1", "a", "x,y", "contains"] == listed.out.splitlines()[1].split()
    assert [(".ai-checks/a.yaml::a", ["x", "y"])] == [(item["id"], item["tags"]) for item in as_json["data"]]
