"""Texts that no page can hold, in what people review: changes, evidence, a report, and the context store."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from support.context_builders import append_event, new_session
from support.context_project import open_project_store
from support.evidence_project import write_recording
from support.hostile_page import HOSTILE, HOSTILE_WORDS, PAGE_CHARS_MAX, check_page, list_active_elements
from support.proposals import make_call
from support.review_project import make_review_project
from support.ui_servers import FORM_TOKEN, RunningUi, run_ui
from traceforge.context.model.inputs import NewSnapshot
from traceforge.exchange import Exchange
from traceforge.ui.page_context import PageRoute
from traceforge.ui.ui_server import AREAS

LINE = "x" * 5_000_000
CHANGES = {
    "a line of 5 MB": (make_call(LINE, LINE), make_call(f"{LINE}y", f"{LINE}y")),
    "a million words": (make_call("word " * 1_000_000), make_call("word " * 999_999 + "other")),
    "many lines": (make_call("line\n" * 200_000), make_call("line\nother\n" * 100_000)),
    "every field": (make_call(HOSTILE, HOSTILE), make_call(f"{HOSTILE} more", HOSTILE, model=HOSTILE[:60])),
}


def with_invalid_utf8(exchange: Exchange) -> Exchange:
    body = exchange.request_body.replace(b"binary", b"\xff\xfe\xc3(")
    return msgspec.structs.replace(exchange, request_body=body)


def check_changes(ui: RunningUi, project: Path) -> None:
    """The queue, each change in both layouts, and their files."""
    check_page(ui, "/changes")
    assert ui.http.get("/share/changes").status_code == 200
    for file in (project / ".ai-tests/pending").glob("*.json"):
        for query in ("", "?diff=inline"):
            check_page(ui, f"/changes/{file.stem}{query}")
        assert len(ui.http.get(f"/share/changes/{file.stem}").text) <= PAGE_CHARS_MAX


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_any_text_is_bounded_and_inert(tmp_path: Path, name: str) -> None:
    approved, changed = CHANGES[name]
    make_review_project(tmp_path / "shop", [approved], [changed])
    with run_ui(tmp_path / "shop") as ui:
        ui.http.timeout = 600  # Nothing here is about time; a hang ends the test run.
        check_changes(ui, tmp_path / "shop")


def test_a_request_that_is_no_text_is_shown(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, in a call that waits for approval."""
    make_review_project(tmp_path / "shop", [], [with_invalid_utf8(make_call("binary"))])
    with run_ui(tmp_path / "shop") as ui:
        check_changes(ui, tmp_path / "shop")


@pytest.mark.slow
def test_evidence_of_any_text_is_bounded_and_inert(tmp_path: Path) -> None:
    """A recording with a long answer, and one with markup."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    (tmp_path / "long.json").parent.mkdir(exist_ok=True)
    write_recording(tmp_path / "long.json", LINE)
    write_recording(tmp_path / "markup.json", HOSTILE_WORDS)
    (tmp_path / "broken.json").write_bytes(b'{"model_io_schema_version": "\xff\xfe", "interactions": [' + b"[" * 5000)
    with run_ui(tmp_path) as ui:
        for path in ("/evidence", "/evidence/long.json", "/evidence/markup.json", "/evidence/broken.json"):
            check_page(ui, path)


@pytest.mark.slow
def test_a_report_of_any_text_is_bounded_and_inert(tmp_path: Path) -> None:
    """5 MB in each text of a finding; bytes that are no UTF-8; a hundred thousand findings."""
    (tmp_path / "traceforge.config.json").write_text("{}")
    finding = dict.fromkeys(("file", "message", "hint", "rule"), LINE)
    many = [{"file": "a", "message": HOSTILE, "hint": "b", "rule": "GT1"}] * 20_000
    with run_ui(tmp_path) as ui:
        ui.http.timeout = 600
        for findings in ([finding], many):
            page = ui.post("/builds", report=json.dumps({"exit_code": 1, "findings": findings}))
            assert 200 == page.status_code
            assert len(page.text) <= PAGE_CHARS_MAX
            assert [] == list_active_elements(page.text)
        token = FORM_TOKEN.search(ui.page("/builds"))
        assert token
        headers = {"Origin": ui.origin, "Content-Type": "application/x-www-form-urlencoded"}
        body = f"form_token={token[1]}&report=%7B%22findings%22%3A%5B%5D%2C%22a%22%3A%22%ff%fe%22%7D"
        assert ui.http.post("/builds", content=body, headers=headers).status_code in (200, 400)


@pytest.mark.slow
def test_the_context_store_of_any_text_is_bounded_and_inert(tmp_path: Path) -> None:
    """A message of a megabyte, a label and metadata with markup, on every page about them."""
    store = open_project_store(tmp_path)
    session = new_session(store, HOSTILE_WORDS)
    append_event(store, session, "y" * 900_000)
    append_event(store, session, HOSTILE_WORDS, metadata={"note": HOSTILE_WORDS})
    snapshot = store.create_snapshot(session.id, session.default_branch_id, NewSnapshot())
    store.close()
    routes = [page.path for area in AREAS for page in area.pages if isinstance(page, PageRoute)]
    values = {"session_id": session.id, "branch_id": session.default_branch_id, "snapshot_id": snapshot.id,
              "before": snapshot.id, "after": snapshot.id, "provider": "openai"}  # fmt: skip
    paths = [route.format(**values) for route in routes if "/context/s" in route or "/context/b" in route]
    with run_ui(tmp_path) as ui:
        for path in ("/context", *paths):
            check_page(ui, path)
    assert 5 == len(paths)
