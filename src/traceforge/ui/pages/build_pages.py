"""The page for a red build: the report of `traceforge test --json`, dropped on the page or pasted."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from traceforge.terminal import escape_json
from traceforge.ui.page_context import Action, AreaPages, PageContext, PageRoute
from traceforge.ui.pages.change_pages import AREA
from traceforge.ui.views.build_view import BuildView, InvalidReport, view_build

SHARED_CHARS_MAX = 2_000_000  # Of a report that its page holds once more, to make a file of it.


async def open_build(request: Request, context: PageContext) -> Response:
    """The form that takes a report."""
    return _render(request, context)


async def show_build(request: Request, context: PageContext) -> Response:
    """A report, shown and not stored; with `share`, as one file that needs no server."""
    text: str = request.state.form.get("report")
    try:
        build = await context.in_thread(lambda: view_build(text.encode(errors="replace")))
    except InvalidReport as exc:
        return _render(request, context, error=str(exc), status=400)
    request.state.is_shared = bool(request.state.form.get("share"))
    report = escape_json(text.encode(errors="replace")).decode() if len(text) <= SHARED_CHARS_MAX else ""
    return _render(request, context, build=build, report=report)


def _render(request: Request, context: PageContext, status: int = 200, **fields: BuildView | str) -> Response:
    values = {"build": None, "report": "", "error": "", **fields}
    return context.render(request, "changes/build.html", status=status, area=AREA.name, **values)


PAGES = AreaPages(None, (PageRoute("/builds", open_build), Action("/builds", show_build, only_shows=True)))
