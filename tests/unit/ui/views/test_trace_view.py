"""The facts about a call, and its row in the list."""

from __future__ import annotations

from typing import Any

from support.stored_traces import call
from traceforge.canon import JSON, JSONObject
from traceforge.exchange import Caller
from traceforge.redact.redactor import Redactor
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_format import Trace, read_trace
from traceforge.ui.views.trace_list_view import session_label, split_snippet
from traceforge.ui.views.trace_view import CallSite, RedactionCount, view_trace


def trace(**options: Any) -> Trace:
    return read_trace(TraceComposer(Redactor(), None).compose(call(1, **options)).trace)


def test_the_facts_of_a_call() -> None:
    caller = Caller("app/quiz.py:12:ask", "", "tests/test_quiz.py::test_ask[de]", 3)
    view = view_trace(trace(caller=caller, temperature=0, prompt="Write to ann@example.org"), is_stream=False)

    assert ("gpt-4.1-mini", "openai", "POST", 200) == (view.title, view.provider, view.method, view.http_status)
    assert ("test_ask[de]", 3) == (view.session_label, view.step)
    assert CallSite("app/quiz.py:12", "ask", "") == view.call_site
    assert (("max_tokens", "64"), ("temperature", "0")) == view.parameters
    assert (("input", 14.0), ("output", 7.0), ("total", 21.0)) == view.usage
    assert [RedactionCount("request", "EMAIL", 1), RedactionCount("request", "FIELD", 1)] == list(view.redactions)
    assert "authorization: [REDACTED]" in view.request_headers


def test_what_the_page_shows_elsewhere_is_no_parameter() -> None:
    """The frames of a WebSocket are the conversation; beside it they were a wall of JSON."""
    known = trace()
    request: JSON = {"client_frames": [{"json": {"type": "response.create"}}], "prompt": "Hi", "voice": "alloy"}

    view = view_trace(known._replace(body={**known.body, "request": request}), is_stream=False)

    assert (("voice", '"alloy"'),) == view.parameters


def test_a_field_that_does_not_fit_is_named_with_what_is_shown() -> None:
    """Or that it is left out; what is not such an entry is passed over."""
    entries: list[JSON] = [
        {"path": "$.response.created", "problem": "must be number or null, got string", "shown_as": None},
        {"path": "$.response.choices[0].message.name", "problem": "must be string, got null"},
        7,
    ]
    view = view_trace(trace()._replace(body={**trace().body, "view_problems": entries}), is_stream=False)

    assert [
        ("$.response.created", "must be number or null, got string; shown as null"),
        ("$.response.choices[0].message.name", "must be string, got null; left out"),
    ] == [(problem.path, problem.sentence) for problem in view.problems]


def test_an_error_is_an_error() -> None:
    view = view_trace(trace(answer="overloaded", status=503), is_stream=False)

    assert (True, 503) == (view.is_error, view.http_status)
    assert "overloaded" in view.error


def test_a_field_of_another_type_is_left_out() -> None:
    """A file that was edited by hand still has a page."""
    body: JSONObject = {
        **trace().body, "wire": [1], "redacted": "x", "source": {"file": 3}, "session_id": 7, "step_index": True,
        "request": {"model": "m", "tools": [3, {"type": "web_search"}]}, "response": {"usage": [1]},
    }  # fmt: skip
    view = view_trace(trace()._replace(body=body), is_stream=False)

    assert (None, None, (), (), "") == (view.call_site, view.step, view.usage, view.redactions, view.session_id)
    assert ("web_search",) == view.tools


def test_a_session_of_a_test_is_named_without_its_file() -> None:
    assert ["test_a[x::y]", "run-7", ""] == [
        session_label(name) for name in ("tests/test_a.py::test_a[x::y]", "run-7", "")
    ]


def test_a_snippet_marks_its_matches() -> None:
    """A mark without an end, or an end without a mark, is no reason to lose text."""
    assert ((False, "a "), (True, "b"), (False, " c")) == split_snippet("a \x02b\x03\n c")
    assert ((False, "a "), (True, "b")) == split_snippet("a \x02b")
    assert () == split_snippet("")
