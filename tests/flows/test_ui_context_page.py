"""Context and evidence in a real browser, with the keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.full_project import FullProject, make_full_project
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import run_ui


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> FullProject:
    return make_full_project(tmp_path_factory.mktemp("keys"))


async def open_row(page: UiPage, place: int, arrival: str) -> None:
    """Go down to a row, from 1, and open it."""
    for _ in range(place):
        await page.key("j")
    await page.tab.press("Enter")
    await page.arrive(arrival)


def test_context_and_evidence_are_read_with_the_keyboard_alone(project: FullProject, tmp_path: Path) -> None:
    """From the session to the branch that it forked, back, and to a broken rule of a recording."""

    async def work(page: UiPage) -> None:
        await page.key("g")
        await page.key("x")
        await page.arrive("location.pathname === '/context'")
        await open_row(page, 1, "location.pathname.startsWith('/context/sessions/')")
        await open_row(page, 2, "location.pathname.startsWith('/context/branches/')")
        assert "refund" == await page.text("h1")
        await page.key("j")
        assert await page.tab.eval("document.activeElement.closest('.turn') !== null")
        await page.key("u")
        await page.arrive("location.pathname.startsWith('/context/sessions/')")
        await page.key("g")
        await page.key("e")
        await page.arrive("location.pathname === '/evidence'")
        await open_row(page, 2, "location.pathname === '/evidence/evidence/edited.json'")
        assert "MI7" == await page.text(".check-failed .check-rule")
        await page.key("j")
        await page.key("j")
        assert "answer-2" == await page.tab.eval("document.activeElement.id")
        await page.key("u")
        await page.arrive("location.pathname === '/evidence'")

    with run_ui(project.folder) as ui:
        visit(tmp_path, ui.sign_in_url, work)


@pytest.mark.slow
def test_blocks_that_are_the_same_are_opened_with_the_keyboard(project: FullProject, tmp_path: Path) -> None:
    """And a replay run is filtered by a verdict, on a wide and a narrow screen in both themes."""

    async def work(page: UiPage) -> None:
        await page.key("j")
        await page.tab.press("Enter")
        await page.tab.until("document.querySelector('.same-blocks').open")
        for scheme in ("light", "dark"):
            await page.prefer(scheme)
            for width in (WIDE, NARROW):
                await page.resize(width)
                await page.check_layout()
                await page.picture(f"block-diff-{scheme}-{width}")
        await page.go(f"{ui.origin}{project.addresses['/context/replay-runs/{run_id}']}")
        await page.tab.click(".verdict-table a")
        await page.arrive("location.search === '?verdict=candidate_changed'")
        assert 3 == await page.tab.eval("document.querySelectorAll('.replay-item').length")

    with run_ui(project.folder) as ui:
        visit(tmp_path, ui.sign_in_at(project.addresses["/context/snapshots/{before}/diff/{after}"]), work)
