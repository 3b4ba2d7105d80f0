"""A session as the page shows it: its tree, its places in time, its totals."""

from __future__ import annotations

from traceforge.canon import JSONObject
from traceforge.traces.trace_index import TraceSession
from traceforge.traces.trace_summary import TraceSummary
from traceforge.ui.views.call_preview import CallPreview
from traceforge.ui.views.session_view import StateChange, StepContent, read_step, session_item, view_session


def summary(
    number: int, *, at: str = "00.000", ms: float = 100.0, parent: int = 0, status: str = "success", **fields: object
) -> TraceSummary:
    """A call of a session, `at` seconds after nine."""
    values: dict[str, object] = {
        "id": step_id(number), "timestamp": f"2025-03-02T09:00:{at}Z", "endpoint": "/v1/chat", "provider": "openai",
        "model": "gpt-4.1", "status": status, "duration_ms": ms, "tokens": 10.0, "session_id": "s",
        "step_index": number,
        "parent_trace_id": step_id(parent) if parent else "", "source": "app.py:1", "digest": "", "streamed": False,
    }  # fmt: skip
    return TraceSummary(**{**values, **fields})  # type: ignore[arg-type]


def step_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def test_children_stand_below_their_parents() -> None:
    """Siblings in the order of their steps; a parent of another session is named."""
    calls = [summary(1), summary(2, parent=1), summary(3), summary(4, parent=2), summary(5, parent=9)]

    view = view_session("s", calls, {}, 10)

    assert [(1, 0), (2, 1), (4, 2), (3, 0), (5, 0)] == [(step.step, step.depth) for step in view.steps]
    assert "its parent 00000009" in view.steps[-1].note
    assert "" == view.steps[0].note


def test_time_with_a_call_and_time_without_one_make_the_whole() -> None:
    """Two calls at the same time count once."""
    calls = [summary(1, at="00.000", ms=400), summary(2, at="00.200", ms=400), summary(3, at="01.000", ms=100)]

    view = view_session("s", calls, {}, 10)

    assert (1100, 700, 400) == (view.elapsed_ms, view.model_ms, view.own_ms)
    assert [0, 200, 1000] == [step.start_ms for step in view.steps]


def test_the_time_of_tools_is_not_that_of_a_model() -> None:
    """A tool server or a function has no known provider and no model; a server of your own may have a model."""
    calls = [
        summary(1, at="00.000", ms=400, provider="other", model=""),
        summary(2, at="00.400", ms=100),
        summary(3, at="00.500", ms=200, provider="other", model="mine"),
    ]

    view = view_session("s", calls, {}, 10)

    assert (700, 300, 400) == (view.elapsed_ms, view.model_ms, view.own_ms)


def test_totals_are_of_all_calls_and_only_some_are_shown() -> None:
    calls = [summary(number, status="error" if number == 3 else "success") for number in range(1, 6)]

    view = view_session("s", calls, {step_id(1): StepContent(cost=0.5), step_id(2): StepContent(cost=0.25)}, 2)

    assert (2, 3) == (len(view.steps), view.omitted)
    assert (5, 1, 50, 0.75) == (view.calls, view.errors, view.tokens, view.cost)


def test_a_cost_that_nobody_stated_is_unknown() -> None:
    assert view_session("s", [summary(1)], {step_id(1): StepContent()}, 10).cost is None


def test_shares_are_sums_by_name_with_the_longest_first() -> None:
    calls = [summary(1, ms=10), summary(2, ms=30, model="claude"), summary(3, ms=5, source="", status="error")]

    view = view_session("s", calls, {}, 10)

    assert [("claude", 1, 0, 10, 30), ("gpt-4.1", 2, 1, 20, 15)] == [tuple(share) for share in view.models]
    assert [("app.py:1", 2)] == [(share.name, share.calls) for share in view.sites]


def test_a_step_says_what_it_changed_in_the_state() -> None:
    """Compared with the last step that has a state."""
    states: dict[int, JSONObject] = {1: {"open": 2, "name": "x"}, 3: {"open": 1, "done": True}}
    contents = {step_id(number): StepContent(state=state) for number, state in states.items()}

    view = view_session("s", [summary(1), summary(2), summary(3)], contents, 10)

    assert () == view.steps[1].state_changes
    assert view.steps[1].state_html is None
    expected = {StateChange("open", "2", "1"), StateChange("name", '"x"', ""), StateChange("done", "", "true")}
    assert expected == set(view.steps[2].state_changes)


def test_a_trace_of_any_shape_is_read() -> None:
    """Tools by name, a cost that is a number, a state that is an object."""
    message: JSONObject = {"tool_calls": [{"function": {"name": "find"}}, {"name": "send"}, "x", {"function": 3}]}
    body: JSONObject = {
        "response": {"choices": [{"message": message}, None], "usage": {"cost": 0.25}},
        "state_snapshot": {"a": 1},
    }

    assert StepContent(("find", "send"), 0.25, {"a": 1}, CallPreview("", "find() send()")) == read_step(body)
    hostile: list[JSONObject] = [
        {},
        {"response": "x", "state_snapshot": []},
        {"response": {"usage": {"cost": True}, "choices": {"message": 1}}},
    ]
    assert [StepContent()] * 3 == [read_step(body) for body in hostile]


def test_the_list_names_a_test_without_its_file() -> None:
    session = TraceSession("t/a.py::test_x[1]", 2, "2025-03-02T09:00:00.000Z", "2025-03-02T09:00:01.500Z", 1, 9.0, ())
    item = session_item(session)

    assert ("test_x[1]", "t/a.py", 1500) == (item.label, item.file, item.elapsed_ms)
    assert ("run-1", "") == session_item(session._replace(session_id="run-1"))[1:3]
