"""A project that has something for every page of the web view, and an address for each of its routes.

`words` are added to every text that an application, a model, a person or a file gave: hostile ones must be inert on
every page, and long ones must leave its layout alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from support.context_project import make_context_project
from support.desk_traces import ERROR, LAST, SESSION, STREAM, TOOL_CALL, store_desk_traces
from support.evidence_project import tamper_with_bundle, write_evidence, write_recording
from support.proposals import approve_change, make_call, propose
from support.review_project import NEW_SYSTEM, SYSTEM, approved_calls, ask, changed_calls, make_review_project
from support.stored_traces import trace_id
from support.ui_servers import RunningUi
from traceforge.checks.runs.stored_reports import REPORTS
from traceforge.snapshots.live.live_answer import FailedRequest, LiveAnswer
from traceforge.snapshots.live.live_history import store_report
from traceforge.snapshots.live.live_verdict import check_exit_code, checked_json, judge_answers
from traceforge.ui.page_context import PageRoute
from traceforge.ui.ui_server import AREAS

FILES = ("/raw", "/frames", "/copy/", "/request/", "/share/")  # Parts of addresses that give a file, and no page.
ROUTES = tuple(page.path for area in AREAS for page in area.pages if isinstance(page, PageRoute))


class FullProject(NamedTuple):
    """The project, and addresses by route; further addresses show another state of a page."""

    folder: Path
    addresses: dict[str, str]
    states: dict[str, str]

    @property
    def pages(self) -> dict[str, str]:
        """The addresses that show a page, by a short name."""
        named = {name_of(route): path for route, path in self.addresses.items()} | self.states
        return {name: path for name, path in named.items() if not any(part in path for part in FILES)}


def name_of(route: str) -> str:
    """A name for a picture: `traces-trace_id-compare`."""
    return route.strip("/").replace("/", "-").replace("{", "").replace("}", "").replace(":path", "") or "overview"


def make_full_project(folder: Path, words: str = "") -> FullProject:
    """Make the project in a new folder of `folder`."""
    project = folder / "bookshop"
    added = f" {words}" if words else ""
    approved = [
        *approved_calls(),
        ask(SYSTEM, f"Is it open?{added}", number=7, answer=f"Yes.{added}", test="test_open"),
    ]
    changed = [
        *changed_calls(),
        ask(NEW_SYSTEM, f"Is it open?{added}", number=7, answer=f"No.{added}", test="test_open"),
    ]
    changes = make_review_project(project, approved, changed)
    store_desk_traces(project, added)
    write_evidence(project, folder / "sources")
    write_recording(project / "evidence/edited.json", f"Marseille{added}")
    tamper_with_bundle(project / "evidence/run-1")
    context = make_context_project(project, f"Where is my order 4711?{added}")
    reports = [
        store_report(str(project), live_report(added, *texts)) for texts in (("yes",) * 5, ("yes", "no", "maybe"))
    ]
    run = store_check_runs(project, added)
    (project / "traceforge.config.json").write_text("{}")
    trace, first, second = trace_id(STREAM), context.responses[0], context.responses[2]
    snapshot = f"/context/snapshots/{second.snapshot_id}"
    snapshot_diff = f"/context/snapshots/{first.snapshot_id}/diff/{second.snapshot_id}"
    addresses = {
        "/": "/?range=24h",
        "/traces": "/traces",
        "/traces/{trace_id}": f"/traces/{trace}",
        "/traces/{trace_id}/raw": f"/traces/{trace}/raw",
        "/traces/{trace_id}/copy/{language}": f"/traces/{trace}/copy/curl",
        "/traces/{trace_id}/edit": f"/traces/{trace}/edit",
        "/traces/{trace_id}/delete": f"/traces/{trace}/delete",
        "/traces/{trace_id}/stream": f"/traces/{trace}/stream",
        "/traces/{trace_id}/stream/frames": f"/traces/{trace}/stream/frames",
        "/traces/{trace_id}/compare": f"/traces/{trace}/compare",
        "/traces/{trace_id}/compare/{other_id}": f"/traces/{trace}/compare/{trace_id(TOOL_CALL)}",
        "/sessions": "/sessions",
        "/sessions/{session_id:path}": f"/sessions/{SESSION}",  # Its beginning is enough.
        "/changes": "/changes",
        "/changes/{change_id}": f"/changes/{changes[0].id}",
        "/approvals": "/approvals",
        "/builds": "/builds",
        "/checks": "/checks",
        "/checks/new": f"/checks/new?trace={trace}",
        "/checks/{name}": f"/checks/{run}",
        "/live": "/live",
        "/live/{name}": f"/live/{reports[1]}",
        "/evidence": "/evidence",
        "/evidence/{path:path}": "/evidence/evidence/edited.json",
        "/context": "/context",
        "/context/sessions/{session_id}": f"/context/sessions/{context.session}",
        "/context/branches/{branch_id}": f"/context/branches/{context.main}?session={context.session}",
        "/context/snapshots/{snapshot_id}": snapshot,
        "/context/snapshots/{snapshot_id}/request/{provider}": f"{snapshot}/request/openai",
        "/context/snapshots/{before}/diff/{after}": snapshot_diff,
        "/context/responses/{response_id}": f"/context/responses/{second.id}",
        "/context/replay-runs/{run_id}": f"/context/replay-runs/{context.replay_run}",
        "/context/receipts/{receipt_id}": f"/context/receipts/{context.receipt}",
    }  # fmt: skip
    states = {
        "traces-search": "/traces?q=order",
        "traces-nothing": "/traces?q=nothing-like-this",
        "traces-bad-query": "/traces?q=status:green",
        "trace-error": f"/traces/{trace_id(ERROR)}",
        "trace-image": f"/traces/{trace_id(LAST)}",
        "trace-tool-call": f"/traces/{trace_id(TOOL_CALL)}",
        "trace-missing": "/traces/ffffffff",
        "compare-inline": f"/traces/{trace}/compare/{trace_id(TOOL_CALL)}?layout=inline",
        "overview-sites": "/?range=all&by=site",
        "snapshot-prompt": f"{snapshot}?provider=openai",
        "snapshot-purged": f"/context/snapshots/{context.purged_snapshot}",
        "branch-refund": f"/context/branches/{context.refund}?session={context.session}",
        "evidence-pack": "/evidence/evidence/run-1",
        "checks-of-session": f"/checks/new?session={SESSION}",
        "checks-saved": "/checks?saved=refund",
        "not-found": "/nothing-here",
        **{f"change-{place}": f"/changes/{change.id}" for place, change in enumerate(changes[1:], 2)},
        "change-inline": f"/changes/{changes[0].id}?diff=inline",
    }
    return FullProject(project, addresses, states)


def store_check_runs(project: Path, words: str) -> str:
    """Check files that were run three times; the last run has every kind of result. Gives its name."""
    (project / ".ai-checks").mkdir()
    (project / ".ai-checks/refund.yaml").write_text("name: refund\n")
    for failing in (0, 1):
        REPORTS.store(str(project), check_report(words, failing))
    return REPORTS.store(str(project), {**check_report(words, 2), "mode": f"live{words}" if words else "live"})


def check_report(words: str, failing: int) -> dict[str, Any]:
    """A report of `traceforge check run`: of two checks so many fail; one has no answer, one a pass rate."""

    def assertion(kind: str, verdict: str, place: int) -> dict[str, Any]:
        label = f"{kind}: 1881{words}"
        return {"type": kind, "name": label, "line": place + 4, "verdict": verdict, "where": f"text{words}",
                "expected": f"the text has 1881{words}", "actual": f'"It is on its way."{words}'}  # fmt: skip

    def run(number: int, verdict: str) -> dict[str, Any]:
        kinds = (("contains", verdict), ("no_refusal", "passed"))
        assertions = [assertion(kind, result, place) for place, (kind, result) in enumerate(kinds)]
        return {"reference": trace_id(number), "verdict": verdict, "error": "", "assertions": assertions}

    def check(name: str, outcome: str, runs: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        file = f".ai-checks/refund.yaml{words}"
        return {"id": f"{file}::{name}{words}", "file": file, "line": 2, "name": f"{name}{words}", "case": "",
                "tags": [f"refunds{words}"], "assertions": ["contains", "no_refusal"], "outcome": outcome,
                "reason": "", "rate": None, "runs": runs, **fields}  # fmt: skip

    verdicts = ["failed" if number < failing else "passed" for number in range(2)]
    rate = {"passed": 18, "runs": 20, "low": 0.683, "high": 0.988}
    checks = [
        check(f"order {number}", verdict, [run(number + 2, verdict)]) for number, verdict in enumerate(verdicts)
    ]
    no_answer = {
        "reference": trace_id(ERROR),
        "verdict": "unchecked",
        "error": f"HTTP 503{words}",
        "assertions": [],
    }
    checks.append(check("the carrier", "unchecked", [no_answer], case=f"case 2{words}", reason=f"no answer{words}"))
    rated = [run(STREAM, "failed" if number % 10 == 3 else "passed") for number in range(20)]
    checks.append(check("a date is named", "passed", rated, rate=rate))
    finding = {"file": f".ai-checks/old.yaml{words}", "path": "line 3 column 1", "rule": "CK1",
               "message": f"unknown field{words}", "hint": f"Did you mean name?{words}"}  # fmt: skip
    return {"mode": "replay", "exit_code": 1 if failing else 3, "counts": {}, "checks": checks,
            "findings": [finding] if failing == 2 else []}  # fmt: skip


def live_report(words: str, *texts: str) -> dict[str, Any]:
    """The report of a check whose approved answer is `yes`."""
    approved = approve_change(propose(make_call(f"Is it?{words}", answer=f"yes{words}")).changes[0])
    answers = [
        LiveAnswer("sha256:0", approved.id, run, "2026-11-18T12:00:00.000Z",
                   {"content": f"{text}{words}", "tokens_used": 7, "finish_reason": "stop"}, True, 12.5,
                   model=f"gpt-4o{words}", tokens=7)
        for run, text in enumerate(texts, 1)
    ]  # fmt: skip
    failures = [FailedRequest("", approved.id, 90, f"HTTP status 500{words}")] if len(texts) < 5 else []
    result = judge_answers(approved, len(texts) + len(failures), answers, failures)
    return {
        "exit_code": int(check_exit_code([result], strict=False)),
        "snapshots": [checked_json(result, strict=False)],
    }


def post_build(ui: RunningUi, words: str = "") -> str:
    """The page of a red build, from the report of a command."""
    change = {"path": f"$.temperature{words}", "before": f"0{words}", "after": 1}
    rule = {"rule": f"text_changed{words}", "sentence": f"The prompt changed{words}", "because": f"a word{words}"}
    comparison = {"changes": [rule], "request": {"parameters": [change]}}
    finding = {
        "file": f"tests/test_desk.py{words}", "rule": f"CHANGED{words}", "message": f"the prompt changed{words}",
        "hint": f"run traceforge record{words}", "scopes": [f"tests/test_desk.py::test_where{words}"],
        "comparison": comparison,
    }  # fmt: skip
    report = {"exit_code": 1, "findings": [finding], "unchecked": [finding], "replayed": 12, "offline": "sealed"}
    response = ui.post("/builds", report=json.dumps(report))
    assert 200 == response.status_code, response.text[:2000]
    return response.text
