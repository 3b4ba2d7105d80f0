"""`traceforge check run`: live runs, pass rates, stored reports, and reports for CI services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from support.command import CommandResult, traceforge
from support.loopback_models import chat_answer, scripted_provider
from support.stored_traces import call, store_calls
from support.upstream import ScriptedResponse, Upstream
from traceforge.exchange import Caller

QUESTION = "request: {provider: openai, model: m, messages: [{role: user, content: Where?}], temperature: 1}\n"
PARIS = "assertions:\n  - {type: contains, value: Paris}\n"
PRICES = {"models": {"m": {"input_price_per_million": 1000, "output_price_per_million": 1000}}}


@pytest.fixture
def provider() -> Iterator[Upstream]:
    """A provider that alternates: a good answer, a bad one."""
    with scripted_provider() as upstream:
        yield upstream


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a folder for checks."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / ".ai-checks").mkdir()
    return tmp_path


def write_check(project: Path, text: str, name: str = "a") -> None:
    (project / ".ai-checks" / f"{name}.yaml").write_text(f"name: {name}\n{text}")


def run_live(project: Path, provider: Upstream, *options: str) -> CommandResult:
    variables = {"TRACEFORGE_UPSTREAM_OPENAI": provider.url, "OPENAI_API_KEY": "sk-test"}
    return traceforge("check", "run", "--live", "--yes", "--json", *options, cwd=project, **variables)


def answers(*texts: str) -> list[ScriptedResponse]:
    return [ScriptedResponse([chat_answer(text)]) for text in texts]


def read_checks(result: CommandResult) -> list[dict[str, Any]]:
    document = json.loads(result.out)
    assert result.code == document["exit_code"]
    checks: list[dict[str, Any]] = document["checks"]
    return checks


def test_a_live_run_asks_the_model_and_becomes_a_trace(project: Path, provider: Upstream) -> None:
    """The same check replays it afterwards."""
    provider.script = answers("It is Paris.")
    write_check(project, QUESTION + PARIS)

    (live,) = read_checks(run_live(project, provider))
    (replayed,) = read_checks(traceforge("check", "run", "--json", cwd=project))

    assert ["passed", "passed"] == [live["outcome"], replayed["outcome"]]
    assert live["runs"][0]["reference"] == replayed["runs"][0]["reference"]
    assert {"model": "m", "messages": [{"role": "user", "content": "Where?"}], "temperature": 1} == json.loads(
        provider.received[0].body
    )


def test_the_request_of_a_trace_is_sent_again(project: Path, provider: Upstream) -> None:
    """With its model and its parameters; one of which a part was redacted is not, nor is a session."""
    secret = "Write to ada.lovelace@example.org."
    store_calls(project, call(1, temperature=0.5), call(2, secret, caller=Caller(session_id="trip")))
    provider.script = answers("It is Paris.")
    for name, source in (("a", "trace_id: '00000001'"), ("b", "trace_id: '00000002'"), ("c", "session: trip")):
        write_check(project, f"{source}\n{PARIS}", name)

    checks = read_checks(run_live(project, provider))

    assert ["passed", "unchecked", "unchecked"] == [check["outcome"] for check in checks]
    assert "a part of it was redacted" in checks[1]["reason"]
    (received,) = provider.received
    body = json.loads(received.body)
    assert ("gpt-4.1-mini", 0.5, 64) == (body["model"], body["temperature"], body["max_tokens"])


def test_a_provider_that_fails_is_not_a_failed_assertion(project: Path, provider: Upstream) -> None:
    """Exit code 3, with the reason."""
    provider.script = [ScriptedResponse([b"{}"], status=500)]
    write_check(project, QUESTION + PARIS)

    (check,) = read_checks(run_live(project, provider))

    assert ("unchecked", []) == (check["outcome"], check["runs"][0]["assertions"])
    assert "500" in check["reason"]


def test_a_pass_rate_stops_as_soon_as_it_is_sure(project: Path, provider: Upstream) -> None:
    """29 answers that pass are enough for a rate of 1; the first that fails, for a rate that none passes."""
    provider.script = answers("Paris")
    write_check(project, QUESTION + PARIS + "pass_rate: 1\nruns: 100\n")

    (passed,) = read_checks(run_live(project, provider))
    provider.script = answers("Rome")
    (failed,) = read_checks(run_live(project, provider))

    assert ("passed", 29, 29) == (passed["outcome"], passed["rate"]["passed"], len(passed["runs"]))
    assert ("failed", 0, 1) == (failed["outcome"], failed["rate"]["passed"], len(failed["runs"]))


def test_a_pass_rate_at_its_cap_is_undecided(project: Path, provider: Upstream) -> None:
    """Exit code 3, and what is known of the rate."""
    provider.script = answers("Paris")
    write_check(project, QUESTION + PARIS + "pass_rate: 0.9\nruns: 5\n")

    result = run_live(project, provider)
    (check,) = read_checks(result)

    assert (3, "unchecked", 5) == (result.code, check["outcome"], len(check["runs"]))
    assert check["reason"].startswith("undecided after 5 runs, of which 5 passed: a pass rate of 0.9")
    assert 0 < check["rate"]["low"] < check["rate"]["high"] <= 1


def test_a_failing_provider_ends_a_pass_rate_undecided(project: Path, provider: Upstream) -> None:
    """After three calls in a row without an answer: nothing is asked a hundred times in vain."""
    provider.script = [ScriptedResponse([b"{}"], status=503)]
    write_check(project, QUESTION + PARIS + "pass_rate: 0.9\nruns: 100\n")

    (check,) = read_checks(run_live(project, provider))

    assert ("unchecked", 0, 3) == (check["outcome"], check["rate"]["runs"], len(check["runs"]))


def test_recorded_answers_decide_a_pass_rate_in_replay(project: Path) -> None:
    """One recorded answer is one run: thirty are enough, one is not."""
    source = "request: {model: gpt-4.1-mini, messages: [{role: user, content: What is the capital of France?}]}\n"
    write_check(project, source + PARIS + "pass_rate: 1\n")
    store_calls(project, call(1))
    (single,) = read_checks(traceforge("check", "run", "--json", cwd=project))

    store_calls(project, *(call(number) for number in range(2, 31)))
    (many,) = read_checks(traceforge("check", "run", "--json", cwd=project))

    assert [("unchecked", 1), ("passed", 29)] == [
        (check["outcome"], check["rate"]["runs"]) for check in (single, many)
    ]


def test_the_cost_of_all_runs_has_a_limit(project: Path, provider: Upstream) -> None:
    """Each answer costs 0.005: with a limit of 0.008, there are two."""
    (project / "traceforge.config.json").write_text(json.dumps(PRICES))
    provider.script = answers("Paris")
    write_check(project, QUESTION + PARIS + "runs: 10\n")

    (check,) = read_checks(run_live(project, provider, "--max-cost", "0.008"))

    assert ("unchecked", 2) == (check["outcome"], len(provider.received))
    assert "the limit of --max-cost 0.008 is reached" in check["reason"]


def test_a_limit_cannot_be_kept_without_prices(project: Path, provider: Upstream) -> None:
    """The next call is not made."""
    provider.script = answers("Paris")
    write_check(project, QUESTION + PARIS + "runs: 10\n")

    (check,) = read_checks(run_live(project, provider, "--max-cost", "5"))

    assert ("unchecked", 1) == (check["outcome"], len(provider.received))


def test_fixtures_are_commands_and_not_lines_for_a_shell(project: Path, provider: Upstream) -> None:
    """They have the variables of the check; one that fails leaves the check unchecked, and asks nothing."""
    provider.script = answers("Paris")
    write = 'fixtures: {env: {WORD: hello}, setup: [[python3, -c, \'import os; open("w", "w").write(os.environ["WORD"])\', $WORD]]}\n'  # noqa: E501
    write_check(project, QUESTION + PARIS + write)
    write_check(project, QUESTION + PARIS + "fixtures: {setup: [['false']], teardown: [[touch, t]]}\n", "b")

    good, bad = read_checks(run_live(project, provider))

    assert ["passed", "unchecked"] == [good["outcome"], bad["outcome"]]
    assert "hello" == (project / "w").read_text()
    assert "the setup command false ended with exit code 1" in bad["reason"]
    assert 1 == len(provider.received)


def test_the_teardown_runs_after_an_early_decision(project: Path, provider: Upstream) -> None:
    """A pass rate is decided before its cap; what was set up is taken down all the same."""
    provider.script = answers("Rome")
    write_check(project, QUESTION + PARIS + "pass_rate: 1\nruns: 100\nfixtures: {teardown: [[touch, t]]}\n")
    write_check(project, QUESTION + "assertions: [{type: refusal}]\nfixtures: {teardown: [['false']]}\n", "b")
    write_check(project, QUESTION + "assertions: [{type: no_refusal}]\nfixtures: {teardown: [['false']]}\n", "c")

    outcomes = [check["outcome"] for check in read_checks(run_live(project, provider))]

    assert ["failed", "failed", "unchecked"] == outcomes
    assert (project / "t").exists()


def test_a_function_of_the_project_is_called(project: Path) -> None:
    """By its import path, from the folder of the project; it gets the answer."""
    store_calls(project, call(1))
    (project / "shop").mkdir()
    (project / "shop" / "rules.py").write_text(
        "def short(answer, words):\n    return len(answer.text.split()) < words\n"
    )
    check = "assertions: [{type: python, function: 'shop.rules:short', arguments: {words: %s}}]\n"
    write_check(project, "trace_id: '00000001'\n" + check % 9)
    write_check(project, "trace_id: '00000001'\n" + check % 2, "b")

    outcomes = [each["outcome"] for each in read_checks(traceforge("check", "run", "--json", cwd=project))]

    assert ["passed", "failed"] == outcomes


def test_a_live_answer_is_redacted_and_found_by_no_pii(project: Path, provider: Upstream) -> None:
    """No report, file or trace has the address."""
    provider.script = answers("Write to ada.lovelace@example.org.")
    write_check(project, QUESTION + "assertions: [{type: no_pii}, {type: contains, value: Paris}]\n")

    result = run_live(project, provider, "--html", "a.html", "--junit", "a.xml", "--sarif", "a.sarif")

    (check,) = read_checks(result)
    assert ["failed", "failed"] == [item["verdict"] for item in check["runs"][0]["assertions"]]
    written = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert b"[REDACTED" in written
    assert b"ada.lovelace" not in written + result.out.encode() + result.err.encode()


def test_a_judge_is_recorded_and_replayed(project: Path, provider: Upstream) -> None:
    """Its verdict is found by its request: with another rubric, there is none."""
    provider.script = answers("It is Paris.", '{"pass": true, "reason": "It is."}')
    judge = "assertions: [{type: judge, rubric: It names a city., provider: openai, model: j}]\n"
    write_check(project, QUESTION + judge)

    (live,) = read_checks(run_live(project, provider))
    (replayed,) = read_checks(traceforge("check", "run", "--json", cwd=project))
    write_check(project, QUESTION + judge.replace("city", "town"))
    (changed,) = read_checks(traceforge("check", "run", "--json", cwd=project))

    assert ["passed", "passed", "unchecked"] == [check["outcome"] for check in (live, replayed, changed)]
    assert "no recorded verdict" in changed["runs"][0]["assertions"][0]["actual"]


def test_every_run_is_stored(project: Path) -> None:
    """For this user alone, with its mode, so that runs can be compared later."""
    store_calls(project, call(1))
    write_check(project, "trace_id: '00000001'\n" + PARIS)

    traceforge("check", "run", cwd=project)

    (path,) = (project / ".ai-tests" / "checks").iterdir()
    stored = json.loads(path.read_bytes())
    assert ("replay", "passed", 0o600) == (
        stored["mode"],
        stored["checks"][0]["outcome"],
        path.stat().st_mode & 0o777,
    )


def test_reports_for_ci_name_the_line_of_each_assertion(project: Path) -> None:
    """A failure, what could not be checked, and a check that passed."""
    store_calls(project, call(1), call(2, answer="No."))
    write_check(project, "trace_id: '00000001'\n" + PARIS)
    write_check(project, "trace_id: '00000002'\n" + PARIS, "b")
    write_check(project, "trace_id: '0000ffff'\n" + PARIS, "c")

    ran = traceforge("check", "run", "--junit", "a.xml", "--sarif", "a.sarif", "--html", "a.html", cwd=project)

    assert 1 == ran.code
    findings, tests = ET.parse(project / "a.xml").getroot()
    assert ("2", "1", "1") == (findings.get("tests"), findings.get("failures"), findings.get("errors"))
    assert ("3", "2") == (tests.get("tests"), tests.get("failures"))
    results = json.loads((project / "a.sarif").read_bytes())["runs"][0]["results"]
    places = [(item["ruleId"], item["locations"][0]["physicalLocation"]) for item in results]
    assert [("CK3", ".ai-checks/b.yaml", 4), ("CK4", ".ai-checks/c.yaml", 1)] == [
        (rule, place["artifactLocation"]["uri"], place["region"]["startLine"]) for rule, place in places
    ]
    page = (project / "a.html").read_text()
    assert "3 checks: 1 failed, 1 could not be checked, 1 passed" in page
    assert "a text with &quot;Paris&quot;" in page


def test_live_runs_need_a_yes(project: Path) -> None:
    """Without a terminal, nothing is sent without it."""
    write_check(project, QUESTION + PARIS)

    ran = traceforge("check", "run", "--live", cwd=project)

    assert (2, True) == (ran.code, "pass --yes" in ran.err)


def test_options_of_live_runs_are_refused_in_replay(project: Path) -> None:
    write_check(project, QUESTION + PARIS)

    assert 2 == traceforge("check", "run", "--runs", "3", cwd=project).code
