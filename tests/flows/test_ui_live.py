"""Live checks in the web view, after real checks against a provider on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.flaky_server import FlakyServer, flaky_server
from support.gate_project import Site
from support.ui_browser import NARROW, UiPage, visit
from support.ui_servers import run_ui
from traceforge.snapshots.live.live_history import REPORTS_FOLDER, list_reports


@pytest.fixture
def site(recorded: Site, tmp_path: Path) -> Site:
    return recorded.at(tmp_path / "checkout")


@pytest.fixture
def flaky() -> Iterator[FlakyServer]:
    with flaky_server() as server:
        yield server
        server.released.set()


def check_live(site: Site, *words: str) -> int:
    return site.run("check-live", "--yes", *words).code


def test_a_project_without_checks_says_what_to_do(tmp_path: Path) -> None:
    with run_ui(tmp_path) as ui:
        assert "traceforge check-live --runs 5" in ui.page("/live")
        assert "There is no live check of this name." in ui.page("/live/2026", status=404)


@pytest.mark.slow
def test_checks_are_shown_with_their_answers_over_time(site: Site, flaky: FlakyServer, tmp_path: Path) -> None:
    """A green check, then one whose answers vary: clusters, the first word, and both checks in the history."""
    assert 0 == check_live(site)
    flaky.salts = ("", "x")
    (name,) = [path.stem for path in site.folder.glob(".ai-snapshots/*/chat_stream-*.json")][:1]
    assert 1 == check_live(Site(site.folder, site.python, flaky), name, "--runs", "4")

    async def walk(page: UiPage) -> None:
        assert "not deterministic" in await page.text("tbody tr:first-child")
        assert 2 == await page.tab.eval("document.querySelector('table').tBodies[0].rows.length")
        await page.picture("live")
        await page.key("j")
        await page.tab.press("Enter")
        await page.arrive("location.pathname.startsWith('/live/')")
        text = await page.text("main")
        assert "2 of 4 runs differ" in text
        assert "the approved answer" in text
        assert "differs from word 1 on" in text
        await page.check_layout()
        await page.picture("live-check")
        await page.resize(NARROW)
        await page.check_layout()
        await page.picture("live-check-360")

    with run_ui(site.folder) as ui:
        visit(tmp_path, ui.sign_in_at("/live"), walk)
        newest, oldest = list_reports(str(site.folder))
        assert f'href="/live/{newest}"' in ui.page("/live")
        assert "14 the same" in ui.page(f"/live/{oldest}")
        assert "<!doctype html>" in ui.page(f"/share/live/{newest}").lower()


def test_a_broken_report_is_named_and_the_others_are_shown(site: Site) -> None:
    assert 0 == check_live(site)
    folder = site.folder / REPORTS_FOLDER
    (folder / "2026-01-01T00-00-00-000Z-00000000.json").write_text("{")
    with run_ui(site.folder) as ui:
        page = ui.page("/live")

    assert "not a report of a live check" in page
    assert "14 the same" in page
