"""The pages about sessions over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stored_traces import call, store_calls, time_ago, trace_id
from support.trace_project import make_trace_project
from support.ui_servers import RunningUi, run_ui
from traceforge.exchange import Caller
from traceforge.ui.pages import session_pages


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_trace_project(tmp_path)


@pytest.fixture
def ui(project: Path) -> Iterator[RunningUi]:
    with run_ui(project) as running:
        yield running


def test_the_list_leads_to_a_session_and_that_to_its_calls(ui: RunningUi) -> None:
    """By its id or the beginning of it: the child below its parent, with its state."""
    assert 'href="/sessions/quiz-7"' in ui.page("/sessions")

    page = ui.page("/sessions/quiz-7")

    steps = re.findall(r'depth-(\d)".*?href="/traces/([^"]+)"', page, re.DOTALL)
    assert [("0", trace_id(5)), ("1", trace_id(6))] == steps
    for text in ("1 failed", "app/quiz.py:12", "<code>open</code> <ins>2</ins>", "Own code and tools"):
        assert text in page
    assert page == ui.page("/sessions/quiz").replace('"/share/sessions/quiz"', '"/share/sessions/quiz-7"')


def test_the_session_of_a_test_has_its_node_id_as_its_address(project: Path) -> None:
    """It has slashes, brackets and spaces."""
    name = "tests/test_a.py::test_b[x y/?]"
    store_calls(project, call(30, caller=Caller(session_id=name), at=time_ago(minutes=1)))
    with run_ui(project) as ui:
        (address,) = re.findall(r'href="(/sessions/tests[^"]+)"', ui.page("/sessions"))
        assert "test_b[x y/?]</h1>" in ui.page(address)
        assert f'href="{address}"' in ui.page(f"/traces/{trace_id(30)}")


@pytest.mark.parametrize(("text", "expected"), [("QUIZ", 1), ("quiz gpt", 1), ("claude", 0), ("quiz claude", 0)])
def test_sessions_are_filtered_by_their_name_and_models(ui: RunningUi, text: str, expected: int) -> None:
    """Every word must be in them; a filter that nothing matches says how to show all."""
    page = ui.page("/sessions", params={"q": text})

    assert expected == page.count('href="/sessions/quiz-7"')
    assert (expected == 0) == ("No session matches" in page)


def test_an_unknown_session_is_not_found(ui: RunningUi) -> None:
    assert "There is no session nothing-here." in ui.page("/sessions/nothing-here", status=404)


def test_a_project_without_sessions_says_what_to_run(tmp_path: Path) -> None:
    with run_ui(tmp_path) as ui:
        assert "traceforge run -- python your_agent.py" in ui.page("/sessions")


def test_more_sessions_are_one_click_away(project: Path) -> None:
    store_calls(project, *(call(n, caller=Caller(session_id=f"run-{n}")) for n in range(100, 155)))
    with run_ui(project) as ui:
        first, rest = ui.page("/sessions"), ui.page("/sessions?limit=100")

    assert (50, True) == (first.count("<tr data-item"), "/sessions?limit=100" in first)
    assert (56, False) == (rest.count("<tr data-item"), "Show more" in rest)


@pytest.mark.parametrize("limit", ["0", "-1", "x", "٣", "9" * 5000])
def test_a_limit_that_is_no_number_of_sessions_is_ignored(ui: RunningUi, limit: str) -> None:
    assert "quiz-7" in ui.page("/sessions", params={"limit": limit})


def test_a_long_session_shows_its_first_steps(project: Path) -> None:
    count = session_pages.STEPS_MAX + 3
    store_calls(project, *(call(1000 + n, caller=Caller(session_id="long", step_index=n)) for n in range(count)))
    with run_ui(project) as ui:
        page = ui.page("/sessions/long")

    assert session_pages.STEPS_MAX == page.count("<tr data-item")
    assert "3 more calls are in" in page


def test_what_a_session_holds_is_text(project: Path) -> None:
    """Its name, its models, its call sites and its state."""
    text = "<img src=x onerror=alert(1)>{{ 7654 * 1000 }}\u202e"
    caller = Caller(f"{text}.py:1:f", "", text, 0, "", {text: text})
    store_calls(project, call(31, model=text, caller=caller, at=time_ago(minutes=1)))
    with run_ui(project) as ui:
        pages = ui.page("/sessions") + ui.page("/sessions/<img")

    assert "&lt;img" in pages
    assert not re.search("<img|7654000|\u202e", pages)
