"""The page for a red build, over HTTP and in a browser."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from support.command import traceforge
from support.review_project import make_review_project
from support.ui_browser import NARROW, UiPage, visit
from support.ui_servers import run_ui
from traceforge.ui.page_context import UiOptions

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\u202e" + "long" * 300


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_review_project(tmp_path / "shop")
    return tmp_path / "shop"


def read_text(text: str) -> str:
    """The words of a page or of Markdown, without its elements and marks of code."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).replace("`", "").split())


def test_the_report_of_the_command_line_is_shown(project: Path) -> None:
    """Every finding with its rule and its hint."""
    report = traceforge("test", "--json", cwd=project)
    findings = json.loads(report.out)["findings"]
    with run_ui(project) as ui:
        answer = ui.post("/builds", report=report.out)

    assert findings
    assert 200 == answer.status_code
    assert "Red build" in answer.text
    for finding in findings:
        assert finding["rule"] in answer.text


def test_the_page_and_the_summary_of_a_step_say_the_same(project: Path, tmp_path: Path) -> None:
    """GitHub's summary is Markdown and needs no extra, so it has no template in common with the page: the same
    findings, with the same sentences and the same advice, are in both.
    """
    summary_file = tmp_path / "summary.md"
    report = traceforge("test", "--json", cwd=project, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary_file))
    with run_ui(project) as ui:
        page = read_text(ui.post("/builds", report=report.out).text)
    summary = read_text(summary_file.read_text())
    findings = json.loads(report.out)["findings"]

    assert findings
    for finding in findings:
        for field in ("rule", "message", "hint"):
            words = read_text(finding[field])[1:]  # A page begins a sentence with a capital letter.
            assert [True, True] == [words in page, words in summary], (field, words)


def test_a_read_only_server_shows_a_report(project: Path) -> None:
    """It changes nothing."""
    with run_ui(project, options=UiOptions(is_read_only=True)) as ui:
        page = ui.page("/builds")
        answer = ui.post("/builds", report=traceforge("test", "--json", cwd=project).out)

    assert "<textarea" in page
    assert (200, True) == (answer.status_code, "Red build" in answer.text)


def test_a_report_is_shared_as_one_file(project: Path) -> None:
    """With the same findings, and nothing to click."""
    report = traceforge("test", "--json", cwd=project).out
    with run_ui(project) as ui:
        page = ui.post("/builds", report=report).text
        shared = ui.post("/builds", report=report, share="1")

    assert 'name="share"' in page
    assert 'filename="traceforge-builds.html"' in shared.headers["content-disposition"]
    assert page.count("Next:") == shared.text.count("Next:") > 0
    assert "<form" not in shared.text


def test_what_is_no_report_is_refused(project: Path) -> None:
    with run_ui(project) as ui:
        answer = ui.post("/builds", report="{}")

    assert 400 == answer.status_code
    assert "not a report of" in answer.text


@pytest.mark.slow
def test_a_file_is_chosen_in_the_browser_and_hostile_text_is_inert(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    change = {"path": HOSTILE, "before": HOSTILE, "after": 1}
    comparison = {"changes": [{"rule": HOSTILE, "sentence": HOSTILE}], "request": {"parameters": [change]}}
    fields = dict.fromkeys(("file", "message", "hint", "rule"), HOSTILE)
    file.write_text(json.dumps({"findings": [{**fields, "scopes": [HOSTILE], "calls": 1, "comparison": comparison}]}))

    async def work(page: UiPage) -> None:
        await page.go(f"{ui.origin}/builds")
        await page.picture("builds-empty")
        await page.tab.choose_file("[data-build-file] label", file)
        await page.tab.until("document.querySelector('.cause') !== null && document.readyState === 'complete'")
        await page.check_layout()
        await page.resize(NARROW)
        await page.check_layout()
        assert "taken" not in await page.tab.eval("document.title")
        assert 0 == await page.tab.eval("document.querySelectorAll('main script, main img').length")

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_url, work)
