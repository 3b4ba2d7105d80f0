"""The overview over HTTP."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.review_project import REASON, make_review_project
from support.stored_traces import TRACES, call, store_calls, time_ago
from support.ui_servers import run_ui
from traceforge.exchange import Caller
from traceforge.snapshots.live.live_history import store_report
from traceforge.snapshots.record.pending_changes import PENDING_FOLDER


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Calls of half an hour, five hours and three days ago."""
    caller = Caller("app/agent.py:12:ask")
    store_calls(
        tmp_path,
        call(1, at=time_ago(minutes=30), caller=caller),
        call(2, at=time_ago(hours=5), model="gpt-4.1", caller=caller),
        call(3, "x", "overloaded", at=time_ago(hours=5), status=503),
        call(4, at=time_ago(days=3), caller=Caller("app/mailer.py:3:send")),
    )
    return tmp_path


def figures(page: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>([^<]+)</dt><dd>([\d,]+)", page))


@pytest.mark.parametrize(("chosen", "calls"), [("1h", "1"), ("24h", "3"), ("7d", "4"), ("all", "4"), ("x", "3")])
def test_the_figures_are_of_the_chosen_time(project: Path, chosen: str, calls: str) -> None:
    """Without a time, or with an unknown one, of the last day."""
    with run_ui(project) as ui:
        assert calls == figures(ui.page(f"/?range={chosen}"))["Calls"]


def test_errors_and_tokens_are_summed_and_plots_have_tables(project: Path) -> None:
    with run_ui(project) as ui:
        page = ui.page("/?range=7d")
        by_site = ui.page("/?range=7d&by=site")

    assert {"Calls": "4", "Errors": "1", "Tokens": "63"} == {
        name: figures(page)[name] for name in ("Calls", "Errors", "Tokens")
    }
    for title in ("Calls", "Tokens", "Errors", "Latency of all calls", "95th percentile of the latency"):
        assert f"<caption>{title}</caption>" in page
    assert '<th scope="col">gpt-4.1</th>' in page
    assert '<th scope="col">app/mailer.py:3</th>' in by_site


def test_call_sites_without_a_snapshot_are_named(project: Path) -> None:
    """A call without a known call site is counted by itself."""
    with run_ui(project) as ui:
        page = " ".join(re.sub(r"<[^>]+>", " ", ui.page("/?range=all")).split())

    assert "Calls without a snapshot ▲ 3 calls from 2 call sites: no snapshot checks them" in page
    assert "1 call without a known call site" in page
    assert "Nothing is approved yet" in page


def test_an_empty_project_leads_to_the_first_command(tmp_path: Path) -> None:
    with run_ui(tmp_path) as ui:
        page = ui.page("/")

    assert "traceforge run -- python your_app.py" in page
    assert "<figure" not in page


def test_what_cannot_be_read_is_said_beside_the_calls(project: Path) -> None:
    """A pending change, or a trace: never a green sentence."""
    (project / PENDING_FOLDER).mkdir(parents=True)
    (project / PENDING_FOLDER / "x.json").write_text("{")
    (project / TRACES / "broken.json").write_text("{")
    with run_ui(project) as ui:
        page = ui.page("/?range=all")

    assert "cannot be read" in page
    assert "1 file" in page
    assert "nothing pending" not in page
    assert "4" == figures(page)["Calls"]


def test_the_rail_and_its_key_lead_to_the_overview(project: Path) -> None:
    with run_ui(project) as ui:
        assert '<a href="/" data-go="o"><svg' in ui.page("/traces")


def test_names_are_text(tmp_path: Path) -> None:
    text = "<img src=x onerror=alert(1)>{{ 7654 * 1000 }}\u202e"
    store_calls(tmp_path, call(1, model=text, caller=Caller(f"{text}.py:1:f"), at=time_ago(minutes=1)))
    with run_ui(tmp_path) as ui:
        pages = ui.page("/") + ui.page("/?by=site")

    assert "&lt;img" in pages
    assert not re.search("<img|7654000|\u202e", pages)


def test_the_last_approval_and_the_last_live_check_are_named(tmp_path: Path) -> None:
    """Who approved, why, and whether models still answer the same; each is a link."""
    project = tmp_path / "shop"
    make_review_project(project)
    store_calls(project, call(1, at=time_ago(minutes=1)))
    name = store_report(str(project), {"exit_code": 1, "snapshots": [{"id": "a", "verdict": "changed"}]})
    with run_ui(project) as ui:
        page = ui.page("/")

    assert REASON in page
    assert 'href="/approvals#' in page
    assert f'href="/live/{name}"' in page


def test_costs_are_added_up_on_demand(project: Path) -> None:
    """By model and call site; calls without a price are counted, and without any price nothing is invented."""
    prices = {"input_price_per_million": 1000, "output_price_per_million": 2000}
    with run_ui(project) as ui:
        assert "cost=1" in ui.page("/?range=7d")
        assert "not known" in ui.page("/?range=7d&cost=1")
    (project / "traceforge.config.json").write_text(json.dumps({"models": {"gpt-4.1-mini": prices}}))
    with run_ui(project) as ui:
        page = ui.page("/?range=7d&cost=1")

    assert "0.0560 <span" in page
    assert "of 2 calls" in page
    assert ["0.0560", "", "0.0280", "0.0280", ""] == re.findall(r'<td class="num cost">([^<]*)</td>', page)
