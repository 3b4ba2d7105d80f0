"""One process of a suite: no request and no refusal is lost between the reports of two tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceforge.config import load_config
from traceforge.exchange import Caller
from traceforge.snapshots.gate.gate_findings import NEW_RULE, REFUSED_RULE
from traceforge.snapshots.gate.gate_judgement import OUTSIDE_TESTS, RunObservations, judge_run, merge_observations
from traceforge.snapshots.gate.suite_process import TEST, SuiteProcess

URL = "https://api.openai.com/v1/chat/completions"
BODY = b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}'


@pytest.fixture
def process(tmp_path: Path) -> SuiteProcess:
    """A suite in a project that approved nothing."""
    process = SuiteProcess(load_config(str(tmp_path)), TEST)
    process.start()  # Every test stops it.
    return process


def call_unapproved(process: SuiteProcess, scope: str) -> None:
    """Make an unapproved call in a scope."""
    process.snapshots.player.play("POST", URL, (), BODY, Caller("app.py:1:ask", scope))


def judge(process: SuiteProcess, observations: RunObservations) -> list[tuple[str, str]]:
    """The findings of the whole suite: where, and which rule."""
    judgement = judge_run(process.snapshots, observations, {}, command_passed=False)
    return [(gate_finding.finding.file, gate_finding.finding.rule) for gate_finding in judgement.findings]


def test_a_test_is_judged_once_by_its_own_requests(process: SuiteProcess) -> None:
    """The second report of the same test does not repeat them."""
    call_unapproved(process, "t.py::a")

    assert [] == process.judge_test("t.py::b")
    assert [NEW_RULE] == [gate_finding.finding.rule for gate_finding in process.judge_test("t.py::a")]
    assert [] == process.judge_test("t.py::a")
    assert [] == judge(process, process.stop())


def test_a_request_that_ends_after_the_report_of_its_test_makes_the_suite_red(process: SuiteProcess) -> None:
    """A thread of one test is answered while the next one runs."""
    process.judge_test("t.py::a")
    call_unapproved(process, "t.py::a")

    assert [] == process.judge_test("t.py::b")
    assert [(OUTSIDE_TESTS, NEW_RULE)] == judge(process, process.stop())


def test_a_refused_connection_after_the_report_of_its_test_makes_the_suite_red(process: SuiteProcess) -> None:
    """As a request."""
    process.judge_test("t.py::a")
    process._guard.refused["t.py::a", "models.example.com:443", "remote"] += 1

    assert [] == process.judge_test("t.py::b")
    assert [(OUTSIDE_TESTS, REFUSED_RULE)] == judge(process, process.stop())


def test_a_test_that_runs_again_counts_only_its_own_replayed_calls(process: SuiteProcess) -> None:
    """The first run may have failed halfway; the report of the suite counts both."""
    count = process.snapshots.player._count_in_scope
    process.begin_test("t.py::a", is_off=False)
    count(Caller(scope="t.py::a"), "first")
    count(Caller(scope="t.py::b"), "first")
    first = process.count_replayed("t.py::a")
    process.begin_test("t.py::a", is_off=False)
    at_start = process.count_replayed("t.py::a")
    count(Caller(scope="t.py::a"), "first")
    count(Caller(scope="t.py::a"), "second")

    assert (1, 0, 2) == (first, at_start, process.count_replayed("t.py::a"))
    assert 4 == process.stop().use_counts.total()


SAME_IN_ALL = frozenset({
    "key_names", "base_urls", "trace_workers", "uses", "earlier_uses", "prompt_only_ids", "answer_parameters",
})  # fmt: skip


def test_observations_of_workers_are_sent_as_plain_values_and_added_up() -> None:
    """Every field of each: one that is forgotten would not be judged."""
    observations = RunObservations(
        uses=[("t", "a", 2)],
        earlier_uses=[("t", "a", 1)],
        missed_scopes=["t"],
        deviations=8,
        unreported_misses=["missed"],
        unreported_refusals=[("h:1", "remote", 1)],
        trace_ids=["trace"],
        key_names=["KEY"],
        base_urls={"URL": "u"},
        skipped_modules=["tests/test_skipped.py"],
        unseen=[("could not see into x", "do something")],
        gone_cases=["t.py::t[a]"],
        scope_starts={"@ start of pytest": 1},
        broken_scopes=["@ import of t.py"],
        trace_workers={"trace": "gw0"},
        moved_calls=["moved"],
        workers=1,
        ungated_calls=1,
        library_answers=[("vcrpy", "t", 2)],
        prompt_only_ids=["first"],
        answer_parameters=["temperature 0"],
        uncompared_calls=3,
        uncompared_parts=4,
        unknown_heads=7,
        synthesised=5,
        volatile={"v": 6},
        uncompared_fields={"$.user": 7},
    )
    values = observations.to_builtins()
    assert all(values.values()), "a field of RunObservations is not set here"

    both = merge_observations([observations, RunObservations.from_builtins(values)])

    assert observations == RunObservations.from_builtins(values)
    assert {("t", "a"): 2} == both.use_counts, "a test that both workers run counts once"
    for name, merged in both.to_builtins().items():
        once = values[name]
        expected = {key: 2 * value for key, value in once.items()} if isinstance(once, dict) else 2 * once
        assert (once if name in SAME_IN_ALL else expected) == merged, name


def test_the_calls_of_scopes_that_tests_share_are_added_up() -> None:
    """Each worker sets up a fixture of the session; of a test, the worker counts in which it makes most calls."""
    workers = [
        RunObservations(uses=[("@ start of pytest", "a", 1), ("t.py::t", "b", calls)], workers=1) for calls in (1, 2)
    ]

    assert {("@ start of pytest", "a"): 2, ("t.py::t", "b"): 2} == merge_observations(workers).use_counts
