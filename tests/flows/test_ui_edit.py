"""Edit a request and send it again to the live model: asked first, recorded as a child, and never somewhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import msgspec
import pytest

from support.model_servers import ModelServer, model_server
from support.stored_traces import TRACES, call, store_calls, trace_id
from support.trace_project import make_trace_project
from support.ui_browser import NARROW, UiPage, visit
from support.ui_servers import RunningUi, run_ui
from traceforge.canon import parse_json
from traceforge.ui.page_context import UiOptions

KEY = "sk-of-the-operator-0000000000000"
EDIT, SEND = f"/traces/{trace_id(2)}/edit", f"/traces/{trace_id(2)}/send"
PARAMETERS = '{"model": "gpt-4.1-mini", "max_tokens": 64}'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("CI", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return make_trace_project(tmp_path)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def ui(project: Path, model: ModelServer) -> Iterator[RunningUi]:
    with run_ui(project, options=UiOptions(targets=(("openai", model.url),))) as running:
        yield running


def asked_request(page: str) -> str:
    """The request that the question would send."""
    match = re.search(r'<textarea name="request" hidden[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert match
    return unescape(match[1])


def test_a_call_is_edited_and_sent_after_a_question(ui: RunningUi, model: ModelServer) -> None:
    """The answer is a trace whose parent is the original; each page leads to the other."""
    question = ui.post(EDIT, text="Write to the zoo.", parameters=PARAMETERS)
    assert (200, 0) == (question.status_code, model.served)
    assert "Send this call?" in question.text
    assert model.url in question.text

    sent = ui.post(SEND, request=asked_request(question.text))

    assert (303, 1) == (sent.status_code, model.served)
    new_id = sent.headers["location"].removeprefix("/traces/")
    trace = parse_json(ui.http.get(f"/traces/{new_id}/raw").content)
    assert isinstance(trace, dict)
    assert (trace_id(2), "Write to the zoo.") == (
        trace["parent_trace_id"],
        trace["provider_request"]["messages"][0]["content"],  # type: ignore[index, call-overload]
    )
    assert f"/traces/{trace_id(2)}/compare/{new_id}" in ui.page(f"/traces/{new_id}")
    assert f'href="/traces/{new_id}"' in ui.page(f"/traces/{trace_id(2)}")
    assert new_id in ui.page("/traces")


def test_no_page_and_no_file_has_the_key(ui: RunningUi, project: Path) -> None:
    """It is named, and nothing else."""
    question = ui.post(EDIT, text="Hello", parameters=PARAMETERS)
    sent = ui.post(SEND, request=asked_request(question.text))
    pages = [ui.page(EDIT), question.text, ui.page(sent.headers["location"])]
    files = [file.read_bytes() for file in (project / TRACES).rglob("*") if file.is_file()]

    assert "OPENAI_API_KEY" in question.text
    assert [] == [page for page in pages if KEY in page]
    assert [] == [data for data in files if KEY.encode() in data]


def test_a_redacted_value_is_pointed_out(ui: RunningUi) -> None:
    """The e-mail address of the original was never stored."""
    question = ui.post(EDIT, text="Write to [REDACTED].", parameters=PARAMETERS)

    assert "1 value redacted" in ui.page(EDIT)
    assert "[REDACTED]" in asked_request(question.text)
    assert "1 value" in question.text


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"request": "{"}, "The request: "),
        ({"request": "[1]"}, "The request must be a JSON object"),
        ({"text": "Hi", "parameters": "nothing"}, "The parameters: "),
    ],
)
def test_a_form_that_is_no_request_is_shown_again(ui: RunningUi, fields: dict[str, str], problem: str) -> None:
    """At the question and at the call; nothing is sent."""
    for path in (EDIT, SEND):
        response = ui.post(path, **fields)
        assert (400, True) == (response.status_code, problem in response.text), path


def test_the_request_can_be_edited_again_before_it_is_sent(ui: RunningUi) -> None:
    """The form has what the question had."""
    question = ui.post(EDIT, text="Write to the zoo.", parameters=PARAMETERS)
    form = ui.post(EDIT, request=asked_request(question.text), again="1")

    assert (200, True) == (form.status_code, "Write to the zoo." in form.text)


def test_nothing_is_sent_where_ci_is_set(ui: RunningUi, model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    refused = ui.post(SEND, request='{"model": "m", "messages": []}')

    assert (409, 0) == (refused.status_code, model.served)
    assert "CI is set" in refused.text
    assert "<textarea" not in ui.page(EDIT)


def test_a_read_only_server_sends_nothing(project: Path, model: ModelServer) -> None:
    """Its pages have no way to it."""
    options = UiOptions(is_read_only=True, targets=(("openai", model.url),))
    with run_ui(project, options=options) as ui:
        refused = [ui.post(path, request="{}").status_code for path in (EDIT, SEND)]
        page, form = ui.page(f"/traces/{trace_id(2)}"), ui.page(EDIT)

    assert ([403, 403], 0) == (refused, model.served)
    assert "/edit" not in page
    assert "<textarea" not in form


def test_an_address_that_only_the_checkout_names_gets_no_call(project: Path, model: ModelServer) -> None:
    """The form says how to name it; the call is refused as well."""
    (project / "traceforge.config.json").write_text(f'{{"upstreams": {{"corp": "{model.url}"}}}}')
    store_calls(project, msgspec.structs.replace(call(8), provider="corp", url=f"{model.url}/v1/chat/completions"))
    with run_ui(project) as ui:
        form = ui.page(f"/traces/{trace_id(8)}/edit")
        refused = ui.post(f"/traces/{trace_id(8)}/send", request='{"model": "m", "messages": []}')

    assert (409, 0) == (refused.status_code, model.served)
    assert "TRACEFORGE_UPSTREAM_CORP" in form


def test_an_error_of_the_provider_is_recorded(ui: RunningUi, model: ModelServer) -> None:
    """It is an answer: its page says what the provider refused."""
    sent = ui.post(SEND, request='{"model": "m", "messages": "none"}')

    assert 303 == sent.status_code
    assert "error" in ui.page(sent.headers["location"])


@pytest.mark.slow
def test_a_call_is_edited_and_sent_with_the_keyboard_alone(tmp_path: Path, ui: RunningUi, model: ModelServer) -> None:
    """`e`, `/` and the text, Esc, `e`, `r` to edit it again, and `a`; on a narrow screen nothing scrolls sideways."""

    question = "document.querySelector('h1')?.textContent === 'Send this call?'"

    async def write(page: UiPage, field: str, text: str) -> None:
        await page.arrive(f"document.querySelector('textarea[name={field}]:not([hidden])') !== null")
        await page.key("/")
        await page.tab.until(f"document.activeElement.matches('textarea[name={field}]')")
        await page.tab.type(text)  # It replaces what `/` has selected.
        await page.tab.press("Escape")
        await page.tab.until("document.activeElement === document.body")
        await page.picture("edit")
        await page.key("e")
        await page.arrive(question)

    async def work(page: UiPage) -> None:
        await page.key("e")
        await write(page, "text", "Write to the sea.")
        assert "Write to the sea." in await page.text("textarea[name=request]")
        await page.key("r")
        messages = [{"role": "user", "content": "Write to the zoo."}]
        await write(page, "request", json.dumps({"model": "gpt-4.1-mini", "messages": messages}))
        await page.picture("send")
        await page.resize(NARROW)
        await page.check_layout()
        assert 0 == model.served
        await page.key("a")
        await page.arrive("/^\\/traces\\/[0-9a-f-]+$/.test(location.pathname)")
        await page.check_layout()
        assert 1 == model.served
        assert "Write to the zoo." in await page.text("main")

    visit(tmp_path, ui.sign_in_at(f"/traces/{trace_id(2)}"), work)
