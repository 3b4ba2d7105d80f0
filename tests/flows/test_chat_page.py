"""The page of the chat in a real browser: with mouse, keyboard and screen reader."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.browser import Page, browser
from support.chat_servers import ChatProcess, chat_process, write_prompts
from support.upstream import ScriptedResponse, upstream

HASHES = {
    "system.md": "system_prompt_hash",
    "developer.md": "developer_prompt_hash",
    "session.md": "session_prompt_hash",
}


def _visit(folder: Path, url: str, work: Callable[[Page], Awaitable[None]]) -> None:
    """Open the page, run `work` on it, and check that the page logged no error."""

    async def run() -> None:
        async with browser(folder / "profile") as page:
            await page.open(url)
            await work(page)
            assert [] == page.problems()

    asyncio.run(run())


async def _answers(page: Page, number: int) -> list[str]:
    await page.until(f"document.querySelectorAll('article.model').length === {number}")
    text: list[str] = await page.eval("[...document.querySelectorAll('article .text')].map(e => e.textContent)")
    return text


def _posted(page: Page) -> list[Any]:
    return [json.loads(request["postData"]) for request in page.requests() if request["method"] == "POST"]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    return write_prompts(tmp_path / "prompts")


def _serve(tmp_path: Path, prompts: Path) -> Any:
    return chat_process(tmp_path, "--prompts", str(prompts))


@pytest.mark.slow
def test_a_conversation_by_keyboard_without_the_switch(tmp_path: Path, prompts: Path) -> None:
    """The focus is in the text box; Enter sends, Shift+Enter starts a line; no trace is requested or shown."""
    markup = "<b onclick=x>&amp;</b><script>document.title = 'owned'</script>"

    async def work(page: Page) -> None:
        await page.type("first line")
        await page.press("Enter", shift=True)
        await page.type(markup)
        await page.press("Enter")
        first = await _answers(page, 1)
        await page.type("second")
        await page.press("Enter")
        second = await _answers(page, 2)

        assert f"first line\n{markup}" == first[0]
        assert [*first, "second"] == second[:3]
        assert ["message", "session_id"] == list(_posted(page)[0])
        assert 1 == len({body["session_id"] for body in _posted(page)})
        assert "TraceForge chat" == await page.eval("document.title")
        assert 0 == await page.eval("document.querySelectorAll('details').length")
        assert "message" == await page.eval("document.activeElement.id")

    with _serve(tmp_path, prompts) as chat:
        _visit(tmp_path, chat.url, work)


@pytest.mark.slow
def test_the_trace_is_shown_and_prompt_files_are_checked_in_the_browser(tmp_path: Path, prompts: Path) -> None:
    """The view has every value of the response; a file is compared with its hash without an upload."""

    async def work(page: Page) -> None:
        await page.type("untraced")
        await page.press("Enter")
        await _answers(page, 1)
        await page.click("#trace")
        await page.click("#message")
        await page.type("traced")
        await page.click("#send")
        await _answers(page, 2)
        await page.click("summary")
        trace_json = json.loads(await page.eval("document.querySelector('details pre').textContent"))
        values = await page.eval("[...document.querySelectorAll('dd')].map(e => e.textContent)")
        hashes = await page.eval("[...document.querySelectorAll('tbody code')].map(e => e.textContent)")
        sent = len(page.requests())
        for row, (right, wrong) in enumerate(zip(HASHES, reversed(HASHES), strict=True), 1):
            verdict = f"document.querySelector('tbody tr:nth-child({row}) .verdict').textContent"
            await page.choose_file(f"tbody tr:nth-child({row}) button", prompts / right)
            assert f"Yes: {right} has this hash." == await page.until(f"{verdict}.length > 9 && {verdict}")
            if right != wrong:
                await page.choose_file(f"tbody tr:nth-child({row}) button", prompts / wrong)
                text = await page.until(f"{verdict}.startsWith('No') && {verdict}")
                assert f"No: {wrong} has the hash {_sha256sum(prompts / wrong)}." == text
        (prompts / "session.md").write_text("Changed.")
        await page.choose_file("tbody tr:nth-child(3) button", prompts / "session.md")
        await page.until(f"document.body.textContent.includes('{_sha256sum(prompts / 'session.md')}')")

        assert [False, True] == ["trace" in body for body in _posted(page)]
        assert True is _posted(page)[1]["trace"]
        assert 1 == await page.eval("document.querySelectorAll('details').length")
        assert {name: trace_json["inputs"][name] for name in HASHES.values()} == dict(
            zip(HASHES.values(), hashes, strict=True)
        )
        assert [
            trace_json["trace_id"],
            trace_json["timestamp"],
            "local",
            trace_json["session_id"],
            "traced",
        ] == values[:-1]
        assert values[-1] == trace_json["output"]["assistant_message"]
        assert before == dict(zip(HASHES, hashes, strict=True))
        assert sent == len(page.requests())

    before = {name: _sha256sum(prompts / name) for name in HASHES}
    with _serve(tmp_path, prompts) as chat:
        _visit(tmp_path, chat.url, work)


def _sha256sum(path: Path) -> str:
    return subprocess.run(["sha256sum", str(path)], capture_output=True, text=True, check=True).stdout.split()[0]


@pytest.mark.slow
def test_a_failure_is_shown_and_the_typed_message_stays(tmp_path: Path, prompts: Path) -> None:
    """The reason is in the status, which screen readers announce; the message can be sent again."""

    async def work(page: Page) -> None:
        await page.type("try this")
        await page.press("Enter")
        await page.until("document.querySelector('#status').className === 'failure'")
        text = await page.eval("document.querySelector('#status').textContent")
        box = await page.eval("document.querySelector('#message').value")
        model.respond_with(ScriptedResponse([b'{"choices":[{"message":{"content":"Now it works."}}]}']))
        await page.press("Enter")
        replies = await _answers(page, 1)

        assert "Not answered: the model's server responded with 500 Internal Server Error: out of order" == text
        assert "try this" == box
        assert ["try this", "Now it works."] == replies
        assert "" == await page.eval("document.querySelector('#status').textContent")
        assert "" == await page.eval("document.querySelector('#message').value")
        page.events = [
            event for event in page.events if "502" not in json.dumps(event)
        ]  # the browser logs the status

    with upstream() as model:
        model.respond_with(ScriptedResponse([b'{"error":{"message":"out of order"}}'], 500))
        arguments = ("--prompts", str(prompts), "--upstream", model.url, "--model", "m")
        with chat_process(tmp_path, *arguments) as chat:
            _visit(tmp_path, chat.url, work)


@pytest.mark.slow
def test_the_page_is_usable_with_keyboard_and_screen_reader(tmp_path: Path, prompts: Path) -> None:
    """Every control has a role and a name, is reached with Tab in page order, and shows its focus."""

    async def work(page: Page) -> None:
        order = []
        for _ in range(4):
            await page.press("Tab")
            order.append(await page.eval("document.activeElement.id || document.activeElement.tagName"))
        while "trace" != await page.eval("document.activeElement.id"):
            await page.press("Tab")
        outline = await page.eval("getComputedStyle(document.activeElement).outlineStyle")
        await page.press(" ")
        checked = await page.eval("document.querySelector('#trace').checked")
        await page.eval("document.querySelector('#message').focus()")
        await page.type("hello")
        await page.press("Enter")
        await _answers(page, 1)
        await page.eval("document.querySelector('summary').focus()")
        await page.press("Enter")
        opened = await page.eval("document.querySelector('details').open")
        heard = await page.tree()

        assert ["trace", "send"] == order[:2]
        assert "new-conversation" in order
        assert "solid" == outline
        assert True is checked is opened
        for expected in [
            ("heading", "TraceForge chat"),
            ("button", "New conversation"),
            ("log", "Conversation"),
            ("heading", "You"),
            ("heading", "Model"),
            ("DisclosureTriangle", "How this answer came about"),
            ("rowheader", "system.md"),
            ("button", "Check a file against the hash of session.md"),
            ("textbox", "Your message"),
            ("switch", "Explain the answer"),
            ("button", "Send"),
        ]:
            assert expected in heard
        assert [] == [
            role for role, name in heard if role in ("button", "textbox", "switch", "checkbox") and not name
        ]
        assert "polite" == await page.eval("document.querySelector('#log').getAttribute('aria-live')")
        assert "en" == await page.eval("document.documentElement.lang")
        for scheme in ("light", "dark"):
            await page.call(
                "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
            )
            assert [] == await page.eval(PALE), scheme
        for width in (320, 1400):
            await page.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
            )
            assert await page.eval("document.documentElement.scrollWidth <= innerWidth"), f"{width} wide, it scrolls"

    with _serve(tmp_path, prompts) as chat:
        _visit(tmp_path, chat.url, work)


# Texts whose contrast with their background is below 4.5 to 1.
PALE = """
(() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((one) => one / 255)
    .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const pale = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const pair = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) pale.push(`${element.tagName} ${element.textContent.trim().slice(0, 20)} ${ratio.toFixed(2)}`);
  }
  return pale;
})()
"""


def test_the_page_stores_nothing_and_calls_no_other_host(tmp_path: Path, prompts: Path) -> None:
    """No cookie, no storage, no cache; a new conversation has another id, and the log is empty."""

    async def work(page: Page) -> None:
        await page.click("#trace")
        await page.click("#message")
        await page.type("hello")
        await page.press("Enter")
        await _answers(page, 1)
        await page.click("#new-conversation")
        await page.until("document.querySelector('#log').children.length === 0")
        await page.type("again")
        await page.press("Enter")
        await _answers(page, 1)
        stored = await page.eval(
            "(async () => [document.cookie, localStorage.length, sessionStorage.length,"
            " (await indexedDB.databases()).length, (await caches.keys()).length, location.href, history.length])()"
        )
        first, second = _posted(page)

        assert ["", 0, 0, 0, 0] == stored[:5]
        assert f"{chat.url}/" == stored[5]
        assert first["session_id"] != second["session_id"]
        assert {chat.url} == {
            "/".join(request["url"].split("/")[:3]) for request in page.requests() if request["url"] != "data:,"
        }

    chat: ChatProcess
    with _serve(tmp_path, prompts) as chat:
        _visit(tmp_path, chat.url, work)


def test_a_page_of_another_origin_cannot_use_the_chat(tmp_path: Path, prompts: Path) -> None:
    """A page of another server on this machine, in the same browser, can neither send, nor read, nor frame it."""
    script = """
    const tries = {};
    for (const [name, options] of Object.entries({
      json: {method: "POST", headers: {"content-type": "application/json"}, body: ASK},
      plain: {method: "POST", body: ASK},
      blind: {method: "POST", mode: "no-cors", body: ASK},
      read: {},
    })) {
      try {
        const answer = await fetch(CHAT + (name === "read" ? "/" : "/chat"), options);
        tries[name] = answer.type === "opaque" ? "opaque" : await answer.text();
      } catch (error) { tries[name] = error.name; }
    }
    return tries;
    """

    async def work(page: Page) -> None:
        body = json.dumps(json.dumps({"message": "hi", "session_id": "s"}))
        results = await page.eval(f"(async () => {{ const CHAT = {chat.url!r}, ASK = {body}; {script} }})()")

        assert {"json": "TypeError", "plain": "TypeError", "read": "TypeError"}.items() <= results.items()
        assert results["blind"] in ("opaque", "TypeError")
        page.events.clear()  # the browser has logged the refused requests

    with upstream() as model, upstream() as other:
        other.respond_with(
            ScriptedResponse([b"<!doctype html><title>other</title>"], headers={"content-type": "text/html"})
        )
        arguments = ("--prompts", str(prompts), "--upstream", model.url, "--model", "m")
        with chat_process(tmp_path, *arguments) as chat:
            policy = chat.get("/").headers["content-security-policy"]
            _visit(tmp_path, other.url, work)

        assert [] == model.received
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
