"""The overview, sessions and live runs in Chromium: both themes, wide and narrow, without an error in the console."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from support.stored_traces import call, store_calls, time_ago, trace_id
from support.ui_browser import NARROW, WIDE, UiPage, visit
from support.ui_servers import run_ui
from traceforge.exchange import Caller

pytestmark = pytest.mark.slow


def test_every_page_holds_at_every_width_and_in_both_themes(tmp_path: Path) -> None:
    """A long test name, a long call site and a long model too; `j` and Enter open a session."""
    project = tmp_path / "project"
    project.mkdir()
    long_name = f"tests/test_{'long_' * 30}.py::test_{'name_' * 30}[x]"
    calls = [
        call(
            number,
            model=f"model-{number % 5}{'-long' * (20 if number % 5 == 4 else 0)}",
            caller=Caller(
                f"app/{'deep/' * (number % 12)}agent.py:{number % 7}:f", "", (long_name, "agent-1")[number % 2],
                number,
                trace_id(number - 2) if number > 4 else "", {"open": number, "note": "x" * 300},
            ),
            at=time_ago(hours=20) + timedelta(minutes=10 * number),
            status=503 if number % 11 == 0 else 200,
        )
        for number in range(1, 60)
    ]  # fmt: skip
    store_calls(project, *calls)
    with run_ui(project) as ui:

        async def work(page: UiPage) -> None:
            for name, path in (
                ("overview", "/?range=24h"),
                ("overview-sites", "/?range=all&by=site"),
                ("sessions", "/sessions"),
                ("session", "/sessions/agent-1"),
                ("session-of-a-test", "/sessions/tests"),
            ):
                for width in (WIDE, NARROW):
                    for theme in ("light", "dark"):
                        await page.resize(width)
                        await page.prefer(theme)
                        await page.go(f"{ui.origin}{path}")
                        await page.check_layout()
                        await page.picture(f"{name}-{width}-{theme}")
            await page.resize(WIDE)
            await page.key("g")
            await page.key("s")
            await page.arrive("location.pathname === '/sessions'")
            await page.key("j")
            await page.tab.press("Enter")
            await page.arrive("location.pathname.startsWith('/sessions/')")

        visit(tmp_path, ui.sign_in_url, work)
