"""How many calls each scope makes, compared with what was approved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.proposals import approve_change, make_call, propose
from traceforge.config import Config, ModelRule, TestRule
from traceforge.snapshots.tree.approved_calls import ApprovedCall, ScopeTurn, count_calls
from traceforge.snapshots.tree.call_counts import CountedRun, CountReport, compare_counts
from traceforge.snapshots.tree.run_scopes import RunScopes, find_gone_cases

SESSION = "@ session fixture menu"
NOWHERE = RunScopes((), ["/nowhere"])


def approve(**calls: int) -> list[ApprovedCall]:
    """One snapshot that each scope called so often; `session` is a fixture."""
    exchanges = [
        make_call("a", number=number, scope=SESSION if scope == "session" else scope)
        for number, scope in enumerate(scope for scope, times in calls.items() for _ in range(times))
    ]
    return [approve_change(change) for change in propose(*exchanges).changes]


def compare(
    approved: list[ApprovedCall],
    made: Mapping[str, int],
    *,
    outcomes: Mapping[str, str] | None = None,
    config: Config | None = None,
    **fields: Any,
) -> CountReport:
    """Compare a run in which scopes of `made` passed."""
    calls = {(scope, approved[0].id): times for scope, times in made.items()}
    scopes = dict.fromkeys(made, "passed") if outcomes is None else outcomes
    run = CountedRun(calls, scopes, NOWHERE, config or Config(), **fields)
    return compare_counts(approved, {call.id: "key" for call in approved}, run)


def differences(report: CountReport) -> dict[str, tuple[int, int]]:
    return {difference.scope: (difference.approved, difference.actual) for difference in report.differences}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({"x": 1, "y": 2}, {}),
        ({"x": 2, "y": 2}, {"x": (1, 2)}),
        ({"x": 1, "y": 1}, {"y": (2, 1)}),
        ({"x": 1, "y": 0}, {"y": (2, 0)}),
        ({"x": 1, "y": 2, "z": 1}, {"z": (0, 1)}),
        ({"x": 2, "y": 3}, {"x": (1, 2), "y": (2, 3)}),
        ({"x": 2}, {"x": (1, 2)}),  # `y` did not run, but `x` has calls of its own
    ],
)
def test_a_call_more_or_less_is_a_difference(made: dict[str, int], expected: dict[str, tuple[int, int]]) -> None:
    """Also in a scope that was approved with none."""
    assert expected == differences(compare(approve(x=1, y=2), made))


@pytest.mark.parametrize(
    ("made", "workers"),
    [
        ({"x": 2, "y": 1}, 1),
        ({"x": 0, "y": 2, "z": 1}, 1),
        ({"z": 1}, 1),  # the others did not run
        ({"x": 1, "y": 2, "z": 1}, 2),  # once more in another worker
    ],
)
def test_a_call_that_moved_is_no_difference(made: dict[str, int], workers: int) -> None:
    """While the run makes as many in all, or a scope without such calls makes those of another."""
    report = compare(approve(x=1, y=2), made, workers=workers)

    assert ({}, True) == (differences(report), bool(report.moves))


def approve_per_worker(**calls: int) -> list[ApprovedCall]:
    """The same, recorded by a worker for each scope: a cache may save the calls of all but the first."""
    (call,) = approve(**calls)
    assert call.record is not None
    scopes = [ScopeTurn(scope, 0, times, scope != next(iter(calls))) for scope, times in calls.items()]
    source = {**call.source, "scopes": [turn.to_json(is_numbered=False) for turn in scopes]}
    return [call._replace(record={**call.record, "source": source})]


@pytest.mark.parametrize(
    ("made", "workers"),
    [
        ({"x": 2, "y": 2, "z": 2}, 1),  # no cache
        ({"x": 2, "y": 0, "z": 0}, 1),
        ({"x": 0, "y": 2, "z": 0}, 1),  # another order
        ({"x": 0, "y": 0, "z": 0, "w": 2}, 1),
        ({"x": 0, "y": 2, "z": 2}, 2),
        ({"x": 2, "w": 2, "y": 0, "z": 0}, 2),
        ({"x": 2, "y": 2, "z": 2, "w": 2}, 4),
        ({"y": 0, "z": 2}, 1),  # `x` did not run
    ],
)
def test_a_cache_may_save_what_each_worker_recorded(made: dict[str, int], workers: int) -> None:
    """Each worker makes the calls of one test."""
    assert {} == differences(compare(approve_per_worker(x=2, y=2, z=2), made, workers=workers))


@pytest.mark.parametrize(
    ("made", "workers"),
    [
        ({"x": 0, "y": 0, "z": 0}, 1),  # nobody makes them
        ({"x": 2, "y": 2, "z": 0}, 1),  # with a cache, one process makes them once
        ({"x": 2, "y": 1, "z": 0}, 2),  # half of the calls
        ({"x": 3, "y": 0, "z": 0}, 2),
        ({"x": 2, "y": 2, "z": 2, "w": 2}, 2),  # more than each worker once
        ({"x": 2, "y": 3, "z": 2}, 4),
    ],
)
def test_a_cache_does_not_explain_other_numbers(made: dict[str, int], workers: int) -> None:
    assert differences(compare(approve_per_worker(x=2, y=2, z=2), made, workers=workers))


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_only_a_scope_that_passed_is_counted(outcome: str) -> None:
    approved = approve(x=1)

    assert {} == differences(compare(approved, {"x": 5}, outcomes={"x": outcome}))
    assert {} == differences(compare(approved, {"x": 5}, outcomes={"x": "passed"}, missed_scopes={"x"}))


@pytest.mark.parametrize(
    ("made", "starts", "is_same"),
    [(2, 1, True), (4, 2, True), (2, 2, True), (3, 2, False), (4, 1, False), (0, 1, False), (6, 2, False)],
)
def test_each_worker_may_run_a_shared_scope(made: int, starts: int, is_same: bool) -> None:
    """All of its calls, or none where another worker has made them."""
    report = compare(approve(session=2), {SESSION: made}, scope_starts={SESSION: starts}, workers=2)

    assert is_same == (differences(report) == {})


@pytest.mark.parametrize(
    ("config", "made", "is_same"),
    [
        (Config(test=TestRule(may_repeat=["x"])), 5, True),
        (Config(test=TestRule(may_repeat=["x"])), 1, False),
        (Config(test=TestRule(may_repeat=["y*"])), 5, False),
        (Config(test=TestRule(may_vary=["?"])), 0, True),
        (Config(models={"*": ModelRule(calls="may_repeat")}), 3, True),
        (Config(models={"*": ModelRule(calls="may_vary")}), 1, True),
        (Config(models={"other": ModelRule(calls="may_vary")}), 1, False),
    ],
)
def test_a_declared_scope_or_model_may_differ(config: Config, made: int, is_same: bool) -> None:
    assert is_same == (differences(compare(approve(x=2), {"x": made}, config=config)) == {})


@pytest.mark.parametrize(("made", "is_same"), [(1, True), (9, True), (0, False)])
def test_an_approved_error_may_be_retried(made: int, is_same: bool) -> None:
    """Any number of times, but once at least."""
    errors = [make_call("a", number=number, scope="x", status=500) for number in range(3)]
    approved = [approve_change(change) for change in propose(*errors).changes]

    assert is_same == (differences(compare(approved, {"x": made})) == {})


@pytest.mark.parametrize(("made", "is_same"), [(2, True), (7, True), (1, False)])
def test_the_last_polled_answer_may_repeat(made: int, is_same: bool) -> None:
    approved = approve(x=2)
    raw = approved[0].raw_response
    assert raw is not None
    polled = [approved[0]._replace(raw_response=raw._replace(method="GET"), gate="request")]

    assert polled[0].can_repeat
    assert is_same == (differences(compare(polled, {"x": made})) == {})


def test_a_websocket_is_no_poll() -> None:
    """Its handshake is a `GET`; one more of it asks a model once more."""
    (approved,) = approve(x=1)
    raw = approved.raw_response
    assert raw is not None
    conversation = raw._replace(method="GET", request_body={"client_frames": []})
    opened = approved._replace(raw_response=conversation, gate="request")

    assert not opened.can_repeat
    assert {} != differences(compare([opened], {"x": 2}))


def test_an_earlier_attempt_may_have_filled_a_cache() -> None:
    """The last attempt counts, but what it does not make again is not missing."""
    approved = approve(x=1)
    earlier = {("x", approved[0].id): 1}

    assert {} == differences(compare(approved, {"x": 0}, made_earlier=earlier))
    assert {"x": (1, 2)} == differences(compare(approved, {"x": 2}, made_earlier=earlier))


def test_an_unknown_number_is_not_judged() -> None:
    """Nor is a scope that may have taken over calls of it."""
    (call,) = approve(x=1, y=1)
    assert call.record is not None
    source = {**call.source, "scopes": [{"scope": "x"}, {"scope": "y", "calls": 1}]}
    older = [call._replace(record={**call.record, "source": source})]

    assert {} == differences(compare(older, {"x": 7, "y": 1, "z": 3}))
    assert {"y": (1, 2)} == differences(compare(older, {"x": 7, "y": 2}))


def test_calls_of_turns_are_added_up_unless_one_is_unknown() -> None:
    assert {"x": 3, "y": 0} == count_calls(
        [ScopeTurn("x", 0, 1), ScopeTurn("x", 1, 2), ScopeTurn("y", 0, 1), ScopeTurn("y", 1), ScopeTurn("y", 2, 1)]
    )


def test_a_case_is_gone_if_its_function_was_collected() -> None:
    collected = {"t.py::a[1]", "t.py::b", "t.py::C::d[x]"}
    scopes = ["t.py::a[1]", "t.py::a[2]", "t.py::b[3]", "t.py::c[1]", "t.py::C::d[y]", "t.py::b"]

    assert ["t.py::a[2]", "t.py::b[3]", "t.py::C::d[y]"] == find_gone_cases(scopes, collected)
