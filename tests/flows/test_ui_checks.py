"""Checks in the web view: results after real runs, and a check that is made of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import traceforge
from support.stored_traces import call, store_calls, trace_id
from support.ui_browser import NARROW, UiPage, visit
from support.ui_servers import run_ui
from traceforge.checks.runs.stored_reports import REPORTS
from traceforge.exchange import Caller
from traceforge.ui.page_context import UiOptions

CHECKS = """\
tests:
  - name: the capital is named
    trace_id: '00000001'
    assertions: [{type: contains, value: Paris}]
  - name: the river is named
    trace_id: '00000001'
    assertions: [{type: contains, value: Seine}, {type: no_refusal}]
"""


@pytest.fixture(autouse=True)
def developer_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two calls, of which one failed, in a session."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "traceforge.config.json").write_text("{}")
    caller = Caller(session_id="trip")
    store_calls(folder, call(2, answer="overloaded", status=500, caller=caller), call(3, "Say it.", caller=caller))
    store_calls(folder, call(1))
    return folder


def write_checks(project: Path) -> None:
    (project / ".ai-checks").mkdir()
    (project / ".ai-checks/capital.yaml").write_text(CHECKS)


def test_a_project_without_checks_says_what_to_do(project: Path) -> None:
    with run_ui(project) as ui:
        assert "traceforge check new --from-trace ID" in ui.page("/checks")
        write_checks(project)
        assert "The checks of this project have not run yet." in ui.page("/checks")
        assert "There is no run of checks of this name." in ui.page("/checks/2026", status=404)


def test_the_results_of_a_run_are_shown(project: Path) -> None:
    """What does not hold comes first, with what was expected, what there is, and the call."""
    write_checks(project)
    assert 1 == traceforge("check", "run", cwd=project).code
    (name,) = REPORTS.list_names(str(project))
    with run_ui(project) as ui:
        page, run = ui.page("/checks"), ui.page(f"/checks/{name}")
        shared = ui.page(f"/share/checks/{name}")

    assert page.index("the river is named") < page.index("the capital is named")
    assert "1 failed, 1 passed" in page
    assert f'href="/traces/{trace_id(1)}"' in run
    assert "Seine" in run
    assert "The capital of France is Paris." in run
    assert ".ai-checks/capital.yaml:5" in run
    assert f'href="/traces/{trace_id(1)}"' not in shared


def test_a_broken_report_is_named_and_the_others_are_shown(project: Path) -> None:
    write_checks(project)
    traceforge("check", "run", cwd=project)
    (project / REPORTS.folder / "2026-01-01T00-00-00-000Z-00000000.json").write_text("[]")
    with run_ui(project) as ui:
        page = ui.page("/checks")

    assert "not a report of a run of checks" in page
    assert "the capital is named" in page


def test_a_check_of_a_call_is_what_the_command_proposes(project: Path) -> None:
    """The same text, and the same file name for the same name."""
    assert 0 == traceforge("check", "new", "--from-trace", "00000001", cwd=project).code
    proposal = (project / ".ai-checks/proposed-00000001.yaml").read_text()
    with run_ui(project) as ui:
        page = ui.page(f"/checks/new?trace={trace_id(1)}")
        of_session = ui.page("/checks/new?session=trip")

    assert proposal.replace('"', "&#34;") in page
    assert 'value="proposed-00000001"' in page
    assert "session: &#34;trip&#34;" in of_session


def test_a_saved_check_holds_and_is_not_overwritten(project: Path) -> None:
    text = "name: mine\ntrace_id: '00000001'\r\nassertions: [{type: contains, value: Paris}]\n"
    address = f"/checks/new?trace={trace_id(1)}"
    with run_ui(project) as ui:
        saved = ui.post(address, check=text, file="My Check!")
        again = ui.post(address, check=text, file="My Check!")
        page = ui.page(saved.headers["location"])

    assert (303, "/checks?saved=my-check") == (saved.status_code, saved.headers["location"])
    assert text.replace("\r", "") == (project / ".ai-checks/my-check.yaml").read_text()
    assert "traceforge check run .ai-checks/my-check.yaml" in page
    assert (409, True) == (again.status_code, ".ai-checks/my-check.yaml exists already" in again.text)
    assert 0 == traceforge("check", "run", cwd=project).code


def test_a_text_that_is_no_check_is_refused_with_its_place(project: Path) -> None:
    """Nothing is written, and the form keeps what was typed."""
    with run_ui(project) as ui:
        answer = ui.post(f"/checks/new?trace={trace_id(1)}", file="mine", check="name: mine\nasertions: <b>\n")

    assert 400 == answer.status_code
    assert "line 2 column 1" in answer.text
    assert "asertions: &lt;b&gt;" in answer.text
    assert not (project / ".ai-checks").exists()


@pytest.mark.parametrize("file", ["../../outside", "/etc/x", "..", ""])
def test_a_name_cannot_leave_the_folder(project: Path, file: str) -> None:
    text = "name: mine\ntrace_id: '00000001'\nassertions: [{type: no_refusal}]\n"
    with run_ui(project) as ui:
        assert 303 == ui.post(f"/checks/new?trace={trace_id(1)}", file=file, check=text).status_code

    assert 1 == len(list((project / ".ai-checks").iterdir()))


def test_a_build_and_a_read_only_server_write_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address, fields = f"/checks/new?trace={trace_id(1)}", {"file": "mine", "check": "name: mine\n"}
    with run_ui(project, options=UiOptions(is_read_only=True)) as ui:
        assert "Make a check" not in ui.page(f"/traces/{trace_id(1)}")
        assert 403 == ui.post(address, **fields).status_code
    monkeypatch.setenv("CI", "true")
    with run_ui(project) as ui:
        assert "CI is set" in ui.page(f"/checks/new?trace={trace_id(1)}")
        assert 409 == ui.post(address, **fields).status_code

    assert not (project / ".ai-checks").exists()


def test_a_call_without_an_answer_has_no_check(project: Path) -> None:
    with run_ui(project) as ui:
        assert "Make a check" not in ui.page(f"/traces/{trace_id(2)}")
        assert "There is no answer to check" in ui.page(f"/checks/new?trace={trace_id(2)}", status=404)
        assert "No call is named." in ui.page("/checks/new", status=404)


@pytest.mark.slow
def test_keys_alone_make_a_check_of_a_call_and_read_its_result(project: Path, tmp_path: Path) -> None:
    """`m` on the page of a call proposes, Enter in the name saves, `j` and Enter open the newest run."""
    write_checks(project)
    traceforge("check", "run", cwd=project)

    async def walk(page: UiPage) -> None:
        await page.key("m")
        await page.arrive("location.pathname === '/checks/new'")
        await page.picture("checks-new")
        await page.tab.eval("document.querySelector('[name=file]').focus()")
        await page.tab.eval("document.querySelector('[name=file]').select()")
        await page.tab.type("by-hand")
        await page.tab.press("Enter")
        await page.arrive("location.search === '?saved=by-hand'")
        assert "Saved .ai-checks/by-hand.yaml" in await page.text(".banner")
        await page.key("j")
        await page.tab.press("Enter")
        await page.arrive("location.pathname.startsWith('/checks/')")
        await page.key("j")
        await page.tab.until("document.activeElement.matches('summary')")
        assert "the river is named" in await page.text("details[data-item] > summary")
        await page.picture("checks-run")
        await page.resize(NARROW)
        await page.check_layout()
        await page.key("u")
        await page.arrive("location.pathname === '/checks'")
        await page.check_layout()

    with run_ui(project) as ui:
        visit(tmp_path, ui.sign_in_at(f"/traces/{trace_id(1)}"), walk)
    assert (project / ".ai-checks/by-hand.yaml").exists()
