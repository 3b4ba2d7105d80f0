"""axe-core finds no serious violation of WCAG 2.1 AA on pages with real data, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.axe import find_violations, read_axe
from support.evidence_project import make_evidence_project
from support.review_project import make_review_project
from support.stored_traces import trace_id
from support.trace_project import make_trace_project
from support.ui_browser import UiPage, visit
from support.ui_servers import run_ui

pytestmark = pytest.mark.slow


def check_pages(folder: Path, project: Path, *paths: str) -> None:
    """Open every page in both themes, and let axe-core check it."""
    script = read_axe()
    found: dict[str, list[str]] = {}

    async def work(page: UiPage) -> None:
        for theme in ("light", "dark"):
            await page.prefer(theme)
            for path in paths:
                await page.go(ui.origin + path)
                violations = await find_violations(page, script)
                if violations:
                    found[f"{path} {theme}"] = violations

    with run_ui(project) as ui:
        for path in paths:
            ui.page(path)  # A page of an error would be checked instead.
        visit(folder, ui.sign_in_url, work)

    assert {} == found


def test_axe_finds_what_is_wrong(tmp_path: Path) -> None:
    """An image without a name: the check can fail."""
    script = read_axe()

    async def work(page: UiPage) -> None:
        await page.tab.eval("document.querySelector('main').innerHTML = '<img src=\"data:,\">'")
        assert ["image-alt"] == [text.partition(":")[0] for text in await find_violations(page, script)]

    project = make_evidence_project(tmp_path)
    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_url, work)


def test_pages_about_traces_and_sessions(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = make_trace_project(tmp_path / "project")
    check_pages(
        tmp_path, project, "/traces", "/traces?q=story", "/traces?q=nothing", f"/traces/{trace_id(6)}",
        f"/traces/{trace_id(3)}", f"/traces/{trace_id(3)}/stream", f"/traces/{trace_id(3)}/delete",
        f"/traces/{trace_id(3)}/compare", f"/traces/{trace_id(3)}/compare/{trace_id(1)}", "/sessions",
        "/sessions/quiz-7",
    )  # fmt: skip


def test_pages_about_changes(tmp_path: Path) -> None:
    changes = make_review_project(tmp_path / "shop")
    paths = [f"/changes/{change.id}" for change in changes]
    check_pages(tmp_path, tmp_path / "shop", "/changes", *paths[:2], "/approvals", "/builds")


def test_pages_about_evidence(tmp_path: Path) -> None:
    project = make_evidence_project(tmp_path)
    check_pages(tmp_path, project, "/evidence", "/evidence/evidence/chat.json", "/evidence/evidence/run-1")
