"""The web view while things happen: many calls at once, two tabs, a store that is gone, a browser without scripts."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.review_project import make_review_project
from support.stored_traces import call, store_calls, time_ago, trace_id
from support.trace_project import make_trace_project
from support.ui_browser import UiPage, visit
from support.ui_servers import run_ui
from traceforge.exchange import Caller
from traceforge.snapshots.record.pending_changes import delete_pending, load_pending
from traceforge.traces.retention import remove_trace
from traceforge.traces.trace_store import TraceStore

IDS = "[...document.querySelectorAll('tr[data-item]')].map(row => parseInt(row.dataset.id.slice(0, 8), 16))"
LIVE = "document.querySelector('[data-queue]')?.dataset.live === 'true'"  # Every change from now on is noticed.
PAGES = ("/", "/traces", "/sessions", "/changes", "/approvals", "/builds", "/live", "/evidence", "/context")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return make_trace_project(tmp_path / "project")


def test_a_store_that_disappears_is_an_empty_project(project: Path) -> None:
    """Every page has an answer without the folder, and new calls are shown once there is one again."""
    with run_ui(project) as ui:
        assert trace_id(6) in ui.page("/traces")
        shutil.rmtree(project / ".ai-tests")
        for path in PAGES:
            ui.page(path)
        ui.page(f"/traces/{trace_id(6)}", status=404)
        assert "traceforge run" in ui.page("/traces")
        store_calls(project, call(8, at=time_ago(minutes=1)))

        assert trace_id(8) in ui.page("/traces")


def test_a_call_that_was_removed_meanwhile_is_an_error_page(project: Path) -> None:
    """On every page about it, and when it is removed again."""
    with run_ui(project) as ui:
        ui.page(f"/traces/{trace_id(3)}")
        store = TraceStore(str(project / ".ai-tests" / "traces"))
        store.update_index()
        remove_trace(store, store.load_row(trace_id(3)))
        store.close()
        for page in ("", "/stream", "/compare", "/edit", "/raw", "/copy/curl", "/delete"):
            ui.page(f"/traces/{trace_id(3)}{page}", status=404)

        assert 404 == ui.post(f"/traces/{trace_id(3)}/delete").status_code


NAMES = ("a b", "50%", "a#b?c=d&e", "ünï-😀", "a/../b", "x" * 500, "'\"<i>", "%2e%2e")


def test_a_session_may_have_any_name(project: Path) -> None:
    """Its links lead to it, from the list, from its calls, and to the file to share."""
    calls = [
        call(30 + place, caller=Caller(session_id=name), at=time_ago(minutes=1)) for place, name in enumerate(NAMES)
    ]
    store_calls(project, *calls)
    with run_ui(project) as ui:
        paths = {unquote(link.removeprefix("/sessions/")): link for link in ui.links("/sessions")}
        for place, name in enumerate(NAMES):
            page = ui.page(paths[name])
            assert trace_id(30 + place) in page, name
            assert paths[name] in ui.links(f"/traces/{trace_id(30 + place)}"), name
            (shared,) = {link for link in ui.links(paths[name]) if link.startswith("/share/")}
            assert 200 == ui.http.get(shared).status_code, name


@pytest.mark.slow
def test_five_hundred_calls_arrive_without_a_gap(tmp_path: Path, project: Path) -> None:
    """More at once than a page has, then one more, then one is removed: the rows are the newest, in their order."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.tab.until("!document.querySelector('[data-live]').hidden")
            store_calls(project, *(call(number, at=time_ago(seconds=1000 - number)) for number in range(100, 600)))
            await page.tab.until(f"{IDS}[0] === 599 && document.querySelector('[data-total]').textContent === '506'")
            numbers = await page.tab.eval(IDS)
            assert list(range(599, 599 - len(numbers), -1)) == numbers
            older = await page.tab.eval("document.querySelector('a[rel=next]').search")
            assert trace_id(numbers[-1]) in older
            store_calls(project, call(600, at=time_ago(seconds=1)))
            await page.tab.until(f"{IDS}[0] === 600")
            ui.post(f"/traces/{trace_id(599)}/delete")
            await page.tab.until(f"{IDS}[1] === 598")

        visit(tmp_path, ui.sign_in_at("/traces"), work)


@pytest.mark.slow
def test_a_queue_that_another_tab_changes_is_shown_again(tmp_path: Path) -> None:
    """At once; with a reason that is being written, the page says so and keeps it."""
    project = tmp_path / "shop"
    make_review_project(project)
    first, second = sorted(change.id for change in load_pending(str(project)))[:2]
    rows = "[...document.querySelectorAll('[data-item]')].map(row => row.dataset.id)"
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.tab.until(f"{rows}.includes({first!r})")
            await page.tab.until(LIVE)
            delete_pending(str(project), [first])
            await page.tab.until(f"document.readyState === 'complete' && !{rows}.includes({first!r})")
            await page.tab.eval("document.querySelector('[data-reason]').value = 'because'")
            await page.tab.until(LIVE)
            delete_pending(str(project), [second])
            await page.tab.until("document.querySelector('[data-other-queue]') !== null")
            assert "because" == await page.tab.eval("document.querySelector('[data-reason]').value")

        visit(tmp_path, ui.sign_in_at("/changes"), work)


@pytest.mark.slow
def test_pages_are_readable_without_scripts(tmp_path: Path, project: Path) -> None:
    """Every area: its heading, its links and its forms; nothing offers what only a script does."""
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            await page.tab.call("Emulation.setScriptExecutionDisabled", value=True)
            for path in (*PAGES, f"/traces/{trace_id(3)}", f"/traces/{trace_id(3)}/stream", "/sessions/quiz-7"):
                await page.tab.call("Page.navigate", url=f"{ui.origin}{path}")
                await page.tab.until(f"location.pathname === {path!r} && document.readyState === 'complete'")
                assert await page.text("h1")
                assert 7 <= await page.tab.eval("document.querySelectorAll('nav[aria-label=Areas] a').length")
                useless = "main [data-copy], main [data-show-keys], main [data-drop-choose]"
                shown = f"[...document.querySelectorAll({useless!r})].filter(item => item.checkVisibility()).length"
                assert 0 == await page.tab.eval(shown), path

        visit(tmp_path, ui.sign_in_at("/"), work)
