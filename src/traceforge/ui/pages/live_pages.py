"""The pages about live checks: all of them with how answers vary over time, and one check."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from traceforge.snapshots.live.live_history import read_newest_reports, read_report
from traceforge.ui.page_context import Area, AreaPages, PageContext, PageRoute
from traceforge.ui.views.live_view import list_check, list_histories, view_check

REPORTS_READ_MAX = 50  # Of the newest checks; a report may quote every answer of a large tree.

AREA = Area("live", "Live checks", "/live", "l")


async def list_checks(request: Request, context: PageContext) -> Response:
    """The checks, newest first, and each approved call over time."""

    def render() -> Response:
        reports, unreadable = read_newest_reports(context.project, REPORTS_READ_MAX)
        return context.render(
            request,
            "live/list.html",
            area=AREA.name,
            items=[list_check(name, report) for name, report in reports],
            histories=list_histories(reports),
            unreadable=unreadable,
        )

    return await context.in_thread(render)


async def show_check(request: Request, context: PageContext) -> Response:
    """One check: every approved call with its distinct answers and its runs."""
    name = request.path_params["name"]

    def render() -> Response:
        view = view_check(name, read_report(context.project, name))
        return context.render(request, "live/check.html", area=AREA.name, view=view)

    return await context.in_thread(render)


PAGES = AreaPages(AREA, (PageRoute("/live", list_checks), PageRoute("/live/{name}", show_check, is_shareable=True)))
