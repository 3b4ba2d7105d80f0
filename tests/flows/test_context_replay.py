"""Send requests behind an alias, compare a candidate with the answers, read the report; also after a kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import COMMAND, traceforge
from support.loopback_models import chat_answer, model_server, scripted_provider
from support.upstream import ScriptedResponse
from traceforge.canon import digest_canonical


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / ".git").mkdir()
    return tmp_path


def run_json(project: Path, *arguments: str, code: int = 0, **variables: str) -> Any:
    """A context command, and its JSON."""
    ran = traceforge("context", *arguments, "--json", cwd=project, **variables)
    assert code == ran.code, ran.err
    return json.loads(ran.out) if ran.out else None


def test_a_candidate_is_compared_with_recorded_answers(project: Path) -> None:
    """Alias, session, responses, run, report, page; every call is a trace of the project."""
    with model_server() as model:
        upstream_option = f"openai={model.url}"
        run_json(project, "alias", "create", "bot", "--target", "openai/old")
        session = run_json(project, "session", "create")["id"]
        responses = [
            run_json(
                project,
                "response",
                "create",
                "--model",
                "bot",
                "--session",
                session,
                "--input",
                text,
                "--upstream",
                upstream_option,
            )
            for text in ("Hello?", "And then?")
        ]
        snapshots = [option for response in responses for option in ("--snapshot", response["snapshot_id"])]
        run = run_json(
            project, "replay", "run", "--baseline", "bot", "--candidate", "openai/new", *snapshots,
            "--upstream", upstream_option,
        )  # fmt: skip
        report = run_json(project, "replay", "report", run["id"], "--html", "report.html")
        lines = traceforge("context", "replay", "report", run["id"], cwd=project).out
        traces = json.loads(traceforge("trace", "list", "--json", cwd=project).out)["data"]

    assert ["completed", "completed"] == [response["status"] for response in responses]
    assert ("completed", 2, 2) == (run["status"], run["finished"], run["total"])
    assert report["evidence_digest"] == digest_canonical(report["items"]) == run["evidence_digest"]
    assert {"candidate_changed": 2} == report["summary"]["verdicts"]
    assert "candidate_changed" in lines
    page = (project / "report.html").read_text()
    assert report["evidence_digest"] in page
    assert responses[0]["output"]["content"][:20] in page.replace("&#x27;", "'")
    assert [1, 1] == [page.count(f'<div class="part-text">{text}</div>') for text in ("Hello?", "And then?")]
    assert ["Hello?", "And then?"] == re.findall(r"^ +\d  candidate_changed  (.+)$", lines, re.MULTILINE)
    assert {response["trace_id"] for response in responses} <= {trace["id"] for trace in traces}


@pytest.mark.slow
def test_answers_and_differences_are_printed_for_people(project: Path) -> None:
    """The answer as text, in the response, the log and the difference; a failure has the command to retry."""
    session = run_json(project, "session", "create")["id"]
    words = ["--model", "openai/old", "--session", session, "--input", "Hello?"]
    nowhere = ("--upstream", "openai=http://127.0.0.1:9")
    failed = traceforge("context", "response", "create", *words, *nowhere, cwd=project)
    assert 1 == failed.code, failed.err
    options = failed.err.strip().partition("; to try again, use ")[2].split()
    assert "--snapshot" == options[0]
    with scripted_provider() as model:
        model.respond_with(ScriptedResponse([chat_answer("Hello.\nI am \x1b[1mhere.")]))
        upstream_option = ("--upstream", f"openai={model.url}")
        created = traceforge(
            "context", "response", "create", "--model", "openai/old", *options, *upstream_option, cwd=project
        )
        assert 0 == created.code, created.err
        compared = traceforge(
            "context", "replay", "run", "--baseline", "openai/old", "--candidate", "openai/new",
            *options, *upstream_option, cwd=project,
        )  # fmt: skip
    assert "Hello.\nI am " in created.out
    assert "\x1b" not in created.out
    log = traceforge("context", "log", session, cwd=project).out
    assert [1, 1] == [log.count("user_message "), log.count("assistant_message Hello.")]
    assert "unchanged          1\n" in compared.out


@pytest.mark.slow
def test_a_killed_run_can_be_resumed(project: Path) -> None:
    """After SIGKILL finished items are kept; after the lease the others run, once each."""
    with scripted_provider() as provider:
        provider.respond_with(ScriptedResponse([chat_answer("Recorded.")]))
        upstream_option = f"openai={provider.url}"
        session = run_json(project, "session", "create")["id"]
        snapshots = [
            run_json(project, "response", "create", "--model", "openai/old", "--session", session,
                     "--input", str(number), "--upstream", upstream_option)
            for number in range(4)
        ]  # fmt: skip
        gate = hold_after_two_calls(provider)
        options = [option for snapshot in snapshots for option in ("--snapshot", snapshot["snapshot_id"])]
        command = [str(COMMAND), "context", "replay", "run", "--baseline", "openai/old", "--candidate", "openai/new",
                   "--no-fresh-baseline", "--concurrency", "1", "--upstream", upstream_option, *options]  # fmt: skip
        process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while len(provider.received) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        gate.open = True
        run = run_json(project, "replay", "list")["data"][0]
        time.sleep(31)
        finished = run_json(project, "replay", "resume", run["id"], "--upstream", upstream_option)
        bodies = [json.loads(request.body)["messages"][-1]["content"] for request in provider.received]

    assert ("running", 2) == (run["status"], run["finished"])
    assert ("completed", 4) == (finished["status"], finished["finished"])
    assert ["0", "1", "2", "2", "3"] == bodies


class CallBarrier:
    """Lets two calls pass, and the others when it is open."""

    def __init__(self) -> None:
        self.open = False
        self.passed = 0


def hold_after_two_calls(provider: Any) -> CallBarrier:
    """Make a provider wait from the third call on."""
    gate = CallBarrier()
    provider.received.clear()

    def choose(_: Any) -> ScriptedResponse:
        gate.passed += 1
        until = time.monotonic() + 60
        while gate.passed > 2 and not gate.open and time.monotonic() < until:
            time.sleep(0.02)
        return ScriptedResponse([chat_answer("New.")])

    provider.choose = choose
    return gate
