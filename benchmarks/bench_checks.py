"""1,000 checks on recorded answers, against replaying the calls that they are about."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import httpx

import traceforge
from harness import Row, at_most, is_quick
from support.stored_traces import OPENAI, call, store_calls, trace_id
from traceforge.checks.runs.check_plan import make_plan
from traceforge.checks.runs.check_results import CheckOutcome
from traceforge.checks.runs.check_run import replay_checks
from traceforge.checks.runs.recorded_answers import RecordedAnswers
from traceforge.config import load_config
from traceforge.redact.redactor import Redactor
from traceforge.traces.trace_store import TraceStore

CHECKS = 1_000
ROUNDS = 3 if is_quick() else 7
GOAL = 3.0
HEADERS = {"authorization": "Bearer sk-not-a-real-key-000000000000"}
ANSWER = "Order A-{} is on its way, and you get a refund of 59.90 euros within five days."
CHECK = """\
name: an order is answered
{source}
cases: {{file: orders.jsonl}}
assertions:
  - {{type: contains, value: "A-{{{{number}}}}"}}
  - {{type: regex, pattern: '[0-9]+\\.[0-9]{{2}} euros'}}
  - {{type: length, max: 50, unit: words}}
  - {{type: no_refusal}}
  - {{type: finish_reason, value: stop}}
"""
SOURCES = {
    "trace_id": 'trace_id: "{{trace}}"',
    "request": "request: {model: gpt-4.1-mini, messages: [{role: user, content: 'Where is order A-{{number}}?'}]}",
}


def rows() -> Iterator[Row]:
    """Both read the traces from disk in each round; nothing is cached between two rounds."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        project = Path(name)
        _prepare(project)
        before = Path.cwd()
        os.chdir(project)
        try:
            for source in SOURCES:
                yield at_most(
                    f"{CHECKS:,} checks with five assertions, by {source}",
                    lambda file=f".ai-checks/{source}.yaml": _check(file),  # type: ignore[misc]
                    _replay,
                    peer_name=f"{CHECKS:,} calls replayed",
                    goal=GOAL,
                    rounds=ROUNDS,
                )
        finally:
            os.chdir(before)


def _question(number: int) -> str:
    return f"Where is order A-{number}?"


def _prepare(project: Path) -> None:
    (project / "traceforge.config.json").write_text("{}")
    folder = project / ".ai-checks"
    folder.mkdir()
    numbers = range(1, CHECKS + 1)
    store_calls(project, *(call(number, _question(number), ANSWER.format(number)) for number in numbers))
    lines = (json.dumps({"number": number, "trace": trace_id(number)}) + "\n" for number in numbers)
    (folder / "orders.jsonl").write_text("".join(lines))
    for source, text in SOURCES.items():
        (folder / f"{source}.yaml").write_text(CHECK.format(source=text))


def _check(file: str) -> None:
    """What `traceforge check run` does, without starting Python."""
    loaded = load_config(".")
    store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
    try:
        store.update_index()
        recorded = RecordedAnswers(loaded, store)
        plan = make_plan(loaded.project, [file], set(), recorded.list_cases)
        report = replay_checks(plan, recorded, Redactor.from_config(loaded.config))
    finally:
        store.close()
    if report.counts != {CheckOutcome.PASSED.value: CHECKS} or report.findings:
        sys.exit(f"benchmark: not every check passed: {report.counts} {report.findings[:1]}")


def _replay() -> None:
    with traceforge.replay() as replayed, httpx.Client(headers=HEADERS) as client:
        for number in range(1, CHECKS + 1):
            messages = [{"role": "user", "content": _question(number)}]
            client.post(OPENAI, json={"model": "gpt-4.1-mini", "messages": messages, "max_tokens": 64})
    if replayed.played != CHECKS:
        sys.exit(f"benchmark: {replayed.played} of {CHECKS} calls were replayed")
