"""The list of traces and the page of a call in Chromium: with mouse and keys, in both themes, on every screen."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from support.stored_traces import DAY, call, store_calls, time_ago, trace_id
from support.trace_project import make_trace_project
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import run_ui

pytestmark = pytest.mark.slow

ROWS = "document.querySelectorAll('tr[data-item]').length"
FOCUSED = "document.activeElement.closest('[data-item]')?.dataset.id ?? ''"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return make_trace_project(tmp_path / "project")


def test_keys_alone_find_and_open_a_call(tmp_path: Path, project: Path) -> None:
    """`j` and `k` move, `/` searches, Enter opens, `p` and `n` go on, `g t` goes back, `?` lists the keys."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.tab.until(f"{ROWS} === 6")
            for key, number in (("j", 6), ("j", 5), ("k", 6), ("k", 6)):
                await page.key(key)
                assert trace_id(number) == await page.tab.eval(FOCUSED)
            await page.tab.press("Enter")
            await page.tab.until(
                f"location.pathname === '/traces/{trace_id(6)}' && document.readyState === 'complete'"
            )
            await page.key("j")
            await page.tab.until("document.activeElement.matches('section.turn')")
            await page.key("n")
            await page.tab.until(
                f"location.pathname === '/traces/{trace_id(5)}' && document.readyState === 'complete'"
            )
            await page.key("g")
            await page.key("t")
            await page.arrive("location.pathname === '/traces'")
            await page.key("/")
            await page.tab.until("document.activeElement.name === 'q'")
            await page.tab.type("story")
            await page.tab.press("Enter")
            await page.tab.until(f"location.search === '?q=story' && {ROWS} === 1")
            await page.key("?")
            await page.tab.until("document.getElementById('keys').open")
            assert "Next row" in await page.text("#keys")
            await page.tab.press("Escape")
            await page.tab.until("!document.getElementById('keys').open")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_a_call_appears_while_the_page_is_open(tmp_path: Path, project: Path) -> None:
    """At its place by time, once, and only if the filter of the page has it."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/traces?provider=openai")
            await page.tab.until("!document.querySelector('[data-live]').hidden")
            store_calls(
                project,
                call(20, at=time_ago(seconds=1)),
                call(21, at=DAY + timedelta(minutes=4, seconds=30)),  # Between two that are there.
                call(22, model="claude-haiku-4-5", provider="anthropic", at=time_ago(seconds=1)),
            )
            await page.tab.until(f"{ROWS} === 7")
            numbers = await page.tab.eval(
                "[...document.querySelectorAll('tr[data-item]')].map(row => parseInt(row.dataset.id.slice(0, 8), 16))"
            )
            assert [20, 6, 5, 21, 3, 2, 1] == numbers
            store_calls(project, call(23, at=time_ago(seconds=1)))
            await page.tab.until(f"{ROWS} === 8")
            await page.picture("traces-live")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_the_first_call_of_a_project_appears_without_a_click(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.tab.until("document.querySelector('.empty') !== null")
            await page.picture("traces-empty")
            store_calls(project, call(1, at=time_ago(seconds=1)))
            await page.tab.until(f"{ROWS} === 1")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_a_click_into_a_row_opens_it_and_a_choice_filters_at_once(tmp_path: Path, project: Path) -> None:
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.tab.eval(
                "const s = document.querySelector('[name=status]'); s.value = 'error';"
                " s.dispatchEvent(new Event('change', {bubbles: true}))"
            )
            await page.tab.until(f"location.search === '?status=error' && {ROWS} === 1")
            await page.tab.click("tr[data-item] .duration")
            await page.tab.until(f"location.pathname === '/traces/{trace_id(5)}'")
            await page.tab.until("document.readyState === 'complete'")
            await page.tab.click("a.danger")
            await page.tab.until("document.querySelector('button.danger') && document.readyState === 'complete'")
            await page.tab.click("button.danger")
            await page.arrive("location.pathname === '/traces'")
            await page.tab.until(f"{ROWS} === 5")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_fit_every_screen_in_both_themes(tmp_path: Path, project: Path, theme: str) -> None:
    """No page scrolls sideways, and the theme of the system is followed."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.prefer(theme)
            for width in (NARROW, 768, WIDE, 2560):
                await page.resize(width)
                for name, path in (
                    ("traces", "/traces"), ("search", "/traces?q=story"), ("trace", f"/traces/{trace_id(6)}"),
                    ("stream", f"/traces/{trace_id(3)}"), ("delete", f"/traces/{trace_id(3)}/delete"),
                    ("player", f"/traces/{trace_id(3)}/stream"), ("choose", f"/traces/{trace_id(3)}/compare"),
                    ("compare", f"/traces/{trace_id(3)}/compare/{trace_id(1)}"),
                    ("nothing", "/traces?q=nothing"),
                ):  # fmt: skip
                    await page.go(ui.origin + path)
                    await page.check_layout()
                    await page.picture(f"{name}-{theme}-{width}")
            colour = await page.tab.eval("getComputedStyle(document.documentElement).backgroundColor")
            assert {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 18, 20)"}[theme] == colour

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_the_chosen_theme_is_there_at_the_first_byte_of_the_next_page(tmp_path: Path, project: Path) -> None:
    """The server reads it from a cookie: no page flashes."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            for expected in ("light", "dark", "auto"):
                await page.tab.click("[data-theme-switch]")
                assert expected == await page.tab.eval("document.documentElement.dataset.theme")
                text = await page.tab.eval("fetch('/traces').then(answer => answer.text())")
                assert f'<html lang="en" data-theme="{expected}">' in text

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_a_narrow_screen_has_a_menu(tmp_path: Path, project: Path) -> None:
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.resize(NARROW)
            await page.go(f"{ui.origin}/traces")
            await page.tab.until("!document.getElementById('menu').open")
            await page.tab.click("#menu > summary")
            await page.tab.until("document.querySelector('nav a').offsetParent !== null")
            await page.check_layout()
            await page.picture("menu-narrow")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_a_call_is_copied_with_a_click(tmp_path: Path, project: Path) -> None:
    """The button says so; the text is that of its address."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/traces/{trace_id(1)}")
            await page.tab.eval("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
            await page.tab.click("[data-copy-url$=curl]")
            await page.tab.until("window.copied?.startsWith('curl -X POST')")
            await page.tab.until("document.querySelector('[data-copy-url$=curl]').textContent === 'Copied'")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_a_page_works_without_scripts(tmp_path: Path, project: Path) -> None:
    """Links and forms alone: search, open, ask."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.tab.call("Emulation.setScriptExecutionDisabled", value=True)
            await page.go(f"{ui.origin}/traces")
            await page.tab.click("[name=q]")
            await page.tab.type("story")
            await page.tab.press("Enter")
            await page.tab.until(f"location.search.includes('q=story') && {ROWS} === 1")
            await page.tab.click("a[data-open]")
            await page.tab.until(f"location.pathname === '/traces/{trace_id(3)}'")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_a_stream_of_ten_thousand_chunks_is_played(tmp_path: Path, project: Path) -> None:
    """From the beginning to the end, back by the slider, and on from there; the text is one node."""
    words = ["one ", "two ", "three ", "four ", "five "] * 2_000  # Numbers would be taken for those of cards.
    store_calls(project, call(50, "Count", words, at=time_ago(minutes=1)))
    text = "document.querySelector('[data-text]').textContent"
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/traces/{trace_id(50)}/stream")
            await page.tab.until("!document.querySelector('[data-play]').disabled")
            assert "".join(words) == await page.tab.eval(text)
            scrub = (
                "const s = document.querySelector('[data-scrub]'); s.value = {}; s.dispatchEvent(new Event('input'));"
            )
            await page.tab.eval(f"{{ {scrub.format(101)} }}")  # The first chunk has the role, and no text.
            assert "".join(words[:100]) == await page.tab.eval(text)
            await page.picture("stream")
            await page.key(" ")
            await page.tab.until(f"{text}.length > {len(''.join(words[:100]))}")
            await page.key(" ")
            await page.tab.until("document.querySelector('[data-play]').textContent === 'Play'")
            assert "".join(words).startswith(await page.tab.eval(text))
            await _scrub(page, 9_990)
            await page.tab.eval("document.querySelector('[data-speed]').value = '16'")
            await page.tab.click("[data-play]")
            await page.tab.until("document.querySelector('[data-play]').textContent === 'Play'")
            assert "".join(words) == await page.tab.eval(text)
            assert 1 == await page.tab.eval("document.querySelector('[data-text]').childNodes.length")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_the_plot_of_the_gaps_says_where_the_player_is(tmp_path: Path, project: Path) -> None:
    """A click into it moves the player there."""
    store_calls(project, call(60, "Count", ["word "] * 99, at=time_ago(minutes=1)))
    x = "Number(document.querySelector('.plot-playhead').getAttribute('x1'))"
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/traces/{trace_id(60)}/stream")
            await page.tab.until("!document.querySelector('[data-play]').disabled")
            last = await page.tab.eval(x)
            await page.tab.click("[data-gaps] svg.plot")
            place = await page.tab.eval("Number(document.querySelector('[data-scrub]').value)")
            assert 40 < place < 60
            assert await page.tab.eval(x) < last
            await _scrub(page, 1)
            assert 60 == await page.tab.eval(x)

        visit(tmp_path, ui.sign_in_at("/traces"), work)


async def _scrub(page: UiPage, place: int) -> None:
    await page.tab.eval(
        f"(() => {{ const slider = document.querySelector('[data-scrub]'); slider.value = {place};"
        " slider.dispatchEvent(new Event('input')); })()"
    )


def test_previews_that_took_too_long_come_by_themselves(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first page does not wait for them, and its rows stay where they are."""
    monkeypatch.setattr("traceforge.ui.call_previews.READ_SECONDS", 0.0)
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            assert 6 == await page.tab.eval("document.querySelectorAll('td [data-unread]').length")
            monkeypatch.setattr("traceforge.ui.call_previews.READ_SECONDS", 60.0)
            store_calls(project, call(30, "Is it new?", at=time_ago(seconds=1)))
            await page.tab.until(f"{ROWS} === 7 && !document.querySelector('[data-unread]')")
            assert "Is it new? →answered The capital of France is Paris." == await page.text("td.preview")

        visit(tmp_path, ui.sign_in_at("/traces"), work)
