"""Hostile content on the pages: it is inert, hidden characters are visible, and no page is without end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.hostile_page import HOSTILE, PAGE_CHARS_MAX, SECRET, TITLE_TAKEN, check_page
from support.stored_traces import call, store_calls, trace_id
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import RunningUi, run_ui
from traceforge.exchange import Caller, Exchange
from traceforge.ui.page_context import PageRoute
from traceforge.ui.ui_server import AREAS
from traceforge.ui.views.call_preview import PREVIEW_CHARS

LONG = ("a line of 5 MB", "a million tokens in lines", "a million words")
ROW_HEIGHT_MAX = 120  # On a narrow screen a row has several lines.
ELEMENTS_MAX = 5_000  # Of the page of a call with one message.
SAFE = 200  # The number of a trace without anything special, to compare with.


def with_messages(number: int, messages: list[dict[str, Any]]) -> Exchange:
    exchange = call(number)
    body = {**json.loads(exchange.request_body), "messages": messages}
    return msgspec.structs.replace(exchange, request_body=json.dumps(body).encode())


def with_body(number: int, body: bytes) -> Exchange:
    return msgspec.structs.replace(call(number), request_body=body)


def nest_results(levels: int) -> dict[str, Any]:
    """A result inside of a result, and so on."""
    innermost: dict[str, Any] = {"type": "text", "text": "innermost"}
    return reduce(
        lambda part, _: {"type": "tool_result", "tool_use_id": "x", "content": [part]}, range(levels), innermost
    )


def hostile_call(number: int) -> Exchange:
    """Hostile text in every field that an application or a provider fills."""
    tool = {
        "type": "function",
        "function": {"name": HOSTILE, "description": HOSTILE, "parameters": {HOSTILE: HOSTILE}},
    }
    caller = Caller(f"{HOSTILE}:1:{HOSTILE}", HOSTILE, HOSTILE, 1, "", {HOSTILE: HOSTILE})
    exchange = call(number, HOSTILE, HOSTILE, model=HOSTILE, caller=caller, tools=[tool], stop=HOSTILE)
    headers = ((f"x-{HOSTILE}", HOSTILE), ("authorization", f"Bearer {SECRET}"), *exchange.request_headers)
    return msgspec.structs.replace(exchange, request_headers=headers, url=f"{exchange.url}/{HOSTILE}")


def with_problems(number: int) -> Exchange:
    """Fields that do not fit the view: a hostile name, and more of them than a page lists."""
    message = {"role": "user", "content": "hi", "name": None, HOSTILE: [None]}
    return with_messages(number, [message] * 100)


CALLS: dict[str, Any] = {
    "every field": hostile_call,
    "fields that do not fit": with_problems,
    "a secret": lambda n: call(n, f"My key is {SECRET}.", f"Your key is {SECRET}."),
    "a line of 5 MB": lambda n: call(n, "x" * 5_000_000, "y" * 5_000_000),
    "a million tokens in lines": lambda n: call(n, HOSTILE + " Five tokens are here.\n" * 200_000 + HOSTILE),
    "a million words": lambda n: call(n, "word " * 1_000_000),
    "invalid UTF-8": lambda n: with_body(n, b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe\xc3("}]}'),
    "deep text": lambda n: call(n, "[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000),
    "a deep body": lambda n: with_body(n, b'{"model":"m","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    "nested results": lambda n: with_messages(n, [{"role": "user", "content": [nest_results(80)]}]),
}
NUMBERS = {name: number for number, name in enumerate(CALLS, start=1)}
PAGES = [page.path for area in AREAS for page in area.pages if isinstance(page, PageRoute)]
TRACE_PAGES = [path for path in PAGES if "{trace_id}" in path]


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUi]:
    project = tmp_path_factory.mktemp("hostile")
    (project / "traceforge.config.json").write_text("{}")
    for name, make in CALLS.items():
        store_calls(project, make(NUMBERS[name]))
    store_calls(project, call(SAFE))
    with run_ui(project) as running:
        running.http.timeout = 600  # Nothing here is about time; a hang ends the test run.
        yield running


@pytest.mark.parametrize("name", CALLS)
def test_every_page_of_a_hostile_trace_is_bounded_and_inert(ui: RunningUi, name: str) -> None:
    identifier = trace_id(NUMBERS[name])
    for path in TRACE_PAGES:
        filled = path.replace("{trace_id}", identifier).replace("{language}", "python")
        check_page(ui, filled.replace("{other_id}", trace_id(SAFE)))
    assert "<html" in ui.page(f"/share/traces/{identifier}")


@pytest.mark.slow
def test_a_prompt_of_a_million_tokens_leaves_the_pages_usable(ui: RunningUi, tmp_path: Path) -> None:
    """In the previews of the list and on the page of the call: bounded and inert, and the layout holds."""

    async def check(page: UiPage, path: str) -> None:
        for width in (WIDE, NARROW):
            await page.resize(width)
            await page.go(f"{ui.origin}{path}")
            await page.check_layout()
            await page.tab.eval("document.querySelectorAll('details').forEach((d) => { d.open = true })")
            await page.check_layout()
        assert PAGE_CHARS_MAX > await page.tab.eval("document.documentElement.outerHTML.length"), path
        assert TITLE_TAKEN not in await page.tab.eval("document.title"), path

    async def work(page: UiPage) -> None:
        await check(page, "/traces")
        rows = await page.tab.eval(
            "[...document.querySelectorAll('tr[data-item]')].map(row => [row.dataset.id, row.offsetHeight])"
        )
        assert {trace_id(NUMBERS[name]) for name in LONG} < {identifier for identifier, _ in rows}
        assert [] == [row for row in rows if row[1] > ROW_HEIGHT_MAX]
        previews = "[...document.querySelectorAll('tr[data-item] .preview')].map(cell => cell.textContent.length)"
        assert 0 < max(await page.tab.eval(previews)) < 3 * PREVIEW_CHARS  # The prompt and the answer.
        for name in LONG:
            await check(page, f"/traces/{trace_id(NUMBERS[name])}")
            assert ELEMENTS_MAX > await page.tab.eval("document.querySelectorAll('*').length"), name
            await page.key("j")
            await page.tab.until("document.activeElement.matches('section.turn')")

    visit(tmp_path, ui.sign_in_url, work)
