"""What is done with a call, in Chromium, with the keyboard alone: compare it, delete it, and go back to the list.

`test_ui_edit.py` edits one and sends it again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stored_traces import trace_id
from support.trace_project import make_trace_project
from support.ui_browser import UiPage, visit
from support.ui_servers import run_ui

pytestmark = pytest.mark.slow

TABS_MAX = 60  # More than a page has elements that take the focus.


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return make_trace_project(tmp_path / "project")


async def tab_to(page: UiPage, selector: str) -> None:
    """Press Tab until an element has the focus, and check that a user sees that it has."""
    for _ in range(TABS_MAX):
        await page.tab.press("Tab")
        if await page.tab.eval(f"document.activeElement.matches({selector!r})"):
            assert await page.tab.eval("document.activeElement.matches(':focus-visible')")
            return
    pytest.fail(f"{TABS_MAX} times Tab, and the focus never was at {selector}")


async def open_newest(page: UiPage) -> None:
    """From the list of traces."""
    await page.tab.until("document.querySelectorAll('tr[data-item]').length === 6")
    await page.key("j")
    await page.tab.press("Enter")
    await page.arrive(f"location.pathname === '/traces/{trace_id(6)}'")


def test_two_calls_are_compared_with_the_keyboard_alone(tmp_path: Path, project: Path) -> None:
    """`c`, a search, `j` and Enter; `s` changes the layout, and Tab leads to the swap."""
    comparison = f"/traces/{trace_id(6)}/compare/{trace_id(3)}"
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await open_newest(page)
            await page.key("c")
            await page.arrive("location.pathname.endsWith('/compare')")
            await page.key("/")
            await page.tab.until("document.activeElement.name === 'with'")
            await page.tab.type("story")
            await page.tab.press("Enter")
            await page.arrive("location.search === '?with=story'")
            await page.key("j")
            assert f"{ui.origin}{comparison}" == await page.tab.eval("document.activeElement.href")
            await page.tab.press("Enter")
            await page.arrive(f"location.pathname === '{comparison}'")
            assert "different" in await page.text(".facts")
            assert await page.tab.eval("document.querySelector('.diff-side') !== null")
            await page.key("s")
            await page.arrive("location.search === '?layout=inline'")
            assert await page.tab.eval("document.querySelector('.diff-inline') !== null")
            swapped = f"/traces/{trace_id(3)}/compare/{trace_id(6)}"
            await tab_to(page, f'a[href="{swapped}"]')
            await page.tab.press("Enter")
            await page.arrive(f"location.pathname === '{swapped}'")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


def test_a_call_is_deleted_with_the_keyboard_alone(tmp_path: Path, project: Path) -> None:
    """`d` asks; whoever keeps the call is at its page again, and whoever deletes it is at the list."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await open_newest(page)
            await page.key("d")
            await page.arrive("location.pathname.endsWith('/delete')")
            await tab_to(page, f'main a[href="/traces/{trace_id(6)}"]')
            await page.tab.press("Enter")
            await page.arrive(f"location.pathname === '/traces/{trace_id(6)}'")
            await page.key("d")
            await page.arrive("location.pathname.endsWith('/delete')")
            await tab_to(page, "main button.danger")
            await page.tab.press("Enter")
            await page.arrive("location.pathname === '/traces'")
            await page.tab.until("document.querySelectorAll('tr[data-item]').length === 5")
            assert trace_id(6) not in await page.tab.eval("document.querySelector('main').innerHTML")

        visit(tmp_path, ui.sign_in_at("/traces"), work)

    assert not [file for file in project.rglob(f"*{trace_id(6)}*") if file.is_file()]


def test_u_goes_back_to_the_list_from_a_page_without_a_link_to_it(tmp_path: Path, project: Path) -> None:
    """From a call and a session; on the list itself it does nothing, and the keys do not name it."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await open_newest(page)
            await page.key("u")
            await page.arrive("location.pathname === '/traces'")
            await page.key("?")
            assert "Back to the list" not in await page.text("#keys")
            await page.go(f"{ui.origin}/sessions/quiz-7")
            await page.key("?")
            assert "Back to the list" in await page.text("#keys")
            await page.tab.press("Escape")
            await page.tab.until("!document.getElementById('keys').open")
            await page.key("u")
            await page.arrive("location.pathname === '/sessions'")

        visit(tmp_path, ui.sign_in_at("/traces"), work)
