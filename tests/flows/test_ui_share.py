"""Pages as one file: over HTTP, from the command line, and opened from the disk in Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import traceforge
from support.stored_traces import TRACES, call, store_calls, trace_id
from support.trace_project import file_of, make_trace_project, run
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import RunningUi, run_ui
from traceforge.ui.self_contained import SHARED_POLICY
from traceforge.ui.ui_server import AREAS

KEY = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ" * 2
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<svg onload=\"document.title='owned'\"></svg>{{7*7}}${7*7}</style></title>\n\n"
    "![x](https://evil.example/x.png) [y](javascript:document.title='owned') \u202ereversed\u200b hidden\n\n"
    + "w"
    * 30_000
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = make_trace_project(tmp_path)
    store_calls(project, call(7, f"{HOSTILE} my key is {KEY}", f"{HOSTILE} {KEY}"))
    return project


@pytest.fixture
def ui(project: Path) -> Iterator[RunningUi]:
    with run_ui(project) as running:
        yield running


def check_file(html: str) -> None:
    """The file has its policy, and neither scripts, nor controls, nor addresses of the server, nor the key."""
    assert f'<meta http-equiv="Content-Security-Policy" content="{SHARED_POLICY.replace(chr(39), "&#x27;")}">' in html
    assert not re.search(r"<(script|form|button|link|iframe|input)\b|<[^>]*\s(on\w+|style)=", html)
    assert [] == re.findall(r'<[^>]*\s(?:src|href)="(?!data:image/|#|https?://)[^"]*', html)
    assert KEY not in html
    assert "form-token" not in html


PATHS = [f"/traces/{trace_id(7)}", f"/traces/{trace_id(6)}/compare/{trace_id(7)}", "/sessions/quiz-7"]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_offers_itself_as_a_file(ui: RunningUi, path: str) -> None:
    """The file has what the page has; its name says what it is."""
    assert f'href="/share{path}' in ui.page(path)
    response = ui.http.get(f"/share{path}")

    assert 200 == response.status_code
    assert re.fullmatch(
        r'attachment; filename="traceforge-[A-Za-z0-9-]+\.html"', response.headers["content-disposition"]
    )
    check_file(response.text)


def test_what_is_not_there_is_an_error_page_and_no_file(ui: RunningUi) -> None:
    response = ui.http.get("/share/traces/ffffffff")

    assert (404, None) == (response.status_code, response.headers.get("content-disposition"))
    assert 404 == ui.http.get("/share/traces").status_code


def test_only_pages_about_one_thing_can_be_shared() -> None:
    assert {
        "/traces/{trace_id}", "/traces/{trace_id}/compare/{other_id}", "/sessions/{session_id:path}",
        "/changes/{change_id}", "/changes", "/context/sessions/{session_id}", "/context/branches/{branch_id}",
        "/context/snapshots/{snapshot_id}", "/context/snapshots/{before}/diff/{after}",
        "/context/responses/{response_id}", "/context/replay-runs/{run_id}", "/context/receipts/{receipt_id}",
    } <= {page.path for area in AREAS for page in area.pages if getattr(page, "is_shareable", False)}  # fmt: skip


def test_the_commands_write_the_same_file(project: Path, ui: RunningUi) -> None:
    """`--html` of each command, readable for its owner alone; the exit code is that of the command."""
    run(project, "show", trace_id(7), "--html", "trace.html")
    run(project, "diff", trace_id(6), trace_id(7), "--html", "diff.html", code=1)
    assert 0 == traceforge("session", "show", "quiz-7", "--html", "session.html", cwd=project).code
    run(project, "show", "ffffffff", "--html", "none.html", code=3)

    for path, name in zip(PATHS, ("trace.html", "diff.html", "session.html"), strict=True):
        assert ui.http.get(f"/share{path}").text == (project / name).read_text()
    assert 0o600 == (project / "trace.html").stat().st_mode & 0o777
    assert not (project / "none.html").exists()


def test_a_secret_that_somebody_put_into_a_trace_by_hand_is_not_shared(project: Path, ui: RunningUi) -> None:
    run(project, "list")  # Writes the files of the traces.
    path = next((project / TRACES).glob(f"*{trace_id(6)}*"), None) or file_of(project, 6)
    path.write_text(path.read_text().replace("Hello again", f"my key: {KEY}"))
    html = ui.http.get(f"/share/traces/{trace_id(6)}").text

    assert "my key: " in html
    check_file(html)


@pytest.mark.slow
def test_files_open_from_the_disk_without_a_request(project: Path, tmp_path: Path) -> None:
    """Nothing of a hostile call runs, nothing is loaded, and the page is as wide as its window."""
    run(project, "show", trace_id(7), "--html", "trace.html")
    run(project, "diff", trace_id(6), trace_id(7), "--html", "diff.html", code=1)
    traceforge("session", "show", "quiz-7", "--html", "session.html", cwd=project)

    async def work(page: UiPage) -> None:
        for name in ("trace", "diff", "session"):
            await page.go((project / f"{name}.html").as_uri())
            await page.tab.eval("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
            for width in (NARROW, WIDE):
                await page.resize(width)
                await page.check_layout()
                await page.picture(f"shared-{name}-{width}")
            title = await page.tab.eval("document.title")
            assert "owned" not in title
            assert title.endswith("TraceForge")
            assert 0 == await page.tab.eval("document.scripts.length")
            assert "16px" != await page.tab.eval("getComputedStyle(document.body).fontSize")  # It has its style.
        addresses = [request["url"] for request in page.tab.requests()]
        assert addresses
        assert [] == [url for url in addresses if not url.startswith(("file://", "data:image/", "about:"))]

    visit(tmp_path, (project / "trace.html").as_uri(), work)
