"""Pages that stay open: their content follows what is recorded, and nobody is disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.full_project import check_report
from support.stored_traces import call, store_calls, time_ago
from support.trace_project import make_trace_project
from support.ui_browser import UiPage, visit
from support.ui_servers import run_ui
from traceforge.checks.runs.stored_reports import REPORTS
from traceforge.exchange import Caller

pytestmark = pytest.mark.slow

LIVE = "document.querySelector('[data-refresh]')?.dataset.live === 'true'"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return make_trace_project(tmp_path / "project")


def test_the_overview_follows_calls_and_checks(tmp_path: Path, project: Path) -> None:
    """The figures, the line below the title, and the last run of checks."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/?range=all")
            await page.tab.until(LIVE)
            store_calls(project, call(20, at=time_ago(seconds=1)))
            await page.tab.until("document.querySelector('.figures dd')?.textContent === '7'")
            assert (await page.text(".facts")).startswith("7 calls")
            REPORTS.store(str(project), check_report("", 1))
            await page.tab.until("document.querySelector('[data-refresh]').textContent.includes('1 failed')")

        visit(tmp_path, ui.sign_in_url, work)


def test_a_session_grows_while_it_is_looked_at(tmp_path: Path, project: Path) -> None:
    caller = Caller(session_id="agent-7")
    store_calls(project, call(30, caller=caller, at=time_ago(minutes=1)))
    rows = "document.querySelectorAll('tr[data-item]').length"
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/sessions/agent-7")
            await page.tab.until(LIVE)
            store_calls(project, call(31, caller=caller, at=time_ago(seconds=1)))
            await page.tab.until(f"{rows} === 2")

        visit(tmp_path, ui.sign_in_url, work)


def test_who_reads_a_table_of_numbers_is_not_disturbed(tmp_path: Path, project: Path) -> None:
    """The new figures come once the table is closed."""
    calls = "document.querySelector('.figures dd').textContent"
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.go(f"{ui.origin}/?range=all")
            await page.tab.until(LIVE)
            await page.tab.eval("document.querySelector('.plot-data').open = true")
            store_calls(project, call(20, at=time_ago(seconds=1)))
            text = "fetch('/?range=all').then(answer => answer.text())"
            await page.tab.until(f"{text}.then(text => text.includes('7 calls'))")
            assert await page.tab.eval("document.querySelector('.plot-data').open")
            assert "6" == await page.tab.eval(calls)
            await page.tab.eval("document.querySelector('.plot-data').open = false")
            await page.tab.until(f"{calls} === '7'")

        visit(tmp_path, ui.sign_in_url, work)
