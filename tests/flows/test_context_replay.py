"""Send requests behind an alias, compare a candidate with the answers, read the report; also after a kill."""

from __future__ import annotations

import asyncio
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

from support.browser import browser
from support.command import COMMAND, traceforge
from support.loopback_models import chat_answer, model_server, scripted_provider
from support.upstream import ScriptedResponse
from traceforge.canon import digest_canonical
from traceforge.report.replay_run_report import replay_html


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
    assert [1, 1] == [page.count(f'<pre class="words">{text}</pre>') for text in ("Hello?", "And then?")]
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


def test_the_report_page_loads_and_runs_nothing() -> None:
    """A model's text is shown, not interpreted; the page has no external address."""
    evil = '<script>alert(1)</script><img src="http://127.0.0.1:9/x" onerror=alert(2)>'
    lane = {"target": {"provider": "openai", "model": evil}, "output": {"content": evil}, "error": None}
    change = {"rule": "answer.facts", "because": evil}
    item = {
        "position": 0, "snapshot_id": evil, "verdict": "candidate_changed",
        "question": {"earlier_blocks": 0, "blocks": [{"role": evil, "kind": evil, "content": evil}]},
        "lanes": {"recorded": lane, "fresh_baseline": None, "candidate": {**lane, "output": None, "error": evil}},
        "differences": {"drift": [], "candidate": [change], "candidate_against_fresh": None},
    }  # fmt: skip
    release = {"id": "alr_x", "alias": None, "targets": [{"provider": "openai", "model": "m"}]}
    page = replay_html(
        {
            "replay_run_id": "rpl_x", "mode": "single_turn", "note": "n", "baseline": release, "candidate": release,
            "summary": {"verdicts": {"candidate_changed": 1}}, "items": [item], "evidence_digest": "sha256:x",
            "created_at": "2026-01-01T00:00:00.000Z",
        }
    )  # fmt: skip

    assert "<script" not in page
    assert "<img" not in page
    assert 'src="' not in page
    assert "href=" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_the_report_page_is_laid_out_in_a_browser(tmp_path: Path) -> None:
    """Wide and narrow, light and dark: question, answers and marks are visible, nothing overlaps or sticks out."""
    words = "x" * 300
    result = {"target": {"provider": "openai", "model": "m"}, "output": {"content": "It is 42 now."}, "error": None}
    other = {**result, "output": {"content": "It was 43 now.", "tool_calls": [{"arguments": words}]}}
    block = {"role": "user", "kind": "user_message", "content": f"How much is it?\n{words}"}
    changed = {
        "position": 0, "snapshot_id": "snp_x", "verdict": "candidate_changed",
        "question": {"earlier_blocks": 1, "blocks": [block]},
        "lanes": {"recorded": result, "fresh_baseline": result, "candidate": other},
        "differences": {key: [] for key in ("drift", "candidate", "candidate_against_fresh")},
    }  # fmt: skip
    same = {**changed, "position": 1, "verdict": "unchanged", "lanes": dict.fromkeys(changed["lanes"], result)}
    release = {"id": "alr_x", "alias": "bot", "targets": [{"provider": "openai", "model": "m"}]}
    page = tmp_path / "report.html"
    page.write_text(
        replay_html(
            {
                "replay_run_id": "rpl_x", "mode": "single_turn", "note": "Pinned.", "baseline": release,
                "candidate": release, "summary": {"verdicts": {"candidate_changed": 1, "unchanged": 1}},
                "items": [changed, same], "evidence_digest": "sha256:" + "0" * 64,
                "created_at": "2026-01-01T00:00:00.000Z",
            }
        )
    )  # fmt: skip

    layouts = asyncio.run(_look(page, tmp_path / "profile"))

    assert 4 == len(layouts)
    for layout in layouts:
        assert [] == layout["problems"]
        assert layout["width"] <= layout["room"]
        assert [True, False] == layout["questions"]
        assert ["It is 42 now.", "It is 42 now.", "It is 42was 43 now."] == layout["answers"]
        assert (["is 42"], ["was 43"]) == (layout["gone"], layout["come"])
        assert not layout["overlaps"]
        assert 4.5 <= layout["contrast"]
    assert 2 == len({layout["background"] for layout in layouts})


_LAYOUT_SCRIPT = """(() => {
  const rgb = e => getComputedStyle(e).color.match(/[0-9.]+/g).map(Number);
  const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const back = getComputedStyle(document.body).backgroundColor;
  const on = light(back.match(/[0-9.]+/g).map(Number));
  const ratio = e => { const l = light(rgb(e)); return (Math.max(l, on) + .05) / (Math.min(l, on) + .05); };
  const all = s => [...document.querySelectorAll(s)];
  const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const boxes = all('td').map(e => { const r = document.createRange(); r.selectNodeContents(e);
    return r.getBoundingClientRect(); });
  return {
    width: document.documentElement.scrollWidth, room: innerWidth, background: back,
    questions: all('.said').map(e => e.checkVisibility()),
    answers: all('details[open] .lane .words').map(e => e.textContent),
    gone: all('del').map(e => e.textContent), come: all('ins').map(e => e.textContent),
    overlaps: boxes.some((a, i) => boxes.some((b, j) => i < j && meets(a, b))),
    contrast: Math.min(...all('.tag, .soft, h3, dt').map(ratio)),
  };
})()"""


async def _look(page: Path, profile: Path) -> list[dict[str, Any]]:
    layouts = []
    async with browser(profile) as tab:
        await tab.open(f"file://{page}")
        for width in (1200, 390):
            for scheme in ("light", "dark"):
                await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                               mobile=width < 500)  # fmt: skip
                media = [{"name": "prefers-color-scheme", "value": scheme}]
                await tab.call("Emulation.setEmulatedMedia", features=media)
                layouts.append({**await tab.eval(_LAYOUT_SCRIPT), "problems": tab.problems()})
    return layouts


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
