"""The page about a call over HTTP: what it shows, what can be copied, and how a call is removed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.stored_traces import TRACES, call, store_calls, time_ago, trace_id
from support.trace_project import make_trace_project, run
from support.ui_servers import RunningUi, run_ui
from traceforge.canon import parse_json
from traceforge.redact.redactor import Redactor
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_composer import TraceComposer
from traceforge.ui.page_context import UiOptions


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_trace_project(tmp_path)


@pytest.fixture
def ui(project: Path) -> Iterator[RunningUi]:
    with run_ui(project) as running:
        yield running


def test_a_call_is_shown_with_its_facts_and_its_conversation(ui: RunningUi) -> None:
    """By its id, or the beginning of it."""
    page = ui.page("/traces/00000006")

    for text in ("Hello again", "app/quiz.py:12", "quiz-7", "step 1", "max_tokens", "https://api.openai.com/v1/chat"):
        assert text in page
    assert f'href="/traces/{trace_id(5)}"' in page  # Its parent, and the next older call.
    whole = ui.page(f"/traces/{trace_id(6)}")
    assert page.replace("/share/traces/00000006", f"/share/traces/{trace_id(6)}") == whole


def test_the_provider_of_a_call_leads_to_its_calls(ui: RunningUi) -> None:
    assert '<a href="/traces?provider=anthropic"' in ui.page(f"/traces/{trace_id(4)}")


def test_redactions_are_marked(ui: RunningUi) -> None:
    page = ui.page(f"/traces/{trace_id(2)}")

    assert '<mark class="redacted">[REDACTED]</mark>' in page
    assert "ann@example.org" not in page


def test_a_field_that_does_not_fit_the_page_is_named(ui: RunningUi, project: Path) -> None:
    """In plain words, with the place where it is unchanged; `trace show` names it too."""
    store_calls(project, call(40, temperature="warm"))

    page = ui.page(f"/traces/{trace_id(40)}")

    assert "1 field of this call does not fit this page." in page
    assert "<code>$.request.temperature</code>" in page
    assert "got string; left out" in page
    assert "Unusual fields" not in ui.page(f"/traces/{trace_id(1)}")
    assert "  unusual   $.request.temperature" in run(project, "show", trace_id(40)).out


def test_a_call_has_its_neighbours(ui: RunningUi) -> None:
    """The newest has no newer one, the oldest no older one."""
    shortcut = re.compile(r'href="/traces/0000000(\d)-[^"]*" data-shortcut="([np])"')
    links = {number: shortcut.findall(ui.page(f"/traces/{trace_id(number)}")) for number in (1, 3, 6)}

    assert {1: [("2", "p")], 3: [("4", "p"), ("2", "n")], 6: [("5", "n")]} == links


def test_the_raw_page_has_the_whole_trace(ui: RunningUi) -> None:
    response = ui.http.get(f"/traces/{trace_id(3)}/raw")
    trace = parse_json(response.content)

    assert "application/json" == response.headers["content-type"]
    assert f'attachment; filename="trace-{trace_id(3)}.json"' == response.headers["content-disposition"]
    assert isinstance(trace, dict)
    assert trace_id(3) == trace["id"]


@pytest.mark.parametrize(
    ("language", "start"), [("curl", "curl -X POST"), ("python", "import os"), ("test", "import os")]
)
def test_a_call_can_be_copied(ui: RunningUi, language: str, start: str) -> None:
    assert ui.page(f"/traces/{trace_id(1)}/copy/{language}").startswith(start)


def test_a_language_that_is_unknown_has_no_copy(ui: RunningUi) -> None:
    ui.page(f"/traces/{trace_id(1)}/copy/cobol", status=404)


def test_a_call_is_removed_after_a_question(project: Path, ui: RunningUi) -> None:
    """With its file; the list has it no more."""
    path = f"/traces/{trace_id(3)}/delete"
    assert "Delete this call?" in ui.page(path)
    assert list((project / TRACES).glob(f"*{trace_id(3)}.json"))

    removed = ui.post(path)

    assert (303, "/traces") == (removed.status_code, removed.headers["location"])
    assert [] == list((project / TRACES).glob(f"*{trace_id(3)}.json"))
    assert trace_id(3) not in ui.page("/traces")
    ui.page(f"/traces/{trace_id(3)}", status=404)


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, True),
        ({"Origin": "http://evil.example"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, False),
    ],
)
def test_nothing_is_removed_for_a_page_of_others(ui: RunningUi, headers: dict[str, str], token: bool) -> None:
    """Or without the token of the form."""
    fields = {"form_token": ui.server.application.access.form_token} if token else {}
    refused = ui.http.post(f"/traces/{trace_id(3)}/delete", data=fields, headers=headers)

    assert 403 == refused.status_code
    ui.page(f"/traces/{trace_id(3)}")


def test_nothing_is_removed_by_a_browser_without_the_cookie(project: Path) -> None:
    with run_ui(project, signed_in=False) as ui:
        data = {"form_token": ui.server.application.access.form_token}
        refused = ui.http.post(f"/traces/{trace_id(3)}/delete", data=data, headers={"Sec-Fetch-Site": "same-origin"})
        ui.sign_in()
        ui.page(f"/traces/{trace_id(3)}")

    assert 401 == refused.status_code


def test_a_read_only_server_hides_and_refuses_every_action(project: Path) -> None:
    with run_ui(project, options=UiOptions(is_read_only=True)) as ui:
        page = ui.page(f"/traces/{trace_id(3)}")
        refused = ui.post(f"/traces/{trace_id(3)}/delete")
        ui.page(f"/traces/{trace_id(3)}")

    assert "/delete" not in page
    assert "read-only" in page
    assert (403, True) == (refused.status_code, "--read-only" in refused.text)


def test_a_form_that_is_too_large_is_refused(project: Path) -> None:
    with run_ui(project, body_bytes=1000) as ui:
        assert 413 == ui.post(f"/traces/{trace_id(3)}/delete", padding="x" * 2000).status_code


def test_a_trace_of_a_process_that_still_records_stays(project: Path, ui: RunningUi) -> None:
    """As `trace prune` leaves it; the page says why."""
    writer = SpoolWriter(str(project / TRACES))
    writer.append(TraceComposer(Redactor(), None).compose(call(9, at=time_ago(minutes=1))))

    refused = ui.post(f"/traces/{trace_id(9)}/delete")
    writer.seal()

    assert (409, True) == (refused.status_code, "TF204" in refused.text)


def test_a_call_site_opens_in_the_editor(project: Path) -> None:
    with run_ui(project, options=UiOptions(editor="vscode://file/{path}:{line}")) as ui:
        assert f'href="vscode://file/{project}/app/quiz.py:12"' in ui.page(f"/traces/{trace_id(6)}")


@pytest.mark.parametrize(
    "prompt", ["<script>alert(1)</script>", "{{ 7654 * 1000 }}", "<img src=x onerror=alert(1)>", "\u202eevil\u200b"]
)
def test_what_a_model_saw_is_text(project: Path, prompt: str) -> None:
    """In the conversation, in the bodies, and in every place that names the model."""
    store_calls(project, call(40, prompt, f"**{prompt}**", model=prompt, at=time_ago(minutes=1)))
    with run_ui(project) as ui:
        page = ui.page(f"/traces/{trace_id(40)}") + ui.page("/traces")

    assert not re.search(
        r"<script>|<img|7654000|[\u202e\u200b]", re.sub(r"/static/[0-9a-f]+/|form-token.*", "", page)
    )


def test_a_stream_has_a_player_and_its_frames(ui: RunningUi) -> None:
    """Each chunk with its time; together they are the answer. A call that was not streamed has none."""
    page = ui.page(f"/traces/{trace_id(3)}/stream")
    frames = ui.http.get(f"/traces/{trace_id(3)}/stream/frames").json()

    assert "Once upon a time." in page
    assert "Once upon a time." == "".join(frames["texts"])
    assert [12.5 * number for number in range(1, 7)] == frames["times"]
    assert "was not streamed" in ui.page(f"/traces/{trace_id(1)}/stream", status=404)
    assert f'href="/traces/{trace_id(3)}/stream"' in ui.page(f"/traces/{trace_id(3)}")


def test_two_calls_are_compared_as_the_command_does(ui: RunningUi) -> None:
    """Side by side or inline; with itself, a call is the same."""
    page = ui.page("/traces/00000001/compare/00000004")

    assert "different" in page
    assert "request.model" in page
    assert "diff-inline" in ui.page("/traces/00000001/compare/00000002?layout=inline")
    assert "the same" in ui.page("/traces/00000001/compare/00000001")
    ui.page("/traces/00000001/compare/ffffffff", status=404)


def test_another_call_is_chosen_from_a_list_or_by_its_id(ui: RunningUi) -> None:
    """Calls of the same endpoint; an id leads to the comparison."""
    page = ui.page(f"/traces/{trace_id(1)}/compare")
    chosen = ui.http.get(f"/traces/{trace_id(1)}/compare?with=00000004")

    assert [2, 3, 5, 6] == sorted(int(n) for n in re.findall(r"/compare/0000000(\d)-", page))
    assert f"/traces/{trace_id(1)}/compare/00000004" == chosen.headers["location"]


@pytest.mark.parametrize(
    ("text", "expected"), [("provider:anthropic", [4]), ("status:error", [5]), ("story", [3]), ("face", [])]
)
def test_another_call_is_found_with_the_words_of_the_list(ui: RunningUi, text: str, expected: list[int]) -> None:
    """Also by a word that could be the beginning of an id."""
    page = ui.page(f"/traces/{trace_id(1)}/compare", params={"with": text})

    assert expected == sorted(int(n) for n in re.findall(r"/compare/0000000(\d)-", page))
    assert f'value="{text}"' in page


def test_the_cost_of_a_call_is_that_of_its_prices(project: Path) -> None:
    """Unless the provider states one: the page says which."""
    prices = {"input_price_per_million": 1000, "output_price_per_million": 2000}
    (project / "traceforge.config.json").write_text(json.dumps({"models": {"gpt-*": prices}}))
    with run_ui(project) as ui:
        page, session = ui.page(f"/traces/{trace_id(1)}"), ui.page("/sessions/quiz-7")

    assert "0.0280 <span" in page
    assert "by price" in page
    assert "cost 0.0280" in session
